//! Access of a key, or of a person on their own page, to the knowledge API (`docs/decisions/0036-spaces.md` and
//! `docs/decisions/0035-api-keys.md`).

pub mod credential;

use std::collections::HashMap;

use domain::ids::{SpaceId, UserAccountId};
use domain::secret::SecretHash;
use domain::space::{AccessType, Space};
use store::memory::MemoryScope;
use uuid::Uuid;

use self::credential::Credential;
use crate::app::App;
use crate::http::error::{ApiError, Code};

/// Whoever searches or adds.
#[derive(Debug, Clone)]
pub struct KnowledgeAccess {
    /// For which account.
    pub account: UserAccountId,
    /// Only in these spaces; everywhere that the account may when absent.
    pub within: Option<Vec<SpaceId>>,
    /// Whether they may make a space public.
    pub may_publish: bool,
    /// With which credential.
    pub credential: Credential,
}

impl KnowledgeAccess {
    /// A signed-in person, who may whatever the account may.
    pub fn person(account: UserAccountId, session: SecretHash) -> Self {
        Self { account, within: None, may_publish: true, credential: Credential::Session(session) }
    }

    /// Where a search looks. Without any named: everything of the account, or all that the key opens.
    pub async fn to_search(&self, named: &[Uuid], app: &App) -> Result<MemoryScope, ApiError> {
        if !named.is_empty() {
            return self.named(named, AccessType::Read, app).await.map(MemoryScope::Spaces);
        }
        match &self.within {
            // A space that is gone, or closed to the account meanwhile, is simply not looked into.
            Some(within) => Ok(MemoryScope::Spaces(ids(&app.store.spaces_readable(within, &self.account).await?))),
            None => Ok(MemoryScope::Account(self.account.clone())),
        }
    }

    /// Where something is added. Without any named: the account's default space.
    pub async fn to_write(&self, named: &[Uuid], app: &App) -> Result<Vec<SpaceId>, ApiError> {
        if !named.is_empty() {
            return self.named(named, AccessType::Edit, app).await;
        }
        let (store, account, now) = (app.store.clone(), self.account.clone(), app.clock.now());
        let new = app.rng.uuid_v7(now).into();
        let default = actors::detached(async move { store.space_default(new, &account, now).await }).await??;
        if self.covers(default) { Ok(vec![default]) } else { Err(Code::SpaceForbidden.into()) }
    }

    /// Whether the key reaches into this space.
    pub fn covers(&self, space: SpaceId) -> bool {
        self.within.as_ref().is_none_or(|within| within.contains(&space))
    }

    /// One answer for what is unknown and what is forbidden.
    async fn named(&self, named: &[Uuid], access: AccessType, app: &App) -> Result<Vec<SpaceId>, ApiError> {
        let mut wanted: Vec<SpaceId> = named.iter().copied().map(SpaceId::from).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let seen = app.store.spaces_readable(&wanted, &self.account).await?;
        let seen: HashMap<SpaceId, AccessType> = seen.iter().map(|space| (space.id, space.access)).collect();
        let may = |space: &SpaceId| self.covers(*space) && seen.get(space).is_some_and(|has| *has >= access);
        if wanted.iter().all(may) { Ok(wanted) } else { Err(Code::SpaceForbidden.into()) }
    }
}

fn ids(spaces: &[Space]) -> Vec<SpaceId> {
    spaces.iter().map(|space| space.id).collect()
}
