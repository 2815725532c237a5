//! A connection that receives notifications of the database.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::Error;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::connections::PostgresPool;
use super::session::no_answer;

/// A connection that receives notifications. It counts as one that is lent until it is dropped.
#[derive(Debug)]
pub struct PostgresListener {
    listener: PgListener,
    _lent: OwnedSemaphorePermit,
}

impl PostgresPool {
    /// Opens a connection for notifications.
    pub async fn listener(&self) -> Result<PostgresListener, Error> {
        let longest = self.shared.limits.connect;
        let lent = Arc::clone(&self.shared.lent).try_acquire_owned().map_err(|_| Error::PoolTimedOut)?;
        // The driver's listener takes its connection from a pool of the driver.
        let own = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let own = own.connect_lazy_with(self.shared.options.clone());
        let listener =
            timeout(longest, PgListener::connect_with(&own)).await.unwrap_or_else(|_| Err(no_answer(longest)))?;
        Ok(PostgresListener { listener, _lent: lent })
    }
}

impl Deref for PostgresListener {
    type Target = PgListener;

    fn deref(&self) -> &PgListener {
        &self.listener
    }
}

impl DerefMut for PostgresListener {
    fn deref_mut(&mut self) -> &mut PgListener {
        &mut self.listener
    }
}
