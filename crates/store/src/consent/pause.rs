//! Pauses of recording, for an account or one computer. They are times in the rows of accounts and computers, which every lookup of a
//! computer reads; recorded levels do not change (`docs/decisions/0014-consent.md`).

use domain::consent::pause::{Pause, PauseReport};
use domain::consent::{Author, ConsentLevel, ConsentRule, person_rule};
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::{Rng, Timestamp};
use uuid::Uuid;

use super::baseline::{identities_of, lock_baseline};
use super::{LevelAuthor, Report, lock_chain, notice, rules_of, write_report};
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::{parsed_opt, undecodable};
use crate::{Store, in_transaction};

/// The subject of a pause.
#[derive(Debug, Clone)]
pub enum PauseScope {
    /// All computers of an account.
    Account(UserAccountId),
    /// A computer, with its identity.
    Machine(UserCuid, MachineUuid),
}

impl PauseScope {
    fn machine(&self) -> Option<MachineUuid> {
        match self {
            Self::Account(_) => None,
            Self::Machine(_, machine) => Some(*machine),
        }
    }
}

/// Result of changing a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseChange {
    /// The end of the current pause; `None` if recording is not paused.
    pub until: Option<Timestamp>,
    /// Identities with a report of the change in their chains.
    pub identities: Vec<UserCuid>,
    /// Whether the author may not end the pause.
    pub is_refused: bool,
}

/// The current pauses of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountPauses {
    /// End of the pause of all computers.
    pub account: Option<Timestamp>,
    /// Ends of the pauses of single computers.
    pub machines: Vec<(MachineUuid, Timestamp)>,
}

impl AccountPauses {
    /// Whether recording is paused for the account or a computer.
    pub fn is_any(&self) -> bool {
        self.account.is_some() || !self.machines.is_empty()
    }

    /// The end of the pause of a computer.
    pub fn of(&self, machine: MachineUuid) -> Option<Timestamp> {
        let own = self.machines.iter().find(|(paused, _)| *paused == machine).map(|(_, until)| *until);
        self.account.max(own)
    }
}

impl Store {
    /// The pauses of an account at `now`.
    #[boxed]
    pub async fn pauses_of_account(
        &self,
        account: &UserAccountId,
        now: Timestamp,
    ) -> Result<AccountPauses, StoreError> {
        const SQL: &str = "SELECT NULL AS machine_uuid, paused_until FROM accounts
                WHERE user_account_id = $1 AND paused_until > $2
            UNION ALL SELECT machine_uuid, paused_until FROM machines WHERE account_id = $1 AND paused_until > $2";
        let rows: Vec<(Option<Uuid>, Timestamp)> =
            query(SQL).bind(account.as_str()).bind(now).fetch_all(&self.pool).during(Operation::ReadConsent).await?;
        let mut pauses = AccountPauses::default();
        for (machine, until) in rows {
            match machine {
                Some(machine) => pauses.machines.push((machine.into(), until)),
                None => pauses.account = Some(until),
            }
        }
        Ok(pauses)
    }

    /// Pauses recording, as the rules of [`Pause::changed_to`] permit. A new or changed pause is reported by an event of each identity,
    /// and by the mail of `author`.
    #[boxed]
    pub async fn recording_pause(
        &self,
        scope: &PauseScope,
        wanted: Pause,
        author: &LevelAuthor<'_>,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<PauseChange, StoreError> {
        in_transaction!(&self.pool, |tx| {
            let lasting = lock_pause(tx, scope, now).await?;
            let next = lasting.map_or(wanted, |lasting| lasting.changed_to(wanted));
            let mut identities = Vec::new();
            if lasting != Some(next) {
                write_pause(tx, scope, Some(next)).await?;
                identities = identities_in(tx, scope).await?;
                let (rule, pause) = (rule(scope, ConsentLevel::Off, wanted.by), PauseReport::Until(next.until));
                let mut account = None;
                for identity in &identities {
                    let reported = (rule.clone(), pause, author.agent);
                    account = account.or(report_pause(self, tx, identity, reported, now, rng).await?);
                }
                if let (Some(mail), Some(account)) = (author.notice, account) {
                    notice::queue(tx, &account, (&rule, author.agent, None), mail, now).await?;
                }
            }
            Ok(PauseChange { until: Some(next.until), identities, is_refused: false })
        })
        .during(Operation::SetConsent)
        .await
    }

    /// Ends a pause early, if this party may. The event of each identity contains the level that applies again, or `default_level`.
    #[boxed]
    pub async fn recording_continue(
        &self,
        scope: &PauseScope,
        author: Author,
        default_level: ConsentLevel,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<PauseChange, StoreError> {
        in_transaction!(&self.pool, |tx| {
            let lasting = lock_pause(tx, scope, now).await?;
            let Some(lasting) = lasting else {
                return Ok(PauseChange { until: None, identities: Vec::new(), is_refused: false });
            };
            if !lasting.may_be_ended_by(author) {
                return Ok(PauseChange { until: Some(lasting.until), identities: Vec::new(), is_refused: true });
            }
            write_pause(tx, scope, None).await?;
            let identities = identities_in(tx, scope).await?;
            for identity in &identities {
                let rules = rules_of(tx, identity).await?;
                let level = person_rule(&rules, scope.machine(), None).map_or(default_level, |rule| rule.level);
                let reported = (rule(scope, level, author), PauseReport::Ended, None);
                report_pause(self, tx, identity, reported, now, rng).await?;
            }
            Ok(PauseChange { until: None, identities, is_refused: false })
        })
        .during(Operation::SetConsent)
        .await
    }
}

/// Reports the pause of an account on the chain of an identity that was linked during the pause.
pub(super) async fn report_lasting_pause(
    store: &Store,
    tx: &mut Tx<'_>,
    identity: &UserCuid,
    account: &str,
    now: Timestamp,
    rng: &Rng,
) -> Result<(), sqlx::Error> {
    let Some(until) = account_paused_until(tx, account).await?.filter(|until| *until > now) else { return Ok(()) };
    let rule = ConsentRule { machine: None, lane: None, level: ConsentLevel::Off, set_by: Author::Person };
    report_pause(store, tx, identity, (rule, PauseReport::Until(until), None), now, rng).await.map(drop)
}

/// Locks the row of the pause and reads the current pause. Lock order: account or computer, identities.
async fn lock_pause(tx: &mut Tx<'_>, scope: &PauseScope, now: Timestamp) -> Result<Option<Pause>, sqlx::Error> {
    const MACHINE: &str = "UPDATE machines SET machine_uuid = machine_uuid WHERE machine_uuid = $1
        RETURNING paused_until, paused_by";
    let lasting = match scope {
        PauseScope::Account(account) => {
            lock_baseline(tx, account.as_str()).await?;
            let until = account_paused_until(tx, account.as_str()).await?;
            until.map(|until| Pause { until, by: Author::Person })
        }
        PauseScope::Machine(_, machine) => {
            let row: Option<(Option<Timestamp>, Option<String>)> =
                query(MACHINE).bind(machine.as_uuid()).fetch_optional(tx).await?;
            let (until, by) = row.unwrap_or_default();
            let by = parsed_opt("machines.paused_by", by.as_deref()).map_err(undecodable)?;
            until.zip(by).map(|(until, by)| Pause { until, by })
        }
    };
    Ok(lasting.filter(|pause| pause.until > now))
}

async fn account_paused_until(tx: &mut Tx<'_>, account: &str) -> Result<Option<Timestamp>, sqlx::Error> {
    const SQL: &str = "SELECT paused_until FROM accounts WHERE user_account_id = $1";
    let until: Option<Option<Timestamp>> = scalar(SQL).bind(account).fetch_optional(tx).await?;
    Ok(until.flatten())
}

async fn write_pause(tx: &mut Tx<'_>, scope: &PauseScope, pause: Option<Pause>) -> Result<(), sqlx::Error> {
    const ACCOUNT: &str = "UPDATE accounts SET paused_until = $2 WHERE user_account_id = $1";
    const MACHINE: &str = "UPDATE machines SET paused_until = $2, paused_by = $3 WHERE machine_uuid = $1";
    let until = pause.map(|pause| pause.until);
    match scope {
        PauseScope::Account(account) => query(ACCOUNT).bind(account.as_str()).bind(until).execute(tx).await,
        PauseScope::Machine(_, machine) => {
            let by = pause.map(|pause| pause.by.as_str());
            query(MACHINE).bind(machine.as_uuid()).bind(until).bind(by).execute(tx).await
        }
    }
    .map(drop)
}

async fn identities_in(tx: &mut Tx<'_>, scope: &PauseScope) -> Result<Vec<UserCuid>, sqlx::Error> {
    match scope {
        PauseScope::Account(account) => identities_of(tx, account.as_str()).await,
        PauseScope::Machine(identity, _) => Ok(vec![identity.clone()]),
    }
}

fn rule(scope: &PauseScope, level: ConsentLevel, set_by: Author) -> ConsentRule {
    ConsentRule { machine: scope.machine(), lane: None, level, set_by }
}

/// Reports a pause on the chain of an identity; returns the identity's account.
async fn report_pause(
    store: &Store,
    tx: &mut Tx<'_>,
    identity: &UserCuid,
    (rule, pause, agent): (ConsentRule, PauseReport, Option<RegistrationId>),
    now: Timestamp,
    rng: &Rng,
) -> Result<Option<String>, sqlx::Error> {
    let Some(chain) = lock_chain(tx, identity, now, rng).await? else { return Ok(None) };
    let account = chain.account().map(str::to_owned);
    let previous = (pause == PauseReport::Ended).then_some(ConsentLevel::Off);
    let report = Report { rule, previous, inherited: false, agent, reason: None, is_news: true, pause: Some(pause) };
    write_report(store, tx, chain, identity, report, now, rng).await?;
    Ok(account)
}
