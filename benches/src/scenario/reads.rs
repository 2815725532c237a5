//! Reads: proofs.

use bytes::Bytes;

use super::{Scenario, plan_of_events};
use crate::floor::Floor;
use crate::plan::{Pace, Plan};
use crate::product::Product;
use crate::{Options, Result, process};

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
