//! Reads: proofs, and the account page's data.

use bytes::Bytes;
use domain::Rng;
use serde_json::json;

use super::definition::Scenario;
use crate::client;
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::{self, Plan};
use crate::product::Product;
use crate::report::Goal;
use crate::stock::Stock;

/// `account/computers` with the sessions of several people, who have a few computers each.
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

/// `audit/verify` of random events in a filled log.
#[derive(Debug)]
pub struct AuditProof {
    name: &'static str,
    /// Number of events in the log; the first filled log of the states if `None`.
    log: Option<u64>,
    reads: Vec<Bytes>,
}

impl AuditProof {
    /// On the first filled log of the states.
    pub fn first() -> Self {
        Self { name: "audit_proof", log: None, reads: Vec::new() }
    }

    /// On a log of ten million events, if the states include one.
    pub fn ten_million() -> Self {
        Self { name: "audit_proof_10m", log: Some(10_000_000), reads: Vec::new() }
    }
}

impl Scenario for AuditProof {
    fn name(&self) -> &'static str {
        self.name
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![Goal::Cpu(35.0)]
    }

    fn log(&self, options: &Options) -> u64 {
        self.log.or_else(|| options.log.first().copied()).unwrap_or_default()
    }

    fn runs(&self, options: &Options) -> bool {
        self.log.is_none_or(|log| options.log.contains(&log))
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
        // In the order of the log, one tile would serve 256 consecutive proofs.
        let rng = Rng::seeded(options.seed);
        for last in (1..self.reads.len()).rev() {
            self.reads.swap(last, usize::try_from(rng.below(last as u64 + 1))?);
        }
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::dealt(&self.reads, options.connections, options.seconds))
    }
}
