//! Memories in spaces that the main database lacks: a space was deleted while a memory was added to it, or one of the two databases was
//! restored from an older backup.

use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::{Rng, Timestamp};
use uuid::Uuid;

use super::Moved;
use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, query, scalar};
use crate::row::parsed;
use crate::space::among;

/// Spaces per call.
const SPACES_AT_ONCE: i64 = 500;
/// Memories per read.
const MEMORIES_AT_ONCE: i64 = 200;

/// What a look at some spaces did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostMemories {
    /// Memories that were taken out of a space that does not exist.
    pub moved: u64,
    /// Memories of accounts that the main database does not have. They stay.
    pub of_unknown: u64,
    /// The last space; `None` after the last page.
    pub last: Option<SpaceId>,
}

/// The account of a lost memory.
enum Owner {
    Open,
    Closed,
    Unknown,
}

impl Store {
    /// Looks at some spaces with memories, in the order of their ids from `after` on. Moves memories out of those that do not exist, to the
    /// default spaces of their accounts. [`Store::closed_accounts_empty`] deletes memories of closed accounts afterwards.
    #[boxed]
    pub async fn memories_home(
        &self,
        after: Option<SpaceId>,
        rng: &Rng,
        now: Timestamp,
    ) -> Result<LostMemories, StoreError> {
        const PAGE: &str = "SELECT DISTINCT space_id FROM space_indexes WHERE space_id > $1 ORDER BY space_id LIMIT $2";
        // Without a space no foreign key deletes its counts.
        const FORGET: &str = "DELETE FROM space_indexes WHERE space_id = $1 AND memories <= 0";
        const DO: Operation = Operation::FindLostSpaces;
        let after = after.map_or(Uuid::nil(), |space| space.as_uuid());
        let page = scalar(PAGE).bind(after).bind(SPACES_AT_ONCE).fetch_all(self.memory()?);
        let page: Vec<Uuid> = page.during(DO).await?;
        let mut lost = LostMemories { last: page.last().map(|space| SpaceId::from(*space)), ..LostMemories::default() };
        if page.is_empty() {
            return Ok(lost);
        }
        let mut known = QueryBuilder::new("SELECT id FROM spaces WHERE ");
        among(&mut known, "id", page.iter().copied());
        let known: Vec<(Uuid,)> = known.build().fetch_all(&self.pool).during(DO).await?;
        for space in page.into_iter().filter(|space| !known.contains(&(*space,))) {
            self.empty_lost_space(space.into(), (rng, now), &mut lost).await?;
            query(FORGET).bind(space).execute(self.memory()?.writer()).during(DO).await?;
        }
        Ok(lost)
    }

    async fn empty_lost_space(
        &self,
        space: SpaceId,
        (rng, now): (&Rng, Timestamp),
        lost: &mut LostMemories,
    ) -> Result<(), StoreError> {
        const LINKED: &str = "SELECT l.memory_id, s.account_id FROM memory_spaces l
                JOIN memories m ON m.id = l.memory_id JOIN account_indexes s ON s.number = m.account_index
            WHERE l.space_id = $1 AND l.memory_id > $2 ORDER BY l.memory_id LIMIT $3";
        let mut after = Uuid::nil();
        loop {
            let linked = query(LINKED).bind(space.as_uuid()).bind(after).bind(MEMORIES_AT_ONCE);
            let linked: Vec<(Uuid, String)> =
                linked.fetch_all(self.memory()?).during(Operation::FindLostSpaces).await?;
            let Some((newest, _)) = linked.last() else { return Ok(()) };
            after = *newest;
            for (memory, account) in linked {
                let account: UserAccountId = parsed("account_indexes.account_id", &account)?;
                match self.owner(&account).await? {
                    Owner::Open => {
                        let home = self.space_default(rng.uuid_v7(now).into(), &account, now).await?;
                        let moved = self.memory_move(MemoryId::from(memory), &account, space, home).await?;
                        lost.moved += u64::from(moved != Moved::NotThere);
                    }
                    Owner::Closed => self.empty_again(&account).await?,
                    Owner::Unknown => lost.of_unknown += 1,
                }
            }
        }
    }

    async fn owner(&self, account: &UserAccountId) -> Result<Owner, StoreError> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM account_closings c WHERE c.account_id = a.user_account_id)
            FROM accounts a WHERE a.user_account_id = $1";
        let is_closed = scalar(SQL).bind(account.as_str()).fetch_optional::<bool>(&self.pool);
        Ok(match is_closed.during(Operation::FindLostSpaces).await? {
            Some(true) => Owner::Closed,
            Some(false) => Owner::Open,
            None => Owner::Unknown,
        })
    }

    /// Lets the janitor empty a closed account again: its memories are from an older backup.
    async fn empty_again(&self, account: &UserAccountId) -> Result<(), StoreError> {
        const SQL: &str =
            "UPDATE account_closings SET emptied_at = NULL WHERE account_id = $1 AND emptied_at IS NOT NULL";
        let again = query(SQL).bind(account.as_str()).execute(self.pool.writer());
        again.during(Operation::FindLostSpaces).await.map(drop)
    }
}
