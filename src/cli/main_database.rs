//! The main database, for commands that work on it directly.

use app::config::Settings;
use app::installation::{OpenError, open_facts};
use store::{Store, StoreError};

use super::failure::Failure;

/// Opens the main database, on which a server may be running. It has to exist and to have the current schema.
pub async fn open_store(settings: &Settings) -> Result<Store, Failure> {
    open_facts(settings).await.map_err(|error| {
        let is_old = matches!(&error, OpenError::Absent(_) | OpenError::Store(StoreError::SchemaTooOld { .. }));
        let failure = Failure::caused(error);
        if is_old {
            failure.advised("this command changes no tables: `attache migrate` creates and migrates them, and so does `attache serve`")
        } else {
            failure
        }
    })
}
