//! Reads: with a session, and with a proof.

use bytes::Bytes;

use super::{Scenario, plan_of_events};
use crate::floor::Floor;
use crate::plan::{self, Pace, Plan};
use crate::product::Product;
use crate::{Options, Result, process};

/// `account/computers` with a session.
#[derive(Debug, Default)]
pub struct Computers {
    read: Option<Bytes>,
}

impl Scenario for Computers {
    fn name(&self) -> &'static str {
        "account_computers"
    }

    fn goals(&self) -> &'static [(Floor, f64)] {
        &[(Floor::Bare, 0.35)]
    }

    fn status(&self) -> u16 {
        200
    }

    fn prepare(&mut self, product: &Product, _options: &Options) -> Result<()> {
        let cookie = format!("Cookie: {}", product.admin(&["session", "create", "--email", "reader@example.com"])?);
        self.read = Some(plan::request("GET", "/api/v1/account/computers", &[&cookie], b""));
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::cycling(self.read.as_slice(), options.connections, options.seconds))
    }
}

/// `audit/verify` of events that are in the log.
#[derive(Debug, Default)]
pub struct AuditProof {
    reads: Vec<Bytes>,
}

impl Scenario for AuditProof {
    fn name(&self) -> &'static str {
        "audit_proof"
    }

    fn goals(&self) -> &'static [(Floor, f64)] {
        &[(Floor::Bare, 0.25)]
    }

    fn status(&self) -> u16 {
        200
    }

    fn prepare(&mut self, product: &Product, options: &Options) -> Result<()> {
        let machines = product.register(options.connections, options)?;
        let (ids, lanes) = plan_of_events(&machines, "memory.stored", 0, options.requests_max, options.seed);
        let sent = process::send(&Plan { pace: Pace::of(options.seconds), lanes }, product.address)?;
        if let Some(surprises) = sent.surprises(&[202]) {
            return Err(surprises.into());
        }
        for ((machine, ids), done) in machines.iter().zip(ids).zip(sent.lanes_done) {
            let read = |id: &String| machine.request("GET", &format!("/api/v1/audit/verify?event_id={id}"), b"");
            self.reads.extend(ids.iter().take(done).map(read));
        }
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::cycling(&self.reads, options.connections, options.seconds))
    }
}
