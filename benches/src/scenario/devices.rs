//! Polls of computers with pending codes.

use bytes::Bytes;

use super::definition::{POLL, Scenario};
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::Plan;
use crate::product::Product;
use crate::report::Goal;
use crate::stock::Stock;
use crate::{client, population};

/// `device/token` with a number of pending codes, answered by an actor without the store.
#[derive(Debug)]
pub struct DevicePoll {
    name: &'static str,
    waiting: usize,
    polls: Vec<Bytes>,
}

impl DevicePoll {
    /// A scenario with this number of pending codes.
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

    /// Includes `slow_down`, if there are too few codes for the rate of polls: the work is the same.
    fn status(&self) -> u16 {
        400
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        const CONNECTIONS: usize = 32;
        self.polls = population::waiting(&product.database(), self.waiting, options.seed)?;
        // The first poll creates the actor of each code.
        client::send_all(product.address, &self.polls, CONNECTIONS).map(drop)
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::dealt(&self.polls, options.connections, options.seconds))
    }
}
