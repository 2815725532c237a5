//! The progress of the tables that are written after the log.

use rusqlite::Connection;

use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::sql::INDEXED;

/// Progress of the tables: the last event in activity and heads, and the last one in the runs of ids.
pub fn reached(db: &Connection) -> Result<(i64, i64), LogError> {
    const ASK: &str = "read how far the log is indexed";
    db.prepare_cached(INDEXED).during(ASK)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).during(ASK)
}
