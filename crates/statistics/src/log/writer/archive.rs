//! The progress of the archive in an SQLite file.

use super::open::Open;
use super::transaction::begin;
use crate::log::archive::moves::{ArchiveMove, BEGIN, EMPTIED, EMPTY_ON_SQLITE, PUT, REMOVED};
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
                let [copy, delete, insert] = EMPTY_ON_SQLITE;
                let moved = transaction.execute(REMOVED, [bundle]);
                transaction.execute_batch(EMPTIED).during(WRITE)?;
                transaction.execute(copy, [bundle]).during(WRITE)?;
                transaction.execute("UPDATE temp.emptied SET canonical = x''", []).during(WRITE)?;
                transaction.execute(delete, [bundle]).during(WRITE)?;
                transaction.execute(insert, [bundle]).and(moved)
            }
        };
        let is_first = moved.during(WRITE)? > 0;
        if is_first {
            transaction.commit().during(WRITE)?;
        }
        Ok(is_first)
    }
}
