//! Spaces: create, list, change and delete (`docs/decisions/0020-keys-and-spaces.md`).

pub use store::space::SpaceChange;

use domain::ids::{SpaceId, UserAccountId};
use domain::space::{AccessType, Space, SpaceName};
use store::StoreError;
use store::memory::{Moved, Unlink};
use store::space::SpaceCreate;

use super::access::KnowledgeAccess;
use super::refusal::Refusal;
use crate::services::Ports;

/// Maximum number of spaces in a list.
pub(super) const LISTED_MAX: usize = 1000;

/// Creates, lists, changes and deletes spaces. Clones share the database.
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
    #[boxed]
    pub async fn list(&self, account: &UserAccountId) -> Result<Vec<Space>, StoreError> {
        self.ports.store.spaces_of_account(account, LISTED_MAX).await
    }

    /// A space that an account belongs to.
    #[boxed]
    pub async fn of_account(&self, id: SpaceId, account: &UserAccountId) -> Result<Option<Space>, StoreError> {
        Ok(self.ports.store.spaces_readable(&[id], account).await?.pop())
    }

    /// Number of memories in a space.
    #[boxed]
    pub async fn memories(&self, id: SpaceId) -> Result<u64, StoreError> {
        self.ports.store.memories_in_space(id).await
    }

    /// Creates a space. A key for certain spaces may not, since it would not cover the new space.
    #[boxed]
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

    /// Changes a space: its owner changes name and publicity, a member only the mark as favourite.
    #[boxed]
    pub async fn change(
        &self,
        access: &KnowledgeAccess,
        id: SpaceId,
        change: SpaceChange,
        is_favorite: Option<bool>,
    ) -> Result<Space, Refusal> {
        let (store, account) = (self.ports.store.clone(), access.account.clone());
        let space = actors::detached(async move {
            if !change.is_empty() && !store.space_change(id, &account, &change).await? {
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

    /// Deletes a space of the account. Memories that are in no other space move to the default space of their account; with
    /// [`Contents::Delete`] the memories of the space's owner are deleted. A key for certain spaces may not, since the memories would move
    /// to a space that it does not cover.
    #[boxed]
    pub async fn delete(
        &self,
        access: &KnowledgeAccess,
        id: SpaceId,
        contents: Contents,
    ) -> Result<DeletedSpace, Refusal> {
        let space = self.ports.store.spaces_readable(&[id], &access.account).await?.pop().ok_or(Refusal::NotFound)?;
        if access.within.is_some() || space.access != AccessType::Owner {
            return Err(Refusal::SpaceForbidden);
        }
        if space.is_default {
            return Err(Refusal::invalid("", "the default space cannot be deleted"));
        }
        let (ports, owner) = (self.ports.clone(), access.account.clone());
        actors::detached(async move { emptied_and_deleted(&ports, id, &owner, contents).await }).await?
    }
}

/// The fate of memories that are in no other space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// They move to the default space of their account.
    Move,
    /// Memories of the space's owner are deleted.
    Delete,
}

/// Counts of a deleted space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletedSpace {
    /// Memories that moved to a default space.
    pub moved: u64,
    /// Memories that were deleted.
    pub deleted: u64,
}

/// Memories per read while a space is emptied.
const AT_ONCE: usize = 200;

/// Unlinks the memories one by one, so that no other change of the account waits long, and deletes the empty space. After a crash the rest
/// is still in the space, and the next request continues.
async fn emptied_and_deleted(
    ports: &Ports,
    id: SpaceId,
    owner: &UserAccountId,
    contents: Contents,
) -> Result<DeletedSpace, Refusal> {
    let Ports { store, clock, rng } = ports;
    let mut outcome = DeletedSpace::default();
    loop {
        let linked = store.memories_linked(id, AT_ONCE).await?;
        if linked.is_empty() {
            // A batch may have added a memory since the last read.
            if store.space_delete(id, owner).await? {
                return Ok(outcome);
            }
            if store.spaces_readable(&[id], owner).await?.is_empty() {
                return Err(Refusal::NotFound);
            }
        }
        for (memory, account) in linked {
            if contents == Contents::Delete && account == *owner {
                // A memory that no longer exists is not listed again.
                let unlinked = store.memory_unlink(memory, &account, &[id]).await?;
                outcome.deleted += u64::from(unlinked == Unlink::Deleted);
            } else {
                let now = clock.now();
                let home = store.space_default(rng.uuid_v7(now).into(), &account, now).await?;
                outcome.moved += u64::from(store.memory_move(memory, &account, id, home).await? == Moved::Home);
            }
        }
    }
}
