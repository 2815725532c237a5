//! The progress of the archive in an SQLite file.

use super::open::Open;
use super::transaction::begin;
use crate::log::archive::moves::{ArchiveMove, BEGIN, CLEAR, COPY, PUT, REMOVED, REPLACE};
use crate::log::error::{DuringSqlite as _, LogError};

impl Open {
    /// Makes a change in one transaction, unless another process has made it.
    pub fn move_archive(&mut self, step: &ArchiveMove) -> Result<bool, LogError> {
        const WRITE: &str = "write the progress of the archive";
        let number = |bundle: u64| i64::try_from(bundle).map_err(|_| LogError::Corrupt("archive.put"));
        let transaction = begin(&mut self.db)?;
        let moved = match step {
            ArchiveMove::Put { from, until } => transaction.execute(PUT, (number(*until)?, number(*from)?)),
            ArchiveMove::Begin { from, until, folder } => {
                transaction.execute(BEGIN, (number(*from)?, folder, number(*until)?))
            }
            ArchiveMove::Remove { bundle } => {
                let bundle = number(*bundle)?;
                transaction.execute_batch(CLEAR).during(WRITE)?;
                transaction.execute(COPY, [bundle]).during(WRITE)?;
                transaction.execute_batch(REPLACE).during(WRITE)?;
                transaction.execute(REMOVED, [bundle])
            }
        };
        let is_first = moved.during(WRITE)? > 0;
        if is_first {
            transaction.commit().during(WRITE)?;
        }
        Ok(is_first)
    }
}
