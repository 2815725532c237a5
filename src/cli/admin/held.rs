//! `attache admin held`: lists, shows, releases and discards held events.

use actors::intake::IntakeOutcome;
use app::App;
use app::config::Urls;
use app::installation::LogStart;
use bytes::Bytes;
use clap::Subcommand;
use domain::act::{ActKind, ActOutcome};
use domain::foreign::visible;
use domain::held::HoldReason;
use domain::ids::HeldId;
use serde_json::{Value, json};
use store::held::{HeldEntry, HeldFilter, HeldState, Sender};

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use crate::cli::failure::{Done, Failure};
use crate::cli::output;
use domain::clock::date_time;

/// Subcommands of `attache admin held`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List held events
    List {
        /// Show only events held for this reason, for example `unknown_event_type`
        #[arg(long)]
        reason: Option<HoldReason>,
        /// Show only events of this sender, as the list names it: machine:UUID, registration:UUID or account:ID
        #[arg(long)]
        sender: Option<Sender>,
        /// Include released and discarded events
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        listing: Listing,
    },
    /// Show a held event, with its body if it was stored
    Show {
        /// Id from the list
        id: HeldId,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Submit a held event again, as if its sender had sent it now
    Release {
        /// Id from the list
        id: HeldId,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Discard a held event and delete its body
    Discard {
        /// Id from the list
        id: HeldId,
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
        Command::List { reason, sender, all, listing } => {
            let state = (!all).then_some(HeldState::Held);
            let filter = HeldFilter { state, reason, sender, ..HeldFilter::default() };
            let entries = store.held_list(&filter, listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = entries.iter().map(described).collect();
            let columns = ["id", "reason", "sender", "event_type", "event_id", "received_at", "state", "detail"];
            output::list(listing.format.json, &rows, &columns);
            Ok(())
        }
        Command::Show { id, because, format } => {
            let (entry, body) = known(context, id).await?;
            if body.is_some() {
                let act = by_shell(ActKind::HeldShow).on("held", id).because(because.reason);
                context.acting(act).record(ActOutcome::Applied).await.map_err(Failure::caused)?;
            }
            let mut value = described(&entry);
            value["body"] = json!(body.as_deref().map(String::from_utf8_lossy));
            output::show(format.json, &value, || output::layout(&value));
            Ok(())
        }
        Command::Release { id, because, format } => Box::pin(release(context, id, because, format)).await,
        Command::Discard { id, because, format } => {
            let acting = context.acting(by_shell(ActKind::HeldDiscard).on("held", id).because(because.reason));
            let discarded = acting.store.held_discard(id, clock.now()).await;
            if acting.settle(discarded).await? {
                output::show(format.json, &json!({ "discarded": id }), || format!("{id} is discarded"));
                Ok(())
            } else {
                Err(Failure::not_found("no held event has this id"))
            }
        }
    }
}

async fn release(context: &AdminContext<'_>, id: HeldId, because: Because, format: OutputFormat) -> Done {
    let (entry, body) = known(context, id).await?;
    if entry.state != HeldState::Held {
        return Err(Failure::refused(format!("the event is already {}", entry.state.as_str())));
    }
    let body = body.ok_or_else(|| {
        Failure::refused(
            "its payload was not stored, because the person's consent does not allow it; the sender has to send it again",
        )
    })?;
    let act = by_shell(ActKind::HeldRelease).on("held", id).because(because.reason);
    context.acting(act).record(ActOutcome::Begun).await.map_err(Failure::caused)?;
    let settings = context.settings.clone();
    let base_url = settings.http.base_url.clone().unwrap_or_else(|| format!("http://{}", settings.http.bind));
    let drain_deadline = settings.shutdown.drain_deadline;
    let urls = Urls { rag: base_url.clone(), base: base_url };
    let time_and_chance = (context.clock.clone(), context.rng.clone());
    let app = Box::pin(App::build(settings.into(), urls, time_and_chance, LogStart::Continue)).await;
    let app = app.map_err(Failure::caused)?;
    let verdict = app.intake.release(&entry, Bytes::from(body)).await;
    app.root.drain(drain_deadline).await;
    app.close(tokio::time::Instant::now() + drain_deadline).await;
    match verdict.map_err(Failure::caused)? {
        IntakeOutcome::Forwarded(receipt) => {
            output::show(format.json, &json!({ "released": id, "receipt_id": receipt }), || {
                format!("{id} is released, receipt {receipt}")
            });
            Ok(())
        }
        IntakeOutcome::Held { warning } => Err(Failure::refused(format!("the event is still held: {warning}"))),
        IntakeOutcome::Passed(answer) => {
            let body = String::from_utf8_lossy(&answer.body);
            Err(Failure::refused(format!("the statistics service answered {}: {}", answer.status, visible(&body))))
        }
        IntakeOutcome::Paused(paused) => Err(Failure::refused(format!("the event is still held: {paused}"))),
        IntakeOutcome::Unavailable { reason, .. } => {
            Err(Failure::refused(format!("the event could not be forwarded: {reason}; try again")))
        }
    }
}

async fn known(context: &AdminContext<'_>, id: HeldId) -> Result<(HeldEntry, Option<Vec<u8>>), Failure> {
    let entry = context.store.held_show(id).await.map_err(Failure::caused)?;
    entry.ok_or_else(|| Failure::not_found("no held event has this id"))
}

fn described(entry: &HeldEntry) -> Value {
    json!({
        "id": entry.id,
        "state": entry.state.as_str(),
        "reason": entry.reason.as_str(),
        "detail": entry.detail,
        "sender": entry.sender.to_string(),
        "user_account_id": entry.account,
        "event_id": entry.outline.event_id,
        "event_type": entry.outline.event_type,
        "agent_id": entry.outline.agent_id,
        "machine_id": entry.outline.machine_uuid,
        "self": entry.seal,
        "body_sha256": entry.body_sha256,
        "body_bytes": entry.body_bytes,
        "received_at": date_time(entry.received_at),
        "state_at": entry.state_at.map(date_time),
        "receipt_id": entry.receipt,
    })
}
