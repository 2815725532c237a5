//! `attache admin api-key`: creates, lists and revokes API keys.

use api::api_keys::described;
use app::services::api_keys::first_unreadable;
use clap::Subcommand;
use domain::act::ActKind;
use domain::api_key::{ApiKey, ApiKeyName, ApiKeyScope, scopes_of};
use domain::ids::{ApiKeyId, Email, SpaceId};
use domain::secret::{Secret, SecretKind};
use serde_json::{Value, json};
use store::api_key::KeyCreate;

use super::context::AdminContext;
use super::options::{AccountFilter, Listing, OutputFormat};
use super::session::person_of;
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache admin api-key`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an API key for a person's account and print it once; creates person and account if necessary
    Create {
        /// E-mail address of the person
        #[arg(long)]
        email: Email,
        /// Name of the key
        #[arg(long, default_value = "made by an operator")]
        name: ApiKeyName,
        /// Scope: search, write, settings or account; may be repeated [default: all but account]
        #[arg(long)]
        scope: Vec<ApiKeyScope>,
        /// Id of a space that the key is limited to; may be repeated [default: all spaces of the account]
        #[arg(long)]
        space: Vec<SpaceId>,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List API keys, including revoked and expired ones
    List {
        #[command(flatten)]
        whose: AccountFilter,
        #[command(flatten)]
        listing: Listing,
    },
    /// Revoke an API key permanently
    Revoke {
        /// Id of the key
        id: ApiKeyId,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let AdminContext { settings, store, clock, rng } = context;
    let now = clock.now();
    match command {
        Command::Create { email, name, scope, space, because, format } => {
            let account = person_of(store, settings, (clock, rng), &email).await?.account;
            let account = account.ok_or_else(|| {
                Failure::refused("the person has no account: create one with `attache admin account create`")
            })?;
            if let Some(at) = first_unreadable(store, &account, &space).await.map_err(Failure::caused)? {
                return Err(Failure::refused(format!("the account cannot read the space {}", space[at])));
            }
            let secret = Secret::mint(SecretKind::ApiKey, rng);
            let key = ApiKey {
                id: rng.uuid_v7(now).into(),
                account,
                name,
                scopes: scopes_of(&scope),
                spaces: (!space.is_empty()).then_some(space),
                created_at: now,
                expires_at: None,
                last_used_at: None,
                revoked_at: None,
            };
            let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
            let after = json!({ "user_account_id": key.account, "scopes": scopes });
            let act = by_shell(ActKind::ApiKeyCreate).on("api_key", key.id).to(after).because(because.reason);
            let acting = context.acting(act);
            let made = acting.store.api_key_create(&key, &secret.hash(), settings.api_keys.per_account_max).await;
            if acting.settle(made).await.map_err(Failure::caused)? != KeyCreate::Created {
                return Err(Failure::refused(
                    "the account has reached its maximum number of API keys: revoke one first",
                ));
            }
            let mut value = json!(described(&key));
            value["key"] = json!(secret.expose());
            output::show(format.json, &value, || secret.expose().to_owned());
        }
        Command::List { whose, listing } => {
            let keys = match context.filter(whose).await? {
                None => store.api_keys(listing.limit).await,
                Some(account) => store.api_keys_of_account(&account, listing.limit).await,
            };
            let keys = keys.map_err(Failure::caused)?;
            let row = |key: &ApiKey| {
                let mut value = json!(described(key));
                value["user_account_id"] = json!(key.account);
                let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
                if !listing.format.json {
                    value["scopes"] = json!(scopes.join(","));
                }
                value
            };
            let rows: Vec<Value> = keys.iter().map(row).collect();
            let columns = ["id", "user_account_id", "name", "scopes", "created_at", "expires_at", "revoked_at"];
            output::list(listing.format.json, &rows, &columns);
        }
        Command::Revoke { id, because, format } => {
            let acting = context.acting(by_shell(ActKind::ApiKeyRevoke).on("api_key", id).because(because.reason));
            let revoked = acting.store.api_key_revoke(id, None, now).await;
            if !acting.settle(revoked).await.map_err(Failure::caused)? {
                return Err(Failure::refused("the API key does not exist or is already revoked"));
            }
            output::show(format.json, &json!({ "revoked": id }), || format!("API key {id} is revoked"));
        }
    }
    Ok(())
}
