//! The outcomes of one agent's events: `TOOL.json` in the folder of the spool.

use domain::Timestamp;
use hooks::Tool;
use serde::{Deserialize, Serialize};

use super::folder::HookFolder;
use super::spool::SpoolPlace;
use crate::failure::Failure;

/// Counts of events, and the position in the spool after them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The next event to send.
    pub place: SpoolPlace,
    /// Recorded by the server.
    pub sent: u64,
    /// Acknowledged and held by the server.
    pub held: u64,
    /// Not sent, because the level was lowered after they were spooled.
    pub withheld: u64,
    /// Refused by the server permanently.
    pub failed: u64,
    /// Refused by a full spool.
    pub refused: u64,
    /// Lines that cannot be read.
    pub damaged: u64,
    /// Time of the last accepted event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// Why the last attempt failed; none after a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Progress {
    /// The progress on disk; the start of the spool if there is none.
    pub fn of(folder: &HookFolder, tool: Tool) -> Result<Self, Failure> {
        Ok(folder.files.json(&name(tool))?.unwrap_or_default())
    }

    /// Writes the progress.
    pub fn keep(&self, folder: &HookFolder, tool: Tool) -> Result<(), Failure> {
        folder.files.write_json(&name(tool), self)
    }
}

fn name(tool: Tool) -> String {
    format!("{tool}.json")
}
