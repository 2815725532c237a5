//! `attache agent claim`: shows a link, a code and a QR code, and waits until a person confirms the agent.
//!
//! The pending claim is stored in the profile, so that the command continues with the same link after an interruption.

use std::time::Duration;

use clap::Args;
use domain::Timestamp;
use domain::clock::date_time;
use domain::ids::{Email, RegistrationId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::agent_auth::{AgentClaim, TokenResult};
use wire::form;

use super::shown::{claim_shown, shown as agent_shown};
use crate::approval_prompt::{ApprovalPrompt, PromptArgs, WaitOutcome};
use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::terminal::GOOD;
use crate::{output, terminal};

/// Options of `attache agent claim`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Create a new link that only this person can use
    #[arg(long)]
    email: Option<Email>,
    #[command(flatten)]
    showing: PromptArgs,
    #[command(flatten)]
    remote: Remote,
}

/// File name of the pending claim in the profile's folder.
const PENDING: &str = "claim.json";

/// A claim that is not confirmed yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct PendingClaim {
    registration_id: RegistrationId,
    /// Expiry of link and code.
    #[serde(with = "form::moment")]
    pub until: Timestamp,
    /// Link and code for the person.
    pub claim: AgentClaim,
}

/// Shows link and code, waits for the confirmation, and stores the tokens.
pub async fn claim(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    if connection.agent()?.is_claimed() {
        let value = agent_shown(connection.agent()?);
        output::show(connection.json, &value, || "the agent is already claimed".to_owned());
        return Ok(());
    }
    let (pending, asked_before) = match resume(&connection, arguments.email.as_ref()).await? {
        Resumed::Claimed(tokens) => return finish(&mut connection, *tokens),
        Resumed::Pending(pending) => (pending, true),
        Resumed::Nothing => (begin(&connection, arguments.email.as_ref()).await?, false),
    };
    let claim = &pending.claim;
    let invitation = ApprovalPrompt {
        purpose: "To let this agent act for your account",
        link: &claim.verification_uri,
        code_is_to: "and type this code:",
        code: claim.user_code.expose(),
        until: pending.until,
    };
    let prompt = invitation.show(connection.json, arguments.showing)?;
    if arguments.showing.no_wait {
        if connection.json {
            let claim_value = json!({
                "registration_id": pending.registration_id,
                "claim": claim_shown(claim, &date_time(pending.until)),
            });
            output::print_json(&claim_value);
        }
        return Ok(());
    }
    let claim_token = connection.agent()?.claim_token.clone();
    let answer = async {
        if asked_before {
            // `resume` has just polled: wait one interval before the next poll.
            tokio::time::sleep(Duration::from_secs(claim.interval)).await;
        }
        connection.client.claimed(&claim_token, claim, |_| {}).await
    };
    match prompt.wait("waiting for you to confirm", connection.clock().now(), answer).await {
        WaitOutcome::Answered(Ok(tokens)) => finish(&mut connection, tokens),
        WaitOutcome::Answered(Err(error)) => Err(failure_of(&connection, error)),
        WaitOutcome::Interrupted => {
            Err(Failure::refused("interrupted; the link still works, and `attache agent claim` continues to wait"))
        }
    }
}

/// Stores a claim that the server has just returned.
pub fn keep(connection: &ProfileConnection, claim: AgentClaim) -> Result<PendingClaim, Failure> {
    let registration_id = connection.agent()?.registration_id;
    let pending = PendingClaim { registration_id, until: connection.after(claim.expires_in), claim };
    connection.folder.write_json(PENDING, &pending)?;
    Ok(pending)
}

/// Deletes the pending claim.
pub fn forget(connection: &ProfileConnection) -> Result<(), Failure> {
    connection.folder.forget(PENDING)
}

enum Resumed {
    Claimed(Box<TokenResult>),
    Pending(PendingClaim),
    Nothing,
}

/// Resumes the claim of an earlier run, if it is still pending; an e-mail address always starts a new one.
async fn resume(connection: &ProfileConnection, email: Option<&Email>) -> Result<Resumed, Failure> {
    let agent = connection.agent()?;
    let stored: Option<PendingClaim> = connection.folder.json(PENDING)?;
    let now = connection.clock().now();
    let stored = stored.filter(|stored| stored.registration_id == agent.registration_id);
    let Some(stored) = stored else { return Ok(Resumed::Nothing) };
    match connection.client.token_by_claim(&agent.claim_token).await {
        Ok(tokens) => Ok(Resumed::Claimed(Box::new(tokens))),
        Err(error) => match error.code() {
            Some("authorization_pending") if stored.until > now && email.is_none() => Ok(Resumed::Pending(stored)),
            Some("authorization_pending" | "expired_token") => Ok(Resumed::Nothing),
            _ => Err(failed(error)),
        },
    }
}

async fn begin(connection: &ProfileConnection, email: Option<&Email>) -> Result<PendingClaim, Failure> {
    let agent = connection.agent()?;
    let claim = connection.client.claim(&agent.claim_token, email.map(Email::as_str)).await;
    let claim = claim.map_err(|error| match error.code() {
        Some("expired_token") => expired(),
        Some("email_mismatch") => {
            Failure::refused("the agent is registered for another person, who alone can claim it")
        }
        _ => failed(error),
    })?;
    keep(connection, claim)
}

fn finish(connection: &mut ProfileConnection, tokens: TokenResult) -> Done {
    connection.keep_tokens(tokens)?;
    forget(connection)?;
    let value = agent_shown(connection.agent()?);
    output::show(connection.json, &value, || {
        format!(
            "{} the agent acts for your account now\n  next: `attache account` shows the account, `attache agent token` prints a token for scripts",
            terminal::styled(GOOD, "✓")
        )
    });
    Ok(())
}

/// The error message for a claim that failed.
fn failure_of(connection: &ProfileConnection, error: client::Error) -> Failure {
    if error.code() != Some("expired_token") {
        return failed(error);
    }
    match forget(connection) {
        Ok(()) => Failure::refused(
            "the link is no longer valid: it was not confirmed in time, or the code was wrong too often; \
             `attache agent claim` creates a new one",
        ),
        Err(failure) => failure,
    }
}

fn expired() -> Failure {
    Failure::refused(
        "the registration has expired, because the agent was not claimed in time: run `attache agent register --again`",
    )
}
