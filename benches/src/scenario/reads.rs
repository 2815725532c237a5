//! Reads: proofs, and what a signed-in person sees.

use bytes::Bytes;
use domain::Chance;
use serde_json::json;

use super::Scenario;
use crate::floor::Floor;
use crate::plan::{self, Plan};
use crate::product::Product;
use crate::report::Goal;
use crate::stock::Stock;
use crate::{Options, Result, client};

/// `account/computers` of several people with a few computers each, by their browsers' sessions.
#[derive(Debug, Default)]
pub struct AccountComputers {
    reads: Vec<Bytes>,
}

impl Scenario for AccountComputers {
    fn name(&self) -> &'static str {
        "account_computers"
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![Goal::Cpu(25.0)]
    }

    fn status(&self) -> u16 {
        200
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        const PEOPLE: usize = 8;
        const COMPUTERS: usize = 4;
        let machines = product.register(PEOPLE * COMPUTERS, options)?;
        for (number, computers) in machines.chunks(COMPUTERS).enumerate() {
            let cookie = format!("Cookie: {}", product.sign_in(&format!("p{number}@example.com"))?);
            let asked: Vec<_> = computers
                .iter()
                .map(|machine| {
                    let body = json!({"user_cuid": machine.user_cuid, "machine_uuid": machine.uuid}).to_string();
                    machine.request("POST", "/api/v1/device/code", body.as_bytes())
                })
                .collect();
            for answer in client::send_all(product.address, &asked, 1)? {
                let body = json!({"user_code": answer.json(200)?["user_code"]}).to_string();
                let headers = [cookie.as_str(), "Content-Type: application/json"];
                let approve = plan::request("POST", "/api/v1/device/approve", &headers, body.as_bytes());
                client::send_all(product.address, &[approve], 1)?[0].json(200)?;
            }
            self.reads.push(plan::request("GET", "/api/v1/account/computers", &[&cookie], b""));
        }
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::cycling(&self.reads, options.connections, options.seconds))
    }
}

/// `audit/verify` of events anywhere in a filled log, each time a different one.
#[derive(Debug, Default)]
pub struct AuditProof {
    reads: Vec<Bytes>,
}

impl Scenario for AuditProof {
    fn name(&self) -> &'static str {
        "audit_proof"
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![Goal::Cpu(35.0)]
    }

    fn log(&self, options: &Options) -> u64 {
        options.log.iter().copied().max().unwrap_or_default()
    }

    fn status(&self) -> u16 {
        200
    }

    fn prepare(&mut self, _product: &Product, stock: Option<&Stock>, options: &Options) -> Result<()> {
        let stock = stock.ok_or("proofs need a log with events")?;
        let read = |(id, place): &(_, usize)| {
            stock.machines[*place].request("GET", &format!("/api/v1/audit/verify?event_id={id}"), b"")
        };
        self.reads = stock.known.iter().map(read).collect();
        // In the order of the log one tile would serve 256 proofs in a row.
        let chance = Chance::seeded(options.seed);
        for last in (1..self.reads.len()).rev() {
            self.reads.swap(last, usize::try_from(chance.below(last as u64 + 1))?);
        }
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::dealt(&self.reads, options.connections, options.seconds))
    }
}
