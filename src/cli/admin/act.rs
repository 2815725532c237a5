//! `attache admin act`: lists, shows and verifies the acts of operators.

use clap::Subcommand;
use domain::act::{ActKind, ActOutcome, OperatorAct};
use domain::clock::date_time;
use domain::ids::EventId;
use serde::Deserialize;
use serde_json::{Value, json};
use store::act::RecordedAct;

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::verified::{compare, opened};
use crate::cli::failure::{Done, Failure};
use crate::cli::main_database::open_log;
use crate::cli::output;

/// Number of acts per read.
const PAGE: usize = 500;

/// Subcommands of `attache admin act`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List acts of operators, newest first
    List {
        /// Show only acts of this kind, for example `session_create`
        #[arg(long)]
        act: Option<ActKind>,
        /// Show only acts on this object, for example `account:ID`
        #[arg(long)]
        target: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Show an act, with its event
    Show {
        /// Id from the list
        id: EventId,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Verify that the signed log contains all acts, and no other ones; sends no request
    Verify(OutputFormat),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::List { act, target, listing } => {
            let is_asked = |payload: &Payload| {
                act.is_none_or(|act| payload.act.act == act)
                    && target.as_ref().is_none_or(|target| payload.act.target.as_ref() == Some(target))
            };
            let rows = list(context, listing.limit, is_asked).await?;
            let columns = ["id", "done_at", "act", "by", "node", "target", "outcome", "reason", "sent_at"];
            output::list(listing.format.json, &rows, &columns);
            Ok(())
        }
        Command::Show { id, format } => {
            let act = context.store.act(id).await.map_err(Failure::caused)?;
            let act = act.ok_or_else(|| Failure::not_found("no act has this id"))?;
            let mut value = described(&act, &payload(&act)?);
            value["event"] = serde_json::from_slice(&act.body).map_err(Failure::caused)?;
            output::show(format.json, &value, || output::layout(&value));
            Ok(())
        }
        Command::Verify(format) => verify(context, format).await,
    }
}

async fn list(
    context: &AdminContext<'_>,
    rows_max: usize,
    is_asked: impl Fn(&Payload) -> bool,
) -> Result<Vec<Value>, Failure> {
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        let page = context.store.acts(before, PAGE).await.map_err(Failure::caused)?;
        before = page.last().map(|act| act.id);
        for act in &page {
            let payload = payload(act)?;
            if is_asked(&payload) {
                rows.push(described(act, &payload));
            }
            if rows.len() == rows_max {
                return Ok(rows);
            }
        }
        if page.len() < PAGE {
            return Ok(rows);
        }
    }
}

async fn verify(context: &AdminContext<'_>, format: OutputFormat) -> Done {
    if context.settings.upstream.url.is_some() {
        return Err(Failure::refused("there is no embedded log: upstream.url names an external statistics service"));
    }
    let log = open_log(context.settings).await.map_err(Failure::caused)?;
    let verified = compare(&context.store, &log).await;
    log.close().await;
    let verified = verified?;
    output::show(format.json, &json!(verified), || {
        let mut lines = vec![format!("{} acts are in the signed log, {} wait", verified.proven, verified.waiting)];
        lines.extend(verified.faults.iter().map(|fault| format!("  {fault}")));
        lines.join("\n")
    });
    match verified.faults.len() {
        0 => Ok(()),
        faults => Err(Failure::refused(format!("table and log differ in {faults} acts"))),
    }
}

/// The payload of an act's event.
#[derive(Deserialize)]
struct Payload {
    #[serde(flatten)]
    act: OperatorAct,
    outcome: ActOutcome,
}

fn payload(act: &RecordedAct) -> Result<Payload, Failure> {
    let changed = || Failure::refused(format!("the event of the act {} was changed in the table", act.id));
    let sealed = opened(act).ok_or_else(changed)?;
    serde_json::from_value(Value::Object(sealed.envelope.payload)).map_err(|_| changed())
}

fn described(recorded: &RecordedAct, Payload { act, outcome }: &Payload) -> Value {
    json!({
        "id": recorded.id,
        "done_at": date_time(recorded.done_at),
        "act": act.act,
        "by": act.by.to_string(),
        "node": act.node,
        "target": act.target,
        "before": act.before,
        "after": act.after,
        "outcome": outcome,
        "reason": act.reason,
        "until": act.until,
        "sent_at": recorded.sent_at.map(date_time),
    })
}
