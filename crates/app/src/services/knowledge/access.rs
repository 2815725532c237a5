//! Access of an API key, or of a person on their page, to the knowledge API (`docs/decisions/0020-keys-and-spaces.md`).

use std::collections::HashMap;

use domain::ids::{SpaceId, UserAccountId};
use domain::secret::SecretHash;
use domain::space::{AccessType, Space};
use store::memory::MemoryScope;
use uuid::Uuid;

use super::credential::Credential;
use super::refusal::Refusal;
use crate::services::Ports;

/// The rights of the party that searches or adds.
#[derive(Debug, Clone)]
pub struct KnowledgeAccess {
    /// The account.
    pub account: UserAccountId,
    /// The spaces that an API key covers; `None` means all that the account may read or write.
    pub within: Option<Vec<SpaceId>>,
    /// Whether the party may make a space public.
    pub may_publish: bool,
    /// The credential, checked again while a long response is sent.
    pub credential: Credential,
}

impl KnowledgeAccess {
    /// A signed-in person has all rights of the account.
    pub fn person(account: UserAccountId, session: SecretHash) -> Self {
        Self { account, within: None, may_publish: true, credential: Credential::Session(session) }
    }

    /// The scope of a search. Without named spaces: everything of the account, or everything that the key covers.
    #[boxed]
    pub async fn to_search(&self, named: &[Uuid], ports: &Ports) -> Result<MemoryScope, Refusal> {
        if !named.is_empty() {
            return self.named(named, AccessType::Read, ports).await.map(MemoryScope::Spaces);
        }
        match &self.within {
            // A space that was deleted, or that the account may no longer read, is left out.
            Some(within) => Ok(MemoryScope::Spaces(ids(&ports.store.spaces_readable(within, &self.account).await?))),
            None => Ok(MemoryScope::Account(self.account.clone())),
        }
    }

    /// The spaces to which content is added. Without named spaces: the account's default space.
    #[boxed]
    pub async fn to_write(&self, named: &[Uuid], ports: &Ports) -> Result<Vec<SpaceId>, Refusal> {
        if !named.is_empty() {
            return self.named(named, AccessType::Edit, ports).await;
        }
        let (store, account, now) = (ports.store.clone(), self.account.clone(), ports.clock.now());
        let new = ports.rng.uuid_v7(now).into();
        let default = actors::detached(async move { store.space_default(new, &account, now).await }).await??;
        if self.covers(default) { Ok(vec![default]) } else { Err(Refusal::SpaceForbidden) }
    }

    /// Whether the credential covers this space.
    pub fn covers(&self, space: SpaceId) -> bool {
        self.within.as_ref().is_none_or(|within| within.contains(&space))
    }

    /// The named spaces. Unknown and forbidden spaces have the same refusal.
    async fn named(&self, named: &[Uuid], access: AccessType, ports: &Ports) -> Result<Vec<SpaceId>, Refusal> {
        let mut wanted: Vec<SpaceId> = named.iter().copied().map(SpaceId::from).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let readable = ports.store.spaces_readable(&wanted, &self.account).await?;
        let readable: HashMap<SpaceId, AccessType> = readable.iter().map(|space| (space.id, space.access)).collect();
        let may = |space: &SpaceId| self.covers(*space) && readable.get(space).is_some_and(|has| *has >= access);
        if wanted.iter().all(may) { Ok(wanted) } else { Err(Refusal::SpaceForbidden) }
    }
}

fn ids(spaces: &[Space]) -> Vec<SpaceId> {
    spaces.iter().map(|space| space.id).collect()
}
