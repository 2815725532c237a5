//! The progress of the tables that are written after the log.

use rusqlite::Connection;

use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::sql::INDEXED;

/// The number of the last event in these tables.
pub fn reached(db: &Connection) -> Result<i64, LogError> {
    const ASK: &str = "read how far the log is indexed";
    db.prepare_cached(INDEXED).during(ASK)?.query_row([], |row| row.get(0)).during(ASK)
}
