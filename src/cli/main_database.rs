//! The databases, for commands that work on them directly.

use app::config::Settings;
use app::installation::{OpenError, SCHEMA, open_main_database, part_pool};
use domain::{Clock, Rng};
use statistics::log::{Log, LogError};
use store::{Pool, Store, StoreError};

use commands::failure::Failure;

/// Opens the main database, also while a server runs on it. It must exist and have the current schema.
pub async fn open_store(settings: &Settings) -> Result<Store, Failure> {
    open_main_database(settings).await.map_err(failed)
}

/// Opens the embedded log for reading, also while a server runs on it.
pub async fn open_log(settings: &Settings) -> Result<Log, LogError> {
    let pool = Pool::open(&settings.database, &settings.data.log(), Some(SCHEMA)).await?;
    let log = Log::open_copy(pool, &Clock::system(), &Rng::system()).await?;
    Ok(log.with_archive(settings.log.archive()))
}

/// Opens a further part of the log for reading.
pub async fn open_part(settings: &Settings, url: &str) -> Result<Log, LogError> {
    let log = Log::open_copy(part_pool(settings, url).await?, &Clock::system(), &Rng::system()).await?;
    Ok(log.with_archive(settings.log.archive()))
}

/// The same as [`open_store`]; `None` if the database does not exist.
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
