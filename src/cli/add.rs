//! `attache add`: sends pages and notes to the server and shows the progress of their batch.
//!
//! The batch runs on the server: an interrupted command does not stop it, and `--join` shows it again.

mod items;
mod report;
pub mod watch;

use std::path::PathBuf;

use clap::Args;
use client::Client;
use domain::ids::BatchId;
use serde_json::json;
use wire::knowledge::BatchRequest;

use super::connection::{Remote, failed};
use super::failure::{Done, Failure};
use super::{output, space, terminal};

pub use report::Report;

/// Options of `attache add`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// URLs (`https://…`), files with text or Markdown, or `-` for a note on standard input
    #[arg(required_unless_present_any = ["list", "join", "cancel"], value_name = "URL|FILE|-")]
    items: Vec<String>,
    /// Read URLs from a file, one per line; lines that begin with # are ignored
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Add to this space, by id or name; may be repeated [default: the account's default space]
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// Title of a single note [default: its first heading, or its file name]
    #[arg(long)]
    title: Option<String>,
    /// Show the progress of a batch from its beginning; adds nothing
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["items", "list", "cancel", "space", "title"])]
    join: Option<BatchId>,
    /// Cancel a batch: items without an outcome are not added
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["items", "list", "space", "title"])]
    cancel: Option<BatchId>,
    #[command(flatten)]
    remote: Remote,
}

/// Adds, joins or cancels.
pub async fn run(arguments: &Arguments) -> Done {
    let client = arguments.remote.open()?.with_key()?;
    let is_json = arguments.remote.json;
    if let Some(batch) = arguments.cancel {
        client.batch_cancel(batch).await.map_err(failed)?;
        output::show(is_json, &json!({ "cancelled": batch }), || format!("batch {batch} is cancelled"));
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
    report.print(is_json);
    watched?;
    report.judge()
}

/// Sends the batches one after the other and follows each to its end.
pub async fn add(client: &Client, requests: &[BatchRequest], is_json: bool, report: &mut Report) -> Done {
    // One listener for all batches, so that an interrupt between two waits is not missed.
    let mut interrupts = terminal::interrupts()?;
    for (nth, request) in requests.iter().enumerate() {
        let label =
            if requests.len() > 1 { format!("batch {} of {}  ", nth + 1, requests.len()) } else { String::new() };
        let begun = tokio::select! {
            begun = client.batch_add(request) => begun.map_err(failed),
            _ = interrupts.recv() => Err(Failure::refused("interrupted while the batch was being sent")),
        };
        let watched = match begun {
            Ok(stream) => watch::watch(stream, &label, is_json, &mut interrupts, report)
                .await
                .map_err(|failure| (failure, nth + 1)),
            Err(failure) => Err((failure, nth)),
        };
        if let Err((failure, sent)) = watched {
            let left: usize = requests[sent..].iter().map(items::count).sum();
            let Failure::Refused(reason) = failure else { return Err(failure) };
            return Err(Failure::Refused(match left {
                0 => reason,
                1 => format!(
                    "{reason}\n  1 item was not sent; run the same command again to add it (nothing is added twice)"
                ),
                left => format!(
                    "{reason}\n  {left} items were not sent; run the same command again to add them (nothing is added twice)"
                ),
            }));
        }
    }
    Ok(())
}
