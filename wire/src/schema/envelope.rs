//! Schema of the event envelope (`docs/protocol/events.md#event-envelope`), whose type is
//! [`domain::envelope::Envelope`].

use std::borrow::Cow;

use domain::envelope::AgentKinds;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::{ConsentLevel, Cuid2, INTEGER_MAX, Lane, Prev, Sha256, UuidV7, named, place, words};

/// An event. Unknown members are rejected.
#[derive(Debug)]
pub enum EventEnvelope {}

impl PartialSchema for EventEnvelope {
    fn schema() -> RefOr<Schema> {
        let milliseconds =
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(-INTEGER_MAX)).maximum(Some(INTEGER_MAX));
        let envelope = strict([
            ("schema_version", words(["v1"]).build().into()),
            ("event_id", named::<UuidV7>().into()),
            ("event_type", string("A registered type; it has one lane and a form of payload.")),
            ("lane", named::<Lane>().into()),
            (
                "ts_edge_ms",
                milliseconds.description(Some("The sender's clock, milliseconds since 1970.")).build().into(),
            ),
            ("consent_level", named::<ConsentLevel>().into()),
            ("redacted", ObjectBuilder::new().schema_type(Type::Boolean).build().into()),
            ("chain_epoch", place().build().into()),
            ("seq", place().build().into()),
            ("scope", named::<EventScope>().into()),
            ("hash_chain", named::<HashChain>().into()),
            ("payload", ObjectBuilder::new().schema_type(Type::Object).build().into()),
        ]);
        envelope.description(Some("One event; no members beyond these.")).build().into()
    }
}

impl ToSchema for EventEnvelope {
    fn name() -> Cow<'static, str> {
        "EventEnvelope".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        macro_rules! push {
            ($($part:ident)*) => { schemas.extend([$(($part::name().into_owned(), $part::schema())),*]) };
        }
        push!(UuidV7 Lane ConsentLevel EventScope HashChain Cuid2 Prev Sha256);
    }
}

/// The parties of an event.
#[derive(Debug)]
pub enum EventScope {}

impl PartialSchema for EventScope {
    fn schema() -> RefOr<Schema> {
        let required = strict([
            ("user_id", named::<Cuid2>().into()),
            ("machine_id", named::<UuidV7>().into()),
            ("agent_id", words([AgentKinds::CLI, AgentKinds::CONTROL_PLANE]).build().into()),
        ]);
        let project = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
        required
            .property("user_account_id", named::<Cuid2>())
            .property("project_id", project)
            .property("session_uuid", named::<UuidV7>())
            .description(Some(
                "Whose event it is. `agent_id` is one of the eight kinds of agent that this server knows.",
            ))
            .build()
            .into()
    }
}

impl ToSchema for EventScope {
    fn name() -> Cow<'static, str> {
        "EventScope".into()
    }
}

/// Link to the previous event, and seal.
#[derive(Debug)]
pub enum HashChain {}

impl PartialSchema for HashChain {
    fn schema() -> RefOr<Schema> {
        let chain = strict([("prev", named::<Prev>().into()), ("self", named::<Sha256>().into())]);
        let text = "The link backwards, and SHA-256 over the RFC 8785 bytes of the envelope without `hash_chain.self`.";
        chain.description(Some(text)).build().into()
    }
}

impl ToSchema for HashChain {
    fn name() -> Cow<'static, str> {
        "HashChain".into()
    }
}

/// An object with exactly these required members.
fn strict<const N: usize>(members: [(&str, RefOr<Schema>); N]) -> ObjectBuilder {
    let closed = ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    members.into_iter().fold(closed, |object, (name, schema)| object.property(name, schema).required(name))
}

fn string(what: &str) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).description(Some(what)).build().into()
}
