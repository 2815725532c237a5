//! `attache admin api-key`

use clap::Subcommand;
use domain::api_key::{ApiKey, ApiKeyName, ApiKeyScope, scopes_of};
use domain::ids::{ApiKeyId, Email, SpaceId};
use domain::secret::{Secret, SecretKind};
use serde_json::{Value, json};
use store::api_key::KeyCreate;

use super::{AdminContext, Format, Listing};
use crate::cli::{Done, Failure, output};
use crate::http::api_keys::described;
use crate::services::api_keys::first_unreadable;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a key of the knowledge API for the account of a person, and print it once; makes person and account when they are new
    Create {
        /// The person's address
        #[arg(long)]
        email: Email,
        /// What the key is called
        #[arg(long, default_value = "made by an operator")]
        name: ApiKeyName,
        /// What it opens: search, write or settings; may be repeated. Everything when left out
        #[arg(long)]
        scope: Vec<ApiKeyScope>,
        /// Where; may be repeated. Every space of the account when left out
        #[arg(long)]
        space: Vec<SpaceId>,
        #[command(flatten)]
        format: Format,
    },
    /// List keys, ended ones too
    List(Listing),
    /// End a key for ever
    Revoke {
        /// Its id
        id: ApiKeyId,
        #[command(flatten)]
        format: Format,
    },
}

/// Does it.
pub async fn run(command: Command, office: &AdminContext<'_>) -> Done {
    let AdminContext { settings, store, clock, rng } = office;
    let now = clock.now();
    match command {
        Command::Create { email, name, scope, space, format } => {
            let person = store.person_sign_in(&email, settings.signin.create_account, now, rng).await;
            let account = person.map_err(Failure::caused)?.account;
            let account = account
                .ok_or_else(|| Failure::refused("this person has no account: make one with admin account create"))?;
            if let Some(at) = first_unreadable(store, &account, &space).await.map_err(Failure::caused)? {
                return Err(Failure::refused(format!("the account may not read the space {}", space[at])));
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
            let made = store.api_key_create(&key, &secret.hash(), settings.api_keys.per_account_max).await;
            if made.map_err(Failure::caused)? != KeyCreate::Created {
                return Err(Failure::refused("the account has as many keys as it may have: revoke one first"));
            }
            let mut value = json!(described(&key));
            value["key"] = json!(secret.expose());
            output::show(format.json, &value, || secret.expose().to_owned());
        }
        Command::List(listing) => {
            let keys = store.api_keys(listing.limit).await.map_err(Failure::caused)?;
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
        Command::Revoke { id, format } => {
            if !store.api_key_revoke(id, None, now).await.map_err(Failure::caused)? {
                return Err(Failure::refused("there is no such key, or it is revoked already"));
            }
            output::show(format.json, &json!({ "revoked": id }), || format!("key {id} is revoked"));
        }
    }
    Ok(())
}
