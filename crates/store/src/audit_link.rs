//! Audit links (`docs/decisions/0016-account-reads.md`).

use domain::Timestamp;
use domain::audit_link::{AuditLink, AuditSubject};
use domain::ids::{AuditLinkId, UserAccountId};
use domain::secret::SecretHash;
use uuid::Uuid;

use crate::account::LOCK_ACCOUNT;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::{parsed, storable};
use crate::{Store, in_transaction, joined};

/// A link, as [`LinkRow`].
const LINK: &str =
    "SELECT id, account_id, name, session_id, lane, first_day, with_content, created_at, expires_at, last_used_at
    FROM audit_links";

impl Store {
    /// Stores a link, unless the account has `links_max` links that have not ended; then returns `false`.
    #[boxed]
    pub async fn audit_link_create(
        &self,
        link: &AuditLink,
        token: &SecretHash,
        links_max: u32,
    ) -> Result<bool, StoreError> {
        const COUNT: &str = "SELECT COUNT(*) FROM audit_links WHERE account_id = $1 AND expires_at > $2";
        const ADD: &str = "INSERT INTO audit_links
            (id, account_id, token_hash, name, session_id, lane, first_day, with_content, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let (session, lane, first) = match link.subject {
            AuditSubject::Session(session) => (Some(session), None, None),
            AuditSubject::Lane { lane, first } => (None, Some(lane.as_str()), Some(first.number())),
        };
        let account = link.account.as_str();
        in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK_ACCOUNT).bind(account).execute(&mut *tx).await?;
                let live: i64 = scalar(COUNT).bind(account).bind(link.created_at).fetch_one(&mut *tx).await?;
                if live >= i64::from(links_max) {
                    return Ok(false);
                }
                query(ADD)
                    .bind(link.id.as_uuid())
                    .bind(account)
                    .bind(token.as_bytes())
                    .bind(storable(link.name.as_str()))
                    .bind(session)
                    .bind(lane)
                    .bind(first)
                    .bind(link.with_content)
                    .bind(link.created_at)
                    .bind(link.expires_at)
                    .execute(&mut *tx)
                    .await?;
                Ok(true)
            },
            commit if |added| *added
        )
        .during(Operation::CreateAuditLink)
        .await
    }

    /// The links of an account that have not ended, newest first.
    #[boxed]
    pub async fn audit_links_of_account(
        &self,
        account: &UserAccountId,
        now: Timestamp,
    ) -> Result<Vec<AuditLink>, StoreError> {
        const SQL: &str = joined!(LINK, " WHERE account_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id DESC");
        let statement = query(SQL).bind(account.as_str()).bind(now).fetch_all(&self.pool);
        let rows: Vec<LinkRow> = statement.during(Operation::ListAuditLinksOfAccount).await?;
        Ok(rows.into_iter().map(AuditLink::try_from).collect::<Result<_, _>>()?)
    }

    /// The link with this secret, if it has not ended.
    #[boxed]
    pub async fn audit_link_by_hash(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<AuditLink>, StoreError> {
        const SQL: &str = joined!(LINK, " WHERE token_hash = $1 AND expires_at > $2");
        let statement = query(SQL).bind(token.as_bytes()).bind(now).fetch_optional(&self.pool);
        let row: Option<LinkRow> = statement.during(Operation::LookUpAuditLink).await?;
        Ok(row.map(AuditLink::try_from).transpose()?)
    }

    /// Stores the time of use, unless a use since `unless_since` is stored.
    #[boxed]
    pub async fn audit_link_used(
        &self,
        id: AuditLinkId,
        unless_since: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE audit_links SET last_used_at = $3
            WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $2)";
        let statement = query(SQL).bind(id.as_uuid()).bind(unless_since).bind(now).execute(self.pool.writer());
        Ok(statement.during(Operation::WriteLastUseOfAuditLink).await? == 1)
    }

    /// Deletes a link; `false` if the account has no such link.
    #[boxed]
    pub async fn audit_link_delete(&self, id: AuditLinkId, account: &UserAccountId) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM audit_links WHERE id = $1 AND account_id = $2";
        let statement = query(SQL).bind(id.as_uuid()).bind(account.as_str()).execute(self.pool.writer());
        Ok(statement.during(Operation::DeleteAuditLink).await? == 1)
    }
}

crate::row! {
    struct LinkRow {
        id: Uuid,
        account_id: String,
        name: String,
        session_id: Option<Uuid>,
        lane: Option<String>,
        first_day: Option<i64>,
        with_content: bool,
        created_at: Timestamp,
        expires_at: Timestamp,
        last_used_at: Option<Timestamp>,
    }
}

impl TryFrom<LinkRow> for AuditLink {
    type Error = Corrupt;

    fn try_from(row: LinkRow) -> Result<Self, Corrupt> {
        let subject = match (row.session_id, row.lane, row.first_day) {
            (Some(session), None, None) => AuditSubject::Session(session),
            (None, Some(lane), Some(first)) => {
                AuditSubject::Lane { lane: parsed("audit_links.lane", &lane)?, first: first.into() }
            }
            _ => return Err(Corrupt::new("audit_links.session_id", "neither a session nor a lane")),
        };
        Ok(Self {
            id: row.id.into(),
            account: parsed("audit_links.account_id", &row.account_id)?,
            name: parsed("audit_links.name", &row.name)?,
            subject,
            with_content: row.with_content,
            created_at: row.created_at,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
        })
    }
}
