//! `attache receipt`: shows what an agent did, for a pull request: an audit receipt in a file, and its Markdown on standard output.
//!
//! 1. [`select`] finds the events and fetches their proofs.
//! 2. The newest checkpoint is requested once. It must be signed by the trusted key and continue the one that the profile has seen.
//! 3. [`tree`] computes the path of each event to that checkpoint's root from public tiles.

mod select;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use chrono::TimeDelta;
use clap::{ArgGroup, Args};
use domain::checkpoint::VerifierKey;
use domain::ids::SessionUuid;
use domain::tool::Tool;
use proofs::audit_receipt::{AuditReceipt, BuildFault, Selection, build};
use proofs::merkle::inclusion;
use serde_json::json;

use self::select::ReceiptFilter;
use crate::connection::{CredentialArgs, ProfileConnection, Remote};
use crate::failure::{Done, Failure};
use crate::hook::folder::HookFolder;
use crate::output;
use crate::profile_folder::are_of_one_log;
use crate::replacement::replace_file;
use crate::verify::{Trust, trusted};
use crate::witness::observe_with;

/// How far `--session` looks back without `--since`.
const LOOK_BACK: TimeDelta = TimeDelta::days(7);

/// Options of `attache receipt`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("events").args(["session", "since"]).required(true).multiple(true))]
pub struct Arguments {
    /// Events of this session: the id that the tool shows, or `scope.session_uuid` of its events
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Events received since this time: a date-time (2026-01-31T12:00:00Z) or epoch milliseconds [default with --session: 7 days ago]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Events of this project: a working folder, or `scope.project_id` of its events
    #[arg(long, value_name = "FOLDER|ID")]
    project: Option<String>,
    /// File to write the receipt to
    #[arg(long, value_name = "FILE", default_value = "attache-receipt.json")]
    output: PathBuf,
    /// Include the content of events that have some: prompts, commands and paths become public with the file
    #[arg(long)]
    with_content: bool,
    /// Maximum wait until the events are in the signed tree
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Writes the receipt, and prints its Markdown.
pub async fn receipt(arguments: &Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let client = connection.as_whom(arguments.whom).await?;
    let filter = ReceiptFilter {
        since: arguments.since.clone().unwrap_or_else(|| look_back(&connection)),
        sessions: arguments.session.as_deref().map(sessions),
        projects: arguments.project.as_deref().map(|project| projects(project, &arguments.remote.profile)),
        wait: Duration::from_secs(arguments.wait),
    };
    let selected = select::select(&client, &filter).await?;
    let Some(first) = selected.proofs.first() else {
        return Err(Failure::not_found(format!(
            "none of the {} events since {} is of this session and project\n  \
             an earlier --since looks further back, and `attache activity` lists the events that this credential can see",
            selected.examined, filter.since
        )));
    };
    if let Some(other) = selected.proofs.iter().find(|proof| !are_of_one_log(&proof.vkey, &first.vkey)) {
        return Err(Failure::refused(format!(
            "the events are in several parts of the log, and a receipt has one\n  {}\n  {}\n  \
             --session selects the events of one computer, which are in one part",
            first.vkey, other.vkey
        )));
    }
    let (key, trust) = trusted(&connection, true, Some(first.vkey.clone())).await?;
    let verifier: VerifierKey = key.parse().map_err(Failure::caused)?;
    let size = selected.proofs.iter().filter_map(|proof| proof.leaf_index).max().map_or(0, |index| index + 1);
    let (note, checkpoint) = tree::checkpoint(&client, &verifier, size, filter.wait).await?;
    observe_with(&connection.folder, &client, &verifier, &checkpoint).await?;
    let indices: Vec<u64> = selected.proofs.iter().filter_map(|proof| proof.leaf_index).collect();
    let mut tiles = tree::tiles(&client, &indices, &checkpoint).await?;
    let selection = Selection {
        session_uuid: selected.session_uuid,
        project_id: selected.project_id.clone(),
        with_content: arguments.with_content,
    };
    let server = connection.client.base_url().to_owned();
    let receipt = build(
        &server,
        &verifier,
        &note,
        &selected.proofs,
        |_, index, size| inclusion(&mut tiles, index, size),
        &selection,
    )
    .map_err(|fault| not_built(&fault))?;
    let bytes = receipt.bytes().map_err(Failure::caused)?;
    replace_file(&arguments.output, &bytes, 0o644)
        .map_err(|error| Failure::refused(format!("{}: {error}", arguments.output.display())))?;
    if trust == Trust::FirstSeen {
        connection.change(|profile| profile.pin(key.clone()))?;
    }
    print(arguments, &receipt, bytes.len());
    Ok(())
}

fn look_back(connection: &ProfileConnection) -> String {
    (connection.clock().now() - LOOK_BACK).to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// The values of `scope.session_uuid` that the id of a session can have: itself, and the digest that the hooks of each tool make of it.
fn sessions(id: &str) -> Vec<SessionUuid> {
    let digests = Tool::ALL.into_iter().map(|tool| hooks::session(tool, id));
    id.parse().ok().into_iter().chain(digests).collect()
}

/// The values of `scope.project_id` that a project can have: itself, and the name that the hooks of the profile make of a folder.
fn projects(project: &str, profile: &str) -> Vec<String> {
    let salt = HookFolder::of(profile).filter(HookFolder::is_there).and_then(|folder| folder.salt().ok());
    let folders = [std::path::absolute(project).ok(), std::fs::canonicalize(project).ok()];
    let names = folders.into_iter().flatten().filter_map(|folder| {
        let folder = folder.to_str()?;
        let trimmed = if folder.len() > 1 { folder.trim_end_matches('/') } else { folder };
        Some(salt.as_ref()?.name("folder", trimmed))
    });
    std::iter::once(project.to_owned()).chain(names).collect()
}

fn not_built(fault: &BuildFault) -> Failure {
    let advice = match fault {
        BuildFault::TooLarge { .. } => "\n  a later --since selects fewer events",
        BuildFault::Invalid(_) | BuildFault::Proof { .. } => {
            "\n  the server sent proofs or tiles that do not fit: run `attache audit watch --once`"
        }
        BuildFault::Empty | BuildFault::Tree(_) | BuildFault::Unwritable(_) => "",
    };
    Failure::refused(format!("{}{advice}", domain::reasons(fault)))
}

fn print(arguments: &Arguments, receipt: &AuditReceipt, bytes: usize) {
    let markdown = receipt.markdown();
    let file = arguments.output.display();
    if arguments.remote.json {
        output::print_json(&json!({
            "file": file.to_string(),
            "bytes": bytes,
            "head": receipt.head,
            "markdown": markdown,
            "markdown_digest": receipt.markdown_digest,
        }));
        return;
    }
    output::print(markdown.trim_end());
    let (events, proven) = (receipt.head.events, receipt.head.proven);
    let disclosure = if receipt.has_content() {
        format!(
            "it has the CONTENT of {} of {events} events, such as prompts, commands and paths: publish it only if all of it may be public",
            receipt.head.content
        )
    } else {
        "it has ids, digests, times, types and metadata in single words; no prompts, no paths, no content: it may be public".to_owned()
    };
    let note = match events - proven {
        0 => String::new(),
        count => format!(
            "\n  {count} of {events} events have content that it leaves out: the log proves these events, and the receipt only states their types \
             (--with-content includes the content and proves them)"
        ),
    };
    output::print_to_stderr(&format!(
        "wrote {file}: {events} {}, {bytes} bytes\n  {disclosure}{note}\n  check it: attache verify receipt {file}",
        if events == 1 { "event" } else { "events" },
    ));
}
