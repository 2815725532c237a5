//! A connection that receives notifications of the database.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::Error;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::connections::PostgresPool;
use super::hosts::Server;
use super::session::{Unfit, no_answer};

/// A connection that receives notifications. It counts as a lent connection until it is dropped.
#[derive(Debug)]
pub struct PostgresListener {
    listener: PgListener,
    _lent: OwnedSemaphorePermit,
}

impl PostgresPool {
    /// Opens a connection for notifications.
    pub async fn listener(&self) -> Result<PostgresListener, Error> {
        let lent = Arc::clone(&self.shared.lent).try_acquire_owned().map_err(|_| Error::PoolTimedOut)?;
        let hosts = &self.shared.hosts;
        let longest = self.shared.limits.get().connect_to_one_of(hosts.count());
        let mut failures = Vec::new();
        for number in hosts.in_turn() {
            match timeout(longest, listen_to(hosts.at(number))).await.unwrap_or_else(|_| Err(no_answer(longest))) {
                Ok(listener) => return Ok(PostgresListener { listener, _lent: lent }),
                Err(error) => failures.push((number, error)),
            }
        }
        Err(hosts.failure(failures))
    }
}

/// A standby does not deliver notifications.
async fn listen_to(server: &Server) -> Result<PgListener, Error> {
    // The driver's listener takes its connection from a pool of the driver.
    let own = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let own = own.connect_lazy_with(server.options.clone());
    let mut listener = PgListener::connect_with(&own).await?;
    let is_standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(&mut listener).await?;
    if is_standby { Err(Unfit::Standby(server.name.clone()).into()) } else { Ok(listener) }
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
