//! Reads: proofs, and what a signed-in person sees.

use bytes::Bytes;
use serde_json::json;

use super::{Scenario, plan_of_events};
use crate::floor::Floor;
use crate::plan::{self, Pace, Plan};
use crate::product::Product;
use crate::{Options, Result, client, process};

/// `account/computers` of several people with a few computers each, by their browsers' sessions.
#[derive(Debug, Default)]
pub struct AccountComputers {
    reads: Vec<Bytes>,
}

impl Scenario for AccountComputers {
    fn name(&self) -> &'static str {
        "account_computers"
    }

    fn goals(&self) -> &'static [(Floor, f64)] {
        &[(Floor::Bare, 0.35)]
    }

    fn status(&self) -> u16 {
        200
    }

    fn prepare(&mut self, product: &Product, options: &Options) -> Result<()> {
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
