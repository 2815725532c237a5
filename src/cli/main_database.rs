//! The main database, for commands that work on it directly.

use app::config::Settings;
use app::installation::open_facts;
use store::Store;

use super::failure::Failure;

/// Opens the main database; a server may be running on it.
pub async fn open_store(settings: &Settings) -> Result<Store, Failure> {
    open_facts(settings).await.map_err(Failure::caused)
}
