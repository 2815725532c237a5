//! Closing of an account by its owner (`docs/decisions/0017-retention-and-erasure.md`).

use std::sync::Arc;

use actors::InfraError;
use domain::ids::{Email, UserAccountId};

use super::Ports;
use super::confirmation::RecentlySignedIn;
use crate::config::Urls;

/// Closes accounts. Clones share the database.
#[derive(Debug, Clone)]
pub struct Closings {
    ports: Ports,
    urls: Arc<Urls>,
}

impl Closings {
    /// `urls` are named in the mail.
    pub fn new(ports: Ports, urls: Arc<Urls>) -> Self {
        Self { ports, urls }
    }

    /// Closes an account permanently and mails the owner about it; `false` if it was closed before. Its contents are deleted later, by the
    /// janitor.
    #[boxed]
    pub async fn close(&self, account: UserAccountId, owner: Email, _: RecentlySignedIn) -> Result<bool, InfraError> {
        let Ports { store, clock, rng } = &self.ports;
        let now = clock.now();
        let notice = actors::mail::queued(domain::mail::closed(owner, &account, now, &self.urls.base), rng, now);
        let store = store.clone();
        Ok(actors::detached(async move { store.account_close(&account, Some(&notice), now).await }).await??)
    }
}
