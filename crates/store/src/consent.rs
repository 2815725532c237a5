//! Consent levels that people, agents and computers set (`docs/decisions/0014-consent.md`).

pub(crate) mod baseline;
mod notice;
pub mod pause;

use domain::consent::change::{ConsentChange, after};
use domain::consent::pause::PauseReport;
use domain::consent::{Author, ConsentEdit, ConsentLevel, ConsentRule, person_rule};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::webhook::NotificationKind;
use domain::{Rng, Timestamp};
use serde_json::json;
use uuid::Uuid;

use self::baseline::{account_of, identities_of, is_common, lock_baseline};
use crate::error::{Corrupt, StoreError};
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::outbox::{ChainRow, OutboxEvent, ServiceChain, insert_event};
use crate::pool::{Tx, query, scalar};
use crate::row::{parsed, parsed_opt, storable, undecodable};
use crate::{Store, in_transaction};

pub use self::notice::{LevelAuthor, OthersLevel};

/// A level of one identity, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentRecord {
    /// Identity that the level applies to.
    pub user_cuid: UserCuid,
    /// Scope and level.
    pub rule: ConsentRule,
}

impl Store {
    /// All levels of an identity, general ones first.
    #[boxed]
    pub async fn consent_rules(&self, user_cuid: &UserCuid) -> Result<Vec<ConsentRule>, StoreError> {
        const SQL: &str = "SELECT user_cuid, machine_uuid, lane, level, set_by FROM consent_levels WHERE user_cuid = $1
            ORDER BY COALESCE(machine_uuid, $2), COALESCE(lane, ''), set_by = 'computer'";
        let rows: Vec<RecordRow> = query(SQL)
            .bind(user_cuid.as_str())
            .bind(Uuid::nil())
            .fetch_all(&self.pool)
            .during(Operation::ReadConsent)
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| row.try_into().map(|record: ConsentRecord| record.rule))
            .collect::<Result<_, _>>()?)
    }

    /// All levels of all identities of an account, by identity: levels for all computers, and levels of computers that are or were attached
    /// to the account. A level that a computer set for itself is excluded if the computer only names the identity.
    #[boxed]
    pub async fn consent_of_account(&self, account: &UserAccountId) -> Result<Vec<ConsentRecord>, StoreError> {
        const SQL: &str = "SELECT c.user_cuid, c.machine_uuid, c.lane, c.level, c.set_by
            FROM identities i JOIN consent_levels c ON c.user_cuid = i.user_cuid WHERE i.account_id = $1
                AND (c.machine_uuid IS NULL OR EXISTS (SELECT 1 FROM attachments a WHERE a.account_id = $1
                    AND a.machine_uuid = c.machine_uuid AND a.user_cuid = c.user_cuid))
            ORDER BY c.user_cuid, COALESCE(c.machine_uuid, $2), COALESCE(c.lane, ''),
                c.set_by = 'computer'";
        let rows: Vec<RecordRow> = query(SQL)
            .bind(account.as_str())
            .bind(Uuid::nil())
            .fetch_all(&self.pool)
            .during(Operation::ReadConsentOfAccount)
            .await?;
        Ok(rows.into_iter().map(ConsentRecord::try_from).collect::<Result<_, _>>()?)
    }

    /// Sets one level for several identities, all or none: for one computer or all, for one lane or all. A computer's level for itself is a
    /// separate row from the person's. Returns the identities with a changed level. Each change is reported by an event that is written to
    /// the outbox in the same transaction. The identities must exist.
    #[boxed]
    pub async fn consent_set(
        &self,
        identities: &[UserCuid],
        rule: &ConsentRule,
        reason: Option<&str>,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Vec<UserCuid>, StoreError> {
        self.consent_set_by(identities, rule, &LevelAuthor { reason, ..LevelAuthor::default() }, now, rng).await
    }

    /// The same with an author for the report, and with a notice to the owner of the account.
    #[boxed]
    pub async fn consent_set_by(
        &self,
        identities: &[UserCuid],
        rule: &ConsentRule,
        author: &LevelAuthor<'_>,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Vec<UserCuid>, StoreError> {
        let reason = author.reason.map(storable);
        let author = LevelAuthor { reason: reason.as_deref(), ..*author };
        // Sorted, so that concurrent calls for the same identities do not deadlock.
        let mut identities = identities.to_vec();
        identities.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
        in_transaction!(&self.pool, |tx| set_levels(self, tx, &identities, rule, &author, now, rng).await)
            .during(Operation::SetConsent)
            .await
    }

    /// Sets one level for all computers of an account: for each linked identity, including one that is being linked. `rule` has no
    /// computer. Returns the identities with a changed level.
    #[boxed]
    pub async fn consent_set_baseline(
        &self,
        account: &UserAccountId,
        rule: &ConsentRule,
        author: &LevelAuthor<'_>,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Vec<UserCuid>, StoreError> {
        let reason = author.reason.map(storable);
        let author = LevelAuthor { reason: reason.as_deref(), ..*author };
        in_transaction!(&self.pool, |tx| {
            lock_baseline(tx, account.as_str()).await?;
            let identities = identities_of(tx, account.as_str()).await?;
            set_levels(self, tx, &identities, rule, &author, now, rng).await
        })
        .during(Operation::SetConsent)
        .await
    }

    /// Changes consent records of the person, each only if its current value is the expected one; all or none. `author` is the person or an
    /// agent. Edits of a level for all computers are stale if they leave out an identity of the account. If an edit removes the last record
    /// of a scope, its report contains `default_level`. Each change is reported by one event in the same transaction.
    #[boxed]
    pub async fn consent_edit(
        &self,
        edits: &[ConsentEdit],
        author: Author,
        default_level: ConsentLevel,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<ConsentEdited, StoreError> {
        // General scopes first: if a record is removed, the level that applies then is already the new one.
        let mut edits: Vec<&ConsentEdit> = edits.iter().collect();
        edits.sort_by_key(|edit| (edit.identity.as_str(), edit.machine.is_some(), edit.lane.is_some()));
        in_transaction!(
            &self.pool,
            |tx| {
                let mut identities: Vec<UserCuid> = Vec::new();
                let mut records = 0;
                let baselines: Vec<&ConsentEdit> = edits.iter().copied().filter(|edit| edit.machine.is_none()).collect();
                let account = match baselines.first() {
                    Some(edit) => account_of(tx, &edit.identity).await?,
                    None => None,
                };
                if let Some(account) = &account {
                    lock_baseline(tx, account).await?;
                }
                for edit in edits {
                    let chain = lock_chain(tx, &edit.identity, now, rng).await?;
                    let level = edit.after.unwrap_or(default_level);
                    let mut rule = ConsentRule { machine: edit.machine, lane: edit.lane, level, set_by: author };
                    let current = level_of(tx, &edit.identity, &rule).await?;
                    let Some(chain) = chain.filter(|_| current == edit.before) else {
                        return Ok(ConsentEdited::Stale);
                    };
                    if current == edit.after {
                        continue;
                    }
                    if edit.after.is_some() {
                        write_level(tx, &edit.identity, &rule, current.is_some(), None, now).await?;
                    } else {
                        remove_level(tx, &edit.identity, &rule).await?;
                        let left = rules_of(tx, &edit.identity).await?;
                        rule.level = person_rule(&left, edit.machine, edit.lane).map_or(default_level, |rule| rule.level);
                    }
                    let report = Report { rule, previous: current, inherited: edit.after.is_none(), agent: None, reason: None, is_news: true, pause: None };
                    write_report(self, tx, chain, &edit.identity, report, now, rng).await?;
                    records += 1;
                    if identities.last() != Some(&edit.identity) {
                        identities.push(edit.identity.clone());
                    }
                }
                if let Some(account) = &account {
                    for edit in baselines {
                        if !is_common(tx, account, edit.lane, edit.after).await? {
                            return Ok(ConsentEdited::Stale);
                        }
                    }
                }
                Ok(ConsentEdited::Written { records, identities })
            },
            commit if |outcome| *outcome != ConsentEdited::Stale
        )
        .during(Operation::EditConsent)
        .await
    }
}

/// Result of edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentEdited {
    /// All edits are in force.
    Written {
        /// Number of records that changed.
        records: usize,
        /// The identities with changes.
        identities: Vec<UserCuid>,
    },
    /// A record differs from its expected value. Nothing was written.
    Stale,
}

/// The record that changed, and further members of the report.
struct Report<'a> {
    rule: ConsentRule,
    previous: Option<ConsentLevel>,
    inherited: bool,
    agent: Option<RegistrationId>,
    reason: Option<&'a str>,
    /// Whether the owner is notified.
    is_news: bool,
    pause: Option<PauseReport>,
}

/// Sets one level for identities, in order, and queues the mail to their owner; returns the identities with a changed level.
async fn set_levels(
    store: &Store,
    tx: &mut Tx<'_>,
    identities: &[UserCuid],
    rule: &ConsentRule,
    &LevelAuthor { agent, reason, notice }: &LevelAuthor<'_>,
    now: Timestamp,
    rng: &Rng,
) -> Result<Vec<UserCuid>, sqlx::Error> {
    let mut changed = Vec::new();
    let mut news = None;
    for user_cuid in identities {
        let chain = lock_chain(tx, user_cuid, now, rng).await?;
        let old_level = level_of(tx, user_cuid, rule).await?;
        let is_changed = write_level(tx, user_cuid, rule, old_level.is_some(), reason, now).await?;
        if let Some(chain) = chain.filter(|_| is_changed) {
            news = news.or_else(|| chain.account().map(|account| (account.to_owned(), old_level)));
            let rule = rule.clone();
            let report =
                Report { rule, previous: old_level, inherited: false, agent, reason, is_news: true, pause: None };
            write_report(store, tx, chain, user_cuid, report, now, rng).await?;
            changed.push(user_cuid.clone());
        }
    }
    if let (Some(notice), Some((account, previous))) = (notice, news) {
        notice::queue(tx, &account, (rule, agent, previous), notice, now).await?;
    }
    Ok(changed)
}

/// Locks an identity, which serialises changes of its levels and of its chain. `None` if it is unknown.
async fn lock_chain(
    tx: &mut Tx<'_>,
    user_cuid: &UserCuid,
    now: Timestamp,
    rng: &Rng,
) -> Result<Option<ChainRow>, sqlx::Error> {
    const SQL: &str =
        "UPDATE identities SET control_machine_uuid = COALESCE(control_machine_uuid, $2) WHERE user_cuid = $1
        RETURNING account_id, control_machine_uuid, control_chain_epoch, control_seq, control_prev";
    query(SQL).bind(user_cuid.as_str()).bind(rng.uuid_v7(now)).fetch_optional(tx).await
}

/// The level of the record for the scope of `rule`, set by the same side: person or computer.
async fn level_of(
    tx: &mut Tx<'_>,
    user_cuid: &UserCuid,
    rule: &ConsentRule,
) -> Result<Option<ConsentLevel>, sqlx::Error> {
    const SQL: &str = "SELECT level FROM consent_levels
        WHERE user_cuid = $1 AND machine_uuid IS NOT DISTINCT FROM $2 AND lane IS NOT DISTINCT FROM $3
            AND (set_by = 'computer') = ($4 = 'computer')";
    let level: Option<String> = scalar(SQL)
        .bind(user_cuid.as_str())
        .bind(rule.machine.map(|machine| machine.as_uuid()))
        .bind(rule.lane.map(Lane::as_str))
        .bind(rule.set_by.as_str())
        .fetch_optional(tx)
        .await?;
    parsed_opt("consent_levels.level", level.as_deref()).map_err(undecodable)
}

/// Writes a record; `false` if it has this level already.
async fn write_level(
    tx: &mut Tx<'_>,
    user_cuid: &UserCuid,
    rule: &ConsentRule,
    is_there: bool,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    const CHANGE: &str = "UPDATE consent_levels SET level = $4, reason = $5, changed_at = $6, set_by = $7
        WHERE user_cuid = $1 AND machine_uuid IS NOT DISTINCT FROM $2 AND lane IS NOT DISTINCT FROM $3
            AND (set_by = 'computer') = ($7 = 'computer') AND level <> $4";
    const ADD: &str = "INSERT INTO consent_levels (user_cuid, machine_uuid, lane, level, reason, changed_at, set_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
    let rows_affected = query(if is_there { CHANGE } else { ADD })
        .bind(user_cuid.as_str())
        .bind(rule.machine.map(|machine| machine.as_uuid()))
        .bind(rule.lane.map(Lane::as_str))
        .bind(rule.level.as_str())
        .bind(reason)
        .bind(now)
        .bind(rule.set_by.as_str())
        .execute(tx)
        .await?;
    Ok(rows_affected > 0)
}

/// Removes the record of one side for a scope.
async fn remove_level(tx: &mut Tx<'_>, user_cuid: &UserCuid, rule: &ConsentRule) -> Result<(), sqlx::Error> {
    const SQL: &str = "DELETE FROM consent_levels
        WHERE user_cuid = $1 AND machine_uuid IS NOT DISTINCT FROM $2 AND lane IS NOT DISTINCT FROM $3
            AND (set_by = 'computer') = ($4 = 'computer')";
    query(SQL)
        .bind(user_cuid.as_str())
        .bind(rule.machine.map(|machine| machine.as_uuid()))
        .bind(rule.lane.map(Lane::as_str))
        .bind(rule.set_by.as_str())
        .execute(tx)
        .await
        .map(drop)
}

/// All levels of an identity, in a transaction.
async fn rules_of(tx: &mut Tx<'_>, user_cuid: &UserCuid) -> Result<Vec<ConsentRule>, sqlx::Error> {
    const SQL: &str = "SELECT user_cuid, machine_uuid, lane, level, set_by FROM consent_levels WHERE user_cuid = $1";
    let rows: Vec<RecordRow> = query(SQL).bind(user_cuid.as_str()).fetch_all(tx).await?;
    let rules = rows.into_iter().map(|row| row.try_into().map(|record: ConsentRecord| record.rule));
    rules.collect::<Result<_, _>>().map_err(undecodable)
}

/// Writes the event that reports a change to the end of the identity's chain, and notifies the owner.
async fn write_report(
    store: &Store,
    tx: &mut Tx<'_>,
    chain: ChainRow,
    user_cuid: &UserCuid,
    Report { rule, previous, inherited, agent, reason, is_news, pause }: Report<'_>,
    now: Timestamp,
    rng: &Rng,
) -> Result<(), sqlx::Error> {
    let chain = chain.read().map_err(undecodable)?;
    let report = ConsentChange {
        identity: user_cuid.clone(),
        account: chain.account,
        rule,
        inherited,
        previous,
        agent,
        reason: reason.map(str::to_owned),
        pause,
    };
    let id = rng.uuid_v7(now);
    let written = report.event(id.into(), chain.machine, &chain.position, now);
    let event = OutboxEvent { id: id.into(), account: report.account, body: written.body };
    insert_event(tx, user_cuid, &event, &chain.position, now).await?;
    if let (Some(account), true) = (&event.account, is_news) {
        let data = json!({
            "event_id": id,
            "user_cuid": user_cuid,
            "machine_uuid": report.rule.machine,
            "lane": report.rule.lane,
            "level": report.rule.level,
            "set_by": report.rule.set_by.as_str(),
        });
        let to = Recipient::Account(account.as_str());
        store.notify_owners(tx, &[Notice::new(NotificationKind::ConsentChanged, id, to, now, data)]).await?;
    }
    ServiceChain::Identity(user_cuid.clone()).advance(tx, &after(&chain.position, written.seal)).await
}

crate::row! {
    struct RecordRow {
        user_cuid: String,
        machine_uuid: Option<Uuid>,
        lane: Option<String>,
        level: String,
        set_by: String,
    }
}

impl TryFrom<RecordRow> for ConsentRecord {
    type Error = Corrupt;

    fn try_from(row: RecordRow) -> Result<Self, Corrupt> {
        let lane = parsed_opt("consent_levels.lane", row.lane.as_deref())?;
        let level: ConsentLevel = parsed("consent_levels.level", &row.level)?;
        let machine = row.machine_uuid.map(MachineUuid::from);
        Ok(Self {
            user_cuid: parsed("consent_levels.user_cuid", &row.user_cuid)?,
            rule: ConsentRule { machine, lane, level, set_by: parsed("consent_levels.set_by", &row.set_by)? },
        })
    }
}
