//! Hook payloads of coding agents as draft events of the registry (`docs/hooks.md`, `docs/decisions/0035-hooks-and-spans.md`).
//!
//! A coding agent runs `attache hook TOOL` at points of its work and passes a JSON object. [`events`] reads the object, and
//! [`HookEvent::at`] returns the part of an event that a consent level permits. [`redaction`] removes secrets from the rest. [`otlp`] reads
//! OpenTelemetry spans into the same events. The crate does no IO and reads no clock. Every payload is accepted: an unknown one becomes a
//! generic event or none.

mod event;
mod identity;
mod members;
mod observation;
mod observe;
pub mod otlp;
mod payload;
pub mod redaction;
mod registry;

pub use domain::tool::Tool;
pub use event::{Draft, HookEvent};
pub use identity::{Salt, session};
pub use payload::{PAYLOAD_BYTES_MAX, Payload};

/// The events of one payload. `hook` is the name of the hook, for tools that do not put it into their payloads.
pub fn events(tool: Tool, hook: Option<&str>, payload: &Payload, salt: &Salt) -> Vec<HookEvent> {
    let observation = observe::observe(tool, hook, payload);
    observation.map(|observation| registry::event(tool, &observation, payload, salt)).into_iter().collect()
}
