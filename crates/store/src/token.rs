//! Access tokens and the keys that sign identity assertions (`docs/decisions/0001-credentials.md`).

use domain::agent_right::AgentRights;
use domain::ids::{Email, PersonId, RegistrationId, UserAccountId};
use domain::secret::SecretHash;
use domain::token::{AssertionKey, KeyState, TokenScope};
use domain::{Rng, Timestamp};

use crate::change::Change;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, probe, query, scalar};
use crate::probes::rows::TokenFactsRow;
use crate::row::{bytes, parsed, parsed_opt};
use crate::{Store, in_transaction, probes};

/// The registration and scope of an access token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    /// Registration of the agent.
    pub registration: RegistrationId,
    /// The access that it grants.
    pub scope: TokenScope,
    /// With the account scope: the account that the agent acts for.
    pub account: Option<UserAccountId>,
    /// With the account scope: the person who confirmed.
    pub person: Option<(PersonId, Email)>,
    /// With the account scope: the rights that the person granted; `None` for the protocol's default rights of account bearers.
    pub rights: Option<AgentRights>,
    /// When the token expires.
    pub expires_at: Timestamp,
}

impl Store {
    /// Issues a token: with the events scope for an unclaimed registration, with the account scope for a claimed one. `false` if
    /// the registration is in another state or revoked.
    #[boxed]
    pub async fn token_issue(
        &self,
        token: &SecretHash,
        registration: RegistrationId,
        scope: TokenScope,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<bool, StoreError> {
        const SEEN: &str = "UPDATE registrations SET last_token_at = $2
            WHERE id = $1 AND claimed_at IS NOT NULL AND revoked_at IS NULL";
        const ISSUE: &str =
            "INSERT INTO access_tokens (token_hash, registration_id, scope, account_id, created_at, expires_at)
            SELECT $2, id, CASE WHEN claimed_at IS NULL THEN 'svc.events' ELSE 'svc.account' END, account_id, $4, $5
            FROM registrations
            WHERE id = $1 AND revoked_at IS NULL AND (claimed_at IS NULL) = ($3 = 'svc.events')";
        in_transaction!(
            &self.pool,
            |tx| {
                if scope == TokenScope::Account {
                    query(SEEN).bind(registration.as_uuid()).bind(now).execute(&mut *tx).await?;
                }
                let issued = query(ISSUE)
                    .bind(registration.as_uuid())
                    .bind(token.as_bytes())
                    .bind(scope.as_str())
                    .bind(now)
                    .bind(expires_at)
                    .execute(&mut *tx)
                    .await?;
                Ok(issued == 1)
            },
            commit if |issued| *issued
        )
        .during(Operation::IssueToken)
        .await
    }

    /// The facts about a token, if it is valid: not expired, not revoked, and its registration is unchanged since it was issued.
    #[boxed]
    pub async fn token_by_hash(&self, token: &SecretHash, now: Timestamp) -> Result<Option<TokenFacts>, StoreError> {
        let row = probe(probes::TOKEN).bind(token.as_bytes()).fetch_optional(&self.pool);
        let row = row.during(Operation::FindToken).await?;
        let row = row.filter(|row| row.expires_at > now);
        Ok(row.map(TokenFacts::try_from).transpose()?)
    }

    /// Revokes a token; `false` if there is no such valid token. The registration is unchanged.
    #[boxed]
    pub async fn token_revoke(&self, token: &SecretHash, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE access_tokens SET revoked_at = $2 WHERE token_hash = $1 AND revoked_at IS NULL";
        let rows_affected = query(SQL)
            .bind(token.as_bytes())
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::RevokeToken)
            .await?;
        Ok(rows_affected == 1)
    }

    /// The keys that sign or still verify: all except keys that were retired longer ago than the lifetime of an assertion.
    #[boxed]
    pub async fn assertion_keys(
        &self,
        now: Timestamp,
        keep_retired_for: chrono::TimeDelta,
    ) -> Result<Vec<AssertionKey>, StoreError> {
        const SQL: &str = "SELECT kid, seed, state, created_at, activated_at, retired_at FROM assertion_keys
            WHERE retired_at IS NULL OR retired_at > $1 ORDER BY created_at, kid";
        let rows: Vec<KeyRow> =
            query(SQL).bind(now - keep_retired_for).fetch_all(&self.pool).during(Operation::ReadSigningKeys).await?;
        Ok(rows.into_iter().map(AssertionKey::try_from).collect::<Result<_, _>>()?)
    }

    /// Creates a signing key and an announced key if they are absent. Concurrent processes create one of each.
    #[boxed]
    pub async fn assertion_keys_ensure(&self, now: Timestamp, rng: &Rng) -> Result<(), StoreError> {
        let active = AssertionKey { state: KeyState::Active, activated_at: Some(now), ..AssertionKey::draw(rng, now) };
        let next = AssertionKey::draw(rng, now);
        in_transaction!(&self.pool, |tx| {
            for key in [&active, &next] {
                insert_key(tx, key).await?;
            }
            Ok(())
        })
        .during(Operation::MakeSigningKeys)
        .await
    }

    /// Retires the signing key, lets the announced key sign and announces a new one; returns the id of the key that signs now.
    /// `None` if another process is doing the same, or there are no keys yet.
    #[boxed]
    pub async fn assertion_keys_rotate(&self, now: Timestamp, rng: &Rng) -> Result<Option<String>, StoreError> {
        const RETIRE: &str = "UPDATE assertion_keys SET state = 'retired', retired_at = $1 WHERE state = 'active'";
        const ACTIVATE: &str =
            "UPDATE assertion_keys SET state = 'active', activated_at = $1 WHERE state = 'next' RETURNING kid";
        let next = AssertionKey::draw(rng, now);
        in_transaction!(
            &self.pool,
            |tx| {
                let retired = query(RETIRE).bind(now).execute(&mut *tx).await?;
                if retired == 0 {
                    return Ok(None);
                }
                let active: Option<String> = scalar(ACTIVATE).bind(now).fetch_optional(&mut *tx).await?;
                insert_key(tx, &next).await?;
                self.announce(tx, &Change::Others).await?;
                self.record_act(tx, now).await?;
                Ok(active)
            },
            commit if Option::is_some
        )
        .during(Operation::RotateSigningKeys)
        .await
    }
}

/// Adds a signing key; an existing one with the same id is unchanged.
async fn insert_key(tx: &mut Tx<'_>, key: &AssertionKey) -> Result<(), sqlx::Error> {
    const SQL: &str =
        "INSERT INTO assertion_keys (kid, seed, state, created_at, activated_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";
    query(SQL)
        .bind(&key.kid)
        .bind(&key.seed[..])
        .bind(key.state.as_str())
        .bind(key.created_at)
        .bind(key.activated_at)
        .execute(tx)
        .await
        .map(drop)
}

impl TryFrom<TokenFactsRow> for TokenFacts {
    type Error = Corrupt;

    fn try_from(row: TokenFactsRow) -> Result<Self, Corrupt> {
        let email = parsed_opt("registrations.claimed_email", row.claimed_email.as_deref())?;
        Ok(Self {
            registration: row.id.into(),
            scope: parsed("access_tokens.scope", &row.scope)?,
            account: parsed_opt("access_tokens.account_id", row.account_id.as_deref())?,
            person: row.person_id.map(PersonId::from).zip(email),
            rights: parsed_opt("registrations.rights", row.rights.as_deref())?,
            expires_at: row.expires_at,
        })
    }
}

crate::row! {
    struct KeyRow {
        kid: String,
        seed: Vec<u8>,
        state: String,
        created_at: Timestamp,
        activated_at: Option<Timestamp>,
        retired_at: Option<Timestamp>,
    }
}

impl TryFrom<KeyRow> for AssertionKey {
    type Error = Corrupt;

    fn try_from(row: KeyRow) -> Result<Self, Corrupt> {
        Ok(Self {
            seed: bytes("assertion_keys.seed", &row.seed)?,
            state: parsed("assertion_keys.state", &row.state)?,
            kid: row.kid,
            created_at: row.created_at,
            activated_at: row.activated_at,
            retired_at: row.retired_at,
        })
    }
}
