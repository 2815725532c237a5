//! `attache hook --status`: waiting events, and the outcomes of processed ones.

use domain::foreign::visible;
use domain::{Clock, Timestamp};
use hooks::Tool;
use serde::Serialize;

use super::background;
use super::folder::HookFolder;
use super::progress::Progress;
use super::spool::Spool;
use crate::failure::{Done, Failure};
use crate::{moment, output};

/// The state of one agent's events.
#[derive(Debug, Clone, Serialize)]
pub struct ToolStatus {
    /// The agent.
    pub tool: &'static str,
    /// Number of waiting events.
    pub spooled: u64,
    /// Their size on disk.
    pub bytes: u64,
    /// Number of events that did not fit into the spool, since the last one that did.
    pub refused_now: u64,
    /// The counts of the sender.
    #[serde(flatten)]
    pub progress: Progress,
}

/// The state of every agent that has run a hook.
pub fn statuses(profile: &str) -> Result<Vec<ToolStatus>, Failure> {
    let Some(folder) = HookFolder::of(profile).filter(HookFolder::is_there) else { return Ok(Vec::new()) };
    let mut statuses = Vec::new();
    for tool in Tool::ALL {
        let (spool, progress) = (Spool::of(&folder, tool), Progress::of(&folder, tool)?);
        let status = ToolStatus {
            tool: tool.as_str(),
            spooled: spool.count(&progress.place).map_err(Failure::caused)?,
            bytes: spool.size(),
            refused_now: spool.refused(),
            progress,
        };
        if status.bytes > 0 || status.refused_now > 0 || status.progress != Progress::default() {
            statuses.push(status);
        }
    }
    Ok(statuses)
}

/// Prints the state.
pub fn show(profile: &str, is_json: bool) -> Done {
    let statuses = statuses(profile)?;
    let folder = HookFolder::of(profile).filter(HookFolder::is_there);
    let lock = folder.as_ref().map(|folder| folder.try_lock(background::LOCK)).transpose();
    let is_running = lock.map_err(Failure::caused)?.is_some_and(|lock| lock.is_none());
    let now = Clock::system().now();
    output::show(is_json, &serde_json::json!({ "sender_running": is_running, "tools": statuses }), || {
        if statuses.is_empty() {
            return "no hook has recorded anything in this profile".to_owned();
        }
        let columns = ["agent", "waiting", "sent", "held", "withheld", "failed", "refused", "last sent"];
        let mut text = output::table(&columns, statuses.iter().map(|status| cells(status, now)));
        for status in &statuses {
            text.extend(status.progress.error.iter().map(|error| format!("\n{}: {}", status.tool, visible(error))));
        }
        text + if is_running {
            "\nthe sender is running"
        } else {
            "\nthe sender is not running; the next hook or span starts it"
        }
    });
    Ok(())
}

fn cells(status: &ToolStatus, now: Timestamp) -> Vec<String> {
    let progress = &status.progress;
    let last = progress.sent_at.map_or_else(|| "-".to_owned(), |at| moment::ago(at, now));
    let mut cells = vec![status.tool.to_owned()];
    let counts = [status.spooled, progress.sent, progress.held, progress.withheld, progress.failed];
    cells.extend(counts.map(|count| count.to_string()));
    cells.push((progress.refused + status.refused_now).to_string());
    cells.push(last);
    cells
}
