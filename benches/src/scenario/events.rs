//! Events: forwarded to the embedded service, forwarded to another process, held.

use std::time::Duration;

use super::Scenario;
use crate::event::{Chain, Machine};
use crate::floor::Floor;
use crate::plan::{Pace, Plan};
use crate::product::{Product, Upstream};
use crate::{Options, Result};

/// One chain per connection, each sender waiting for the answer before it sends the next event.
#[derive(Debug)]
pub struct Events {
    name: &'static str,
    goals: &'static [(Floor, f64)],
    upstream: Upstream,
    event_type: &'static str,
    machines: Vec<Machine>,
}

impl Events {
    /// Durable, with the embedded service.
    pub fn forwarded() -> Self {
        Self {
            name: "events_forwarded",
            goals: &[(Floor::Hash, 0.60), (Floor::Disk, 0.50)],
            upstream: Upstream::Embedded,
            event_type: "memory.stored",
            machines: Vec::new(),
        }
    }

    /// Held durably, because nobody knows their type.
    pub fn held() -> Self {
        Self { name: "events_held", goals: &[(Floor::Hash, 0.60)], event_type: "memory.dreamt", ..Self::forwarded() }
    }

    /// Forwarded over HTTP to a service that answers at once.
    pub fn external() -> Self {
        let upstream = Upstream::External(Duration::ZERO);
        Self { name: "events_external", goals: &[(Floor::Hash, 0.35)], upstream, ..Self::forwarded() }
    }
}

impl Scenario for Events {
    fn name(&self) -> &'static str {
        self.name
    }

    fn goals(&self) -> &'static [(Floor, f64)] {
        self.goals
    }

    fn status(&self) -> u16 {
        202
    }

    fn upstream(&self) -> Upstream {
        self.upstream
    }

    fn prepare(&mut self, product: &Product, options: &Options) -> Result<()> {
        self.machines = product.register(options.connections, options)?;
        Ok(())
    }

    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan> {
        let lanes = plan_of_events(&self.machines, self.event_type, round, options.requests_max, options.seed).1;
        Ok(Plan { pace: Pace::of(options.seconds), lanes })
    }
}

/// For each machine a chain of its own, together about `count` events long: the ids, and the requests. Every round is a new
/// epoch, because a round ends in the middle of its chains.
pub fn plan_of_events(
    machines: &[Machine],
    event_type: &'static str,
    round: u32,
    count: usize,
    seed: u64,
) -> (Vec<Vec<String>>, Vec<Vec<bytes::Bytes>>) {
    let length = count / machines.len().max(1);
    let lane = |(place, machine): (usize, &Machine)| {
        // Rounds and lanes must not draw the same event ids.
        let seed = seed ^ (u64::from(round) << 32) ^ ((place as u64) << 8);
        let mut chain = Chain::new(machine, event_type, u64::from(round), seed);
        (0..length).map(|_| chain.next()).unzip()
    };
    machines.iter().enumerate().map(lane).unzip()
}
