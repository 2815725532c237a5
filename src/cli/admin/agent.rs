//! `attache admin agent`: lists and revokes agents.

use clap::Subcommand;
use domain::act::ActKind;
use domain::ids::RegistrationId;
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::{AccountFilter, Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;
use domain::clock::date_time;

/// Subcommands of `attache admin agent`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List agents, claimed or not
    List {
        #[command(flatten)]
        whose: AccountFilter,
        #[command(flatten)]
        listing: Listing,
    },
    /// Revoke an agent permanently, with its tokens and assertions
    Revoke {
        /// Registration id of the agent
        id: RegistrationId,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, .. } = context;
    match command {
        Command::List { whose, listing } => {
            let account = context.filter(whose).await?;
            let agents = store.agents(account.as_ref(), listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = agents
                .iter()
                .map(|agent| {
                    let registration = &agent.registration;
                    let status = match (&registration.claim, registration.revoked_at) {
                        (_, Some(_)) => "revoked",
                        (Some(_), None) => "claimed",
                        (None, None) => "unclaimed",
                    };
                    json!({
                        "id": registration.id,
                        "type": registration.registration_type,
                        "status": status,
                        "user_account_id": registration.claim.as_ref().map(|claim| &claim.account),
                        "claimed_via": agent.claimed_via,
                        "claimed_by": agent.claimed_by,
                        "created_at": date_time(registration.created_at),
                        "last_token_at": registration.last_token_at.map(date_time),
                        "ip_address": registration.ip_address,
                        "revoked_at": registration.revoked_at.map(date_time),
                    })
                })
                .collect();
            let columns = ["id", "type", "status", "user_account_id", "created_at", "last_token_at", "ip_address"];
            output::list(listing.format.json, &rows, &columns);
            Ok(())
        }
        Command::Revoke { id, because, format } => {
            let acting = context.acting(by_shell(ActKind::AgentRevoke).on("registration", id).because(because.reason));
            let revoked = acting.store.registration_revoke(id, None, clock.now()).await;
            if acting.settle(revoked).await.map_err(Failure::caused)? {
                output::show(format.json, &json!({ "revoked": id }), || format!("agent {id} is revoked"));
                Ok(())
            } else {
                Err(Failure::refused("the agent does not exist or is already revoked"))
            }
        }
    }
}
