//! `attache admin act`: lists, shows and verifies the acts of operators.

use app::acts::{ActFilter, described, shown};
use clap::Subcommand;
use domain::act::ActKind;
use domain::ids::EventId;
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::verified::compare;
use crate::cli::main_database::open_log;
use commands::failure::{Done, Failure};
use commands::output;

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
        /// Show only acts of an author with this text, for example shell:1000
        #[arg(long)]
        by: Option<String>,
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
        Command::List { act, target, by, listing } => {
            let rows = list(context, listing.limit, &ActFilter { act, target, by }).await?;
            let columns = ["id", "done_at", "act", "by", "node", "target", "outcome", "reason", "sent_at"];
            output::list(listing.format.json, &rows, &columns);
            Ok(())
        }
        Command::Show { id, format } => {
            let act = context.store.act(id).await.map_err(Failure::caused)?;
            let act = act.ok_or_else(|| Failure::not_found("no act has this id"))?;
            let value = json!(shown(&act).map_err(Failure::caused)?);
            output::show(format.json, &value, || output::layout(&value));
            Ok(())
        }
        Command::Verify(format) => verify(context, format).await,
    }
}

async fn list(context: &AdminContext<'_>, rows_max: usize, filter: &ActFilter) -> Result<Vec<Value>, Failure> {
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        let page = context.store.acts(before, PAGE).await.map_err(Failure::caused)?;
        before = page.last().map(|act| act.id);
        for act in &page {
            let entry = described(act).map_err(Failure::caused)?;
            if filter.matches(&entry) {
                rows.push(json!(entry));
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
