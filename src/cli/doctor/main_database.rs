//! The main database, which several checks read.

use std::path::PathBuf;

use app::config::Settings;
use store::{Store, StoreError};
use tokio::sync::OnceCell;

/// The main database, opened once for all checks: on SQLite one that closes the file would disturb one that opens it.
pub struct MainDatabase<'s> {
    settings: &'s Settings,
    opened: OnceCell<Result<Store, StoreError>>,
}

impl<'s> MainDatabase<'s> {
    /// The main database of this configuration. It is not opened yet.
    pub fn of(settings: &'s Settings) -> Self {
        Self { settings, opened: OnceCell::new() }
    }

    /// The path of the file, if there has to be one and it does not exist.
    pub fn absent_file(&self) -> Option<PathBuf> {
        let path = self.settings.data.main_database();
        (self.settings.database.url.is_none() && !path.exists()).then_some(path)
    }

    /// Opens it, or waits for another check that does. Fails if the settings of the database could lose acknowledged writes.
    pub async fn open(&self) -> Result<&Store, &StoreError> {
        let open = || async { Store::open(&self.settings.database, &self.settings.data.main_database()).await };
        self.opened.get_or_init(open).await.as_ref()
    }

    /// Closes it, if a check opened it.
    pub async fn close(self) {
        if let Some(Ok(store)) = self.opened.into_inner() {
            store.close().await;
        }
    }
}
