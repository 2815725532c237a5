//! `attache admin held`: lists, shows, releases and discards held events.

use std::collections::BTreeMap;

use app::App;
use app::config::{Settings, Urls};
use app::held::{NotEnded, described, releasable};
use app::installation::LogStart;
use clap::{Args, Subcommand};
use domain::act::{ActKind, ActOutcome};
use domain::held::HoldReason;
use domain::ids::HeldId;
use serde_json::{Value, json};
use store::held::{HeldEntry, HeldFilter, HeldState, Sender};
use wire::ops::{HeldEndRequest, HeldEnded, HeldSelection};

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use crate::cli::operator_client::OperatorClient;
use commands::failure::{Done, Failure};
use commands::output;

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
    /// Submit held events again, as if their senders had sent them now
    Release(EndOptions),
    /// Discard held events and delete their bodies
    Discard(EndOptions),
}

/// One held event, or all with a property.
#[derive(Debug, Args)]
pub struct EndOptions {
    /// Id from the list
    #[arg(required_unless_present_any = ["held_for", "sender"], conflicts_with_all = ["held_for", "sender", "dry_run"])]
    id: Option<HeldId>,
    /// All events held for this reason, through the server of this computer
    #[arg(long, value_name = "REASON")]
    held_for: Option<HoldReason>,
    /// All events of this sender, as the list names it
    #[arg(long)]
    sender: Option<Sender>,
    /// Only count the events
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    because: Because,
    #[command(flatten)]
    format: OutputFormat,
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, .. } = context;
    match command {
        Command::List { reason, sender, all, listing } => {
            let state = (!all).then_some(HeldState::Held);
            let filter = HeldFilter { state, reason, sender, ..HeldFilter::default() };
            let entries = store.held_list(&filter, listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = entries.iter().map(|entry| json!(described(entry))).collect();
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
            let mut value = json!(described(&entry));
            value["body"] = json!(body.as_deref().map(String::from_utf8_lossy));
            output::show(format.json, &value, || output::layout(&value));
            Ok(())
        }
        Command::Release(EndOptions { id: Some(id), because, format, .. }) => {
            Box::pin(release(context, id, because, format)).await
        }
        Command::Discard(EndOptions { id: Some(id), because, format, .. }) => {
            let acting = context.acting(by_shell(ActKind::HeldDiscard).on("held", id).because(because.reason));
            let discarded = acting.store.held_discard(id, clock.now()).await;
            if acting.settle(discarded).await.map_err(Failure::caused)? {
                output::show(format.json, &json!({ "discarded": id }), || format!("{id} is discarded"));
                Ok(())
            } else {
                Err(Failure::not_found("no held event has this id"))
            }
        }
        Command::Release(options) => end_many(context.settings, "release", options).await,
        Command::Discard(options) => end_many(context.settings, "discard", options).await,
    }
}

/// Ends all matching events, at most 1,000 with each request.
async fn end_many(settings: &Settings, act: &str, options: EndOptions) -> Done {
    let EndOptions { held_for, sender, dry_run, because, format, .. } = options;
    let client = OperatorClient::of(settings)?;
    let route = format!("/ops/v1/held:{act}");
    let reason = held_for.map(|reason| reason.as_str().to_owned());
    let selection = HeldSelection { reason, sender: sender.map(|sender| sender.to_string()) };
    let why = because.reason.map(|reason| reason.as_str().to_owned());
    let mut request =
        HeldEndRequest { filter: Some(selection), dry_run: true, reason: why, ..HeldEndRequest::default() };
    let preview: HeldEnded = client.post(&route, &request).await?;
    if dry_run {
        output::show(format.json, &json!({ "matches": preview.matches }), || {
            format!("{} events match", preview.matches)
        });
        return Ok(());
    }
    (request.dry_run, request.token) = (false, preview.token);
    let (mut outcomes, mut acts) = (BTreeMap::<String, usize>::new(), Vec::new());
    loop {
        let part: HeldEnded = client.post(&route, &request).await?;
        acts.extend(part.act_id);
        for outcome in part.ended {
            *outcomes.entry(outcome.outcome).or_default() += 1;
        }
        request.after = part.next;
        if part.next.is_none() {
            break;
        }
    }
    let shown = json!({ "matches": preview.matches, "outcomes": outcomes, "act_ids": acts });
    output::show(format.json, &shown, || {
        let counts: Vec<String> = outcomes.iter().map(|(outcome, number)| format!("{number} {outcome}")).collect();
        format!("{} events match: {}", preview.matches, counts.join(", "))
    });
    Ok(())
}

async fn release(context: &AdminContext<'_>, id: HeldId, because: Because, format: OutputFormat) -> Done {
    let found = context.store.held_show(id).await.map_err(Failure::caused)?;
    let (entry, body) = releasable(found).map_err(not_ended)?;
    let act = by_shell(ActKind::HeldRelease).on("held", id).because(because.reason);
    context.acting(act).record(ActOutcome::Begun).await.map_err(Failure::caused)?;
    let settings = context.settings.clone();
    let base_url = settings.http.base_url.clone().unwrap_or_else(|| format!("http://{}", settings.http.bind));
    let drain_deadline = settings.shutdown.drain_deadline;
    let urls = Urls { rag: base_url.clone(), base: base_url };
    let time_and_chance = (context.clock.clone(), context.rng.clone());
    let app = Box::pin(App::build(settings.into(), urls, time_and_chance, LogStart::Continue)).await;
    let app = app.map_err(Failure::caused)?;
    let released = app.release_held(&entry, body).await;
    app.root.drain(drain_deadline).await;
    app.close(tokio::time::Instant::now() + drain_deadline).await;
    let receipt = released.map_err(not_ended)?;
    output::show(format.json, &json!({ "released": id, "receipt_id": receipt }), || {
        format!("{id} is released, receipt {receipt}")
    });
    Ok(())
}

fn not_ended(error: NotEnded) -> Failure {
    match error {
        NotEnded::Unknown => Failure::not_found(error.to_string()),
        NotEnded::Fault(fault) => Failure::caused(fault),
        error => Failure::refused(error.to_string()),
    }
}

async fn known(context: &AdminContext<'_>, id: HeldId) -> Result<(HeldEntry, Option<Vec<u8>>), Failure> {
    let entry = context.store.held_show(id).await.map_err(Failure::caused)?;
    entry.ok_or_else(|| Failure::not_found("no held event has this id"))
}
