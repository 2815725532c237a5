//! `attache admin log`: declares new epochs of the event log, and lists its parts.

use std::collections::BTreeMap;

use app::config::LogPartSettings;
use app::installation::{Declared, declare};
use clap::Subcommand;
use domain::act::{ActKind, ActReason};
use domain::clock::date_time;
use domain::log_part::LogPart;
use serde_json::{Value, json};
use store::pool::servers_of;

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::acts::by_shell;
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache admin log`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Begin a new epoch of the event log, with a new key and origin
    ///
    /// Use it after a restore or a failover that lost signed events, or after a witness refused the log. Nodes may run; they sign with the new key
    /// within a second. Events and proofs are kept.
    Epoch {
        /// Reason, which the first event of the epoch records
        #[arg(long)]
        reason: ActReason,
        /// Part of the log [default: 0, the log in the main database's server]
        #[arg(long, hide_default_value = true, default_value_t)]
        part: LogPart,
        /// The database of the part is lost: begin in the empty one at its url, while no node runs
        #[arg(long, requires = "part")]
        lost: bool,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List the parts of the log with their servers, weights and sizes
    Parts(OutputFormat),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    if context.settings.upstream.url.is_some() {
        return Err(Failure::refused("there is no embedded log: upstream.url names an external statistics service"));
    }
    let (reason, part, lost, format) = match command {
        Command::Epoch { reason, part, lost, format } => (reason, part, lost, format),
        Command::Parts(format) => return parts(&format, context).await,
    };
    let AdminContext { settings, clock, rng, .. } = context;
    let acting = context
        .acting(by_shell(ActKind::LogEpoch).to(json!({ "part": part, "lost": lost })).because(Some(reason.clone())));
    let declared = declare(settings, (clock, rng), &acting.store, (part, lost), reason.as_str()).await;
    let Declared { origin, vkey, size } = acting.settle(declared).await.map_err(Failure::caused)?;
    let answer = json!({ "origin": origin, "vkey": vkey, "size": size });
    output::show(format.json, &answer, || {
        format!("the log begins the epoch {origin} at {size} signed events; its clients need the key {vkey}")
    });
    Ok(())
}

/// Lists the parts of the configuration and of the main database, with the newest checkpoints that it has seen.
async fn parts(format: &OutputFormat, context: &AdminContext<'_>) -> Done {
    let AdminContext { settings, store, .. } = context;
    let opened = store.log_parts().await.map_err(Failure::caused)?;
    let mut known: BTreeMap<LogPart, Option<(Option<&str>, u32)>> =
        opened.iter().map(|record| (record.part, None)).collect();
    known.insert(LogPart::FIRST, Some((settings.database.url.as_deref(), settings.log.weight)));
    known.extend(settings.log.part.iter().map(|part| {
        let LogPartSettings { number, url, weight } = part;
        (LogPart::new(*number), Some((Some(url.as_str()), *weight)))
    }));
    let mut parts: Vec<Value> = Vec::new();
    for (part, configured) in known {
        let log = store.log_remembered(part).await.map_err(Failure::caused)?;
        let signed = log.as_ref().and_then(|log| log.vkey.split('+').next()).map(str::to_owned);
        let opened = opened.iter().find(|record| record.part == part).map(|record| date_time(record.opened_at));
        parts.push(json!({
            "part": part,
            "origin": signed.unwrap_or_else(|| part.origin(&settings.log.origin)),
            "server": configured.and_then(|(url, _)| url).map(servers_of),
            "weight": configured.map(|(_, weight)| weight),
            "size": log.map(|log| log.size),
            "opened_at": opened,
        }));
    }
    output::show(format.json, &json!({ "parts": parts }), || {
        let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let cells = |part: &Value| {
            let names = ["part", "origin", "server", "weight", "size", "opened_at"];
            names.map(|name| if part[name].is_null() { "-".to_owned() } else { cell(&part[name]) }).to_vec()
        };
        output::table(&["part", "origin", "server", "weight", "events", "opened"], parts.iter().map(cells))
    });
    Ok(())
}
