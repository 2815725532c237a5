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

/// One path through the product.
pub trait Scenario {
    /// The name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The floors that are measured in turn with it.
    fn floors(&self) -> &'static [Floor];

    /// What it should reach.
    fn goals(&self) -> Vec<Goal>;

    /// The status of a good answer. Anything else is reported, and is not counted.
    fn status(&self) -> u16;

    /// What the product forwards to.
    fn upstream(&self) -> Upstream {
        Upstream::Embedded
    }

    /// Events in the log before.
    fn log(&self, _options: &Options) -> u64 {
        0
    }

    /// Whether requests write, so that the server owes something after its answers.
    fn writes(&self) -> bool {
        false
    }

    /// Once, before the first round: registrations and the like. `stock` is the folder with the filled log.
    fn prepare(&mut self, product: &Product, stock: Option<&Stock>, options: &Options) -> Result<()>;

    /// What is sent in one round, to the floors and then to the product.
    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan>;
}

/// All of them, in the order of the report.
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
        Box::new(reads::AuditProof::default()),
    ]
}

pub use events::plan_of_events;

/// What the poll of a pending code or claim may cost.
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

/// The poll of one agent.
pub fn claim_poll(claim_token: &str) -> Bytes {
    let form = format!("grant_type=urn%3Asvc%3Aagent-auth%3Agrant-type%3Aclaim&claim_token={claim_token}");
    let headers = ["Content-Type: application/x-www-form-urlencoded"];
    plan::request("POST", "/api/v1/agent-auth/token", &headers, form.as_bytes())
}
