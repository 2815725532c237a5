//! Polls of computers that wait to be attached.

use bytes::Bytes;

use super::definition::{POLL, Scenario};
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::Plan;
use crate::product::Product;
use crate::report::Goal;
use crate::stock::Stock;
use crate::{client, population};

/// `device/token`, pending, while this many computers wait: answered by an actor that does not ask the store.
#[derive(Debug)]
pub struct DevicePoll {
    name: &'static str,
    waiting: usize,
    polls: Vec<Bytes>,
}

impl DevicePoll {
    /// With this many codes that wait.
    pub fn of(name: &'static str, waiting: usize) -> Self {
        Self { name, waiting, polls: Vec::new() }
    }
}

impl Scenario for DevicePoll {
    fn name(&self) -> &'static str {
        self.name
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![POLL]
    }

    /// Both `authorization_pending` and, where there are too few codes for so many polls, `slow_down`: the actor does the same for either.
    fn status(&self) -> u16 {
        400
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        const CONNECTIONS: usize = 32;
        self.polls = population::waiting(&product.database(), self.waiting, options.seed)?;
        // From now on each has its actor.
        client::send_all(product.address, &self.polls, CONNECTIONS).map(drop)
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::dealt(&self.polls, options.connections, options.seconds))
    }
}
