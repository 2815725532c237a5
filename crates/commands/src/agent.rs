//! `attache agent`: registration, claim, access tokens and revocation of the profile's agent.

mod claim;
mod shown;

use clap::{Args, Subcommand};
use domain::clock::date_time;
use domain::ids::Email;
use serde_json::json;
use wire::agent_auth::RegistrationVariant;

use self::shown::claim_shown;
use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::output;
use crate::profile_folder::Agent;

pub use self::shown::shown;

/// Subcommands of `attache agent`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register an agent, anonymously or for one person
    Register(Register),
    /// Show a link and a code, wait until a person confirms the agent, and store its tokens
    Claim(claim::Arguments),
    /// Print an access token that is valid for at least a minute, for scripts
    Token(Remote),
    /// Revoke the access token (the agent can get another one) or the agent itself
    Revoke(Revoke),
    /// Show the agent as stored in the profile
    Show(Remote),
}

/// Options of `attache agent register`.
#[derive(Debug, Args)]
pub struct Register {
    /// Register the agent for this person, who alone can claim it
    #[arg(long)]
    email: Option<Email>,
    /// Replace the agent that the profile already has
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Options of `attache agent revoke`.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Revoke the agent itself, permanently: it has to register again
    #[arg(long)]
    registration: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Register(arguments) => register(arguments).await,
        Command::Claim(arguments) => claim::claim(arguments).await,
        Command::Token(remote) => token(&remote).await,
        Command::Revoke(arguments) => revoke(&arguments).await,
        Command::Show(remote) => show(&remote),
    }
}

async fn register(arguments: Register) -> Done {
    let mut connection = arguments.remote.open()?;
    if let (Some(agent), false) = (&connection.profile.agent, arguments.again) {
        return Err(Failure::refused(format!(
            "this profile already has the agent {}\n  --again replaces it",
            agent.registration_id
        )));
    }
    let claim = enrol(&mut connection, arguments.email.as_ref()).await?;
    let id = connection.agent()?.registration_id;
    let shown_claim = claim.map(|pending| claim_shown(&pending.claim, &date_time(pending.until)));
    let value = json!({ "registration_id": id, "claim": shown_claim });
    output::show(connection.json, &value, || {
        let next = match &arguments.email {
            Some(email) => format!("`attache agent claim` shows a link and a code for {}, and waits", email.as_str()),
            None => {
                "`attache agent claim` shows a link and a code for a person; until the agent is claimed, its events are held".to_owned()
            }
        };
        format!("the agent is registered as {id}\n  next: {next}")
    });
    Ok(())
}

/// Registers an agent and stores its credentials; returns the pending claim of a registration for one person.
pub async fn enrol(
    connection: &mut ProfileConnection,
    email: Option<&Email>,
) -> Result<Option<claim::PendingClaim>, Failure> {
    // Fail before the request if the profile cannot be written: the claim token is shown only once.
    connection.check_writable()?;
    let registered = match email {
        Some(email) => connection.client.register_for(email.as_str()).await,
        None => connection.client.register_anonymous().await,
    };
    let registered = registered.map_err(failed)?;
    let (identity_assertion, claim) = match registered.variant {
        RegistrationVariant::Anonymous { identity_assertion, .. } => (Some(identity_assertion), None),
        RegistrationVariant::ServiceAuth { claim } => (None, Some(claim)),
    };
    let agent = Agent::registered(registered.registration_id, registered.claim_token, identity_assertion);
    connection.change(|profile| profile.agent = Some(agent))?;
    match claim {
        Some(claim) => claim::keep(connection, claim).map(Some),
        None => claim::forget(connection).map(|()| None),
    }
}

async fn token(remote: &Remote) -> Done {
    let mut connection = remote.open()?;
    connection.renew_if_ended().await?;
    let agent = connection.agent()?;
    let token = agent.access_token.as_ref().map(|token| token.expose().to_owned()).unwrap_or_default();
    let value = json!({
        "access_token": token,
        "scope": agent.scope,
        "expires_at": agent.token_expires.map(date_time),
    });
    output::show(connection.json, &value, || token.clone());
    Ok(())
}

async fn revoke(arguments: &Revoke) -> Done {
    let mut connection = arguments.remote.open()?;
    let id = connection.agent()?.registration_id;
    if arguments.registration {
        connection.as_account().await?.agent_revoke(id).await.map_err(failed)?;
        connection.change(|profile| profile.agent = None)?;
        claim::forget(&connection)?;
        output::show(connection.json, &json!({ "revoked": id }), || format!("agent {id} is revoked permanently"));
        return Ok(());
    }
    let token = connection.agent()?.access_token.clone();
    if let Some(token) = &token {
        connection.client.revoke(token).await.map_err(failed)?;
        connection.change(|profile| {
            // Another process may have stored another token in between.
            if let Some(agent) = profile.agent.as_mut().filter(|agent| agent.access_token.as_ref() == Some(token)) {
                agent.access_token = None;
                agent.token_expires = None;
            }
        })?;
    }
    output::show(connection.json, &json!({ "token_revoked": token.is_some() }), || {
        let outcome = if token.is_some() { "the access token is revoked" } else { "there is no access token" };
        format!("{outcome}; the next command gets another one if it needs one")
    });
    Ok(())
}

fn show(remote: &Remote) -> Done {
    let connection = remote.open()?;
    let agent = connection.agent()?;
    output::show(connection.json, &shown(agent), || {
        let state = if agent.is_claimed() { "claimed" } else { "not claimed, according to this profile" };
        let token = match agent.token_expires {
            Some(expires) if expires > connection.clock().now() => format!("valid until {}", date_time(expires)),
            Some(_) => "expired; the next command gets another one if it needs one".to_owned(),
            None => "none; the next command gets one if it needs one".to_owned(),
        };
        format!(
            "agent   {}\nserver  {}\nstate   {state}\ntoken   {token}",
            agent.registration_id,
            connection.client.base_url()
        )
    });
    Ok(())
}
