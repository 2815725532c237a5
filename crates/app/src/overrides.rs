//! Overrides of live settings, as operators set and remove them (`docs/decisions/0039-live-settings.md`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use domain::Timestamp;
use domain::clock::date_time;
use store::setting::{OverrideSet, SettingOverride};
use store::{Store, StoreError};
use wire::ops::OverrideEntry;

use crate::acts::Acting;
use crate::config::Problems;
use crate::config::live::{is_live, is_reloaded};
use crate::config::reading::{environment_name, value_of};

/// An override that an operator asks for.
#[derive(Debug)]
pub struct NewOverride<'o> {
    /// Path of the setting.
    pub path: &'o str,
    /// The value: TOML, or plain text.
    pub text: &'o str,
    /// Name of the host of the only node that is affected; `None` for all nodes.
    pub node: Option<&'o str>,
    /// Time after which it ends; `None` until it is removed.
    pub lasts: Option<Duration>,
}

/// Why a setting is not overridden.
#[derive(Debug, thiserror::Error)]
pub enum OverrideRefusal {
    /// The path or the value breaks a rule of the configuration.
    #[error(transparent)]
    Invalid(Problems),
    /// No override of this setting is possible.
    #[error("{path} takes effect {when}: change it in the file\n  `attache config show` names the settings that are live", when = when(path))]
    NotLive {
        /// Path of the setting.
        path: String,
    },
    /// It would be in force for too long.
    #[error("an override lasts {} at most (admin.override_max)", humantime_serde::re::humantime::format_duration(*.0))]
    TooLong(Duration),
    /// Another override of the setting is in force.
    #[error("{}, set by {}\n  `--replace` takes it over", sentence(.0), .0.set_by)]
    Taken(SettingOverride),
    /// No such override is in force.
    #[error("no such override is in force: `attache config overrides` lists them")]
    Absent,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NewOverride<'_> {
    /// Checks the value by the rules of the file, together with the other overrides of the node. `in_force` are all overrides in force, `file`
    /// was named on the command line, and `lasts_max` is `admin.override_max`.
    pub fn check(
        &self,
        in_force: &[SettingOverride],
        file: Option<&Path>,
        lasts_max: Duration,
    ) -> Result<serde_json::Value, OverrideRefusal> {
        let others = in_force.iter().filter(|found| found.node.is_none() || found.node.as_deref() == self.node);
        let others: BTreeMap<String, String> =
            others.map(|found| (environment_name(&found.path), found.value.to_string())).collect();
        let environment = std::env::vars().filter(|(name, _)| !others.contains_key(name));
        let value = value_of(self.path, self.text, file, environment.chain(others.clone()));
        let value = value.map_err(OverrideRefusal::Invalid)?;
        if !is_live(self.path) {
            return Err(OverrideRefusal::NotLive { path: self.path.to_owned() });
        }
        if self.lasts.is_some_and(|lasts| lasts > lasts_max) {
            return Err(OverrideRefusal::TooLong(lasts_max));
        }
        Ok(value)
    }
}

/// Stores an override with its act. With `replaces`, one that is in force is replaced.
#[boxed]
pub async fn set(
    acting: &Acting,
    new: &SettingOverride,
    replaces: bool,
    now: Timestamp,
) -> Result<(), OverrideRefusal> {
    let set = acting.store.setting_override(new, replaces, now).await;
    match acting.settle(set).await.map_err(StoreError::from)? {
        OverrideSet::Set => Ok(()),
        OverrideSet::Taken(old) => Err(OverrideRefusal::Taken(old)),
    }
}

/// Removes an override with its act.
#[boxed]
pub async fn unset(acting: &Acting, path: &str, node: Option<&str>, now: Timestamp) -> Result<(), OverrideRefusal> {
    let ended = acting.store.setting_override_end(path, node, now).await;
    if acting.settle(ended).await.map_err(StoreError::from)? { Ok(()) } else { Err(OverrideRefusal::Absent) }
}

/// The overrides in force for readers.
#[boxed]
pub async fn list(store: &Store, now: Timestamp) -> Result<Vec<OverrideEntry>, StoreError> {
    Ok(store.setting_overrides(now).await?.iter().map(described).collect())
}

/// An override for readers.
pub fn described(found: &SettingOverride) -> OverrideEntry {
    OverrideEntry {
        path: found.path.clone(),
        node: found.node.clone(),
        value: found.value.clone(),
        until: found.until.map(date_time),
        set_by: found.set_by.clone(),
        effect: None,
        act_id: None,
    }
}

/// When a change of a setting without overrides takes effect.
fn when(path: &str) -> &'static str {
    if is_reloaded(path) { "when the file is read again" } else { "with a restart" }
}

/// Id of the object in the record of acts.
pub fn target(path: &str, node: Option<&str>) -> String {
    let node = node.map(|node| format!("@{node}")).unwrap_or_default();
    format!("{path}{node}")
}

/// The override as a sentence.
pub fn sentence(found: &SettingOverride) -> String {
    let place = found.node.as_deref().map_or_else(|| "all nodes".to_owned(), |node| format!("node {node}"));
    let until = found.until.map_or_else(|| "`attache config unset`".to_owned(), date_time);
    format!("{} is {} on {place} until {until}", found.path, found.value)
}
