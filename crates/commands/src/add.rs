//! `attache add`: sends pages and notes to the server and shows the progress of their batch.
//!
//! The batch runs on the server: an interrupted command does not stop it, and `--join` shows it again.

mod folder;
mod items;
mod report;
pub mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::Client;
use domain::ids::BatchId;
use serde_json::json;
use wire::knowledge::BatchRequest;

use self::folder::FolderErrand;
use crate::connection::{Remote, failed};
use crate::failure::{Done, Failure, FailureKind};
use crate::{output, space, terminal};

pub use report::Report;

/// Options of `attache add`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// URLs (`https://…`), files with text or Markdown, folders, or `-` for a note on standard input
    #[arg(required_unless_present_any = ["list", "join", "cancel"], value_name = "URL|FILE|FOLDER|-")]
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
    /// Keep adding what changes in the folders, until Ctrl-C
    #[arg(long, requires = "items", conflicts_with_all = ["list", "title"])]
    watch: bool,
    /// Seconds between two looks at the folders, with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "watch", value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
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
    let connection = arguments.remote.open()?;
    let (client, is_json) = (connection.with_key()?, arguments.remote.json);
    if let Some(folders) = folder::folders(&arguments.items)? {
        if arguments.list.is_some() || arguments.title.is_some() {
            return Err(Failure::of(FailureKind::Usage, "--list and --title are not for folders"));
        }
        let spaces = space::named(&client, &arguments.space).await?;
        let (profile, folders) = (&connection.folder, folders.as_slice());
        let errand = FolderErrand { client: &client, profile, folders, spaces, is_json };
        return folder::add(&errand, arguments.watch.then(|| Duration::from_secs(arguments.every))).await;
    }
    if arguments.watch {
        return Err(Failure::of(FailureKind::Usage, "--watch is for folders"));
    }
    if let Some(batch) = arguments.cancel {
        client.batch_cancel(batch).await.map_err(failed)?;
        output::show(is_json, &json!({ "cancelled": batch }), || format!("batch {batch} is cancelled"));
        return Ok(());
    }
    let mut report = Report::of(&client);
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
            return Err(match left {
                0 => failure,
                1 => failure
                    .advised("1 item was not sent; run the same command again to add it (nothing is added twice)"),
                left => failure.advised(&format!(
                    "{left} items were not sent; run the same command again to add them (nothing is added twice)"
                )),
            });
        }
    }
    Ok(())
}
