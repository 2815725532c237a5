//! The schemas and responses that several operations refer to.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{RefOr, schema};
use utoipa::{PartialSchema, ToSchema};
use wire::ops::ObjectPage;

/// The schemas and responses to which operations refer, by name.
#[derive(Debug, Default)]
pub struct Schemas {
    schemas: BTreeMap<String, Value>,
    responses: BTreeMap<String, Value>,
}

impl Schemas {
    /// The schemas and the responses, by their names.
    pub fn into_parts(self) -> (BTreeMap<String, Value>, BTreeMap<String, Value>) {
        (self.schemas, self.responses)
    }

    /// Adds the schema of `T` and the schemas that it refers to; returns a reference to it.
    pub fn add<T: ToSchema>(&mut self) -> Value {
        let mut named = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut named);
        for (name, schema) in named {
            self.name(name, schema);
        }
        json!({ "$ref": format!("#/components/schemas/{}", T::name()) })
    }

    /// Adds the schema of a page with entries `T`, and of these: a generic type does not name the schema of its argument.
    pub fn add_page<T: ToSchema>(&mut self) -> Value {
        self.add::<T>();
        let name = format!("{}Page", T::name());
        self.name(name.clone(), ObjectPage::<T>::schema());
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    fn name(&mut self, name: String, schema: RefOr<Schema>) {
        self.schemas.entry(name).or_insert_with(|| for_strangers(serde_json::to_value(schema).unwrap_or_default()));
    }

    /// A reference to a response that many operations have.
    pub(super) fn respond(&mut self, name: String, response: impl FnOnce() -> Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        self.responses.entry(name).or_insert_with(response);
        reference
    }
}

/// Removes the citations of documents, which are relative to the source.
fn for_strangers(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description")
                && let Some((what, rest)) = text.split_once(" (`docs/")
                && let Some((_, rest)) = rest.split_once(')')
            {
                *text = format!("{what}{rest}");
            }
            members.values_mut().for_each(|member| *member = for_strangers(member.take()));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| *element = for_strangers(element.take())),
        _ => {}
    }
    schema
}

/// Any JSON value.
pub(super) enum Anything {}

impl PartialSchema for Anything {
    fn schema() -> RefOr<Schema> {
        let anything = ObjectBuilder::new().schema_type(schema::SchemaType::AnyValue);
        anything.description(Some("Any value of the statistics service.")).build().into()
    }
}

impl ToSchema for Anything {
    fn name() -> Cow<'static, str> {
        "Anything".into()
    }
}

/// An object with members that are described elsewhere.
pub(super) enum AnObject {}

impl PartialSchema for AnObject {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        object.description(Some("An object whose members are described elsewhere.")).build().into()
    }
}

impl ToSchema for AnObject {
    fn name() -> Cow<'static, str> {
        "AnyObject".into()
    }
}
