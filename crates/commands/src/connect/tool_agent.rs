//! The agent of a tool, with `--act-for-me`: registered by the command, confirmed together with the computer.
//!
//! The profile stores the identity assertion of the agent and no access token: each use exchanges the assertion for a token.

use client::Credential;
use domain::secret::Secret;
use domain::tool::Tool;
use wire::agent_auth::TokenResult;
use wire::device::AgentWanted;

use crate::connection::{ProfileConnection, failed};
use crate::failure::{Done, Failure};
use crate::profile_folder::Agent;

/// The agent of the tool for confirmation, newly registered if the server accepts none; `None` if it already acts for the account.
pub async fn ensure(connection: &mut ProfileConnection, tool: Tool) -> Result<Option<AgentWanted>, Failure> {
    connection.check_server()?;
    if let Some(agent) = connection.profile.tools.get(&tool).cloned() {
        if agent.is_claimed() {
            if token(connection, tool).await?.is_some() {
                return Ok(None);
            }
        } else {
            match claimed(connection, tool).await? {
                ClaimState::Claimed => return Ok(None),
                ClaimState::Waits => return Ok(Some(wanted(&agent, tool))),
                ClaimState::Over => {}
            }
        }
    }
    let agent = register(connection, tool).await?;
    Ok(Some(wanted(&agent, tool)))
}

/// Whether a person has confirmed an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimState {
    /// Its tokens are stored.
    Claimed,
    /// It can still be confirmed.
    Waits,
    /// It has to register again.
    Over,
}

/// Asks the server whether the agent of the tool is confirmed, and stores its tokens if it is.
pub async fn claimed(connection: &mut ProfileConnection, tool: Tool) -> Result<ClaimState, Failure> {
    let Some(agent) = connection.profile.tools.get(&tool) else { return Ok(ClaimState::Over) };
    match connection.client.token_by_claim(&agent.claim_token).await {
        Ok(tokens) => {
            keep(connection, tool, tokens)?;
            Ok(ClaimState::Claimed)
        }
        Err(error) => match error.code() {
            Some("authorization_pending") => Ok(ClaimState::Waits),
            Some("expired_token" | "invalid_grant") => Ok(ClaimState::Over),
            _ => Err(failed(error)),
        },
    }
}

/// A new access token of the confirmed agent; `None` if the server no longer accepts the agent.
pub async fn token(connection: &mut ProfileConnection, tool: Tool) -> Result<Option<Secret>, Failure> {
    let assertion = connection.profile.tools.get(&tool).and_then(|agent| agent.identity_assertion.clone());
    let Some(assertion) = assertion else { return Ok(None) };
    match connection.client.token_by_assertion(&assertion).await {
        Ok(tokens) => {
            let token = tokens.access_token.clone();
            keep(connection, tool, tokens)?;
            Ok(Some(token))
        }
        Err(error) if matches!(error.code(), Some("invalid_grant" | "expired_token")) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Revokes the agent of the tool on the server, permanently; `false` if there was none.
pub async fn end(connection: &mut ProfileConnection, tool: Tool) -> Result<bool, Failure> {
    let Some(agent) = connection.profile.tools.get(&tool).cloned() else { return Ok(false) };
    let is_ended = match token(connection, tool).await? {
        Some(token) if agent.is_claimed() => {
            let client = connection.client.with(Credential::Bearer(token));
            client.agent_revoke(agent.registration_id).await.map_err(failed)?;
            true
        }
        _ => false,
    };
    forget(connection, tool)?;
    Ok(is_ended)
}

/// Removes the agent of the tool from the profile.
fn forget(connection: &mut ProfileConnection, tool: Tool) -> Done {
    connection.change(|profile| {
        profile.tools.remove(&tool);
    })
}

async fn register(connection: &mut ProfileConnection, tool: Tool) -> Result<Agent, Failure> {
    // Fail before the request if the profile cannot be written: the claim token is shown only once.
    connection.check_writable()?;
    let registered = connection.client.register_anonymous().await.map_err(failed)?;
    // The computer records the events, so the assertion for unclaimed agents is not needed.
    let agent = Agent::registered(registered.registration_id, registered.claim_token, None);
    let stored = agent.clone();
    connection.change(|profile| {
        profile.tools.insert(tool, stored);
    })?;
    Ok(agent)
}

fn wanted(agent: &Agent, tool: Tool) -> AgentWanted {
    AgentWanted { registration_id: agent.registration_id, claim_token: agent.claim_token.clone(), tool }
}

fn keep(connection: &mut ProfileConnection, tool: Tool, tokens: TokenResult) -> Done {
    let expires = connection.after(tokens.expires_in);
    connection.change(|profile| {
        if let Some(agent) = profile.tools.get_mut(&tool) {
            agent.take_tokens(tokens, expires);
            (agent.access_token, agent.token_expires) = (None, None);
        }
    })
}
