//! The reader of recorded events: its cursor, and its writes about watched accounts.

use std::collections::{HashMap, HashSet};

use domain::Timestamp;
use domain::ids::{RuleId, UserAccountId};
use domain::log_part::LogPart;
use domain::recorder::Recorder;
use domain::rule::{Novelty, RuleState, Sighting, WeekDigest};
use domain::webhook::NotificationKind;
use serde_json::Value;

use super::{RULES, RuleRow, StoredRule, json, read_json};
use crate::error::{Corrupt, StoreError};
use crate::mail::{QueuedMail, insert_mail};
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::outbox::number;
use crate::pool::{Tx, query, scalar};
use crate::row::{limit, parsed, storable};
use crate::{Store, in_transaction, log_part};

/// Maximum number of remembered values per account and property, against a sender that invents values. Beyond it, no value is new.
pub const SEEN_MAX: u64 = 2_000;

/// Maximum number of held events that a digest counts.
const HELD_MAX: i64 = 10_000;

/// How far the reader has come in a part of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCursor {
    /// The part.
    pub part: LogPart,
    /// Place of the first event that is not read.
    pub place: u64,
    turn: i64,
}

/// The stored state of a watched account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Whether the values of earlier events are known.
    pub is_learned: bool,
    /// The rules.
    pub rules: Vec<StoredRule>,
    /// Time of the next digest and its counts; `None` if it is off.
    pub digest: Option<(Timestamp, WeekDigest)>,
    /// The values among the requested ones that earlier events had.
    pub seen: HashSet<Sighting>,
    /// Number of all known values of each property.
    pub seen_counts: HashMap<Novelty, u64>,
}

/// A write about an account.
#[derive(Debug, Clone)]
pub struct WatchWrite {
    /// The account.
    pub account: UserAccountId,
    /// The rules that change.
    pub rules: Vec<RuleWrite>,
    /// The digest, if it changes.
    pub digest: Option<DigestWrite>,
    /// Values that were not known.
    pub seen: Vec<Sighting>,
}

/// A write about a rule. Nothing is sent if the rule was deleted.
#[derive(Debug, Clone)]
pub struct RuleWrite {
    /// Id of the rule.
    pub id: RuleId,
    /// Its new state.
    pub state: RuleState,
    /// Time from which its next message may be sent.
    pub due_at: Option<Timestamp>,
    /// The data of a notification.
    pub notice: Option<Value>,
    /// A mail.
    pub mail: Option<QueuedMail>,
}

/// A write about a digest. Nothing is sent if the digest was switched off.
#[derive(Debug, Clone)]
pub struct DigestWrite {
    /// The time that was stored before.
    pub before: Timestamp,
    /// Time of the next digest.
    pub next_at: Timestamp,
    /// Its counts.
    pub digest: WeekDigest,
    /// A mail.
    pub mail: Option<QueuedMail>,
}

impl Store {
    /// How far the reader has come in a part; `None` if no account is watched.
    #[boxed]
    pub async fn rule_cursor(&self, part: LogPart) -> Result<Option<RuleCursor>, StoreError> {
        const SQL: &str = "SELECT CASE WHEN $1 = 0 THEN c.place ELSE
                (SELECT p.rule_place FROM log_parts p WHERE p.log_part = $1) END, c.turn
            FROM rule_cursor c WHERE c.id = 1 AND EXISTS (SELECT 1 FROM watched_accounts)";
        let row = query(SQL).bind(log_part::stored(part)).fetch_optional(&self.pool);
        let row: Option<(i64, i64)> = row.during(Operation::ReadHowFarRulesHaveRead).await?;
        let cursor = |(place, turn)| {
            let place = u64::try_from(place).map_err(|error| Corrupt::new("rule_cursor.place", error))?;
            Ok::<_, Corrupt>(RuleCursor { part, place, turn })
        };
        Ok(row.map(cursor).transpose()?)
    }

    /// Watched accounts without the values of their earlier events, and the time since when they are watched.
    #[boxed]
    pub async fn accounts_to_learn(&self, rows_max: usize) -> Result<Vec<(UserAccountId, Timestamp)>, StoreError> {
        const SQL: &str =
            "SELECT account_id, watched_since FROM watched_accounts WHERE NOT is_learned ORDER BY account_id LIMIT $1";
        let rows = query(SQL).bind(limit(rows_max)).fetch_all(&self.pool);
        let rows: Vec<(String, Timestamp)> = rows.during(Operation::ListWatchedAccounts).await?;
        let account = |(account, since): (String, Timestamp)| {
            Ok::<_, Corrupt>((parsed("watched_accounts.account_id", &account)?, since))
        };
        Ok(rows.into_iter().map(account).collect::<Result<_, _>>()?)
    }

    /// Stores the values of the earlier events of an account.
    #[boxed]
    pub async fn account_learned(&self, account: &UserAccountId, seen: &[Sighting]) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE watched_accounts SET is_learned = TRUE WHERE account_id = $1 AND NOT is_learned";
        in_transaction!(&self.pool, |tx| {
            if query(SQL).bind(account.as_str()).execute(&mut *tx).await? == 1 {
                insert_seen(tx, account, seen).await?;
            }
            Ok(())
        })
        .during(Operation::WriteMatchesOfRules)
        .await
    }

    /// The watched accounts that see events of these recorders.
    #[boxed]
    pub async fn accounts_that_see(&self, recorders: &[Recorder]) -> Result<Vec<UserAccountId>, StoreError> {
        const SQLITE: &str = "SELECT a.account_id FROM json_each($1) r CROSS JOIN attachments a
                ON a.machine_uuid = unhex(r.value ->> 'machine', '-') AND a.user_cuid = r.value ->> 'identity'
            JOIN watched_accounts w ON w.account_id = a.account_id
            UNION SELECT i.account_id FROM json_each($1) r CROSS JOIN identities i ON i.user_cuid = r.value ->> 'identity'
                AND i.control_machine_uuid = unhex(r.value ->> 'machine', '-')
            JOIN watched_accounts w ON w.account_id = i.account_id ORDER BY 1";
        const POSTGRES: &str =
            "WITH r AS (SELECT * FROM jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT))
            SELECT a.account_id FROM r JOIN attachments a ON a.machine_uuid = r.machine AND a.user_cuid = r.identity
            JOIN watched_accounts w ON w.account_id = a.account_id
            UNION SELECT i.account_id FROM r JOIN identities i ON i.user_cuid = r.identity
                AND i.control_machine_uuid = r.machine
            JOIN watched_accounts w ON w.account_id = i.account_id ORDER BY 1";
        let sql = if self.pool.is_postgres() { POSTGRES } else { SQLITE };
        let recorders = json(&recorders);
        let rows = scalar(sql).bind(&recorders).fetch_all(&self.pool);
        accounts(&rows.during(Operation::ListWatchedAccounts).await?)
    }

    /// Accounts with a message or a digest that is due.
    #[boxed]
    pub async fn accounts_with_due_rules(
        &self,
        now: Timestamp,
        rows_max: usize,
    ) -> Result<Vec<UserAccountId>, StoreError> {
        const SQL: &str = "SELECT account_id FROM rules WHERE due_at <= $1
            UNION SELECT account_id FROM watched_accounts WHERE digest_at <= $1 ORDER BY 1 LIMIT $2";
        let rows = scalar(SQL).bind(now).bind(limit(rows_max)).fetch_all(&self.pool);
        accounts(&rows.during(Operation::ListWatchedAccounts).await?)
    }

    /// The state of an account, and these values as far as they are known; `None` if it is not watched.
    #[boxed]
    pub async fn watch_of_account(
        &self,
        account: &UserAccountId,
        values: &HashSet<Sighting>,
    ) -> Result<Option<Watch>, StoreError> {
        const ACCOUNT: &str = "SELECT is_learned, digest_at, digest FROM watched_accounts WHERE account_id = $1";
        const COUNTS: &str = "SELECT novelty, COUNT(*) FROM seen_values WHERE account_id = $1 GROUP BY novelty";
        const SQLITE: &str = "SELECT s.novelty, s.value FROM json_each($2) r CROSS JOIN seen_values s
            ON s.account_id = $1 AND s.novelty = r.value ->> 'novelty' AND s.value = r.value ->> 'value'";
        const POSTGRES: &str =
            "SELECT s.novelty, s.value FROM jsonb_to_recordset($2::JSONB) AS r (novelty TEXT, value TEXT)
            JOIN seen_values s ON s.account_id = $1 AND s.novelty = r.novelty AND s.value = r.value";
        let seen = if self.pool.is_postgres() { POSTGRES } else { SQLITE };
        let values = json(&values);
        in_transaction!(&self.pool, |tx| {
            let account = account.as_str();
            let row: Option<(bool, Option<Timestamp>, String)> =
                query(ACCOUNT).bind(account).fetch_optional(&mut *tx).await?;
            let Some((is_learned, digest_at, digest)) = row else { return Ok(None) };
            let rules: Vec<RuleRow> = query(RULES).bind(account).fetch_all(&mut *tx).await?;
            let seen: Vec<(String, String)> = query(seen).bind(account).bind(&values).fetch_all(&mut *tx).await?;
            let counts: Vec<(String, i64)> = query(COUNTS).bind(account).fetch_all(&mut *tx).await?;
            Ok(Some((is_learned, digest_at, digest, rules, seen, counts)))
        })
        .during(Operation::ReadWatchedAccount)
        .await?
        .map(|(is_learned, digest_at, digest, rules, seen, counts)| {
            let digest = digest_at.map(|at| Ok::<_, Corrupt>((at, read_json("watched_accounts.digest", &digest)?)));
            let sighting = |(novelty, value): (String, String)| {
                Ok::<_, Corrupt>(Sighting { novelty: parsed("seen_values.novelty", &novelty)?, value })
            };
            let count = |(novelty, count): (String, i64)| {
                Ok::<_, Corrupt>((parsed("seen_values.novelty", &novelty)?, count.unsigned_abs()))
            };
            Ok(Watch {
                is_learned,
                rules: rules.into_iter().map(StoredRule::try_from).collect::<Result<_, _>>()?,
                digest: digest.transpose()?,
                seen: seen.into_iter().map(sighting).collect::<Result<_, _>>()?,
                seen_counts: counts.into_iter().map(count).collect::<Result<_, _>>()?,
            })
        })
        .transpose()
    }

    /// Number of events of an account and its computers that are held since a time; at most 10,000.
    #[boxed]
    pub async fn held_since(&self, account: &UserAccountId, since: Timestamp) -> Result<u64, StoreError> {
        // An entry of a computer has no account.
        const SQL: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM held_events
                WHERE account_id = $1 AND state = 'held' AND received_at >= $2
            UNION ALL SELECT 1 FROM held_events
                WHERE machine_uuid IN (SELECT machine_uuid FROM machines WHERE account_id = $1)
                    AND state = 'held' AND received_at >= $2 LIMIT $3) AS held";
        let count = scalar(SQL).bind(account.as_str()).bind(since).bind(HELD_MAX).fetch_one(&self.pool);
        let count: i64 = count.during(Operation::CountHeldEvents).await?;
        Ok(count.unsigned_abs())
    }

    /// Moves the cursor to `place` and writes what follows from the events before it, with the messages; `false`, without writing, if
    /// another reader has written since the cursor was read.
    #[boxed]
    pub async fn rules_write(
        &self,
        cursor: RuleCursor,
        place: u64,
        writes: &[WatchWrite],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const MOVE: &str = "UPDATE rule_cursor SET place = CASE WHEN $3 = 0 THEN $2 ELSE place END, turn = turn + 1
            WHERE id = 1 AND turn = $1";
        const FURTHER: &str = "UPDATE log_parts SET rule_place = $2 WHERE log_part = $1";
        let part = log_part::stored(cursor.part);
        in_transaction!(
            &self.pool,
            |tx| {
                let moved = query(MOVE).bind(cursor.turn).bind(number(place)).bind(part).execute(&mut *tx).await?;
                if moved == 0 {
                    return Ok(false);
                }
                query(FURTHER).bind(part).bind(number(place)).execute(&mut *tx).await?;
                for write in writes {
                    self.write_watch(tx, write, now).await?;
                }
                Ok(true)
            },
            commit if |written| *written
        )
        .during(Operation::WriteMatchesOfRules)
        .await
    }

    async fn write_watch(&self, tx: &mut Tx<'_>, write: &WatchWrite, now: Timestamp) -> Result<(), sqlx::Error> {
        const LOCK: &str = "UPDATE watched_accounts SET account_id = account_id WHERE account_id = $1";
        const RULE: &str = "UPDATE rules SET state = $2, due_at = $3 WHERE id = $1";
        const DIGEST: &str = "UPDATE watched_accounts SET digest_at = $3, digest = $4
            WHERE account_id = $1 AND digest_at = $2";
        let account = write.account.as_str();
        if query(LOCK).bind(account).execute(&mut *tx).await? == 0 {
            return Ok(());
        }
        for rule in &write.rules {
            let update = query(RULE).bind(rule.id.as_uuid()).bind(json(&rule.state)).bind(rule.due_at);
            if update.execute(&mut *tx).await? == 0 {
                continue;
            }
            if let Some(data) = &rule.notice {
                let to = Recipient::Account(account);
                let notice = Notice::new(NotificationKind::RuleMatched, rule.id.as_uuid(), to, now, data.clone());
                self.notify_owners(tx, &[notice]).await?;
            }
            if let Some(mail) = &rule.mail {
                insert_mail(tx, mail, now).await?;
            }
        }
        if let Some(DigestWrite { before, next_at, digest, mail }) = &write.digest {
            let update = query(DIGEST).bind(account).bind(*before).bind(*next_at).bind(json(digest));
            let is_on = update.execute(&mut *tx).await? == 1;
            if let Some(mail) = mail.as_ref().filter(|_| is_on) {
                insert_mail(tx, mail, now).await?;
            }
        }
        insert_seen(tx, &write.account, &write.seen).await
    }
}

async fn insert_seen(tx: &mut Tx<'_>, account: &UserAccountId, seen: &[Sighting]) -> Result<(), sqlx::Error> {
    const SQL: &str = "INSERT INTO seen_values (account_id, novelty, value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    for Sighting { novelty, value } in seen {
        query(SQL).bind(account.as_str()).bind(novelty.as_str()).bind(storable(value)).execute(&mut *tx).await?;
    }
    Ok(())
}

fn accounts(rows: &[String]) -> Result<Vec<UserAccountId>, StoreError> {
    Ok(rows.iter().map(|text| parsed("watched_accounts.account_id", text)).collect::<Result<_, _>>()?)
}
