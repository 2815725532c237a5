//! The paths that are measured against floors. A new path is one `impl Scenario` and a line in [`all`].

mod devices;
mod events;
mod reads;
mod writes;

use bytes::Bytes;

use crate::floor::Floor;
use crate::plan::{self, Plan};
use crate::product::{Product, Upstream};
use crate::report::Goal;
use crate::stock::Stock;
use crate::{Options, Result};

/// One path through the product that consists of requests and responses.
pub trait Scenario {
    /// The name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The floors that are measured in turn with it.
    fn floors(&self) -> &'static [Floor];

    /// The goals of the path.
    fn goals(&self) -> Vec<Goal>;

    /// The status of a successful response. Responses with another status are reported and not counted.
    fn status(&self) -> u16;

    /// The statistics service that the product forwards to.
    fn upstream(&self) -> Upstream {
        Upstream::Embedded
    }

    /// Number of events in the log before the first round.
    fn log(&self, _options: &Options) -> u64 {
        0
    }

    /// Whether the options provide the data that the scenario needs.
    fn runs(&self, _options: &Options) -> bool {
        true
    }

    /// Whether requests write, so that the server may defer work past its responses.
    fn writes(&self) -> bool {
        false
    }

    /// Called once, before the first round, for registrations and the like. `stock` is the folder with the filled log.
    fn prepare(&mut self, product: &Product, stock: Option<&Stock>, options: &Options) -> Result<()>;

    /// The requests of one round, sent to the floors and then to the product.
    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan>;
}

/// All scenarios, in the order of the report.
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(ClaimPoll::default()),
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

pub use events::plan_of_events;

/// Goal for the poll of a pending code or claim.
const POLL: Goal = Goal::CpuOf(Floor::Bare, 1.4);

/// `agent-auth/token`, claim grant, pending: the poll of an agent that waits for its person.
#[derive(Debug, Default)]
struct ClaimPoll {
    polls: Vec<Bytes>,
}

impl Scenario for ClaimPoll {
    fn name(&self) -> &'static str {
        "claim_poll"
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![POLL]
    }

    fn status(&self) -> u16 {
        400 // authorization_pending
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        self.polls = product.register_agents(options.connections)?.iter().map(|token| claim_poll(token)).collect();
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::cycling(&self.polls, options.connections, options.seconds))
    }
}

/// The poll request of one agent.
pub fn claim_poll(claim_token: &str) -> Bytes {
    let form = format!("grant_type=urn%3Asvc%3Aagent-auth%3Agrant-type%3Aclaim&claim_token={claim_token}");
    let headers = ["Content-Type: application/x-www-form-urlencoded"];
    plan::request("POST", "/api/v1/agent-auth/token", &headers, form.as_bytes())
}
