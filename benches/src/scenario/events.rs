//! Events that do not reach the embedded log: held, or forwarded to another process.

use std::time::Duration;

use domain::Clock;

use super::definition::Scenario;
use crate::event::{Chain, IdSource, Ids, Machine, Members, TARGET};
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::{Pace, Plan};
use crate::process;
use crate::product::{Product, Upstream};
use crate::report::Goal;
use crate::stock::Stock;

/// One chain per connection, each sending its next event after the response.
#[derive(Debug)]
pub struct Events {
    name: &'static str,
    goals: Vec<Goal>,
    upstream: Upstream,
    event_type: &'static str,
    /// Number of held events before the first round.
    before: usize,
    machines: Vec<Machine>,
}

impl Events {
    /// Held durably, because the event type is not registered.
    pub fn held(name: &'static str, before: usize) -> Self {
        let goals = vec![Goal::Cpu(55.0)];
        Self { name, goals, upstream: Upstream::Embedded, event_type: "memory.dreamt", before, machines: Vec::new() }
    }

    /// Forwarded over HTTP to a service that responds at once.
    pub fn external() -> Self {
        Self {
            name: "events_external",
            goals: Vec::new(),
            upstream: Upstream::External(Duration::ZERO),
            event_type: "memory.stored",
            before: 0,
            machines: Vec::new(),
        }
    }
}

impl Scenario for Events {
    fn name(&self) -> &'static str {
        self.name
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare, Floor::Hash]
    }

    fn goals(&self) -> Vec<Goal> {
        self.goals.clone()
    }

    fn status(&self) -> u16 {
        202
    }

    fn upstream(&self) -> Upstream {
        self.upstream
    }

    fn writes(&self) -> bool {
        self.upstream == Upstream::Embedded
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        const BEFORE: u32 = u32::MAX;
        self.machines = product.register(options.connections, options)?;
        let before = if options.quick { self.before / 100 } else { self.before };
        if before > 0 {
            let lanes = plan_of_events(&self.machines, self.event_type, BEFORE, before, options.seed);
            let pace = Pace { warm_up_seconds: 0.0, ..Pace::of(600.0) };
            let outcome = process::send(&Plan { pace, lanes }, product.address)?;
            if let Some(surprises) = outcome.surprises(&[202]) {
                return Err(surprises.into());
            }
        }
        Ok(())
    }

    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan> {
        let lanes = plan_of_events(&self.machines, self.event_type, round, options.requests_max, options.seed);
        Ok(Plan { pace: Pace::of(options.seconds), lanes })
    }
}

/// A chain per machine, with about `count` events in total. Every round uses a new epoch, because rounds end in the
/// middle of the chains.
pub fn plan_of_events(
    machines: &[Machine],
    event_type: &'static str,
    round: u32,
    count: usize,
    seed: u64,
) -> Vec<Vec<bytes::Bytes>> {
    let (lanes, length) = (machines.len(), count / machines.len().max(1));
    // Rounds and lanes must not draw the same event ids.
    let seed = seed ^ (u64::from(round) << 32);
    let source = IdSource::until(Clock::system().now(), count as u64, Ids::Growing, seed);
    let lane = |(place, machine): (usize, &Machine)| {
        let mut chain = Chain::new(machine, event_type, u64::from(round), seed ^ ((place as u64) << 8));
        let request = |number: usize| {
            let event = chain.grow(source.draw((number * lanes + place) as u64), Members::Canonical);
            machine.request("POST", TARGET, &event.body)
        };
        (0..length).map(request).collect()
    };
    machines.iter().enumerate().map(lane).collect()
}
