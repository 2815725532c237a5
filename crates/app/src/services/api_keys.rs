//! API keys of the knowledge API (`docs/decisions/0020-keys-and-spaces.md`).

use std::collections::HashSet;

use actors::InfraError;
use actors::Unavailable;
use chrono::TimeDelta;
use domain::Timestamp;
use domain::api_key::{ApiKey, ApiKeyName, ApiKeyScope, SPACES_MAX, scopes_of};
use domain::ids::{ApiKeyId, SpaceId, UserAccountId};
use domain::secret::{Secret, SecretKind};
use store::api_key::KeyCreate;
use store::{Store, StoreError};

use super::Ports;
use super::confirmation::RecentlySignedIn;

/// Maximum number of keys in a list, revoked ones included.
const LISTED_MAX: usize = 500;

/// Minimum time between two writes of a key's last use.
const USE_WRITTEN_EVERY: TimeDelta = TimeDelta::minutes(1);

/// Creates, finds and revokes keys. Clones share the database.
#[derive(Debug, Clone)]
pub struct ApiKeys {
    ports: Ports,
    /// Valid keys that one account may have (`api_keys.per_account_max`).
    per_account_max: u32,
}

/// The request for a new key.
#[derive(Debug)]
pub struct NewKey {
    /// Id of the key. A second request with the same id is refused.
    pub id: ApiKeyId,
    /// The account that owns the key.
    pub account: UserAccountId,
    /// Name for lists.
    pub name: ApiKeyName,
    /// Operations that the key permits; `None` means all.
    pub scopes: Option<Vec<ApiKeyScope>>,
    /// Spaces that the key covers; `None` means all spaces of the account.
    pub spaces: Option<Vec<SpaceId>>,
    /// Expiry; `None` means never.
    pub expires_at: Option<Timestamp>,
}

/// Why a key is not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateRefusal {
    /// The list of spaces is empty or too long.
    #[error("a key names 1 to {SPACES_MAX} spaces")]
    SpaceCount,
    /// The account may not read a space.
    #[error("the account may not read the space at index {at}")]
    SpaceUnreadable {
        /// Index in [`NewKey::spaces`].
        at: usize,
    },
    /// The list of scopes is empty.
    #[error("a key needs a scope")]
    NoScopes,
    /// The expiry is in the past.
    #[error("the key would be expired")]
    Expired,
    /// The account has reached its maximum number of valid keys.
    #[error("the account has too many keys")]
    TooMany,
    /// A key with this id exists; its secret was returned when it was created.
    #[error("the key was created before")]
    AlreadyCreated,
    /// The store failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for CreateRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for CreateRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}

impl ApiKeys {
    /// `per_account_max` is the number of valid keys that one account may have.
    pub fn new(ports: Ports, per_account_max: u32) -> Self {
        Self { ports, per_account_max }
    }

    /// The valid key with this secret. The time of its use is written at most once a minute.
    #[boxed]
    pub async fn find(&self, secret: &Secret) -> Result<Option<ApiKey>, InfraError> {
        let Ports { store, clock, .. } = &self.ports;
        let now = clock.now();
        let Some(key) = store.api_key_by_hash(&secret.hash(), now).await? else { return Ok(None) };
        let unless_since = now - USE_WRITTEN_EVERY;
        if key.last_used_at.is_none_or(|last| last <= unless_since) {
            let (store, id) = (store.clone(), key.id);
            actors::detached(async move { store.api_key_used(id, unless_since, now).await }).await??;
        }
        Ok(Some(key))
    }

    /// The keys of an account, newest first and revoked ones last.
    #[boxed]
    pub async fn list(&self, account: &UserAccountId) -> Result<Vec<ApiKey>, StoreError> {
        self.ports.store.api_keys_of_account(account, LISTED_MAX).await
    }

    /// A key of an account, valid or not.
    #[boxed]
    pub async fn of_account(&self, id: ApiKeyId, account: &UserAccountId) -> Result<Option<ApiKey>, StoreError> {
        self.ports.store.api_key_of_account(id, account).await
    }

    /// Creates a key and returns it with its secret, which is stored only as a hash.
    #[boxed]
    pub async fn create(&self, new: NewKey, _: RecentlySignedIn) -> Result<(ApiKey, Secret), CreateRefusal> {
        let Ports { store, clock, rng } = &self.ports;
        if new.scopes.as_ref().is_some_and(Vec::is_empty) {
            return Err(CreateRefusal::NoScopes);
        }
        if let Some(spaces) = &new.spaces {
            if spaces.is_empty() || spaces.len() > SPACES_MAX {
                return Err(CreateRefusal::SpaceCount);
            }
            if let Some(at) = first_unreadable(store, &new.account, spaces).await? {
                return Err(CreateRefusal::SpaceUnreadable { at });
            }
        }
        let now = clock.now();
        if new.expires_at.is_some_and(|end| end <= now) {
            return Err(CreateRefusal::Expired);
        }
        let secret = Secret::mint(SecretKind::ApiKey, rng);
        let key = ApiKey {
            id: new.id,
            account: new.account,
            name: new.name,
            scopes: scopes_of(new.scopes.as_deref().unwrap_or_default()),
            spaces: new.spaces.map(without_duplicates),
            created_at: now,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        let (store, stored, hash, keys_max) = (store.clone(), key.clone(), secret.hash(), self.per_account_max);
        match actors::detached(async move { store.api_key_create(&stored, &hash, keys_max).await }).await?? {
            KeyCreate::Created => Ok((key, secret)),
            KeyCreate::TooMany => Err(CreateRefusal::TooMany),
            KeyCreate::AlreadyMade => Err(CreateRefusal::AlreadyCreated),
        }
    }

    /// Revokes a key permanently; `false` if the account has no such key.
    #[boxed]
    pub async fn revoke(&self, id: ApiKeyId, account: UserAccountId) -> Result<bool, InfraError> {
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        Ok(actors::detached(async move { store.api_key_revoke(id, Some(&account), now).await }).await??)
    }
}

/// Index of the first of `spaces` that an account may not read.
#[boxed]
pub async fn first_unreadable(
    store: &Store,
    account: &UserAccountId,
    spaces: &[SpaceId],
) -> Result<Option<usize>, StoreError> {
    let readable = store.spaces_readable(spaces, account).await?;
    Ok(spaces.iter().position(|named| readable.iter().all(|space| space.id != *named)))
}

/// Each space once, in the order of the request.
fn without_duplicates(spaces: Vec<SpaceId>) -> Vec<SpaceId> {
    let mut unique = HashSet::new();
    spaces.into_iter().filter(|space| unique.insert(*space)).collect()
}
