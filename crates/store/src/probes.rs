//! All short reads of the main database: statements that SQLite answers from indexes on the caller's thread ([`Probe`](crate::pool::Probe)).

pub(crate) mod rows;

use self::rows::{
    AccountRow, CodeRow, ComputerRow, IdentityRow, KeyRow, KnownRow, LinkedRow, PersonRow, RecorderRow,
    SessionFactsRow, SpentRow, TokenFactsRow, WaitingRow,
};
use crate::joined;

/// The columns of [`KnownRow`], of computers `m` with consent levels `c`. Without `EXISTS`, which PostgreSQL may hash over all held events.
pub(crate) const KNOWN_COLUMNS: &str = "m.machine_uuid, m.user_cuid, m.account_id,
    (SELECT i.account_id FROM identities i WHERE i.user_cuid = m.user_cuid) AS identity_account_id,
    m.last_seen_at, m.log_part, c.machine_uuid AS rule_machine_uuid, c.lane AS rule_lane, c.level AS rule_level,
    c.set_by AS rule_set_by,
    COALESCE((SELECT TRUE FROM held_events h
        WHERE h.machine_uuid = m.machine_uuid AND h.state = 'held' LIMIT 1), FALSE) AS has_held,
    m.paused_until AS machine_paused_until,
    (SELECT a.paused_until FROM accounts a WHERE a.user_account_id = m.account_id) AS account_paused_until";

/// Computers with their consent levels: [`KnownRow`].
const SELECT_KNOWN: &str = joined!(
    "SELECT ",
    KNOWN_COLUMNS,
    " FROM machines m LEFT JOIN consent_levels c
        ON c.user_cuid = m.user_cuid AND (c.machine_uuid IS NULL OR c.machine_uuid = m.machine_uuid)"
);

crate::probes! {
    /// A computer by its secret, with its consent levels.
    pub(crate) kept MACHINE_BY_SECRET: KnownRow = joined!(SELECT_KNOWN, " WHERE m.secret_hash = $1");
    /// A computer by its id, with its consent levels.
    pub(crate) short MACHINE: KnownRow = joined!(SELECT_KNOWN, " WHERE m.machine_uuid = $1");
    /// The computers of an account, newest first. Parameters: account, maximum number of rows.
    pub(crate) kept COMPUTERS: ComputerRow =
        "SELECT m.machine_uuid, m.user_cuid, m.name, m.account_id, m.first_seen_at, m.last_seen_at, m.attached_at,
            m.attached_by, m.secret_hash IS NOT NULL AS has_secret,
            (SELECT a.label FROM attachments a WHERE a.account_id = m.account_id AND a.machine_uuid = m.machine_uuid
                AND a.user_cuid = m.user_cuid) AS label
        FROM machines m WHERE m.account_id = $1 ORDER BY m.first_seen_at DESC, m.machine_uuid DESC LIMIT $2";
    /// Number of held entries of an event, from any sender. Parameter: id of the event.
    pub(crate) short HELD_OF_EVENT: WaitingRow =
        "SELECT COUNT(*) AS entries FROM held_events WHERE event_id = $1 AND state = 'held'";
    /// The usage of a sender on a day. Parameters: sender, day.
    pub(crate) short SPENT: SpentRow = "SELECT events, bytes FROM sender_days WHERE sender = $1 AND day = $2";
    /// A session that was not revoked. Parameter: hash of its secret.
    pub(crate) kept SESSION: SessionFactsRow =
        "SELECT s.id AS session_id, s.via, p.id, p.email, p.name, p.account_id, s.created_at, s.last_used_at,
            s.expires_at
        FROM sessions s JOIN persons p ON p.id = s.person_id
        WHERE s.token_hash = $1 AND s.revoked_at IS NULL";
    /// An unrevoked access token. Parameter: its hash. The account is compared too: a token that was issued during the claim ends with it.
    pub(crate) kept TOKEN: TokenFactsRow =
        "SELECT r.id, t.scope, t.account_id, r.person_id, r.claimed_email, t.expires_at, r.rights
        FROM access_tokens t JOIN registrations r ON r.id = t.registration_id
        WHERE t.token_hash = $1 AND t.revoked_at IS NULL AND r.revoked_at IS NULL
            AND t.account_id IS NOT DISTINCT FROM r.account_id";
    /// A valid API key. Parameters: its hash, now.
    pub(crate) short API_KEY: KeyRow =
        "SELECT id, account_id, name, scopes, spaces, created_at, expires_at, last_used_at, revoked_at
        FROM api_keys WHERE key_hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
    pub(crate) short DEVICE_CODE: CodeRow =
        "SELECT device_code_hash, machine_uuid, user_cuid, created_at, expires_at, state, account_id, settled_at
        FROM device_codes WHERE device_code_hash = $1";
    pub(crate) short ACCOUNT: AccountRow =
        "SELECT a.user_account_id, a.plan, a.balance_cents, COALESCE(a.name, p.name) AS name, a.created_at,
            p.id AS person_id, p.email
        FROM accounts a LEFT JOIN persons p ON p.account_id = a.user_account_id WHERE a.user_account_id = $1";
    pub(crate) short PERSON: PersonRow = "SELECT id, email, name, account_id FROM persons WHERE id = $1";
    pub(crate) short IDENTITY: IdentityRow =
        "SELECT user_cuid, account_id, control_machine_uuid, created_at FROM identities WHERE user_cuid = $1";
    /// The computers that are or were attached to an account, and the service's chains of its identities.
    pub(crate) kept RECORDERS: RecorderRow =
        "SELECT a.machine_uuid, a.user_cuid, FALSE AS is_service, COALESCE(p.log_part, 0) AS log_part
        FROM attachments a LEFT JOIN machine_parts p ON p.machine_uuid = a.machine_uuid WHERE a.account_id = $1
        UNION ALL SELECT control_machine_uuid, user_cuid, TRUE, 0 FROM identities
            WHERE account_id = $1 AND control_machine_uuid IS NOT NULL";
    /// The identities of an account, unordered.
    pub(crate) kept IDENTITIES: LinkedRow = "SELECT user_cuid FROM identities WHERE account_id = $1";
}

#[cfg(test)]
mod tests {
    use crate::{DatabaseSettings, Pool, Store};

    #[tokio::test]
    async fn every_probe_is_answered_from_indices() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseSettings::default(), &folder.path().join("facts.db")).await.unwrap();
        store.migrate().await.unwrap();
        let Pool::Sqlite { file, .. } = store.pool() else { unreachable!() };
        for (sql, columns) in super::ALL {
            assert_eq!(crate::pool::not_a_probe(file, sql, columns), None, "{sql}");
        }
    }
}
