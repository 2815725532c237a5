//! An agent and its claim as JSON.

use domain::clock::date_time;
use serde_json::{Value, json};
use wire::agent_auth::AgentClaim;

use crate::profile_folder::Agent;

/// An agent as JSON, without its secrets.
pub fn shown(agent: &Agent) -> Value {
    json!({
        "registration_id": agent.registration_id,
        "claimed": agent.is_claimed(),
        "scope": agent.scope,
        "token_expires": agent.token_expires.map(date_time),
    })
}

/// The link and the code of a claim as JSON.
pub fn claim_shown(claim: &AgentClaim, until: &str) -> Value {
    json!({ "verification_uri": claim.verification_uri, "user_code": claim.user_code.expose(), "until": until })
}
