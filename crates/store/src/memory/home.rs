//! Memories in spaces that the main database lacks: a space was deleted while a memory was added to it, or one of the two databases was
//! restored from an older backup.

use domain::ids::{SpaceId, UserAccountId};
use domain::{Rng, Timestamp};
use uuid::Uuid;

use super::json;
use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::scalar;

/// Spaces per read.
const SPACES_AT_ONCE: i64 = 500;
/// Memories per read.
const MEMORIES_AT_ONCE: usize = 200;

impl Store {
    /// Moves memories out of spaces that do not exist, to the default spaces of their accounts; returns their number. Memories of a closed
    /// account stay for [`Store::closed_accounts_empty`], and memories of an unknown one for an operator.
    #[boxed]
    pub async fn memories_home(&self, rng: &Rng, now: Timestamp) -> Result<u64, StoreError> {
        const PAGE: &str = "SELECT DISTINCT space_id FROM space_indexes
            WHERE memories > 0 AND space_id > $1 ORDER BY space_id LIMIT $2";
        let (mut after, mut moved) = (Uuid::nil(), 0);
        loop {
            let page = scalar(PAGE).bind(after).bind(SPACES_AT_ONCE).fetch_all(self.memory()?);
            let page: Vec<Uuid> = page.during(Operation::FindLostSpaces).await?;
            let Some(last) = page.last() else { return Ok(moved) };
            after = *last;
            for space in self.lost_among(&page).await? {
                moved += self.empty_lost_space(space, rng, now).await?;
            }
        }
    }

    /// The spaces that the main database lacks.
    async fn lost_among(&self, spaces: &[Uuid]) -> Result<Vec<SpaceId>, StoreError> {
        const SQLITE: &str =
            "SELECT id FROM spaces WHERE id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($1))";
        const POSTGRES: &str = "SELECT id FROM spaces WHERE id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($1 AS json)))";
        let sql = if self.pool.is_postgres() { POSTGRES } else { SQLITE };
        let known = scalar(sql).bind(json(spaces)).fetch_all(&self.pool);
        let known: Vec<Uuid> = known.during(Operation::FindLostSpaces).await?;
        Ok(spaces.iter().filter(|space| !known.contains(space)).map(|space| SpaceId::from(*space)).collect())
    }

    async fn empty_lost_space(&self, space: SpaceId, rng: &Rng, now: Timestamp) -> Result<u64, StoreError> {
        let mut moved = 0;
        loop {
            let mut rest = 0;
            let linked = self.memories_linked(space, MEMORIES_AT_ONCE).await?;
            for (memory, account) in &linked {
                if self.is_account_open(account).await? {
                    let home = self.space_default(rng.uuid_v7(now).into(), account, now).await?;
                    self.memory_move(*memory, account, space, home).await?;
                    moved += 1;
                } else {
                    rest += 1;
                }
            }
            // The memories that stay are read again by each page.
            if linked.len() < MEMORIES_AT_ONCE || rest > 0 {
                return Ok(moved);
            }
        }
    }

    async fn is_account_open(&self, account: &UserAccountId) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM accounts WHERE user_account_id = $1)
            AND NOT EXISTS (SELECT 1 FROM account_closings WHERE account_id = $1)";
        scalar(SQL).bind(account.as_str()).fetch_one(&self.pool).during(Operation::FindLostSpaces).await
    }
}
