//! `attache keys`: lists and rotates the keys that sign identity assertions.

use app::config::Settings;
use clap::Subcommand;
use domain::act::ActKind;
use serde_json::{Value, json};

use super::acts::{Because, by_shell};
use super::admin::AdminContext;
use commands::failure::{Done, Failure};
use commands::output;
use domain::clock::date_time;

/// Subcommands of `attache keys`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List all keys that sign or still verify
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Activate the next key and create a new next one; existing assertions stay valid until they expire
    Rotate {
        #[command(flatten)]
        because: Because,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, settings: &Settings) -> Done {
    let context = AdminContext::open(settings).await?;
    let AdminContext { store, clock, rng, .. } = &context;
    store.assertion_keys_ensure(clock.now(), rng).await.map_err(Failure::caused)?;
    match command {
        Command::List { json } => {
            let keep_for = settings.claims.keep_keys_for();
            let keys = store.assertion_keys(clock.now(), keep_for).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = keys
                .iter()
                .map(|key| {
                    json!({
                        "kid": key.kid,
                        "state": key.state,
                        "created_at": date_time(key.created_at),
                        "activated_at": key.activated_at.map(date_time),
                        "retired_at": key.retired_at.map(date_time),
                    })
                })
                .collect();
            output::list(json, &rows, &["kid", "state", "created_at", "activated_at", "retired_at"]);
        }
        Command::Rotate { because, json } => {
            let acting = context.acting(by_shell(ActKind::KeysRotate).because(because.reason));
            let kid = acting.store.assertion_keys_rotate(clock.now(), rng).await;
            let kid = acting.settle(kid).await.map_err(Failure::caused)?.ok_or_else(|| {
                Failure::refused("another process rotated the keys at the same time; nothing was changed")
            })?;
            output::show(json, &json!({ "active": kid }), || format!("{kid} signs from now on"));
        }
    }
    store.close().await;
    Ok(())
}
