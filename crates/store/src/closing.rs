//! Closing of accounts by their owners (`docs/decisions/0017-retention-and-erasure.md`).
//!
//! 1. [`Store::account_close`] is one transaction: it ends every access and frees the owner's e-mail address for a new account.
//! 2. [`Store::closed_accounts_empty`], called by the janitor, deletes the contents in small transactions. Each is repeated until all rows
//!    are deleted, including rows of a crash or of requests that were in flight when the account was closed.
//!
//! The row of the account stays, without its name: the ledger of its balance refers to it. Recorded events stay in the log.

use chrono::TimeDelta;
use domain::Timestamp;
use domain::ids::{UserAccountId, UserCuid};
use uuid::Uuid;

use crate::change::Change;
use crate::error::StoreError;
use crate::held::{Ending, lock_senders, subtract_held};
use crate::janitor::PurgeSettings;
use crate::mail::{QueuedMail, insert_mail};
use crate::memory::MemoryScope;
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::parsed;
use crate::space::DELETE_UNUSED;
use crate::{Store, in_transaction};

/// Longer than any request: after it, every request that saw the account open has ended.
const GRACE: TimeDelta = TimeDelta::minutes(10);

/// Maximum number of closed accounts per call.
const ACCOUNTS_MAX: i64 = 100;

/// Number of memories per page.
const MEMORIES_AT_ONCE: usize = 50;

crate::row! {
    struct ClosingRow {
        account_id: String,
        person_id: Option<Uuid>,
        closed_at: Timestamp,
    }
}

impl Store {
    /// Closes an account: ends its sessions, tokens, agents, keys and computers, and stops its batches. `notice` is stored in the same
    /// transaction. `false` if the account is closed or does not exist.
    #[boxed]
    pub async fn account_close(
        &self,
        account: &UserAccountId,
        notice: Option<&QueuedMail>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const CLOSE: &str = "INSERT INTO account_closings (account_id, person_id, closed_at)
            SELECT a.user_account_id, (SELECT p.id FROM persons p WHERE p.account_id = a.user_account_id), $2
            FROM accounts a WHERE a.user_account_id = $1
            ON CONFLICT (account_id) DO NOTHING RETURNING account_id, person_id, closed_at";
        // Approvals by agents lock an agent before the person.
        const LOCK_AGENTS: &str = "UPDATE registrations SET id = id WHERE account_id = $1 AND revoked_at IS NULL";
        const LEAVE: &str = "UPDATE persons SET account_id = NULL WHERE account_id = $1";
        in_transaction!(
            &self.pool,
            |tx| {
                let closing: Option<ClosingRow> =
                    query(CLOSE).bind(account.as_str()).bind(now).fetch_optional(&mut *tx).await?;
                let Some(closing) = closing else { return Ok(false) };
                query(LOCK_AGENTS).bind(account.as_str()).execute(&mut *tx).await?;
                query(LEAVE).bind(account.as_str()).execute(&mut *tx).await?;
                end_access(tx, &closing, now).await?;
                if let Some(mail) = notice {
                    insert_mail(tx, mail, now).await?;
                }
                self.announce(tx, &Change::Others).await?;
                self.record_act(tx, now).await?;
                Ok(true)
            },
            commit if |closed| *closed
        )
        .during(Operation::CloseAccount)
        .await
    }

    /// Deletes contents of closed accounts; returns the number of accounts that are empty now. The next call continues.
    #[boxed]
    pub async fn closed_accounts_empty(&self, now: Timestamp, settings: &PurgeSettings) -> Result<u64, StoreError> {
        const TO_EMPTY: &str = "SELECT account_id, person_id, closed_at FROM account_closings
            WHERE emptied_at IS NULL ORDER BY closed_at LIMIT $1";
        let rows: Vec<ClosingRow> =
            query(TO_EMPTY).bind(ACCOUNTS_MAX).fetch_all(&self.pool).during(Operation::ListClosedAccounts).await?;
        let mut emptied = 0;
        for closing in &rows {
            match self.empty(closing, now, settings).await {
                // A memory that is away delays no other work of the janitor.
                Err(_) if !self.takes_memories().await => break,
                is_empty => emptied += u64::from(is_empty?),
            }
        }
        Ok(emptied)
    }

    /// Deletes contents of one account; `true` if all are deleted.
    async fn empty(&self, closing: &ClosingRow, now: Timestamp, settings: &PurgeSettings) -> Result<bool, StoreError> {
        let account: UserAccountId = parsed("account_closings.account_id", &closing.account_id)?;
        in_transaction!(&self.pool, |tx| end_access(tx, closing, now).await)
            .during(Operation::EmptyClosedAccount)
            .await?;
        let is_forgotten = self.delete_memories(&account, settings).await?;
        let is_released = self.delete_held(&account, settings).await?;
        let are_rows_gone = self.delete_rows(&account, settings).await?;
        let is_unlinked = self.unlink_identities(&account).await?;
        if !(is_forgotten && is_released && are_rows_gone && is_unlinked) {
            return Ok(false);
        }
        if !self.delete_parties(&account, settings).await? || now - closing.closed_at < GRACE {
            return Ok(false);
        }
        self.finish(closing, now).await
    }

    async fn delete_memories(&self, account: &UserAccountId, settings: &PurgeSettings) -> Result<bool, StoreError> {
        let scope = MemoryScope::Account(account.clone());
        for _ in 0..settings.batches_max {
            let page = self.memories_of(&scope, None, MEMORIES_AT_ONCE, 0).await?;
            if page.is_empty() {
                return Ok(true);
            }
            for memory in page {
                self.memory_delete(memory.id, account).await?;
            }
        }
        Ok(false)
    }

    /// Deletes events that are held for the account.
    async fn delete_held(&self, account: &UserAccountId, settings: &PurgeSettings) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM held_events WHERE id IN (SELECT id FROM held_events
                WHERE account_id = $1 AND state = 'held' LIMIT $2) RETURNING sender, charged_bytes";
        let rows_max = i64::from(settings.batch_rows.max(1));
        for _ in 0..settings.batches_max {
            let gone = in_transaction!(&self.pool, |tx| {
                lock_senders(tx, &Ending::Account(account)).await?;
                let gone: Vec<(String, i64)> =
                    query(SQL).bind(account.as_str()).bind(rows_max).fetch_all(&mut *tx).await?;
                subtract_held(tx, &gone).await?;
                Ok(gone.len())
            })
            .during(Operation::EmptyClosedAccount)
            .await?;
            if gone == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the rows that belong only to the account.
    async fn delete_rows(&self, account: &UserAccountId, settings: &PurgeSettings) -> Result<bool, StoreError> {
        // A running batch must end first.
        const KINDS: [&str; 11] = [
            "DELETE FROM seen_values WHERE (account_id, novelty, value) IN
                (SELECT account_id, novelty, value FROM seen_values WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM watched_accounts WHERE account_id IN
                (SELECT account_id FROM watched_accounts WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM rules WHERE id IN (SELECT id FROM rules WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM feed_entries WHERE (account_id, notification_id) IN
                (SELECT account_id, notification_id FROM feed_entries WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM webhook_deliveries WHERE (webhook_id, notification_id) IN
                (SELECT d.webhook_id, d.notification_id FROM webhook_deliveries d
                JOIN webhooks w ON w.id = d.webhook_id WHERE w.account_id = $1 LIMIT $2)",
            "DELETE FROM webhooks WHERE id IN (SELECT id FROM webhooks WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM batches WHERE id IN
                (SELECT id FROM batches WHERE account_id = $1 AND state <> 'running' LIMIT $2)",
            "DELETE FROM verdicts WHERE id IN (SELECT id FROM verdicts WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE account_id = $1 LIMIT $2)",
            "DELETE FROM space_members WHERE account_id = $1 AND space_id IN (SELECT space_id FROM space_members
                WHERE account_id = $1 AND access <> 'owner' LIMIT $2)",
            "DELETE FROM knowledge_settings WHERE account_id IN
                (SELECT account_id FROM knowledge_settings WHERE account_id = $1 LIMIT $2)",
        ];
        const RUNNING: &str = "SELECT COUNT(*) FROM batches WHERE account_id = $1 AND state = 'running'";
        let rows_max = i64::from(settings.batch_rows.max(1));
        let mut is_done = self.delete_spaces(account, settings).await?;
        for sql in KINDS {
            let mut left = settings.batches_max;
            loop {
                let writer = self.pool.writer();
                let statement = query(sql).bind(account.as_str()).bind(rows_max);
                let rows_affected = statement.execute(writer).during(Operation::EmptyClosedAccount).await?;
                left = left.saturating_sub(1);
                if rows_affected < rows_max.unsigned_abs() {
                    break;
                }
                if left == 0 {
                    is_done = false;
                    break;
                }
            }
        }
        let running: i64 =
            scalar(RUNNING).bind(account.as_str()).fetch_one(&self.pool).during(Operation::EmptyClosedAccount).await?;
        Ok(is_done && running == 0)
    }

    /// Deletes the account's spaces. A space with a memory of another account stays for that account and is not public any more.
    async fn delete_spaces(&self, account: &UserAccountId, settings: &PurgeSettings) -> Result<bool, StoreError> {
        const OWNED: &str = "SELECT id FROM spaces WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3";
        const DO: Operation = Operation::EmptyClosedAccount;
        let mut after = Uuid::nil();
        for _ in 0..settings.batches_max {
            let owned = scalar(OWNED).bind(account.as_str()).bind(after).bind(i64::from(settings.batch_rows.max(1)));
            let owned: Vec<Uuid> = owned.fetch_all(&self.pool).during(DO).await?;
            let Some(last) = owned.last() else { return Ok(true) };
            after = *last;
            for id in owned {
                if !self.is_space_used_apart(id.into()).await? {
                    query(DELETE_UNUSED).bind(id).execute(self.pool.writer()).during(DO).await?;
                }
            }
        }
        Ok(false)
    }

    /// Unlinks the identities after their reports are forwarded.
    async fn unlink_identities(&self, account: &UserAccountId) -> Result<bool, StoreError> {
        let mut is_done = true;
        for identity in self.identities_of_account(account).await? {
            is_done &= self.unlink_identity(account, &identity).await?;
        }
        Ok(is_done)
    }

    /// Frees an identity: deletes its levels for all computers and ends the chain of reports about it, so that a later owner does not see
    /// it.
    async fn unlink_identity(&self, account: &UserAccountId, identity: &UserCuid) -> Result<bool, StoreError> {
        const LOCK: &str = "UPDATE identities SET account_id = account_id WHERE user_cuid = $1 AND account_id = $2";
        const WAITING: &str = "SELECT COUNT(*) FROM consent_outbox WHERE user_cuid = $1";
        const SPEND: &str = "INSERT INTO spent_machines (machine_uuid) SELECT i.control_machine_uuid FROM identities i
            WHERE i.user_cuid = $1 AND i.control_machine_uuid IS NOT NULL ON CONFLICT DO NOTHING";
        const FREE: &str =
            "UPDATE identities SET account_id = NULL, control_machine_uuid = NULL, control_chain_epoch = 0,
            control_seq = 0, control_prev = NULL WHERE user_cuid = $1";
        const LEVELS: &str = "DELETE FROM consent_levels WHERE user_cuid = $1 AND machine_uuid IS NULL";
        const REMOVE: &str = "DELETE FROM identities WHERE user_cuid = $1
            AND NOT EXISTS (SELECT 1 FROM machines m WHERE m.user_cuid = $1)
            AND NOT EXISTS (SELECT 1 FROM consent_levels c WHERE c.user_cuid = $1)";
        in_transaction!(
            &self.pool,
            |tx| {
                let identity = identity.as_str();
                if query(LOCK).bind(identity).bind(account.as_str()).execute(&mut *tx).await? == 0 {
                    return Ok(true);
                }
                let waiting: i64 = scalar(WAITING).bind(identity).fetch_one(&mut *tx).await?;
                if waiting > 0 {
                    return Ok(false);
                }
                for sql in [SPEND, FREE, LEVELS] {
                    query(sql).bind(identity).execute(&mut *tx).await?;
                }
                query(REMOVE).bind(identity).execute(&mut *tx).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::EmptyClosedAccount)
        .await
    }

    /// Deletes agents and detached computers. The ids of the computers are spent, because recorded events stay in the log: a computer
    /// cannot register under them again. Their levels and usage are deleted too, as for unattached computers.
    async fn delete_parties(&self, account: &UserAccountId, settings: &PurgeSettings) -> Result<bool, StoreError> {
        const COMPUTERS: &str = "DELETE FROM machines WHERE machine_uuid IN (SELECT a.machine_uuid FROM attachments a
                JOIN machines m ON m.machine_uuid = a.machine_uuid AND m.user_cuid = a.user_cuid
                WHERE a.account_id = $1 AND m.account_id IS NULL AND m.secret_hash IS NULL LIMIT $2)
            RETURNING machine_uuid, user_cuid";
        const SPEND: &str = "INSERT INTO spent_machines (machine_uuid, user_cuid) VALUES ($1, $2)
            ON CONFLICT (machine_uuid) DO UPDATE SET user_cuid = excluded.user_cuid";
        const LOOSEN: [&str; 2] = [
            "UPDATE registrations SET claimed_by = NULL
                WHERE claimed_by IN (SELECT r.id FROM registrations r WHERE r.account_id = $1)",
            "UPDATE machines SET attached_by = NULL
                WHERE attached_by IN (SELECT r.id FROM registrations r WHERE r.account_id = $1)",
        ];
        const AGENTS: &str = "DELETE FROM registrations WHERE id IN
            (SELECT r.id FROM registrations r WHERE r.account_id = $1 LIMIT $2)";
        let rows_max = i64::from(settings.batch_rows.max(1));
        for _ in 0..settings.batches_max {
            let deleted = in_transaction!(&self.pool, |tx| {
                let computers: Vec<(Uuid, String)> =
                    query(COMPUTERS).bind(account.as_str()).bind(rows_max).fetch_all(&mut *tx).await?;
                for (machine, identity) in &computers {
                    query(SPEND).bind(*machine).bind(identity).execute(&mut *tx).await?;
                }
                for sql in LOOSEN {
                    query(sql).bind(account.as_str()).execute(&mut *tx).await?;
                }
                let agents = query(AGENTS).bind(account.as_str()).bind(rows_max).execute(&mut *tx).await?;
                Ok(computers.len() as u64 + agents)
            })
            .during(Operation::EmptyClosedAccount)
            .await?;
            if deleted == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the name and owner of the account. The person stays if they signed in again; while a finished device code or a session
    /// refers to the row, a later call deletes it.
    async fn finish(&self, closing: &ClosingRow, now: Timestamp) -> Result<bool, StoreError> {
        const FORGET: [&str; 2] = [
            "DELETE FROM attachments WHERE account_id = $1",
            "UPDATE accounts SET name = NULL WHERE user_account_id = $1 AND name IS NOT NULL",
        ];
        const SESSIONS: &str = "DELETE FROM sessions WHERE person_id = $1 AND created_at <= $2";
        const PERSON: &str = "DELETE FROM persons WHERE id = $1 AND account_id IS NULL
            AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.person_id = $1)
            AND NOT EXISTS (SELECT 1 FROM registrations r WHERE r.person_id = $1)
            AND NOT EXISTS (SELECT 1 FROM device_codes d WHERE d.person_id = $1)
            AND NOT EXISTS (SELECT 1 FROM device_guesses g WHERE g.person_id = $1)";
        const LEFT: &str = "SELECT COUNT(*) FROM persons p WHERE p.id = $1 AND p.account_id IS NULL
            AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.person_id = $1)";
        const EMPTIED: &str =
            "UPDATE account_closings SET emptied_at = $2 WHERE account_id = $1 AND emptied_at IS NULL";
        in_transaction!(&self.pool, |tx| {
            for sql in FORGET {
                query(sql).bind(&closing.account_id).execute(&mut *tx).await?;
            }
            if let Some(person) = closing.person_id {
                query(SESSIONS).bind(person).bind(closing.closed_at).execute(&mut *tx).await?;
                query(PERSON).bind(person).execute(&mut *tx).await?;
                let left: i64 = scalar(LEFT).bind(person).fetch_one(&mut *tx).await?;
                if left > 0 {
                    return Ok(false);
                }
            }
            Ok(query(EMPTIED).bind(&closing.account_id).bind(now).execute(&mut *tx).await? == 1)
        })
        .during(Operation::EmptyClosedAccount)
        .await
    }
}

/// Ends every access of a closed account. Sessions that started later belong to a person who signed in again.
async fn end_access(tx: &mut Tx<'_>, closing: &ClosingRow, now: Timestamp) -> Result<(), sqlx::Error> {
    const END: [&str; 6] = [
        "UPDATE webhook_deliveries SET next_try_at = NULL, settled_at = $2 WHERE next_try_at IS NOT NULL
            AND webhook_id IN (SELECT w.id FROM webhooks w WHERE w.account_id = $1)",
        "UPDATE webhooks SET disabled_at = $2, disabled_why = 'owner' WHERE account_id = $1 AND disabled_at IS NULL",
        "UPDATE access_tokens SET revoked_at = $2 WHERE revoked_at IS NULL
            AND registration_id IN (SELECT r.id FROM registrations r WHERE r.account_id = $1)",
        "UPDATE registrations SET revoked_at = $2, changed_at = $2 WHERE account_id = $1 AND revoked_at IS NULL",
        "UPDATE api_keys SET revoked_at = $2 WHERE account_id = $1 AND revoked_at IS NULL",
        "UPDATE batches SET cancelled_at = $2 WHERE account_id = $1 AND state = 'running' AND cancelled_at IS NULL",
    ];
    const DETACH: [&str; 6] = [
        "DELETE FROM watched_accounts WHERE account_id = $1",
        "DELETE FROM rules WHERE account_id = $1",
        "DELETE FROM feeds WHERE account_id = $1",
        "DELETE FROM audit_links WHERE account_id = $1",
        "UPDATE machines SET account_id = NULL, attached_at = NULL, attached_by = NULL, secret_hash = NULL
            WHERE account_id = $1",
        "UPDATE spaces SET is_public = FALSE WHERE account_id = $1 AND is_public",
    ];
    const SIGN_OUT: &str = "UPDATE sessions SET revoked_at = $2
        WHERE person_id = $1 AND revoked_at IS NULL AND created_at <= $3";
    for sql in END {
        query(sql).bind(&closing.account_id).bind(now).execute(&mut *tx).await?;
    }
    for sql in DETACH {
        query(sql).bind(&closing.account_id).execute(&mut *tx).await?;
    }
    if let Some(person) = closing.person_id {
        query(SIGN_OUT).bind(person).bind(now).bind(closing.closed_at).execute(&mut *tx).await?;
    }
    Ok(())
}
