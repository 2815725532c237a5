//! Moves the bodies of old events of the embedded log into an object store.
//!
//! Each part of the log has its own pass, which works on the node that signs the part.
//!
//! **If it crashes:** the next pass continues at the progress in the database, and finds the objects that were written after it.

use domain::log_part::LogPart;
use statistics::parts::PartSlot;
use supervision::periodic::{Next, Pass, PassError};

use crate::sequence::{as_f64, labels_of};

/// One pass: writes full bundles to the archive, and removes old ones from the database.
#[derive(Debug, Clone)]
pub struct ArchivePass {
    /// The part of the embedded log.
    pub part: LogPart,
    /// Its log, once it is open.
    pub log: PartSlot,
}

impl Pass for ArchivePass {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("archive.pass");
        let Some(log) = self.log.get() else { return Ok(Next::Idle) };
        if let Some(archive) = log.archive() {
            metrics::counter!("attache_archive_reads_total", labels_of(self.part)).absolute(archive.reads());
        }
        let (archived, has_more) = log.archive_some().await?;
        metrics::gauge!("attache_archive_put", labels_of(self.part)).set(as_f64(archived.put));
        metrics::gauge!("attache_archive_removed", labels_of(self.part)).set(as_f64(archived.removed));
        Ok(if has_more { Next::AtOnce } else { Next::Idle })
    }
}
