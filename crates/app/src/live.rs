//! The change of the settings in force while the server runs: `docs/decisions/0039-live-settings.md`.

use std::sync::Arc;
use std::time::Duration;

use actors::ActorKind;
use serde_json::Value;
use store::setting::SettingOverride;
use supervision::Unavailable;

use super::config::Settings;
use super::config::live::{is_hidden, is_live};
use super::config::reading::pointer;
use super::in_force::NodeOverrides;
use super::{App, host_name, telemetry};

/// Timeout of the supervisor for the settings of one kind of actor.
const RETUNE_DEADLINE: Duration = Duration::from_secs(5);

/// A setting with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// Its path, such as `actors.queue_max`.
    pub path: String,
    /// The value in force before.
    pub before: Value,
    /// The value in force now.
    pub after: Value,
}

impl SettingChange {
    /// The settings in which two configurations differ.
    pub(super) fn between(old: &Settings, new: &Settings) -> serde_json::Result<Vec<Self>> {
        let (before, after) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
        let value = |tree: &Value, path: &str| tree.pointer(&pointer(path)).cloned().unwrap_or_default();
        let change = |path: String| {
            let (before, after) = (value(&before, &path), value(&after, &path));
            Self { path, before, after }
        };
        Ok(old.differences(new)?.into_iter().map(change).collect())
    }

    /// The change without values that are never shown.
    pub(super) fn hidden(self) -> Self {
        if !is_hidden(&self.path) {
            return self;
        }
        Self { before: Value::from("…"), after: Value::from("…"), ..self }
    }

    /// The paths as one text.
    pub fn paths(changes: &[Self]) -> String {
        changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The overrides of the node with this name of the host.
pub fn of_node(overrides: Vec<SettingOverride>, host: &str) -> Vec<SettingOverride> {
    overrides.into_iter().filter(|found| found.node.as_deref().is_none_or(|node| node == host)).collect()
}

/// Why the settings did not change. No change is in force, except limits of actors that were changed before the fault.
#[derive(Debug, thiserror::Error)]
pub enum ReloadFault {
    /// The settings cannot be compared.
    #[error("the settings cannot be compared")]
    Compare(#[from] serde_json::Error),
    /// The supervisor did not answer.
    #[error("the supervisor does not answer")]
    Supervisor(#[from] Unavailable),
    /// The filter of the log lines cannot be replaced.
    #[error("telemetry.log: {0}")]
    Filter(String),
}

impl App {
    /// Puts the overrides of this node among all `overrides` in force. Other settings have the values of the configuration.
    #[boxed]
    pub async fn override_settings(&self, overrides: Vec<SettingOverride>) -> Result<(), ReloadFault> {
        let overrides = of_node(overrides, &host_name());
        let mut known = self.live.change.lock().await;
        if *known == overrides {
            return Ok(());
        }
        let (settings, found) = overlaid(&self.live.configured().settings, &overrides)?;
        let changes = self.put_in_force(settings).await?;
        let paths =
            |found: &[SettingOverride]| found.iter().map(|found| found.path.as_str()).collect::<Vec<_>>().join(", ");
        if !found.left_out.is_empty() {
            tracing::warn!(
                settings = paths(&found.left_out),
                "overrides do not fit this configuration and are left out"
            );
        }
        tracing::info!(
            settings.overridden = paths(&found.in_force),
            settings.changed = SettingChange::paths(&changes),
            "overrides of settings changed"
        );
        self.live.overrides.store(Arc::new(found));
        *known = overrides;
        Ok(())
    }

    /// Passes changed settings on to their readers, and returns the changes.
    pub(super) async fn put_in_force(&self, new: Settings) -> Result<Vec<SettingChange>, ReloadFault> {
        let old = self.live.get();
        let changes = SettingChange::between(&old, &new)?;
        if changes.is_empty() {
            return Ok(changes);
        }
        if new.telemetry.log != old.telemetry.log {
            telemetry::replace_filter(&new.telemetry.log).map_err(ReloadFault::Filter)?;
        }
        for kind in ActorKind::ALL {
            if new.actors.of(*kind) != old.actors.of(*kind) {
                self.root.retune(*kind, new.actors.of(*kind).clone(), RETUNE_DEADLINE).await?;
            }
        }
        self.live.store(new);
        Ok(changes)
    }
}

/// The configuration with overrides. Overrides that this program or this configuration does not allow are left out.
pub fn overlaid(
    configured: &Settings,
    overrides: &[SettingOverride],
) -> Result<(Settings, NodeOverrides), ReloadFault> {
    // A file that the configuration names may be away now, which is no reason to leave an override out.
    let known = configured.problems();
    let mut settings = configured.clone();
    let mut found = NodeOverrides::default();
    // A common setting of actors first, then the setting of one kind.
    let mut ordered: Vec<&SettingOverride> = overrides.iter().collect();
    ordered.sort_by_key(|found| found.path.matches('.').count());
    for one in ordered {
        let fitting = overlaid_by(&settings, one)?;
        match fitting.filter(|settings| settings.problems().iter().all(|problem| known.contains(problem))) {
            Some(fitting) => {
                settings = fitting;
                found.in_force.push(one.clone());
            }
            None => found.left_out.push(one.clone()),
        }
    }
    Ok((settings, found))
}

/// The settings with one override; `None` if there is no such live setting, or the value has another type.
///
/// An override of a setting of `[actors]` holds for each kind that has the common value.
fn overlaid_by(settings: &Settings, found: &SettingOverride) -> Result<Option<Settings>, ReloadFault> {
    let mut tree = serde_json::to_value(settings)?;
    let Some(common) = tree.pointer(&pointer(&found.path)).filter(|_| is_live(&found.path)).cloned() else {
        return Ok(None);
    };
    let mut places = vec![found.path.clone()];
    if let Some(field) = found.path.strip_prefix("actors.") {
        let kinds = ActorKind::ALL.iter().map(|kind| format!("actors.{kind}.{field}"));
        places.extend(kinds.filter(|path| tree.pointer(&pointer(path)) == Some(&common)));
    }
    for path in places {
        put(&mut tree, &path, &found.value);
    }
    Ok(serde_json::from_value(tree).ok())
}

/// Replaces the value of a setting in a tree of settings.
pub(super) fn put(tree: &mut Value, path: &str, value: &Value) {
    if let Some(place) = tree.pointer_mut(&pointer(path)) {
        place.clone_from(value);
    }
}
