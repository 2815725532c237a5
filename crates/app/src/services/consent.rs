//! Consent levels: how much of an event may be recorded (`docs/decisions/0014-consent.md`,
//! `docs/decisions/0015-reports-of-consent.md`).

pub use store::consent::ConsentRecord;
pub use store::consent::pause::AccountPauses;

use std::time::Duration;

use actors::InfraError;
use actors::Unavailable;
use actors::budget::{BudgetDecision, Budgets};
use actors::mail::queued;
use actors::outbox::Outbox;
use domain::Timestamp;
use domain::consent::pause::Pause;
use domain::consent::{Author, ConsentEdit, ConsentLevel, ConsentRule, effective_level, explicit_level, person_rule};
use domain::envelope::Lane;
use domain::held::MachineFacts;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::mail;
use store::StoreError;
use store::consent::pause::{PauseChange, PauseScope};
use store::consent::{ConsentEdited, LevelAuthor, OthersLevel};
use store::held::Sender;

use super::Ports;

/// Maximum wait of a change for the statistics service. A person is waiting for the response.
const FORWARD_DEADLINE: Duration = Duration::from_secs(10);

/// Size of the report of a change, in bytes, for the quota of a sender.
const REPORT_BYTES: usize = 1024;

/// Reads and sets consent levels. Clones share the database.
#[derive(Debug, Clone)]
pub struct Consent {
    ports: Ports,
    outbox: Outbox,
    budgets: Budgets,
    /// Level that is reported where a person set none (`consent.default_level`).
    default_level: ConsentLevel,
    /// Prefix of links in mails, without a slash at the end.
    base_url: String,
    /// Longest pause of recording (`consent.pause_max`).
    pause_max: Duration,
}

/// A level to be set.
#[derive(Debug)]
pub struct LevelChange {
    /// The new level.
    pub level: ConsentLevel,
    /// One lane; `None` means all lanes.
    pub lane: Option<Lane>,
    /// Reason of the person, stored with the record.
    pub reason: Option<String>,
    /// The agent that sets it, if one does.
    pub agent: Option<RegistrationId>,
}

/// The level that is reported for a computer and a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveLevel {
    /// The level; `off` while recording is paused.
    pub level: ConsentLevel,
    /// End of the current pause.
    pub paused_until: Option<Timestamp>,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The level in force after the change. A computer may have set a lower level for itself.
    pub level: ConsentLevel,
    /// Number of records that changed.
    pub written: usize,
    /// Whether the statistics service has the report. Otherwise the outbox sends it later.
    pub is_forwarded: bool,
}

/// The result of edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// The edits are in force.
    Written(Written),
    /// A record differs from the state that its edit expects. No record was changed.
    Stale,
}

/// The records that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Number of records that changed.
    pub records: usize,
    /// Whether the statistics service has the report. Otherwise the outbox sends it later.
    pub is_forwarded: bool,
}

/// Why a level is not returned or not set.
#[derive(Debug, thiserror::Error)]
pub enum ConsentRefusal {
    /// A computer named another computer.
    #[error("a computer may name itself only")]
    OtherComputer,
    /// The computer does not belong to the account.
    #[error("the computer does not belong to the account")]
    NotOwned,
    /// No identity is linked to the account.
    #[error("no identity is linked to the account")]
    NoLinkedIdentity,
    /// The pause is longer than the server permits.
    #[error("the pause is longer than the server permits")]
    PauseTooLong {
        /// `consent.pause_max`.
        longest: Duration,
    },
    /// Another party started the pause; only a person may end it early.
    #[error("a person alone may end this pause early")]
    PauseOfAnother,
    /// The sender's quota is spent.
    #[error("the budget of the sender is used up")]
    BudgetSpent {
        /// Time until the quota resets.
        retry_after: Duration,
    },
    /// The store or an actor failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for ConsentRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

/// The consent of an account.
#[derive(Debug)]
pub struct AccountConsent {
    /// The identities of the account.
    pub identities: Vec<UserCuid>,
    /// The recorded levels.
    pub records: Vec<ConsentRecord>,
    /// The pauses that last.
    pub pauses: AccountPauses,
}

impl Consent {
    /// `default_level` is reported where a person set no level.
    pub fn new(
        ports: Ports,
        outbox: Outbox,
        budgets: Budgets,
        default_level: ConsentLevel,
        base_url: String,
        pause_max: Duration,
    ) -> Self {
        Self { ports, outbox, budgets, default_level, base_url, pause_max }
    }

    /// Longest pause of recording.
    pub fn pause_max(&self) -> Duration {
        self.pause_max
    }

    /// The level that is reported where a person set none; it is never enforced.
    pub fn default_level(&self) -> ConsentLevel {
        self.default_level
    }

    /// The level of a computer for a lane, as the computer may see it. `named` is the computer in the request.
    pub fn seen_by_computer(
        &self,
        facts: &MachineFacts,
        named: Option<MachineUuid>,
        lane: Lane,
    ) -> Result<EffectiveLevel, ConsentRefusal> {
        only_itself(facts, named)?;
        Ok(match rules_of_outsider(facts) {
            Some(rules) => self.reported(&rules, facts, lane),
            None => self.reported(&facts.consent, facts, lane),
        })
    }

    /// The level of a computer of this account for a lane.
    #[boxed]
    pub async fn of_computer(
        &self,
        account: Option<&UserAccountId>,
        machine: MachineUuid,
        lane: Lane,
    ) -> Result<EffectiveLevel, ConsentRefusal> {
        let facts = self.owned(account, machine).await?;
        Ok(self.reported(&facts.consent, &facts, lane))
    }

    /// The current pauses of an account.
    #[boxed]
    pub async fn pauses(&self, account: Option<&UserAccountId>) -> Result<AccountPauses, ConsentRefusal> {
        let Some(account) = account else { return Ok(AccountPauses::default()) };
        Ok(self.ports.store.pauses_of_account(account, self.ports.clock.now()).await?)
    }

    /// Pauses recording on behalf of a computer, for itself; returns the end of the pause.
    #[boxed]
    pub async fn pause_by_computer(
        &self,
        facts: &MachineFacts,
        named: Option<MachineUuid>,
        length: Duration,
    ) -> Result<Timestamp, ConsentRefusal> {
        let scope = scope_of_computer(facts, named)?;
        self.charge(facts).await?;
        self.pause(scope, Author::Computer, None, length).await
    }

    /// Pauses recording on behalf of an account: of one of its computers, or of all.
    #[boxed]
    pub async fn pause_by_account(
        &self,
        account: Option<&UserAccountId>,
        machine: Option<MachineUuid>,
        (author, agent): (Author, Option<RegistrationId>),
        length: Duration,
    ) -> Result<Timestamp, ConsentRefusal> {
        let scope = self.scope_of_account(account, machine).await?;
        self.pause(scope, author, agent, length).await
    }

    /// Ends the pause of a computer early on its own behalf, if the computer started it.
    #[boxed]
    pub async fn continue_by_computer(
        &self,
        facts: &MachineFacts,
        named: Option<MachineUuid>,
    ) -> Result<(), ConsentRefusal> {
        let scope = scope_of_computer(facts, named)?;
        self.charge(facts).await?;
        self.end_pause(scope, Author::Computer).await
    }

    /// Ends a pause early on behalf of an account; a person may, an agent may not.
    #[boxed]
    pub async fn continue_by_account(
        &self,
        account: Option<&UserAccountId>,
        machine: Option<MachineUuid>,
        author: Author,
    ) -> Result<(), ConsentRefusal> {
        let scope = self.scope_of_account(account, machine).await?;
        self.end_pause(scope, author).await
    }

    async fn pause(
        &self,
        scope: PauseScope,
        by: Author,
        agent: Option<RegistrationId>,
        length: Duration,
    ) -> Result<Timestamp, ConsentRefusal> {
        if length > self.pause_max {
            return Err(ConsentRefusal::PauseTooLong { longest: self.pause_max });
        }
        let Ports { store, clock, rng } = self.ports.clone();
        let now = clock.now();
        let wanted = Pause { until: now + length, by };
        let base_url = self.base_url.clone();
        let work = async move {
            let rule = ConsentRule { machine: None, lane: None, level: ConsentLevel::Off, set_by: by };
            let mail =
                |other: &OthersLevel| queued(level_mail(other, &rule, Some(wanted.until), now, &base_url), &rng, now);
            let author = LevelAuthor { agent, reason: None, notice: (by != Author::Person).then_some(&mail) };
            store.recording_pause(&scope, wanted, &author, now, &rng).await
        };
        let PauseChange { until, identities, .. } = actors::detached(work).await.map_err(InfraError::from)??;
        self.reported_soon(identities.len(), identities).await;
        Ok(until.unwrap_or(wanted.until))
    }

    async fn end_pause(&self, scope: PauseScope, author: Author) -> Result<(), ConsentRefusal> {
        let Ports { store, clock, rng } = self.ports.clone();
        let (now, default_level) = (clock.now(), self.default_level);
        let work = async move { store.recording_continue(&scope, author, default_level, now, &rng).await };
        let PauseChange { identities, is_refused, .. } = actors::detached(work).await.map_err(InfraError::from)??;
        if is_refused {
            return Err(ConsentRefusal::PauseOfAnother);
        }
        self.reported_soon(identities.len(), identities).await;
        Ok(())
    }

    async fn scope_of_account(
        &self,
        account: Option<&UserAccountId>,
        machine: Option<MachineUuid>,
    ) -> Result<PauseScope, ConsentRefusal> {
        Ok(match machine {
            Some(machine) => PauseScope::Machine(self.owned(account, machine).await?.user_cuid, machine),
            None => PauseScope::Account(self.with_identities(account).await?),
        })
    }

    /// The recorded levels and the pauses of an account, which may have no computer.
    #[boxed]
    pub async fn of_account(&self, account: &UserAccountId) -> Result<AccountConsent, StoreError> {
        let store = &self.ports.store;
        let (identities, records, pauses) = tokio::join!(
            store.identities_of_account(account),
            store.consent_of_account(account),
            store.pauses_of_account(account, self.ports.clock.now()),
        );
        Ok(AccountConsent { identities: identities?, records: records?, pauses: pauses? })
    }

    /// The person's level for a computer and all lanes; `None` if they chose none, so that none is enforced.
    #[boxed]
    pub async fn chosen(
        &self,
        account: &UserAccountId,
        machine: MachineUuid,
    ) -> Result<Option<ConsentLevel>, StoreError> {
        let records = self.ports.store.consent_of_account(account).await?;
        let rules = records.iter().map(|record| &record.rule);
        Ok(person_rule(rules, Some(machine), None).map(|rule| rule.level))
    }

    /// All records of an account.
    #[boxed]
    pub async fn records(&self, account: Option<&UserAccountId>) -> Result<Vec<ConsentRecord>, ConsentRefusal> {
        let account = self.with_identities(account).await?;
        Ok(self.ports.store.consent_of_account(&account).await?)
    }

    /// Sets a level on behalf of a computer, for itself. The quota of a computer without an account is charged for the report.
    #[boxed]
    pub async fn set_by_computer(
        &self,
        facts: &MachineFacts,
        named: Option<MachineUuid>,
        change: LevelChange,
    ) -> Result<Changed, ConsentRefusal> {
        only_itself(facts, named)?;
        if facts.is_outsider() {
            return Err(ConsentRefusal::NotOwned);
        }
        self.charge(facts).await?;
        self.change(Whose::Identity(facts.user_cuid.clone()), Some(facts.machine_uuid), Author::Computer, change).await
    }

    /// Sets a level on behalf of an account: for one of its computers, or for all computers of all its identities.
    #[boxed]
    pub async fn set_by_account(
        &self,
        account: Option<&UserAccountId>,
        machine: Option<MachineUuid>,
        author: Author,
        change: LevelChange,
    ) -> Result<Changed, ConsentRefusal> {
        let whose = match machine {
            Some(machine) => Whose::Identity(self.owned(account, machine).await?.user_cuid),
            None => Whose::Account(self.with_identities(account).await?),
        };
        self.change(whose, machine, author, change).await
    }

    /// Writes a rule and reports the changes. The records stay even if the report is delayed.
    async fn write(
        &self,
        whose: Whose,
        rule: ConsentRule,
        agent: Option<RegistrationId>,
        reason: Option<String>,
    ) -> Result<Written, InfraError> {
        let Ports { store, clock, rng } = self.ports.clone();
        let (now, base_url) = (clock.now(), self.base_url.clone());
        let work = async move {
            let mail = |other: &OthersLevel| queued(level_mail(other, &rule, None, now, &base_url), &rng, now);
            let is_own = rule.set_by == Author::Person;
            let author = LevelAuthor { agent, reason: reason.as_deref(), notice: (!is_own).then_some(&mail) };
            match whose {
                Whose::Identity(identity) => store.consent_set_by(&[identity], &rule, &author, now, &rng).await,
                Whose::Account(account) => store.consent_set_baseline(&account, &rule, &author, now, &rng).await,
            }
        };
        let changed = actors::detached(work).await??;
        Ok(self.reported_soon(changed.len(), changed).await)
    }

    /// Changes records of the person together, each only if it is in the state that its edit expects, and reports the changes. The
    /// identities and computers of the edits belong to the account of `author`.
    #[boxed]
    pub async fn edit(&self, edits: Vec<ConsentEdit>, author: Author) -> Result<Edited, InfraError> {
        let Ports { store, clock, rng } = self.ports.clone();
        let (now, default_level) = (clock.now(), self.default_level);
        let work = async move { store.consent_edit(&edits, author, default_level, now, &rng).await };
        match actors::detached(work).await?? {
            ConsentEdited::Stale => Ok(Edited::Stale),
            ConsentEdited::Written { records, identities } => {
                Ok(Edited::Written(self.reported_soon(records, identities).await))
            }
        }
    }

    /// Forwards the reports of written records.
    async fn reported_soon(&self, records: usize, changed: Vec<UserCuid>) -> Written {
        if records == 0 {
            return Written { records, is_forwarded: true };
        }
        let flushed = self.outbox.flush(changed, FORWARD_DEADLINE).await;
        if let Err(error) = &flushed {
            tracing::warn!(
                error = domain::reasons(error),
                "a change of consent is written, and its report waits in the outbox"
            );
        }
        Written { records, is_forwarded: flushed.is_ok() }
    }

    async fn change(
        &self,
        whose: Whose,
        machine: Option<MachineUuid>,
        author: Author,
        LevelChange { level, lane, reason, agent }: LevelChange,
    ) -> Result<Changed, ConsentRefusal> {
        let rule = ConsentRule { machine, lane, level, set_by: author };
        let Written { records, is_forwarded } = self.write(whose, rule, agent, reason).await?;
        // The response to a delayed report contains no level.
        let in_force = if is_forwarded { self.in_force(machine, lane).await? } else { None };
        Ok(Changed { level: in_force.unwrap_or(level), written: records, is_forwarded })
    }

    /// The level in force for a computer, which may be lower than the level that was just set. `None` for a baseline, which no
    /// computer lowers.
    async fn in_force(
        &self,
        machine: Option<MachineUuid>,
        lane: Option<Lane>,
    ) -> Result<Option<ConsentLevel>, ConsentRefusal> {
        let Some(machine) = machine else { return Ok(None) };
        let row = self.ports.store.machine_facts(machine).await?;
        let now = self.ports.clock.now();
        Ok(row.and_then(|row| {
            if row.facts.pauses.until(now).is_some() {
                return Some(ConsentLevel::Off);
            }
            let own = rules_of_outsider(&row.facts);
            effective_level(own.as_ref().unwrap_or(&row.facts.consent), Some(machine), lane)
        }))
    }

    /// Charges a report, which is stored permanently, to the quota of a computer without an account, like an event.
    async fn charge(&self, facts: &MachineFacts) -> Result<(), ConsentRefusal> {
        if facts.account.is_some() {
            return Ok(());
        }
        let sender = Sender::Machine(facts.machine_uuid);
        match self.budgets.take(&sender, REPORT_BYTES, self.ports.clock.now()).await? {
            BudgetDecision::Taken => Ok(()),
            BudgetDecision::Spent { retry_after } => Err(ConsentRefusal::BudgetSpent { retry_after }),
            BudgetDecision::Crowded => Err(InfraError::from(Unavailable::Overloaded).into()),
        }
    }

    fn reported(&self, rules: &[ConsentRule], facts: &MachineFacts, lane: Lane) -> EffectiveLevel {
        let paused_until = facts.pauses.until(self.ports.clock.now());
        let recorded = explicit_level(rules, facts.machine_uuid, lane).unwrap_or(self.default_level);
        let level = if paused_until.is_some() { ConsentLevel::Off } else { recorded };
        EffectiveLevel { level, paused_until }
    }

    async fn owned(
        &self,
        account: Option<&UserAccountId>,
        machine: MachineUuid,
    ) -> Result<MachineFacts, ConsentRefusal> {
        let facts = self.ports.store.machine_facts(machine).await?.map(|row| row.facts);
        let owned = facts.filter(|facts| facts.account.is_some() && facts.account.as_ref() == account);
        owned.ok_or(ConsentRefusal::NotOwned)
    }

    /// The account, if an identity is linked to it.
    async fn with_identities(&self, account: Option<&UserAccountId>) -> Result<UserAccountId, ConsentRefusal> {
        let account = account.ok_or(ConsentRefusal::NoLinkedIdentity)?;
        let identities = self.ports.store.identities_of_account(account).await?;
        if identities.is_empty() { Err(ConsentRefusal::NoLinkedIdentity) } else { Ok(account.clone()) }
    }
}

/// The identities that a level is written for.
#[derive(Debug)]
enum Whose {
    Identity(UserCuid),
    /// All identities that are linked to the account.
    Account(UserAccountId),
}

/// For an outsider, the rules that it set for itself. The person's rules for all computers are private to the owner of the identity.
/// `None` for other computers: all their rules count.
fn rules_of_outsider(facts: &MachineFacts) -> Option<Vec<ConsentRule>> {
    let own = || facts.consent.iter().filter(|rule| rule.machine == Some(facts.machine_uuid)).cloned().collect();
    facts.is_outsider().then(own)
}

/// The mail about a level, or about a pause with its end, that another party than the person set.
fn level_mail(
    other: &OthersLevel,
    rule: &ConsentRule,
    until: Option<Timestamp>,
    now: Timestamp,
    base_url: &str,
) -> mail::OutgoingMail {
    let what = mail::LevelChanged {
        author: &other.author,
        computer: other.computer.as_deref(),
        lane: rule.lane,
        previous: other.previous,
        level: rule.level,
        until,
        at: now,
    };
    mail::level_changed(other.owner.clone(), &what, base_url)
}

fn scope_of_computer(facts: &MachineFacts, named: Option<MachineUuid>) -> Result<PauseScope, ConsentRefusal> {
    only_itself(facts, named)?;
    if facts.is_outsider() {
        return Err(ConsentRefusal::NotOwned);
    }
    Ok(PauseScope::Machine(facts.user_cuid.clone(), facts.machine_uuid))
}

fn only_itself(facts: &MachineFacts, named: Option<MachineUuid>) -> Result<(), ConsentRefusal> {
    if named.is_none_or(|named| named == facts.machine_uuid) { Ok(()) } else { Err(ConsentRefusal::OtherComputer) }
}
