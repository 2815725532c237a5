//! The main database, for commands that work on it directly.

use app::config::Settings;
use app::installation::{OpenError, open_main_database};
use store::{Store, StoreError};

use super::failure::Failure;

/// Opens the main database, also while a server runs on it. It must exist and have the current schema.
pub async fn open_store(settings: &Settings) -> Result<Store, Failure> {
    open_main_database(settings).await.map_err(failed)
}

/// The same; `None` if the database does not exist.
pub async fn open_store_if_there(settings: &Settings) -> Result<Option<Store>, Failure> {
    match open_main_database(settings).await {
        Err(OpenError::Absent(_)) => Ok(None),
        opened => opened.map(Some).map_err(failed),
    }
}

fn failed(error: OpenError) -> Failure {
    let is_old = matches!(&error, OpenError::Absent(_) | OpenError::Store(StoreError::SchemaTooOld { .. }));
    let failure = Failure::caused(error);
    if is_old {
        failure.advised(
            "this command changes no tables: `attache migrate` creates and migrates them, and so does `attache serve`",
        )
    } else {
        failure
    }
}
