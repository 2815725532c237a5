//! Checks that the log continues the checkpoint in this node's file, and that no node has halted it.

use std::path::PathBuf;

use app::installation::epoch_command;
use domain::log_part::LogPart;
use domain::reasons;
use statistics::log::{Log, MemoryFile};

use super::finding::Finding;

const MEMORY: &str = "checkpoint";

/// `path`: the node's file; `None` on SQLite.
pub(super) async fn check(path: Option<PathBuf>, (part, log): (LogPart, &Log)) -> Option<Finding> {
    let advice = || {
        let command = epoch_command(part);
        format!(
            "bring back the database with the newer log, or run {command}: docs/operations.md, After a restore or failover"
        )
    };
    match log.stored_halt().await {
        Ok(Some(halt)) => return Some(Finding::bad(MEMORY, halt.reason, advice())),
        Ok(None) => {}
        Err(error) => return Some(Finding::bad(MEMORY, reasons(&error), "check the database's log")),
    }
    let path = path?;
    let stored = match MemoryFile::new(&path).read() {
        Ok(Some((_, seen))) => seen,
        Ok(None) => {
            let text = format!("{} does not exist yet", path.display());
            return Some(Finding::doubtful(
                MEMORY,
                text,
                "a running server writes it; keep data.dir on a disk that outlives the process",
            ));
        }
        Err(fault) => return Some(Finding::bad(MEMORY, reasons(&fault), "check data.dir")),
    };
    Some(match log.fork_from(&stored).await {
        Ok(None) => {
            Finding::good(MEMORY, format!("the log continues that of {} events in {}", stored.size, path.display()))
        }
        Ok(Some(halt)) => Finding::bad(MEMORY, halt.reason, advice()),
        Err(error) => Finding::bad(MEMORY, reasons(&error), "check the database's log"),
    })
}
