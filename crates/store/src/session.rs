//! Signed-in browsers (`docs/decisions/0003-sign-in.md`).

use domain::Timestamp;
use domain::ids::{Email, PersonId, SessionId, UserAccountId};
use domain::secret::SecretHash;
use domain::signin::SignInMethod;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::mail::{QueuedMail, insert_mail};
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, Tx, probe, query};
use crate::probes::rows::SessionFactsRow;
use crate::row::{limit, parsed, parsed_opt, storable};
use crate::{Store, in_transaction, probes};

/// The signed-in person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// Id of the session.
    pub session: SessionId,
    /// Id of the signed-in person.
    pub person: PersonId,
    /// Sign-in method.
    pub via: SignInMethod,
    /// Verified e-mail address.
    pub email: Email,
    /// Name, if it is known.
    pub name: Option<String>,
    /// The account that the person owns.
    pub account: Option<UserAccountId>,
    /// Time of the sign-in: some operations require a recent sign-in.
    pub created_at: Timestamp,
    /// Time of the last use that was written.
    pub last_used_at: Timestamp,
    /// Time at which the session expires, unless it is extended.
    pub expires_at: Timestamp,
}

/// One of a person's sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Public id, which its owner sees.
    pub id: SessionId,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// Time of the last use that was written.
    pub last_used_at: Timestamp,
    /// Time at which the session expires.
    pub expires_at: Timestamp,
    /// Sign-in method.
    pub via: SignInMethod,
    /// IP address of the browser at the sign-in.
    pub address: Option<String>,
    /// The browser's `User-Agent`.
    pub user_agent: Option<String>,
}

/// A session of any person, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOverview {
    /// Public id of the session.
    pub id: SessionId,
    /// The signed-in person.
    pub person: PersonId,
    /// The account that the person owns.
    pub account: Option<UserAccountId>,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// Time of the last use that was written.
    pub last_used_at: Timestamp,
    /// Time at which the session expires.
    pub expires_at: Timestamp,
    /// Sign-in method.
    pub via: SignInMethod,
}

/// Limits a list of sessions; without conditions it has all.
#[derive(Debug, Clone, Default)]
pub struct PersonSessionFilter {
    /// Sessions of this person.
    pub person: Option<PersonId>,
    /// Sessions of the owner of this account.
    pub account: Option<UserAccountId>,
}

/// A session to create.
#[derive(Debug, Clone)]
pub struct NewSession<'a> {
    /// SHA-256 of its secret.
    pub token: SecretHash,
    /// Public id, which its owner sees.
    pub id: SessionId,
    /// Id of the person who signs in.
    pub person: PersonId,
    /// Sign-in method.
    pub via: SignInMethod,
    /// IP address of the browser.
    pub address: Option<&'a str>,
    /// Its `User-Agent`; truncated to `USER_AGENT_CHARS_MAX` characters.
    pub user_agent: Option<&'a str>,
    /// Time at which the session expires.
    pub expires_at: Timestamp,
}

/// Maximum number of characters of a `User-Agent` that are stored.
const USER_AGENT_CHARS_MAX: usize = 300;

impl Store {
    /// Creates a session. `instead_of` is the browser's previous session, which ends.
    #[boxed]
    pub async fn session_create(
        &self,
        new: &NewSession<'_>,
        instead_of: Option<&SecretHash>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        in_transaction!(&self.pool, |tx| insert_session(tx, new, instead_of, now).await)
            .during(Operation::CreateSession)
            .await
    }

    /// Creates a session for a person by an act of an operator, and queues the mail to the person.
    #[boxed]
    pub async fn session_create_by_operator(
        &self,
        new: &NewSession<'_>,
        notice: Option<&QueuedMail>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        in_transaction!(&self.pool, |tx| {
            insert_session(tx, new, None, now).await?;
            if let Some(mail) = notice {
                insert_mail(tx, mail, now).await?;
            }
            self.record_act(tx, now).await
        })
        .during(Operation::CreateSession)
        .await
    }

    /// The valid session with this secret.
    #[boxed]
    pub async fn session_by_hash(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<SessionFacts>, StoreError> {
        let row = probe(probes::SESSION).bind(token.as_bytes()).fetch_optional(&self.pool);
        let row = row.during(Operation::FindSession).await?;
        // Not in the statement: with the time as an argument, the cache of probes would never have a hit.
        let row = row.filter(|row| row.expires_at > now);
        Ok(row.map(SessionFacts::try_from).transpose()?)
    }

    /// Writes the use of a valid session and extends it until `expires_at`, never shortens it; `false` if it has ended.
    #[boxed]
    pub async fn session_slide(
        &self,
        token: &SecretHash,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE sessions SET last_used_at = $3,
            expires_at = CASE WHEN expires_at < $2 THEN $2 ELSE expires_at END
            WHERE token_hash = $1 AND revoked_at IS NULL AND expires_at > $3";
        let rows_affected = query(SQL)
            .bind(token.as_bytes())
            .bind(expires_at)
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::SlideSession)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Ends a session; `false` if it had ended.
    #[boxed]
    pub async fn session_revoke(&self, token: &SecretHash, now: Timestamp) -> Result<bool, StoreError> {
        let rows_affected = query(REVOKE)
            .bind(token.as_bytes())
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::RevokeSession)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Ends a session; `false` if none with this id is valid, or `owner` is another person.
    #[boxed]
    pub async fn session_revoke_by_id(
        &self,
        id: SessionId,
        owner: Option<PersonId>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE sessions SET revoked_at = $3
            WHERE id = $1 AND ($2 IS NULL OR person_id = $2) AND revoked_at IS NULL AND expires_at > $3";
        let owner = owner.map(|person| person.as_uuid());
        in_transaction!(
            &self.pool,
            |tx| {
                let ended = query(SQL).bind(id.as_uuid()).bind(owner).bind(now).execute(&mut *tx).await? > 0;
                if ended {
                    self.record_act(tx, now).await?;
                }
                Ok(ended)
            },
            commit if |ended| *ended
        )
        .during(Operation::RevokeSessionOfPerson)
        .await
    }

    /// Ends all other sessions of a person; returns the number of ended sessions.
    #[boxed]
    pub async fn sessions_revoke_others(
        &self,
        person: PersonId,
        kept: SessionId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        const SQL: &str = "UPDATE sessions SET revoked_at = $3
            WHERE person_id = $1 AND id <> $2 AND revoked_at IS NULL AND expires_at > $3";
        query(SQL)
            .bind(person.as_uuid())
            .bind(kept.as_uuid())
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::RevokeOtherSessionsOfPerson)
            .await
    }

    /// A person's valid sessions, newest first.
    #[boxed]
    pub async fn sessions_of_person(
        &self,
        person: PersonId,
        now: Timestamp,
        rows_max: usize,
    ) -> Result<Vec<Session>, StoreError> {
        const SQL: &str = "SELECT id, created_at, last_used_at, expires_at, via, address, user_agent FROM sessions
            WHERE person_id = $1 AND revoked_at IS NULL AND expires_at > $2 ORDER BY created_at DESC, id LIMIT $3";
        let rows: Vec<SessionRow> = query(SQL)
            .bind(person.as_uuid())
            .bind(now)
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListSessionsOfPerson)
            .await?;
        Ok(rows.into_iter().map(Session::try_from).collect::<Result<_, _>>()?)
    }

    /// Valid sessions after this one, oldest first: of all persons, of one, or of the owner of an account.
    #[boxed]
    pub async fn sessions_valid(
        &self,
        filter: &PersonSessionFilter,
        after: Option<SessionId>,
        now: Timestamp,
        rows_max: usize,
    ) -> Result<Vec<SessionOverview>, StoreError> {
        let mut sql = QueryBuilder::new(
            "SELECT s.id, s.person_id, p.account_id, s.created_at, s.last_used_at, s.expires_at, s.via
            FROM sessions s JOIN persons p ON p.id = s.person_id WHERE s.revoked_at IS NULL AND s.expires_at > ",
        );
        sql.push_bind(now);
        // Only the conditions that apply, so that the index of the person is used.
        if let Some(after) = after {
            sql.push(" AND s.id > ").push_bind(after.as_uuid());
        }
        if let Some(person) = filter.person {
            sql.push(" AND s.person_id = ").push_bind(person.as_uuid());
        }
        if let Some(account) = &filter.account {
            sql.push(" AND p.account_id = ").push_bind(account.as_str());
        }
        sql.push(" ORDER BY s.id LIMIT ").push_bind(limit(rows_max));
        let rows: Vec<OverviewRow> = sql.build().fetch_all(&self.pool).during(Operation::ListSessions).await?;
        Ok(rows.into_iter().map(SessionOverview::try_from).collect::<Result<_, _>>()?)
    }
}

/// Creates a session in the caller's transaction. The session `instead_of` is revoked.
pub(crate) async fn insert_session(
    tx: &mut Tx<'_>,
    new: &NewSession<'_>,
    instead_of: Option<&SecretHash>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    const SQL: &str =
        "INSERT INTO sessions (token_hash, id, person_id, via, address, user_agent, created_at, last_used_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)";
    if let Some(old) = instead_of {
        query(REVOKE).bind(old.as_bytes()).bind(now).execute(&mut *tx).await?;
    }
    query(SQL)
        .bind(new.token.as_bytes())
        .bind(new.id.as_uuid())
        .bind(new.person.as_uuid())
        .bind(new.via.to_string())
        .bind(new.address)
        .bind(new.user_agent_kept())
        .bind(now)
        .bind(new.expires_at)
        .execute(tx)
        .await
        .map(drop)
}

impl NewSession<'_> {
    fn user_agent_kept(&self) -> Option<String> {
        self.user_agent.map(|text| storable(text).chars().take(USER_AGENT_CHARS_MAX).collect())
    }
}

const REVOKE: &str = "UPDATE sessions SET revoked_at = $2 WHERE token_hash = $1 AND revoked_at IS NULL";

impl TryFrom<SessionFactsRow> for SessionFacts {
    type Error = Corrupt;

    fn try_from(row: SessionFactsRow) -> Result<Self, Corrupt> {
        Ok(Self {
            session: row.session_id.into(),
            person: row.id.into(),
            via: parsed("sessions.via", &row.via)?,
            email: parsed("persons.email", &row.email)?,
            name: row.name,
            account: parsed_opt("persons.account_id", row.account_id.as_deref())?,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            expires_at: row.expires_at,
        })
    }
}

crate::row! {
    struct OverviewRow {
        id: Uuid,
        person_id: Uuid,
        account_id: Option<String>,
        created_at: Timestamp,
        last_used_at: Timestamp,
        expires_at: Timestamp,
        via: String,
    }
}

impl TryFrom<OverviewRow> for SessionOverview {
    type Error = Corrupt;

    fn try_from(row: OverviewRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            person: row.person_id.into(),
            account: parsed_opt("persons.account_id", row.account_id.as_deref())?,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            expires_at: row.expires_at,
            via: parsed("sessions.via", &row.via)?,
        })
    }
}

crate::row! {
    struct SessionRow {
        id: Uuid,
        created_at: Timestamp,
        last_used_at: Timestamp,
        expires_at: Timestamp,
        via: String,
        address: Option<String>,
        user_agent: Option<String>,
    }
}

impl TryFrom<SessionRow> for Session {
    type Error = Corrupt;

    fn try_from(row: SessionRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            expires_at: row.expires_at,
            via: parsed("sessions.via", &row.via)?,
            address: row.address,
            user_agent: row.user_agent,
        })
    }
}
