//! `attache add`: pages and notes go to the server, and their stream is watched to the end.
//!
//! The batch lives on the server: whoever stops watching stops nothing, and joins it again with `--join`.

mod items;
mod report;
pub mod watch;

use std::path::PathBuf;

use clap::Args;
use client::Client;
use domain::ids::BatchId;
use serde_json::json;
use wire::knowledge::BatchRequest;

use super::remote::{Remote, failed};
use super::{Done, Failure, output, space, terminal};

pub use report::Report;

/// What to add.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Addresses (`https://…`), files with text or Markdown, or `-` for a note on standard input
    #[arg(required_unless_present_any = ["list", "join", "cancel"], value_name = "URL|FILE|-")]
    items: Vec<String>,
    /// A file with an address on each line; lines that begin with # are left out
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Put them into this space, by its id or name; may be repeated [default: the account's default space]
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// What a single note is called [default: its first heading, or the name of its file]
    #[arg(long)]
    title: Option<String>,
    /// Add nothing, but watch a batch that goes on on the server, from its beginning
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["items", "list", "cancel", "space", "title"])]
    join: Option<BatchId>,
    /// Add nothing, but end a batch: what has no outcome yet is left out
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["items", "list", "space", "title"])]
    cancel: Option<BatchId>,
    #[command(flatten)]
    remote: Remote,
}

/// Does it.
pub async fn run(arguments: &Arguments) -> Done {
    let client = arguments.remote.open()?.with_key()?;
    let is_json = arguments.remote.json;
    if let Some(batch) = arguments.cancel {
        client.batch_cancel(batch).await.map_err(failed)?;
        output::show(is_json, &json!({ "cancelled": batch }), || format!("batch {batch} is ended"));
        return Ok(());
    }
    let mut report = Report::default();
    let watched = if let Some(batch) = arguments.join {
        let stream = client.batch_join(batch, None).await.map_err(failed)?;
        watch::watch(stream, "", is_json, &mut terminal::interrupts()?, &mut report).await
    } else {
        let items = items::gather(&arguments.items, arguments.list.as_deref(), arguments.title.as_deref())?;
        let spaces = space::named(&client, &arguments.space).await?;
        let requests = items::batches(items).map(|batch| BatchRequest { spaces: spaces.clone(), ..batch });
        add(&client, &requests.collect::<Vec<_>>(), is_json, &mut report).await
    };
    report.say(is_json);
    watched?;
    report.judge()
}

/// One batch after the other, each watched to its end.
pub async fn add(client: &Client, requests: &[BatchRequest], is_json: bool, report: &mut Report) -> Done {
    // One listener for all of it: an interrupt that comes between two waits is not missed.
    let mut interrupts = terminal::interrupts()?;
    for (nth, request) in requests.iter().enumerate() {
        let label =
            if requests.len() > 1 { format!("batch {} of {}  ", nth + 1, requests.len()) } else { String::new() };
        let begun = tokio::select! {
            begun = client.batch_add(request) => begun.map_err(failed),
            _ = interrupts.recv() => Err(Failure::refused("interrupted while the batch was being handed over")),
        };
        let watched = match begun {
            Ok(stream) => watch::watch(stream, &label, is_json, &mut interrupts, report)
                .await
                .map_err(|failure| (failure, nth + 1)),
            Err(failure) => Err((failure, nth)),
        };
        if let Err((failure, handed_over)) = watched {
            let left: usize = requests[handed_over..].iter().map(items::count).sum();
            let Failure::Refused(reason) = failure else { return Err(failure) };
            return Err(Failure::Refused(match left {
                0 => reason,
                1 => format!("{reason}\n  1 item was not handed over; the same command adds it, and nothing twice"),
                left => format!(
                    "{reason}\n  {left} items were not handed over; the same command adds them, and nothing twice"
                ),
            }));
        }
    }
    Ok(())
}
