//! Retention: deletes rows after their retention time. Rows are deleted in small batches, each in a separate transaction, so that requests
//! do not wait long for the janitor. Several janitors may run concurrently.

mod erasure;
mod feeds;
mod unattached;
mod usage;

use std::time::Duration;

use chrono::TimeDelta;
use domain::Timestamp;
use domain::usage::Day;
use serde::{Deserialize, Serialize};

use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::query;

/// Retention times. Times are written as "24h", "30d".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct PurgeSettings {
    #[serde(with = "humantime_serde")]
    pub sessions_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub tokens_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub attempts_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub device_codes_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub unclaimed_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub unattached_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub held_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub signin_codes_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub mails_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub batches_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub verdicts_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub api_keys_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub webhook_deliveries_kept: Duration,
    #[serde(with = "humantime_serde")]
    pub usage_days_kept: Duration,
    /// Maximum number of rows deleted in one batch. Not configurable: tests delete small batches.
    #[serde(skip)]
    pub batch_rows: u32,
    pub batches_max: u32,
}

impl Default for PurgeSettings {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        Self {
            sessions_kept: days(7),
            tokens_kept: days(1),
            attempts_kept: days(1),
            device_codes_kept: days(2),
            unclaimed_kept: days(7),
            unattached_kept: days(30),
            held_kept: days(30),
            signin_codes_kept: days(1),
            mails_kept: days(7),
            batches_kept: days(1),
            verdicts_kept: days(30),
            api_keys_kept: days(90),
            webhook_deliveries_kept: days(7),
            usage_days_kept: days(400),
            batch_rows: 500,
            batches_max: 100,
        }
    }
}

/// Number of deleted rows by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Sessions.
    pub sessions: u64,
    /// Access tokens.
    pub tokens: u64,
    /// Claim attempts.
    pub attempts: u64,
    /// Device codes.
    pub device_codes: u64,
    /// Wrong user codes.
    pub device_guesses: u64,
    /// Registrations, each with its attempts and tokens.
    pub registrations: u64,
    /// Computers that were never attached, with their data.
    pub machines: u64,
    /// Held events.
    pub held: u64,
    /// Sign-in codes.
    pub signin_codes: u64,
    /// Mails.
    pub mails: u64,
    /// Batches, with their items.
    pub batches: u64,
    /// Decisions of filters.
    pub verdicts: u64,
    /// Nodes that stopped without deleting their row.
    pub nodes: u64,
    /// API keys.
    pub api_keys: u64,
    /// Deliveries of webhooks.
    pub webhook_deliveries: u64,
    /// Closed accounts with deleted contents.
    pub closed_accounts: u64,
    /// Days of usage that were summed into one row per computer.
    pub usage_days: u64,
}

impl Store {
    /// Deletes rows after their retention time.
    #[boxed]
    pub async fn purge(&self, now: Timestamp, settings: &PurgeSettings) -> Result<Purged, StoreError> {
        let before = |kept: Duration| before(now, kept);
        // Codes are counted for an hour after they were requested.
        let codes_before = before(settings.signin_codes_kept.max(Duration::from_hours(1)));
        self.purge_kind(SIGNIN_ADDRESSES, codes_before, settings).await?;
        self.purge_kind(SIGNIN_ERRANDS, now, settings).await?;
        self.purge_kind(AUDIT_LINKS, now, settings).await?;
        // Yesterday is kept, because clocks of processes may differ.
        self.purge_sender_days(Day::from(Day::of(now).number() - 1), settings).await?;
        // Runs before the computers, because it leaves some computers to be cleaned up.
        let closed_accounts = self.closed_accounts_empty(now, settings).await?;
        Ok(Purged {
            closed_accounts,
            sessions: self.purge_kind(SESSIONS, before(settings.sessions_kept), settings).await?,
            tokens: self.purge_kind(TOKENS, before(settings.tokens_kept), settings).await?,
            attempts: self.purge_kind(ATTEMPTS, before(settings.attempts_kept), settings).await?,
            device_codes: self.purge_kind(DEVICE_CODES, before(settings.device_codes_kept), settings).await?,
            // Guesses count for half an hour.
            device_guesses: self.purge_kind(DEVICE_GUESSES, now - TimeDelta::hours(1), settings).await?,
            registrations: self.purge_kind(REGISTRATIONS, before(settings.unclaimed_kept), settings).await?,
            machines: self.purge_unattached(before(settings.unattached_kept), settings).await?,
            held: self.purge_kind(HELD, before(settings.held_kept), settings).await?,
            signin_codes: self.purge_kind(SIGNIN_TICKETS, codes_before, settings).await?,
            mails: self.purge_kind(MAILS, before(settings.mails_kept), settings).await?,
            batches: self.purge_kind(BATCHES, before(settings.batches_kept), settings).await?,
            verdicts: self.purge_kind(VERDICTS, before(settings.verdicts_kept), settings).await?,
            nodes: self.purge_kind(NODES, now - TimeDelta::days(1), settings).await?,
            api_keys: self.purge_kind(API_KEYS, before(settings.api_keys_kept), settings).await?,
            webhook_deliveries: self
                .purge_kind(WEBHOOK_DELIVERIES, before(settings.webhook_deliveries_kept), settings)
                .await?,
            usage_days: self.fold_usage(Day::of(before(settings.usage_days_kept)), settings).await?,
        })
    }

    async fn purge_kind(
        &self,
        sql: &'static str,
        before: Timestamp,
        settings: &PurgeSettings,
    ) -> Result<u64, StoreError> {
        let batch_rows = settings.batch_rows.max(1);
        let mut purged = 0;
        for _ in 0..settings.batches_max {
            let rows_affected = query(sql)
                .bind(before)
                .bind(i64::from(batch_rows))
                .execute(self.pool.writer())
                .during(Operation::DeleteExpiredRows)
                .await?;
            purged += rows_affected;
            if rows_affected < u64::from(batch_rows) {
                break;
            }
        }
        Ok(purged)
    }
}

/// The time `kept` before `now`.
fn before(now: Timestamp, kept: Duration) -> Timestamp {
    let begin = TimeDelta::from_std(kept).ok().and_then(|kept| now.checked_sub_signed(kept));
    begin.unwrap_or(Timestamp::UNIX_EPOCH)
}

// Parameters of each statement: `$1` the time before which the row must have ended, `$2` the maximum number of rows.

const SESSIONS: &str = "DELETE FROM sessions WHERE token_hash IN
    (SELECT token_hash FROM sessions WHERE expires_at < $1 LIMIT $2)";

const TOKENS: &str = "DELETE FROM access_tokens WHERE token_hash IN
    (SELECT token_hash FROM access_tokens WHERE expires_at < $1 LIMIT $2)";

/// The newest attempt is kept while its claim token is valid, so that a polling agent learns that its claim expired.
const ATTEMPTS: &str = "DELETE FROM claim_attempts WHERE token_hash IN
    (SELECT a.token_hash FROM claim_attempts a JOIN registrations r ON r.id = a.registration_id
    WHERE a.expires_at < $1
        AND (r.claim_token_expires_at < $1 OR r.claimed_at IS NOT NULL OR r.revoked_at IS NOT NULL) LIMIT $2)";

const DEVICE_CODES: &str = "DELETE FROM device_codes WHERE device_code_hash IN
    (SELECT device_code_hash FROM device_codes WHERE expires_at < $1 LIMIT $2)";

const DEVICE_GUESSES: &str = "DELETE FROM device_guesses WHERE id IN
    (SELECT id FROM device_guesses WHERE guessed_at < $1 LIMIT $2)";

/// Tokens and attempts are deleted with their registration. An attempt that started before the claim token expired can still be completed.
/// An agent with held events stays, because these events were acknowledged.
const REGISTRATIONS: &str = "DELETE FROM registrations WHERE id IN
    (SELECT r.id FROM registrations r WHERE r.claimed_at IS NULL AND r.claim_token_expires_at < $1
        AND NOT EXISTS (SELECT 1 FROM claim_attempts a WHERE a.registration_id = r.id AND a.expires_at >= $1)
        AND NOT EXISTS (SELECT 1 FROM held_events h WHERE h.registration_id = r.id AND h.state = 'held') LIMIT $2)";

const HELD: &str = "DELETE FROM held_events WHERE id IN
    (SELECT id FROM held_events WHERE state_at < $1 LIMIT $2)";

const SIGNIN_TICKETS: &str = "DELETE FROM signin_tickets WHERE ticket_hash IN
    (SELECT ticket_hash FROM signin_tickets WHERE expires_at < $1 LIMIT $2)";

const SIGNIN_ADDRESSES: &str = "DELETE FROM signin_addresses WHERE email IN
    (SELECT email FROM signin_addresses WHERE asked_at < $1 LIMIT $2)";

const SIGNIN_ERRANDS: &str = "DELETE FROM signin_errands WHERE errand_hash IN
    (SELECT errand_hash FROM signin_errands WHERE expires_at < $1 LIMIT $2)";

const AUDIT_LINKS: &str = "DELETE FROM audit_links WHERE id IN
    (SELECT id FROM audit_links WHERE expires_at < $1 LIMIT $2)";

const NODES: &str = "DELETE FROM nodes WHERE id IN
    (SELECT id FROM nodes WHERE last_beat_at < $1 LIMIT $2)";

/// Uses the creation time, which both databases index; queued mails stay.
const MAILS: &str = "DELETE FROM mails WHERE id IN
    (SELECT id FROM mails WHERE created_at < $1 AND (sent_at < $1 OR given_up_at < $1) LIMIT $2)";

/// Items are deleted with their batch. Uses the creation time, which both databases index.
const BATCHES: &str = "DELETE FROM batches WHERE id IN
    (SELECT id FROM batches WHERE created_at < $1 AND finished_at < $1 LIMIT $2)";

const VERDICTS: &str = "DELETE FROM verdicts WHERE id IN
    (SELECT id FROM verdicts WHERE created_at < $1 LIMIT $2)";

const WEBHOOK_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE (webhook_id, notification_id) IN
    (SELECT webhook_id, notification_id FROM webhook_deliveries WHERE settled_at < $1 LIMIT $2)";

/// A key that is neither revoked nor limited in time is never deleted.
const API_KEYS: &str = "DELETE FROM api_keys WHERE id IN
    (SELECT id FROM api_keys WHERE COALESCE(revoked_at, expires_at) < $1 LIMIT $2)";
