//! Schema of the event envelope (`docs/protocol/events.md#event-envelope`), which has the type
//! [`domain::envelope::Envelope`].

use std::borrow::Cow;

use domain::envelope::AgentKinds;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, RefBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::{ConsentLevel, Cuid2, INTEGER_MAX, Lane, Prev, Sha256, UuidV7, place, words};

/// An event. Unknown members are rejected.
#[derive(Debug)]
pub enum EventEnvelope {}

impl PartialSchema for EventEnvelope {
    fn schema() -> RefOr<Schema> {
        let milliseconds =
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(-INTEGER_MAX)).maximum(Some(INTEGER_MAX));
        let envelope = strict([
            ("schema_version", words(["v1"]).description(Some("Version of the envelope.")).build().into()),
            ("event_id", member::<UuidV7>("Made by the sender; the same event keeps it when it is sent again.")),
            ("event_type", string("A registered type; it has one lane and a form of payload.")),
            ("lane", member::<Lane>("The lane of the event type.")),
            (
                "ts_edge_ms",
                milliseconds.description(Some("The sender's clock, milliseconds since 1970.")).build().into(),
            ),
            ("consent_level", member::<ConsentLevel>("The level under which the event was recorded.")),
            (
                "redacted",
                ObjectBuilder::new()
                    .schema_type(Type::Boolean)
                    .description(Some("Whether the content fields were left out."))
                    .build()
                    .into(),
            ),
            (
                "chain_epoch",
                place().description(Some("Section of the chain; a new one closes the earlier ones.")).build().into(),
            ),
            ("seq", place().description(Some("Number of the event in its section, from 0 on.")).build().into()),
            ("scope", member::<EventScope>("Whose event it is.")),
            ("hash_chain", member::<HashChain>("The link to the event before, and the seal.")),
            (
                "payload",
                ObjectBuilder::new()
                    .schema_type(Type::Object)
                    .description(Some("Members of the event type, as the registry lists them."))
                    .build()
                    .into(),
            ),
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
            ("user_id", member::<Cuid2>("The identity: the local user on the computer.")),
            ("machine_id", member::<UuidV7>("The computer.")),
            (
                "agent_id",
                words([AgentKinds::CLI, AgentKinds::CONTROL_PLANE])
                    .description(Some("The kind of agent; `svc-cli` for programs of your own."))
                    .build()
                    .into(),
            ),
        ]);
        let project = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .description(Some("A name for the project, chosen by the sender."));
        required
            .property("user_account_id", member::<Cuid2>("The account, if the sender knows it."))
            .property("project_id", project)
            .property("session_uuid", member::<UuidV7>("The session of the agent, made by the sender."))
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
        let chain = strict([
            ("prev", member::<Prev>("`self` of the event before; `GENESIS` for the first of a section.")),
            ("self", member::<Sha256>("SHA-256 of the canonical bytes of this event, in hexadecimal digits.")),
        ]);
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

/// A member of a named type, with its meaning here.
fn member<T: ToSchema>(what: &str) -> RefOr<Schema> {
    let named = RefBuilder::new().ref_location_from_schema_name(T::name());
    RefOr::Ref(named.description(Some(what)).build())
}

fn string(what: &str) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).description(Some(what)).build().into()
}
