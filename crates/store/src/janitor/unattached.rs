//! Deletes computers that were never attached and make no requests any more.
//!
//! 1. The computer is removed, and its id is spent: events recorded under it stay in the log, and a computer cannot register under it
//!    again.
//! 2. Data that only this computer refers to is deleted: held events, consent levels, usage counts, and its identity if it has no other
//!    reference.
//!
//! Both steps are small transactions. If a crash interrupts the second, the next call continues it.

use domain::Timestamp;
use domain::usage::Day;
use uuid::Uuid;

use super::PurgeSettings;
use crate::error::StoreError;
use crate::held::{Ending, lock_senders, subtract_held};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::{Store, in_transaction};

crate::row! {
    /// A computer that is removed and not cleaned up.
    struct SpentRow {
        machine_uuid: Uuid,
        user_cuid: String,
    }
}

impl Store {
    /// Removes computers that were never attached and made no request since `before`; returns their number.
    pub(super) async fn purge_unattached(
        &self,
        before: Timestamp,
        settings: &PurgeSettings,
    ) -> Result<u64, StoreError> {
        let batch_rows = i64::from(settings.batch_rows.max(1));
        let mut purged = 0;
        for _ in 0..settings.batches_max {
            let spent = self.spend_unattached(before, batch_rows).await?;
            purged += spent;
            if spent < batch_rows.unsigned_abs() {
                break;
            }
        }
        for _ in 0..settings.batches_max {
            if self.clean_spent(settings).await? < batch_rows.unsigned_abs() {
                break;
            }
        }
        Ok(purged)
    }

    /// Removes some computers and spends their ids; returns their number.
    async fn spend_unattached(&self, before: Timestamp, rows_max: i64) -> Result<u64, StoreError> {
        // A computer without a secret was detached by its owner. A computer that was detached because the approving agent was revoked has a
        // secret and a row in `attachments`. PostgreSQL checks a row again after it waited for its lock.
        const REMOVE: &str = "DELETE FROM machines WHERE machine_uuid IN (SELECT m.machine_uuid FROM machines m
                WHERE m.account_id IS NULL AND m.secret_hash IS NOT NULL AND m.last_seen_at < $1
                    AND NOT EXISTS (SELECT 1 FROM attachments a WHERE a.machine_uuid = m.machine_uuid)
                ORDER BY m.last_seen_at LIMIT $2)
            AND account_id IS NULL AND secret_hash IS NOT NULL AND last_seen_at < $1
            RETURNING machine_uuid, user_cuid";
        const SPEND: &str =
            "INSERT INTO spent_machines (machine_uuid, user_cuid) VALUES ($1, $2) ON CONFLICT (machine_uuid)
            DO UPDATE SET user_cuid = excluded.user_cuid";
        in_transaction!(&self.pool, |tx| {
            let removed: Vec<SpentRow> = query(REMOVE).bind(before).bind(rows_max).fetch_all(&mut *tx).await?;
            for row in &removed {
                query(SPEND).bind(row.machine_uuid).bind(&row.user_cuid).execute(&mut *tx).await?;
            }
            Ok(removed.len() as u64)
        })
        .during(Operation::RemoveComputersThatWereNeverAttached)
        .await
    }

    /// Deletes the data of some spent computers; returns the number of processed computers.
    async fn clean_spent(&self, settings: &PurgeSettings) -> Result<u64, StoreError> {
        const TO_CLEAN: &str = "SELECT machine_uuid, user_cuid FROM spent_machines WHERE user_cuid IS NOT NULL ORDER BY machine_uuid LIMIT $1";
        let rows_max = i64::from(settings.batch_rows.max(1));
        let rows: Vec<SpentRow> =
            query(TO_CLEAN).bind(rows_max).fetch_all(&self.pool).during(Operation::ListRemovedComputers).await?;
        for row in &rows {
            while self.discard_held_of(row.machine_uuid, rows_max).await? == rows_max.unsigned_abs() {}
            self.clean_one(row).await?;
        }
        Ok(rows.len() as u64)
    }

    /// Deletes some of the held events of a removed computer; returns their number.
    async fn discard_held_of(&self, machine: Uuid, rows_max: i64) -> Result<u64, StoreError> {
        const SQL: &str = "DELETE FROM held_events WHERE id IN (SELECT id FROM held_events
                WHERE machine_uuid = $1 AND state = 'held' LIMIT $2) RETURNING sender, charged_bytes";
        in_transaction!(&self.pool, |tx| {
            lock_senders(tx, &Ending::Machine(machine)).await?;
            let gone: Vec<(String, i64)> = query(SQL).bind(machine).bind(rows_max).fetch_all(&mut *tx).await?;
            subtract_held(tx, &gone).await?;
            Ok(gone.len() as u64)
        })
        .during(Operation::RemoveHeldEventsOfRemovedComputer)
        .await
    }

    /// Deletes the usage of unattached senders before a day.
    pub(super) async fn purge_sender_days(&self, before: Day, settings: &PurgeSettings) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM sender_days WHERE (sender, day) IN
            (SELECT sender, day FROM sender_days WHERE day < $1 LIMIT $2)";
        let batch_rows = settings.batch_rows.max(1);
        for _ in 0..settings.batches_max {
            let rows_affected = query(SQL)
                .bind(before.number())
                .bind(i64::from(batch_rows))
                .execute(self.pool.writer())
                .during(Operation::DeleteUsageOfSenders)
                .await?;
            if rows_affected < u64::from(batch_rows) {
                break;
            }
        }
        Ok(())
    }

    async fn clean_one(&self, spent: &SpentRow) -> Result<(), StoreError> {
        const CONSENT: &str = "DELETE FROM consent_levels WHERE user_cuid = $1 AND machine_uuid = $2";
        const USAGE: &str = "DELETE FROM usage_days WHERE user_cuid = $1 AND machine_uuid = $2";
        // Another computer must not continue the service's chain of reports about the identity either.
        const CONTROL: &str = "INSERT INTO spent_machines (machine_uuid) SELECT control_machine_uuid FROM identities i
            WHERE i.user_cuid = $1 AND i.control_machine_uuid IS NOT NULL ON CONFLICT DO NOTHING";
        const IDENTITY: &str = "DELETE FROM identities WHERE user_cuid = $1 AND account_id IS NULL
            AND NOT EXISTS (SELECT 1 FROM machines m WHERE m.user_cuid = $1)
            AND NOT EXISTS (SELECT 1 FROM consent_levels c WHERE c.user_cuid = $1)
            AND NOT EXISTS (SELECT 1 FROM consent_outbox o WHERE o.user_cuid = $1)";
        const CLEANED: &str = "UPDATE spent_machines SET user_cuid = NULL WHERE machine_uuid = $1";
        in_transaction!(&self.pool, |tx| {
            for sql in [CONSENT, USAGE] {
                query(sql).bind(&spent.user_cuid).bind(spent.machine_uuid).execute(&mut *tx).await?;
            }
            for sql in [CONTROL, IDENTITY] {
                query(sql).bind(&spent.user_cuid).execute(&mut *tx).await?;
            }
            query(CLEANED).bind(spent.machine_uuid).execute(&mut *tx).await?;
            Ok(())
        })
        .during(Operation::CleanUpAfterRemovedComputer)
        .await
    }
}
