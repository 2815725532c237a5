//! Memories that do not fit the main database: a space was deleted while a memory was added to it, or one of the two databases was restored
//! from an older backup.

use std::collections::HashSet;

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

/// Accounts or spaces per call.
const ROWS_AT_ONCE: i64 = 500;
/// Maximum number of memories that one call moves.
const MOVED_MAX: i64 = 500;

const DO: Operation = Operation::FindLostMemories;

/// Where a look continues: first at accounts, then at spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookAfter {
    /// Account indexes after this number.
    Account(i64),
    /// Spaces after this id.
    Space(SpaceId),
}

impl Default for LookAfter {
    fn default() -> Self {
        Self::Account(0)
    }
}

/// What a look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostMemories {
    /// Memories that were taken out of a space that does not exist.
    pub moved: u64,
    /// Memories of accounts that the main database does not have. They stay.
    pub of_unknown: u64,
    /// Where the next call continues; `None` at the end.
    pub next: Option<LookAfter>,
}

impl Store {
    /// Looks at a page of accounts or spaces with memories. A closed account with memories is emptied again. Memories in spaces that do not
    /// exist move to the default spaces of their accounts.
    #[boxed]
    pub async fn memories_home(&self, after: LookAfter, rng: &Rng, now: Timestamp) -> Result<LostMemories, StoreError> {
        match after {
            LookAfter::Account(number) => self.look_at_accounts(number).await,
            LookAfter::Space(space) => self.look_at_spaces(space, rng, now).await,
        }
    }

    async fn look_at_accounts(&self, after: i64) -> Result<LostMemories, StoreError> {
        const PAGE: &str = "SELECT number, account_id, memories FROM account_indexes
            WHERE number > $1 AND memories > 0 ORDER BY number LIMIT $2";
        let page = query(PAGE).bind(after).bind(ROWS_AT_ONCE).fetch_all(self.memory()?);
        let page: Vec<(i64, String, i64)> = page.during(DO).await?;
        let Some((last, ..)) = page.last() else {
            let next = Some(LookAfter::Space(Uuid::nil().into()));
            return Ok(LostMemories { next, ..LostMemories::default() });
        };
        let accounts = || page.iter().map(|(_, account, _)| account.as_str());
        let mut known = QueryBuilder::new("SELECT user_account_id FROM accounts WHERE ");
        among(&mut known, "user_account_id", accounts());
        let known: Vec<(String,)> = known.build().fetch_all(&self.pool).during(DO).await?;
        let known: HashSet<&str> = known.iter().map(|(account,)| account.as_str()).collect();
        // Its memories are from an older backup: the janitor deletes them.
        let mut again =
            QueryBuilder::new("UPDATE account_closings SET emptied_at = NULL WHERE emptied_at IS NOT NULL AND ");
        among(&mut again, "account_id", accounts());
        again.build().execute(self.pool.writer()).during(DO).await?;
        let unknown = page.iter().filter(|(_, account, _)| !known.contains(account.as_str()));
        let of_unknown = unknown.map(|(_, _, memories)| memories.unsigned_abs()).sum();
        Ok(LostMemories { moved: 0, of_unknown, next: Some(LookAfter::Account(*last)) })
    }

    async fn look_at_spaces(&self, after: SpaceId, rng: &Rng, now: Timestamp) -> Result<LostMemories, StoreError> {
        const PAGE: &str = "SELECT DISTINCT space_id FROM space_indexes WHERE space_id > $1 ORDER BY space_id LIMIT $2";
        // Without a space no foreign key deletes its counts.
        const FORGET: &str = "DELETE FROM space_indexes WHERE space_id = $1 AND memories <= 0";
        let page = scalar(PAGE).bind(after.as_uuid()).bind(ROWS_AT_ONCE).fetch_all(self.memory()?);
        let page: Vec<Uuid> = page.during(DO).await?;
        let mut lost = LostMemories::default();
        let Some(end) = page.last().copied() else { return Ok(lost) };
        let mut known = QueryBuilder::new("SELECT id FROM spaces WHERE ");
        among(&mut known, "id", page.iter().copied());
        let known: Vec<(Uuid,)> = known.build().fetch_all(&self.pool).during(DO).await?;
        let mut before = after;
        for space in page.into_iter().filter(|space| !known.contains(&(*space,))) {
            if self.empty_lost_space(space.into(), (rng, now), &mut lost).await? {
                lost.next = Some(LookAfter::Space(before));
                return Ok(lost);
            }
            query(FORGET).bind(space).execute(self.memory()?.writer()).during(DO).await?;
            before = space.into();
        }
        lost.next = Some(LookAfter::Space(end.into()));
        Ok(lost)
    }

    /// Moves memories of open accounts out of a space; `true` if more may be left.
    async fn empty_lost_space(
        &self,
        space: SpaceId,
        (rng, now): (&Rng, Timestamp),
        lost: &mut LostMemories,
    ) -> Result<bool, StoreError> {
        const ACCOUNTS: &str =
            "SELECT s.account_id FROM space_indexes i JOIN account_indexes s ON s.number = i.account_index
            WHERE i.space_id = $1 AND i.memories > 0";
        const OPEN: &str = "SELECT a.user_account_id FROM accounts a
            WHERE NOT EXISTS (SELECT 1 FROM account_closings c WHERE c.account_id = a.user_account_id) AND ";
        const LINKED: &str = "SELECT m.id FROM memory_spaces l JOIN memories m ON m.id = l.memory_id
            WHERE l.space_id = $1 AND m.account_index = (SELECT number FROM account_indexes WHERE account_id = $2) LIMIT $3";
        let accounts: Vec<String> = scalar(ACCOUNTS).bind(space.as_uuid()).fetch_all(self.memory()?).during(DO).await?;
        if accounts.is_empty() {
            return Ok(false);
        }
        let mut open = QueryBuilder::new(OPEN);
        among(&mut open, "a.user_account_id", accounts.iter().map(String::as_str));
        let open: Vec<(String,)> = open.build().fetch_all(&self.pool).during(DO).await?;
        for (account,) in open {
            let account: UserAccountId = parsed("accounts.user_account_id", &account)?;
            let linked = scalar(LINKED).bind(space.as_uuid()).bind(account.as_str()).bind(MOVED_MAX);
            let linked: Vec<Uuid> = linked.fetch_all(self.memory()?).during(DO).await?;
            let home = self.space_default(rng.uuid_v7(now).into(), &account, now).await?;
            let before = lost.moved;
            for memory in &linked {
                let moved = self.memory_move(MemoryId::from(*memory), &account, space, home).await?;
                lost.moved += u64::from(moved != Moved::NotThere);
            }
            if lost.moved > before {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
