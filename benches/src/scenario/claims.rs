//! Polls of agents that wait for their claim.

use bytes::Bytes;

use super::definition::{POLL, Scenario};
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::plan::{self, Plan};
use crate::product::Product;
use crate::report::Goal;
use crate::stock::Stock;

/// `agent-auth/token` with the claim grant while the claim is pending.
#[derive(Debug, Default)]
pub struct ClaimPoll {
    polls: Vec<Bytes>,
}

impl Scenario for ClaimPoll {
    fn name(&self) -> &'static str {
        "claim_poll"
    }

    fn floors(&self) -> &'static [Floor] {
        &[Floor::Bare]
    }

    fn goals(&self) -> Vec<Goal> {
        vec![POLL]
    }

    fn status(&self) -> u16 {
        400 // authorization_pending
    }

    fn prepare(&mut self, product: &Product, _stock: Option<&Stock>, options: &Options) -> Result<()> {
        self.polls = product.register_agents(options.connections)?.iter().map(|token| claim_poll(token)).collect();
        Ok(())
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::cycling(&self.polls, options.connections, options.seconds))
    }
}

/// The poll of one agent.
pub fn claim_poll(claim_token: &str) -> Bytes {
    let form = format!("grant_type=urn%3Asvc%3Aagent-auth%3Agrant-type%3Aclaim&claim_token={claim_token}");
    let headers = ["Content-Type: application/x-www-form-urlencoded"];
    plan::request("POST", "/api/v1/agent-auth/token", &headers, form.as_bytes())
}
