//! Spaces and their members (`docs/decisions/0020-keys-and-spaces.md`).

use domain::Timestamp;
use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::space::{AccessType, DEFAULT_NAME, Space, SpaceName};
use uuid::Uuid;

use crate::account::LOCK_ACCOUNT;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Argument, QueryBuilder, query, scalar};
use crate::row::{limit, parsed, storable};
use crate::{Store, in_transaction};

/// Result of creating a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceCreate {
    /// The space was created.
    Created,
    /// The account has the maximum number of spaces.
    TooMany,
}

/// A change of a space; `None` keeps the value.
#[derive(Debug, Clone, Default)]
pub struct SpaceChange {
    /// New name.
    pub name: Option<SpaceName>,
    /// Whether any valid key may read it.
    pub is_public: Option<bool>,
}

impl SpaceChange {
    /// Whether all values are kept.
    pub fn is_empty(&self) -> bool {
        let Self { name, is_public } = self;
        name.is_none() && is_public.is_none()
    }
}

/// A space as account `$1` sees it: with its owner's name, and the access of `$1`.
const SEEN: &str = "SELECT s.id, s.account_id, COALESCE(a.name, p.name) AS owner_name, s.name, s.is_public,
        COALESCE(m.is_favorite, FALSE) AS is_favorite, s.is_default, COALESCE(m.access, 'read') AS access, s.created_at
    FROM spaces s JOIN accounts a ON a.user_account_id = s.account_id
        LEFT JOIN persons p ON p.account_id = s.account_id
        LEFT JOIN space_members m ON m.space_id = s.id AND m.account_id = ";

const ADD: &str = "INSERT INTO spaces (id, account_id, name, is_public, is_default, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)";
const JOIN: &str = "INSERT INTO space_members (space_id, account_id, access, is_favorite) VALUES ($1, $2, $3, FALSE)
    ON CONFLICT (space_id, account_id) DO UPDATE SET access = excluded.access";

/// Deletes a space to which no memory in the main database is linked.
pub(crate) const DELETE_UNUSED: &str = "DELETE FROM spaces WHERE id = $1
    AND NOT EXISTS (SELECT 1 FROM memory_spaces l WHERE l.space_id = $1)";

impl Store {
    /// Creates a space, unless the account has `spaces_max`; the default space is not counted.
    #[boxed]
    pub async fn space_create(
        &self,
        id: SpaceId,
        owner: &UserAccountId,
        name: &SpaceName,
        is_public: bool,
        spaces_max: u32,
        now: Timestamp,
    ) -> Result<SpaceCreate, StoreError> {
        const OWNED: &str = "SELECT COUNT(*) FROM spaces WHERE account_id = $1 AND NOT is_default";
        let name = storable(name.as_str());
        in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK_ACCOUNT).bind(owner.as_str()).execute(&mut *tx).await?;
                let spaces: i64 = scalar(OWNED).bind(owner.as_str()).fetch_one(&mut *tx).await?;
                if spaces >= i64::from(spaces_max) {
                    return Ok(SpaceCreate::TooMany);
                }
                let add = query(ADD).bind(id.as_uuid()).bind(owner.as_str()).bind(&*name).bind(is_public);
                add.bind(false).bind(now).execute(&mut *tx).await?;
                query(JOIN).bind(id.as_uuid()).bind(owner.as_str()).bind("owner").execute(&mut *tx).await?;
                Ok(SpaceCreate::Created)
            },
            commit if |outcome| *outcome == SpaceCreate::Created
        )
        .during(Operation::MakeSpace)
        .await
    }

    /// The default space of an account, created as `new` if it is absent.
    #[boxed]
    pub async fn space_default(
        &self,
        new: SpaceId,
        owner: &UserAccountId,
        now: Timestamp,
    ) -> Result<SpaceId, StoreError> {
        const DEFAULT: &str = "SELECT id FROM spaces WHERE account_id = $1 AND is_default";
        let existing: Option<Uuid> = scalar(DEFAULT)
            .bind(owner.as_str())
            .fetch_optional(&self.pool)
            .during(Operation::FindDefaultSpaceOfAccount)
            .await?;
        if let Some(id) = existing {
            return Ok(id.into());
        }
        in_transaction!(&self.pool, |tx| {
            query(LOCK_ACCOUNT).bind(owner.as_str()).execute(&mut *tx).await?;
            let existing: Option<Uuid> = scalar(DEFAULT).bind(owner.as_str()).fetch_optional(&mut *tx).await?;
            if let Some(id) = existing {
                return Ok(id.into());
            }
            let add = query(ADD).bind(new.as_uuid()).bind(owner.as_str()).bind(DEFAULT_NAME).bind(false);
            add.bind(true).bind(now).execute(&mut *tx).await?;
            query(JOIN).bind(new.as_uuid()).bind(owner.as_str()).bind("owner").execute(&mut *tx).await?;
            Ok(new)
        })
        .during(Operation::MakeDefaultSpaceOfAccount)
        .await
    }

    /// The spaces that an account owns or is a member of, the default first, then the newest.
    #[boxed]
    pub async fn spaces_of_account(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<Space>, StoreError> {
        let mut sql = QueryBuilder::new(SEEN);
        sql.push_bind(account.as_str()).push(" WHERE m.account_id IS NOT NULL");
        sql.push(" ORDER BY s.account_id = ").push_bind(account.as_str()).push(" DESC, s.is_default DESC");
        sql.push(", s.created_at DESC, s.id DESC LIMIT ").push_bind(limit(rows_max));
        let rows: Vec<SpaceRow> = sql.build().fetch_all(&self.pool).during(Operation::ListSpacesOfAccount).await?;
        Ok(rows.into_iter().map(Space::try_from).collect::<Result<_, _>>()?)
    }

    /// The given `ids` that an account may read, in no order: its own spaces, spaces it is a member of, and public ones.
    #[boxed]
    pub async fn spaces_readable(&self, ids: &[SpaceId], account: &UserAccountId) -> Result<Vec<Space>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut sql = QueryBuilder::new(SEEN);
        sql.push_bind(account.as_str());
        sql.push(" WHERE (m.account_id IS NOT NULL OR s.is_public) AND ");
        among(&mut sql, "s.id", ids.iter().map(SpaceId::as_uuid));
        let rows: Vec<SpaceRow> = sql.build().fetch_all(&self.pool).during(Operation::ReadSpaces).await?;
        Ok(rows.into_iter().map(Space::try_from).collect::<Result<_, _>>()?)
    }

    /// The public spaces that a memory is linked to.
    #[boxed]
    pub async fn spaces_public_of(&self, memory: MemoryId) -> Result<Vec<SpaceId>, StoreError> {
        const LINKED: &str = "SELECT space_id FROM memory_spaces WHERE memory_id = $1";
        const DO: Operation = Operation::FindPublicSpacesOfMemory;
        let linked: Vec<Uuid> = scalar(LINKED).bind(memory.as_uuid()).fetch_all(self.memory()?).during(DO).await?;
        if linked.is_empty() {
            return Ok(Vec::new());
        }
        let mut sql = QueryBuilder::new("SELECT id FROM spaces WHERE is_public AND ");
        among(&mut sql, "id", linked);
        let ids: Vec<(Uuid,)> = sql.build().fetch_all(&self.pool).during(DO).await?;
        Ok(ids.into_iter().map(|(id,)| id.into()).collect())
    }

    /// Changes a space of its owner; `false` if there is no such space.
    #[boxed]
    pub async fn space_change(
        &self,
        id: SpaceId,
        owner: &UserAccountId,
        change: &SpaceChange,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE spaces SET name = COALESCE($3, name), is_public = COALESCE($4, is_public)
            WHERE id = $1 AND account_id = $2";
        let name = change.name.as_ref().map(|name| storable(name.as_str()));
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .bind(name.as_deref())
            .bind(change.is_public)
            .execute(self.pool.writer())
            .during(Operation::ChangeSpace)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Deletes a space of its owner that has no memories; `false` if there is no such space. A default space is never deleted.
    #[boxed]
    pub async fn space_delete(&self, id: SpaceId, owner: &UserAccountId) -> Result<bool, StoreError> {
        const SPACE_SQLITE: &str = "SELECT id FROM spaces WHERE id = $1 AND account_id = $2 AND NOT is_default";
        // Waits for transactions that are linking a memory to the space: the next statement sees their links.
        const SPACE_POSTGRES: &str =
            "SELECT id FROM spaces WHERE id = $1 AND account_id = $2 AND NOT is_default FOR UPDATE";
        if self.is_space_used_apart(id).await? {
            return Ok(false);
        }
        in_transaction!(
            &self.pool,
            |tx| {
                let sql = if tx.is_postgres() { SPACE_POSTGRES } else { SPACE_SQLITE };
                let row: Option<Uuid> =
                    scalar(sql).bind(id.as_uuid()).bind(owner.as_str()).fetch_optional(&mut *tx).await?;
                if row.is_none() {
                    return Ok(false);
                }
                Ok(query(DELETE_UNUSED).bind(id.as_uuid()).execute(&mut *tx).await? == 1)
            },
            commit if |deleted| *deleted
        )
        .during(Operation::DeleteSpace)
        .await
    }

    /// Whether a memory in a separate database is linked to a space. In the main database [`DELETE_UNUSED`] looks for one.
    pub(crate) async fn is_space_used_apart(&self, id: SpaceId) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM memory_spaces WHERE space_id = $1)";
        if self.memory.is_none() {
            return Ok(false);
        }
        scalar(SQL).bind(id.as_uuid()).fetch_one(self.memory()?).during(Operation::DeleteSpace).await
    }

    /// Sets or removes the mark of a space for a member account; `false` if the account is not a member.
    #[boxed]
    pub async fn space_favor(
        &self,
        id: SpaceId,
        account: &UserAccountId,
        is_favorite: bool,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE space_members SET is_favorite = $3 WHERE space_id = $1 AND account_id = $2";
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(account.as_str())
            .bind(is_favorite)
            .execute(self.pool.writer())
            .during(Operation::MarkSpace)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Sets the access of a member to read or edit, or removes the member (`None`). The access of owners does not change. `false` if
    /// this owner has no such space, or if the access is unchanged.
    #[boxed]
    pub async fn space_share(
        &self,
        id: SpaceId,
        owner: &UserAccountId,
        with: &UserAccountId,
        access: Option<AccessType>,
    ) -> Result<bool, StoreError> {
        const OURS: &str = "UPDATE spaces SET name = name WHERE id = $1 AND account_id = $2";
        const OUT: &str = "DELETE FROM space_members WHERE space_id = $1 AND account_id = $2 AND access <> 'owner'";
        if with == owner || access == Some(AccessType::Owner) {
            return Ok(false);
        }
        in_transaction!(
            &self.pool,
            |tx| {
                let locked_rows = query(OURS).bind(id.as_uuid()).bind(owner.as_str()).execute(&mut *tx).await?;
                if locked_rows == 0 {
                    return Ok(false);
                }
                let statement = if let Some(access) = access {
                    query(JOIN).bind(id.as_uuid()).bind(with.as_str()).bind(access.as_str())
                } else {
                    query(OUT).bind(id.as_uuid()).bind(with.as_str())
                };
                let rows_affected = statement.execute(&mut *tx).await?;
                Ok(rows_affected == 1)
            },
            commit if |done| *done
        )
        .during(Operation::ShareSpace)
        .await
    }
}

/// The condition that a column is one of these ids, at least one.
pub(crate) fn among<'q>(
    sql: &mut QueryBuilder<'q>,
    column: &'static str,
    ids: impl IntoIterator<Item = impl Into<Argument<'q>>>,
) {
    sql.push(column);
    for (place, id) in ids.into_iter().enumerate() {
        sql.push(if place == 0 { " IN (" } else { ", " }).push_bind(id);
    }
    sql.push(")");
}

crate::row! {
    struct SpaceRow {
        id: Uuid,
        account_id: String,
        owner_name: Option<String>,
        name: String,
        is_public: bool,
        is_favorite: bool,
        is_default: bool,
        access: String,
        created_at: Timestamp,
    }
}

impl TryFrom<SpaceRow> for Space {
    type Error = Corrupt;

    fn try_from(row: SpaceRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            owner: parsed("spaces.account_id", &row.account_id)?,
            owner_name: row.owner_name,
            name: parsed("spaces.name", &row.name)?,
            is_public: row.is_public,
            is_favorite: row.is_favorite,
            is_default: row.is_default,
            access: parsed("space_members.access", &row.access)?,
            created_at: row.created_at,
        })
    }
}
