//! Rules about recorded events, and the weekly digest (`docs/decisions/0033-notifications.md`).

pub use store::rule::StoredRule;

use actors::rule::RuleSettings;
use actors::upstream::Upstream;
use actors::{InfraError, Unavailable};
use domain::Timestamp;
use domain::ids::{RuleId, UserAccountId};
use domain::label::Label;
use domain::log_part::LogPart;
use domain::rule::{EventRule, InvalidRule, RuleCondition, RuleOutlets, RuleState, next_digest_after};
use statistics::parts::Logs;
use store::StoreError;

use super::Ports;

/// Creates, lists and deletes rules. Clones share the database.
#[derive(Debug, Clone)]
pub struct EventRules {
    ports: Ports,
    upstream: Upstream,
    settings: RuleSettings,
}

/// The properties of a rule that its owner chooses.
#[derive(Debug)]
pub struct NewRule {
    /// Its name.
    pub name: Label,
    /// The events that match.
    pub when: RuleCondition,
    /// The outlets of its messages.
    pub outlets: RuleOutlets,
}

/// Why a rule is not created or deleted, or the digest not switched on.
#[derive(Debug, thiserror::Error)]
pub enum RuleRefusal {
    /// The statistics service is external, so this server does not have the recorded events.
    #[error("this server does not have the recorded events: an external statistics service has them")]
    External,
    /// A rule without conditions or outlets.
    #[error("the rule cannot be used")]
    Invalid(#[from] InvalidRule),
    /// The account has reached its maximum number of rules.
    #[error("the account has too many rules")]
    TooMany,
    /// The account has no such rule.
    #[error("the account has no such rule")]
    NotFound,
    /// The store or the log failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for RuleRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for RuleRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}

impl EventRules {
    /// `settings` is the section `[rules]`.
    pub fn new(ports: Ports, upstream: Upstream, settings: RuleSettings) -> Self {
        Self { ports, upstream, settings }
    }

    /// Whether this server has the recorded events. Only then it can evaluate rules.
    pub fn are_possible(&self) -> bool {
        matches!(self.upstream, Upstream::Embedded { .. })
    }

    /// The settings of the section `[rules]`.
    pub fn settings(&self) -> &RuleSettings {
        &self.settings
    }

    /// The rules of an account, oldest first, and the time of the next digest, if it is on.
    #[boxed]
    pub async fn list(&self, account: &UserAccountId) -> Result<(Vec<StoredRule>, Option<Timestamp>), RuleRefusal> {
        let store = &self.ports.store;
        Ok((store.rules_of_account(account).await?, store.digest_of_account(account).await?))
    }

    /// Adds a rule.
    #[boxed]
    pub async fn create(&self, account: UserAccountId, new: NewRule) -> Result<StoredRule, RuleRefusal> {
        let leaves = self.leaves().await?;
        let NewRule { name, when, outlets } = new;
        EventRule::check(&when, outlets)?;
        let Ports { store, clock, rng } = &self.ports;
        let now = clock.now();
        let rule = EventRule { id: rng.uuid_v7(now).into(), account, name, when, outlets, created_at: now };
        let (store, added, per_account_max) = (store.clone(), rule.clone(), self.settings.per_account_max);
        let work = async move { store.rule_create(&added, &leaves, per_account_max).await };
        let is_added = actors::detached(work).await??;
        if is_added { Ok(StoredRule { rule, state: RuleState::default() }) } else { Err(RuleRefusal::TooMany) }
    }

    /// Deletes a rule with the events that it has counted.
    #[boxed]
    pub async fn delete(&self, id: RuleId, account: UserAccountId) -> Result<(), RuleRefusal> {
        let store = self.ports.store.clone();
        let is_deleted = actors::detached(async move { store.rule_delete(id, &account).await }).await??;
        if is_deleted { Ok(()) } else { Err(RuleRefusal::NotFound) }
    }

    /// Switches the weekly digest on or off. Returns the time of the next one.
    #[boxed]
    pub async fn set_digest(&self, account: UserAccountId, is_on: bool) -> Result<Option<Timestamp>, RuleRefusal> {
        // With an external service it can be off only.
        let leaves = if is_on { self.leaves().await? } else { Vec::new() };
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        let first_at = is_on.then(|| next_digest_after(now));
        let owner = account.clone();
        actors::detached(async move { store.digest_set(&owner, first_at, &leaves, now).await }).await??;
        Ok(self.ports.store.digest_of_account(&account).await?)
    }

    fn log(&self) -> Result<&Logs, RuleRefusal> {
        match &self.upstream {
            Upstream::Embedded { log, .. } => Ok(log),
            Upstream::External(_) => Err(RuleRefusal::External),
        }
    }

    async fn leaves(&self) -> Result<Vec<(LogPart, u64)>, RuleRefusal> {
        let leaves = self.log()?.leaves().await;
        leaves.map_err(|error| InfraError::Internal(domain::reasons(&error)).into())
    }
}
