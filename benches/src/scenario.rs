//! The measured paths. To add one, implement [`Scenario`] and add a line to [`all`].

mod claims;
mod definition;
mod devices;
mod events;
mod reads;
mod writes;

pub use claims::claim_poll;
pub use definition::Scenario;
pub use events::plan_of_events;

/// All scenarios in the order of the report.
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(claims::ClaimPoll::default()),
        Box::new(devices::DevicePoll::of("device_poll", 1_000)),
        Box::new(devices::DevicePoll::of("device_poll_10k", 10_000)),
        Box::new(devices::DevicePoll::of("device_poll_100k", 100_000)),
        Box::new(events::Events::held("events_held", 0)),
        Box::new(events::Events::held("events_held_75k", 75_000)),
        Box::new(events::Events::external()),
        Box::new(writes::Registrations),
        Box::new(writes::DeviceCodes::default()),
        Box::new(reads::AccountComputers::default()),
        Box::new(reads::AuditProof::first()),
        Box::new(reads::AuditProof::ten_million()),
    ]
}
