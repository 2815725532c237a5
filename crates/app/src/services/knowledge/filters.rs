//! Filter settings of an account: rules for new content.

pub use store::filter::FiledVerdict;

use domain::filter::{FilterChange, FilterSettings, FilterUpdate};
use domain::ids::UserAccountId;
use store::StoreError;

use super::access::KnowledgeAccess;
use super::refusal::Refusal;
use crate::services::Ports;

/// Reads and changes filter settings. Clones share the database.
#[derive(Debug, Clone)]
pub struct Filters {
    ports: Ports,
    has_language_model: bool,
}

impl Filters {
    /// `has_language_model` is whether a language model judges new content.
    pub fn new(ports: Ports, has_language_model: bool) -> Self {
        Self { ports, has_language_model }
    }

    /// Whether a language model judges new content.
    pub fn has_language_model(&self) -> bool {
        self.has_language_model
    }

    /// The settings of an account.
    #[boxed]
    pub async fn find(&self, account: &UserAccountId) -> Result<FilterSettings, StoreError> {
        self.ports.store.filter_settings(account).await
    }

    /// The newest verdicts about content of an account.
    #[boxed]
    pub async fn verdicts(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<FiledVerdict>, StoreError> {
        self.ports.store.verdicts_of_account(account, rows_max).await
    }

    /// Replaces all settings of an account. A key for certain spaces may not, since filters apply to all spaces.
    #[boxed]
    pub async fn replace(&self, access: &KnowledgeAccess, update: FilterUpdate) -> Result<FilterSettings, Refusal> {
        let account = may_change(access)?.clone();
        let settings = checked(update)?;
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        let stored = settings.clone();
        actors::detached(async move { store.filter_settings_set(&account, &stored, now).await }).await??;
        Ok(settings)
    }

    /// Changes some settings of an account, with the access of [`Filters::replace`].
    #[boxed]
    pub async fn change(&self, access: &KnowledgeAccess, change: FilterChange) -> Result<FilterSettings, Refusal> {
        let account = may_change(access)?.clone();
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        let work =
            async move { store.filter_settings_change(&account, |current| checked(change.of(current)), now).await };
        actors::detached(work).await??
    }

    /// Warnings about settings without effect.
    pub fn warnings(&self, settings: &FilterSettings) -> Vec<&'static str> {
        settings.warnings(self.has_language_model)
    }
}

/// The account of the filter settings, if the party may change them.
fn may_change(access: &KnowledgeAccess) -> Result<&UserAccountId, Refusal> {
    if access.within.is_none() { Ok(&access.account) } else { Err(Refusal::SpaceForbidden) }
}

fn checked(update: FilterUpdate) -> Result<FilterSettings, Refusal> {
    FilterSettings::try_from(update).map_err(Refusal::Filter)
}
