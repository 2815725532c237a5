//! Durable writes of single requests: registrations of computers, and device codes.

use domain::Rng;
use serde_json::json;

use super::definition::Scenario;
use crate::event::Machine;
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::{self, Pace, Plan};
use crate::population;
use crate::product::Product;
use crate::report::Goal;
use crate::stock::Stock;

/// The goal of durable writes per second.
const WRITES: Goal = Goal::PerSecond(10_000.0);

/// `machines`: registers a new computer per request.
#[derive(Debug)]
pub struct Registrations;

impl Scenario for Registrations {
    fn name(&self) -> &'static str {
        "machines_registered"
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare, Floor::Disk]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![WRITES]
    }

    fn status(&self) -> u16 {
        201
    }

    fn writes(&self) -> bool {
        true
    }

    fn prepare(&mut self, _product: &Product, _stock: Option<&Stock>, _options: &Options) -> Result<()> {
        Ok(())
    }

    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan> {
        let rng = Rng::seeded(options.seed ^ (u64::from(round) << 32));
        let register = |_| {
            let machine = Machine::invent(&rng);
            let body = json!({"user_cuid": machine.user_cuid, "machine_uuid": machine.uuid}).to_string();
            plan::request("POST", "/api/v1/machines", &["Content-Type: application/json"], body.as_bytes())
        };
        let requests: Vec<_> = (0..options.requests_max).map(register).collect();
        Ok(once(&requests, options))
    }
}

/// `device/code`: requests one code per computer.
#[derive(Debug, Default)]
pub struct DeviceCodes {
    machines: Vec<Machine>,
}

impl Scenario for DeviceCodes {
    fn name(&self) -> &'static str {
        "device_codes"
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare, Floor::Disk]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![WRITES]
    }

    fn status(&self) -> u16 {
        200
    }

    fn writes(&self) -> bool {
        true
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        let count = options.requests_max * usize::try_from(options.rounds)?;
        self.machines = population::machines(&product.database(), count, options.seed)?;
        Ok(())
    }

    fn plan(&mut self, round: u32, options: &Options) -> Result<Plan> {
        let ask = |machine: &Machine| {
            let body = json!({"user_cuid": machine.user_cuid, "machine_uuid": machine.uuid}).to_string();
            machine.request("POST", "/api/v1/device/code", body.as_bytes())
        };
        let first = options.requests_max * usize::try_from(round)?;
        let requests: Vec<_> = self.machines[first..][..options.requests_max].iter().map(ask).collect();
        Ok(once(&requests, options))
    }
}

/// Sends each request once.
fn once(requests: &[bytes::Bytes], options: &Options) -> Plan {
    let dealt = Plan::dealt(requests, options.connections, options.seconds);
    Plan { pace: Pace::of(options.seconds), ..dealt }
}
