//! `attache agent claim`: shows link, code and picture, and waits until a person confirms the agent.
//!
//! The claim is kept in the profile while nobody has confirmed it, so that whoever interrupts goes on with the same one.

use std::time::Duration;

use clap::Args;
use domain::Timestamp;
use domain::clock::date_time;
use domain::ids::{Email, RegistrationId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::agent_auth::{AgentClaim, TokenResult};
use wire::form;

use super::claim_shown;
use crate::cli::invitation::{ApprovalPrompt, PromptArgs, WaitOutcome};
use crate::cli::remote::{Connection, Remote, failed};
use crate::cli::terminal::GOOD;
use crate::cli::{Done, Failure, output, terminal};

/// How to have it claimed.
#[derive(Debug, Args)]
pub struct Arguments {
    /// By whom: a new link that only this person can use
    #[arg(long)]
    email: Option<Email>,
    #[command(flatten)]
    showing: PromptArgs,
    #[command(flatten)]
    remote: Remote,
}

/// The name of the file with the claim that waits.
const PENDING: &str = "claim.json";

/// A claim that nobody has confirmed yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pending {
    registration_id: RegistrationId,
    /// Until when it works.
    #[serde(with = "form::moment")]
    pub until: Timestamp,
    /// What its person is shown.
    pub claim: AgentClaim,
}

/// Has the agent claimed.
pub async fn claim(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    if connection.agent()?.is_claimed() {
        let known = super::shown(connection.agent()?);
        output::show(connection.json, &known, || "the agent is claimed already".to_owned());
        return Ok(());
    }
    let (pending, asked_before) = match take_up(&connection, arguments.email.as_ref()).await? {
        Resumed::Claimed(tokens) => return settle(&mut connection, *tokens),
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
    let shown = invitation.show(connection.json, arguments.showing)?;
    if arguments.showing.no_wait {
        if connection.json {
            let known = json!({
                "registration_id": pending.registration_id,
                "claim": claim_shown(claim, &date_time(pending.until)),
            });
            output::say_json(&known);
        }
        return Ok(());
    }
    let claim_token = connection.agent()?.claim_token.clone();
    let answer = async {
        if asked_before {
            // The server was asked a moment ago.
            tokio::time::sleep(Duration::from_secs(claim.interval)).await;
        }
        connection.client.claimed(&claim_token, claim, |_| {}).await
    };
    match shown.wait("waiting for you to confirm", connection.clock().now(), answer).await {
        WaitOutcome::Answered(Ok(tokens)) => settle(&mut connection, tokens),
        WaitOutcome::Answered(Err(error)) => Err(against(&connection, error)),
        WaitOutcome::Interrupted => Err(Failure::refused(
            "nobody has confirmed it yet; the link still works, and `attache agent claim` goes on waiting",
        )),
    }
}

/// Keeps a claim that came this moment.
pub fn keep(connection: &Connection, claim: AgentClaim) -> Result<Pending, Failure> {
    let registration_id = connection.agent()?.registration_id;
    let pending = Pending { registration_id, until: connection.after(claim.expires_in), claim };
    connection.folder.keep_json(PENDING, &pending)?;
    Ok(pending)
}

/// No claim waits any more.
pub fn forget(connection: &Connection) -> Result<(), Failure> {
    connection.folder.forget(PENDING)
}

enum Resumed {
    Claimed(Box<TokenResult>),
    Pending(Pending),
    Nothing,
}

/// What became of the claim that an earlier run showed. Whoever names an address wants another link for it.
async fn take_up(connection: &Connection, email: Option<&Email>) -> Result<Resumed, Failure> {
    let agent = connection.agent()?;
    let known: Option<Pending> = connection.folder.json(PENDING)?;
    let now = connection.clock().now();
    let known = known.filter(|known| known.registration_id == agent.registration_id);
    let Some(known) = known else { return Ok(Resumed::Nothing) };
    match connection.client.token_by_claim(&agent.claim_token).await {
        Ok(tokens) => Ok(Resumed::Claimed(Box::new(tokens))),
        Err(error) => match error.code() {
            Some("authorization_pending") if known.until > now && email.is_none() => Ok(Resumed::Pending(known)),
            Some("authorization_pending" | "expired_token") => Ok(Resumed::Nothing),
            _ => Err(failed(error)),
        },
    }
}

async fn begin(connection: &Connection, email: Option<&Email>) -> Result<Pending, Failure> {
    let agent = connection.agent()?;
    let claim = connection.client.claim(&agent.claim_token, email.map(Email::as_str)).await;
    let claim = claim.map_err(|error| match error.code() {
        Some("expired_token") => over(),
        Some("email_mismatch") => Failure::refused("the agent is registered for somebody else, who alone can claim it"),
        _ => failed(error),
    })?;
    keep(connection, claim)
}

fn settle(connection: &mut Connection, tokens: TokenResult) -> Done {
    connection.keep_tokens(tokens)?;
    forget(connection)?;
    let known = super::shown(connection.agent()?);
    output::show(connection.json, &known, || {
        format!(
            "{} the agent acts for your account now\n  next: `attache account` shows it, `attache agent token` is for scripts",
            terminal::styled(GOOD, "✓")
        )
    });
    Ok(())
}

/// Why it did not come to a confirmation.
fn against(connection: &Connection, error: client::Error) -> Failure {
    if error.code() != Some("expired_token") {
        return failed(error);
    }
    match forget(connection) {
        Ok(()) => Failure::refused(
            "the link is over: nobody confirmed it in time, or the code was wrong too often. \
             `attache agent claim` makes a new one",
        ),
        Err(failure) => failure,
    }
}

fn over() -> Failure {
    Failure::refused("the registration is over, since nobody claimed it in time: `attache agent register --again`")
}
