//! Where the two databases are.

use std::path::Path;

use crate::config::Settings;

/// The PostgreSQL schema of the log.
pub const SCHEMA: &str = store::pool::SCHEMA_OF_LOG;

/// The places of the main database and of the log, for a message.
pub(super) fn places(settings: &Settings) -> (String, String) {
    let display = |path: &Path| path.display().to_string();
    match &settings.database.url {
        None => (display(&settings.data.main_database()), display(&settings.data.log())),
        Some(_) => ("the database of database.url".to_owned(), format!("its schema {SCHEMA}")),
    }
}
