//! Spaces: create, list and change (`docs/decisions/0036-spaces.md`).

use domain::ids::{SpaceId, UserAccountId};
use domain::space::{Space, SpaceName};
use store::StoreError;
use store::space::{SpaceChange, SpaceCreate};

use super::access::KnowledgeAccess;
use super::refusal::Refusal;
use crate::services::Ports;

/// Maximum number of spaces in a list.
pub(super) const LISTED_MAX: usize = 1000;

/// Creates, lists and changes spaces. Clones share the database.
#[derive(Debug, Clone)]
pub struct Spaces {
    ports: Ports,
    /// Spaces that one account may create (`knowledge.spaces_per_account_max`).
    per_account_max: u32,
}

impl Spaces {
    /// `per_account_max` is the number of spaces that one account may create, in addition to its default space.
    pub fn new(ports: Ports, per_account_max: u32) -> Self {
        Self { ports, per_account_max }
    }

    /// The spaces of an account: the default space first, then the newest.
    pub async fn list(&self, account: &UserAccountId) -> Result<Vec<Space>, StoreError> {
        self.ports.store.spaces_of_account(account, LISTED_MAX).await
    }

    /// Creates a space. A key for certain spaces may not: it would not cover the new one.
    pub async fn create(&self, access: &KnowledgeAccess, name: SpaceName, is_public: bool) -> Result<Space, Refusal> {
        if access.within.is_some() {
            return Err(Refusal::SpaceForbidden);
        }
        let Ports { store, clock, rng } = &self.ports;
        let (store, account, now) = (store.clone(), access.account.clone(), clock.now());
        let id: SpaceId = rng.uuid_v7(now).into();
        let spaces_max = self.per_account_max;
        let created = actors::detached(async move {
            let created = store.space_create(id, &account, &name, is_public, spaces_max, now).await?;
            let space = store.spaces_readable(&[id], &account).await?.pop();
            Ok::<_, StoreError>((created, space))
        });
        if let (SpaceCreate::Created, Some(space)) = created.await?? {
            return Ok(space);
        }
        let rule = format!("the account has made {spaces_max} spaces, which is as many as it may");
        Err(Refusal::invalid("", rule))
    }

    /// Changes a space as far as the account may: its owner changes name and publicity, a member only the mark as favourite.
    pub async fn change(
        &self,
        access: &KnowledgeAccess,
        id: SpaceId,
        change: SpaceChange,
        is_favorite: Option<bool>,
    ) -> Result<Space, Refusal> {
        let (store, account) = (self.ports.store.clone(), access.account.clone());
        let space = actors::detached(async move {
            let changes_space = change.name.is_some() || change.is_public.is_some();
            if changes_space && !store.space_change(id, &account, &change).await? {
                return Ok(None);
            }
            if let Some(favorite) = is_favorite
                && !store.space_favor(id, &account, favorite).await?
            {
                return Ok(None);
            }
            Ok::<_, StoreError>(store.spaces_readable(&[id], &account).await?.pop())
        });
        space.await??.ok_or(Refusal::NotFound)
    }
}
