//! Feeds of notifications (`docs/decisions/0033-notifications.md`).

use std::time::Duration;

use actors::{InfraError, Unavailable};
use domain::feed::{Feed, FeedEntry};
use domain::ids::UserAccountId;
use domain::live::Live;
use domain::secret::{Secret, SecretKind};
use domain::webhook::{NotificationKind, chosen_kinds};
use serde::{Deserialize, Serialize};
use store::StoreError;
use store::feed::ENTRIES_KEPT_MAX;

use super::Ports;
use super::confirmation::RecentlySignedIn;

/// `[feeds]`: feeds of notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct FeedSettings {
    pub enabled: bool,
    #[serde(with = "humantime_serde")]
    pub kept: Duration,
    pub entries: u32,
}

impl Default for FeedSettings {
    fn default() -> Self {
        Self { enabled: false, kept: Duration::from_hours(30 * 24), entries: 50 }
    }
}

impl FeedSettings {
    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let is_time = !self.kept.is_zero() && self.kept <= Duration::from_hours(365 * 24);
        let rules = [
            (is_time, "kept", "must be longer than 0s, and at most 365 days"),
            ((1..=ENTRIES_KEPT_MAX).contains(&self.entries), "entries", "must be from 1 to 1000"),
        ];
        rules.into_iter().filter(|(is_valid, _, _)| !is_valid).map(|(_, field, rule)| (field, rule)).collect()
    }
}

/// Creates, changes and reads feeds. Clones share the database.
#[derive(Debug, Clone)]
pub struct Feeds {
    ports: Ports,
    settings: Live<FeedSettings>,
}

/// Why a feed is not created, changed or read.
#[derive(Debug, thiserror::Error)]
pub enum FeedRefusal {
    /// Feeds are off (`feeds.enabled`).
    #[error("feeds are off")]
    Off,
    /// The list of kinds is empty.
    #[error("no kind is named")]
    NoKinds,
    /// The account already has a feed.
    #[error("the account has a feed already")]
    AlreadyThere,
    /// The feed does not exist.
    #[error("there is no such feed")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for FeedRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for FeedRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}

impl Feeds {
    /// `settings` is the section `[feeds]`.
    pub fn new(ports: Ports, settings: Live<FeedSettings>) -> Self {
        Self { ports, settings }
    }

    /// Whether feeds are on.
    pub fn are_on(&self) -> bool {
        self.settings.get().enabled
    }

    /// How long entries are kept.
    pub fn kept(&self) -> Duration {
        self.settings.get().kept
    }

    /// The feed of an account, if it has one.
    #[boxed]
    pub async fn find(&self, account: &UserAccountId) -> Result<Option<Feed>, FeedRefusal> {
        self.on()?;
        Ok(self.ports.store.feed_of_account(account).await?)
    }

    /// The feed with this secret in its link, and its newest entries.
    #[boxed]
    pub async fn read(&self, token: &Secret) -> Result<(Feed, Vec<FeedEntry>), FeedRefusal> {
        self.on()?;
        if !token.has_form(SecretKind::Feed) {
            return Err(FeedRefusal::NotFound);
        }
        let store = &self.ports.store;
        let feed = store.feed_by_hash(&token.hash()).await?.ok_or(FeedRefusal::NotFound)?;
        let rows_max = usize::try_from(self.settings.get().entries).unwrap_or(usize::MAX);
        let entries = store.feed_entries(&feed.account, rows_max).await?;
        Ok((feed, entries))
    }

    /// Creates the feed of an account and returns the secret of its link.
    #[boxed]
    pub async fn create(
        &self,
        account: UserAccountId,
        kinds: &[NotificationKind],
        _: RecentlySignedIn,
    ) -> Result<Secret, FeedRefusal> {
        self.on()?;
        let Ports { store, clock, rng } = &self.ports;
        let kinds = chosen_kinds(kinds).ok_or(FeedRefusal::NoKinds)?;
        let feed = Feed { account, kinds, created_at: clock.now() };
        let token = Secret::mint(SecretKind::Feed, rng);
        let (store, hash) = (store.clone(), token.hash());
        let added = actors::detached(async move { store.feed_create(&feed, &hash).await }).await??;
        if added { Ok(token) } else { Err(FeedRefusal::AlreadyThere) }
    }

    /// Replaces the kinds of a feed.
    #[boxed]
    pub async fn change(
        &self,
        account: UserAccountId,
        kinds: &[NotificationKind],
        _: RecentlySignedIn,
    ) -> Result<(), FeedRefusal> {
        self.on()?;
        let kinds = chosen_kinds(kinds).ok_or(FeedRefusal::NoKinds)?;
        let store = self.ports.store.clone();
        let changed = actors::detached(async move { store.feed_change(&account, &kinds).await }).await??;
        if changed { Ok(()) } else { Err(FeedRefusal::NotFound) }
    }

    /// Replaces the link of a feed and returns the secret of the new one. The replaced link ends at once.
    #[boxed]
    pub async fn relink(&self, account: UserAccountId, _: RecentlySignedIn) -> Result<Secret, FeedRefusal> {
        self.on()?;
        let token = Secret::mint(SecretKind::Feed, &self.ports.rng);
        let (store, hash) = (self.ports.store.clone(), token.hash());
        let replaced = actors::detached(async move { store.feed_relink(&account, &hash).await }).await??;
        if replaced { Ok(token) } else { Err(FeedRefusal::NotFound) }
    }

    /// Deletes the feed of an account with its entries.
    #[boxed]
    pub async fn delete(&self, account: UserAccountId) -> Result<(), FeedRefusal> {
        self.on()?;
        let store = self.ports.store.clone();
        let deleted = actors::detached(async move { store.feed_delete(&account).await }).await??;
        if deleted { Ok(()) } else { Err(FeedRefusal::NotFound) }
    }

    fn on(&self) -> Result<(), FeedRefusal> {
        if self.are_on() { Ok(()) } else { Err(FeedRefusal::Off) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_off_and_each_rule_is_checked() {
        let default = FeedSettings::default();
        assert!(!default.enabled);
        assert_eq!(default.problems(), []);
        let broken = FeedSettings { kept: Duration::ZERO, entries: ENTRIES_KEPT_MAX + 1, ..default };
        assert_eq!(broken.problems().len(), 2);
    }
}
