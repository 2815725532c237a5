//! Keys of the knowledge API (`docs/decisions/0020-keys-and-spaces.md`).

use domain::Timestamp;
use domain::api_key::{ApiKey, ApiKeyName, ApiKeyScope, KeyConsent};
use domain::ids::{ApiKeyId, MachineUuid, SpaceId, UserAccountId};
use domain::secret::SecretHash;

use crate::account::LOCK_ACCOUNT;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, probe, query, scalar};
use crate::probes::rows::KeyRow;
use crate::row::{limit, parsed};
use crate::{Store, in_transaction, probes};

/// Result of creating a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCreate {
    /// The key was created.
    Created,
    /// A key with this id exists: the request was repeated.
    AlreadyMade,
    /// The account has the maximum number of valid keys.
    TooMany,
}

/// A person's consent to the key that a computer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyGrant {
    /// Id of the key.
    pub id: ApiKeyId,
    /// Maximum number of valid keys of one account.
    pub keys_max: u32,
    /// The requested scopes that the person consents to.
    pub consent: KeyConsent,
}

impl Store {
    /// Creates a key, unless the account has `keys_max` valid ones.
    #[boxed]
    pub async fn api_key_create(
        &self,
        key: &ApiKey,
        hash: &SecretHash,
        keys_max: u32,
    ) -> Result<KeyCreate, StoreError> {
        const MADE: &str = "SELECT COUNT(*) FROM api_keys WHERE id = $1";
        const ADD: &str =
            "INSERT INTO api_keys (id, account_id, name, key_hash, scopes, spaces, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let scopes = scopes_text(&key.scopes);
        let spaces = key.spaces.as_ref().map(|spaces| serde_json::to_string(spaces).unwrap_or_default());
        in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK_ACCOUNT).bind(key.account.as_str()).execute(&mut *tx).await?;
                let made: i64 = scalar(MADE).bind(key.id.as_uuid()).fetch_one(&mut *tx).await?;
                if made > 0 {
                    return Ok(KeyCreate::AlreadyMade);
                }
                let good: i64 =
                    scalar(GOOD).bind(key.account.as_str()).bind(key.created_at).fetch_one(&mut *tx).await?;
                if good >= i64::from(keys_max) {
                    return Ok(KeyCreate::TooMany);
                }
                query(ADD)
                    .bind(key.id.as_uuid())
                    .bind(key.account.as_str())
                    .bind(key.name.as_str())
                    .bind(hash.as_bytes())
                    .bind(&scopes)
                    .bind(&spaces)
                    .bind(key.created_at)
                    .bind(key.expires_at)
                    .execute(&mut *tx)
                    .await?;
                self.record_act(tx, key.created_at).await?;
                Ok(KeyCreate::Created)
            },
            commit if |outcome| *outcome == KeyCreate::Created
        )
        .during(Operation::MakeApiKey)
        .await
    }

    /// The keys of an account, newest first; revoked keys come last.
    #[boxed]
    pub async fn api_keys_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        const SQL: &str =
            "SELECT id, account_id, name, scopes, spaces, created_at, expires_at, last_used_at, revoked_at
            FROM api_keys WHERE account_id = $1
            ORDER BY (revoked_at IS NOT NULL), created_at DESC, id DESC LIMIT $2";
        let rows: Vec<KeyRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListApiKeysOfAccount)
            .await?;
        Ok(rows.into_iter().map(ApiKey::try_from).collect::<Result<_, _>>()?)
    }

    /// A key of an account; `None` for keys of other accounts.
    #[boxed]
    pub async fn api_key_of_account(&self, id: ApiKeyId, owner: &UserAccountId) -> Result<Option<ApiKey>, StoreError> {
        const SQL: &str =
            "SELECT id, account_id, name, scopes, spaces, created_at, expires_at, last_used_at, revoked_at
            FROM api_keys WHERE id = $1 AND account_id = $2";
        let row: Option<KeyRow> = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .fetch_optional(&self.pool)
            .during(Operation::ReadApiKey)
            .await?;
        Ok(row.map(ApiKey::try_from).transpose()?)
    }

    /// Keys for operators, newest first.
    #[boxed]
    pub async fn api_keys(&self, rows_max: usize) -> Result<Vec<ApiKey>, StoreError> {
        const SQL: &str =
            "SELECT id, account_id, name, scopes, spaces, created_at, expires_at, last_used_at, revoked_at
            FROM api_keys ORDER BY created_at DESC, id DESC LIMIT $1";
        let rows: Vec<KeyRow> =
            query(SQL).bind(limit(rows_max)).fetch_all(&self.pool).during(Operation::ListApiKeys).await?;
        Ok(rows.into_iter().map(ApiKey::try_from).collect::<Result<_, _>>()?)
    }

    /// The key with this secret, if it is valid.
    #[boxed]
    pub async fn api_key_by_hash(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<ApiKey>, StoreError> {
        let key = probe(probes::API_KEY).bind(hash.as_bytes()).bind(now).fetch_optional(&self.pool);
        let row = key.during(Operation::LookUpApiKey).await?;
        Ok(row.map(ApiKey::try_from).transpose()?)
    }

    /// Stores the time of use, unless a use since `unless_since` is stored.
    #[boxed]
    pub async fn api_key_used(
        &self,
        id: ApiKeyId,
        unless_since: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE api_keys SET last_used_at = $3
            WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $2)";
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(unless_since)
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::WriteLastUseOfApiKey)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Revokes a key permanently, for its account or for an operator (`None`). `false` if there is no such valid key.
    #[boxed]
    pub async fn api_key_revoke(
        &self,
        id: ApiKeyId,
        owner: Option<&UserAccountId>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE api_keys SET revoked_at = $2
            WHERE id = $1 AND revoked_at IS NULL AND ($3 IS NULL OR account_id = $3)";
        in_transaction!(
            &self.pool,
            |tx| {
                let rows_affected = query(SQL)
                    .bind(id.as_uuid())
                    .bind(now)
                    .bind(owner.map(UserAccountId::as_str))
                    .execute(&mut *tx)
                    .await?;
                if rows_affected == 1 {
                    self.record_act(tx, now).await?;
                }
                Ok(rows_affected == 1)
            },
            commit if |done| *done
        )
        .during(Operation::RevokeApiKey)
        .await
    }
}

/// The valid keys of an account.
const GOOD: &str = "SELECT COUNT(*) FROM api_keys
    WHERE account_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";

/// Revokes the keys that a computer got with its attachment.
pub(crate) const REVOKE_OF_MACHINE: &str =
    "UPDATE api_keys SET revoked_at = $2 WHERE machine_uuid = $1 AND revoked_at IS NULL";

/// A key that a computer gets with its attachment.
pub(crate) struct ComputersKey<'k> {
    pub(crate) machine: MachineUuid,
    pub(crate) account: &'k str,
    /// Name that the computer reported.
    pub(crate) name: &'k str,
    pub(crate) hash: &'k [u8],
    pub(crate) scopes: &'k str,
}

/// Creates the key of a computer in the caller's transaction and revokes its earlier keys. `AlreadyMade`: a key with this hash exists.
pub(crate) async fn add_key_of_computer(
    tx: &mut Tx<'_>,
    KeyGrant { id, keys_max, .. }: KeyGrant,
    key: &ComputersKey<'_>,
    now: Timestamp,
) -> Result<KeyCreate, sqlx::Error> {
    const ADD: &str = "INSERT INTO api_keys (id, account_id, name, key_hash, scopes, created_at, machine_uuid)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (key_hash) DO NOTHING";
    query(LOCK_ACCOUNT).bind(key.account).execute(&mut *tx).await?;
    query(REVOKE_OF_MACHINE).bind(key.machine.as_uuid()).bind(now).execute(&mut *tx).await?;
    let good: i64 = scalar(GOOD).bind(key.account).bind(now).fetch_one(&mut *tx).await?;
    if good >= i64::from(keys_max) {
        return Ok(KeyCreate::TooMany);
    }
    let name = key.name.parse().map_or_else(|_| "a computer".to_owned(), |name: ApiKeyName| name.as_str().to_owned());
    let added = query(ADD)
        .bind(id.as_uuid())
        .bind(key.account)
        .bind(&name)
        .bind(key.hash)
        .bind(key.scopes)
        .bind(now)
        .bind(key.machine.as_uuid())
        .execute(&mut *tx)
        .await?;
    Ok(if added == 1 { KeyCreate::Created } else { KeyCreate::AlreadyMade })
}

/// Scopes in the form of a column: words separated by commas.
pub(crate) fn scopes_text(scopes: &[ApiKeyScope]) -> String {
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    scopes.join(",")
}

pub(crate) fn scopes_of_text(column: &'static str, text: &str) -> Result<Vec<ApiKeyScope>, Corrupt> {
    text.split(',').map(|scope| parsed(column, scope)).collect()
}

impl TryFrom<KeyRow> for ApiKey {
    type Error = Corrupt;

    fn try_from(row: KeyRow) -> Result<Self, Corrupt> {
        let scopes = scopes_of_text("api_keys.scopes", &row.scopes);
        let spaces: Option<Vec<SpaceId>> = row
            .spaces
            .map(|spaces| serde_json::from_str(&spaces).map_err(|error| Corrupt::new("api_keys.spaces", error)))
            .transpose()?;
        Ok(Self {
            id: row.id.into(),
            account: parsed("api_keys.account_id", &row.account_id)?,
            name: parsed("api_keys.name", &row.name)?,
            scopes: scopes?,
            spaces,
            created_at: row.created_at,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
        })
    }
}
