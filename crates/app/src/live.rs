//! The settings in force, and their change while the server runs: `docs/decisions/0039-live-settings.md`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actors::ActorKind;
use arc_swap::ArcSwap;
use serde_json::Value;
use store::setting::SettingOverride;
use supervision::Unavailable;

use super::config::Settings;
use super::config::live::is_live;
use super::{App, host_name, telemetry};

/// Timeout of the supervisor for the settings of one kind of actor.
const RETUNE_DEADLINE: Duration = Duration::from_secs(5);

type Follower = Box<dyn Fn(&Settings) + Send + Sync>;

/// The settings in force. Reading them is one atomic load.
pub struct LiveSettings {
    in_force: ArcSwap<Settings>,
    overrides: ArcSwap<Vec<SettingOverride>>,
    followers: Mutex<Vec<Follower>>,
    /// The configuration without overrides. Locked during a change, so that two changes follow each other.
    configured: tokio::sync::Mutex<Settings>,
}

impl fmt::Debug for LiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveSettings").finish_non_exhaustive()
    }
}

impl LiveSettings {
    /// The settings of the start.
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            in_force: ArcSwap::from_pointee(settings.clone()),
            overrides: ArcSwap::default(),
            followers: Mutex::default(),
            configured: tokio::sync::Mutex::new(settings),
        }
    }

    /// The settings in force.
    pub fn get(&self) -> Arc<Settings> {
        self.in_force.load_full()
    }

    /// The overrides of this node.
    pub fn overrides(&self) -> Arc<Vec<SettingOverride>> {
        self.overrides.load_full()
    }

    /// Calls `follower` with the settings in force, now and after each change.
    pub fn follow(&self, follower: impl Fn(&Settings) + Send + Sync + 'static) {
        follower(&self.get());
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(follower));
    }
}

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

/// The result of reading the configuration again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Changed settings that are in force.
    pub applied: Vec<SettingChange>,
    /// Paths of changed settings that the next start applies.
    pub restart_needed: Vec<String>,
    /// Paths of changed settings that an override hides.
    pub shadowed: Vec<String>,
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
    /// Puts the live settings of `read`, a valid configuration, in force.
    #[boxed]
    pub async fn reload(&self, read: &Settings) -> Result<Reloaded, ReloadFault> {
        let mut configured = self.live.configured.lock().await;
        let (mut tree, read_tree) = (serde_json::to_value(&*configured)?, serde_json::to_value(read)?);
        let mut reloaded = Reloaded::default();
        let overrides = self.live.overrides();
        for path in configured.differences(read)? {
            let value = read_tree.pointer(&pointer(&path));
            match (is_live(&path), tree.pointer_mut(&pointer(&path)), value) {
                (true, Some(place), Some(value)) => {
                    *place = value.clone();
                    if overrides.iter().any(|hiding| hiding.path == path) {
                        reloaded.shadowed.push(path);
                    }
                }
                _ => reloaded.restart_needed.push(path),
            }
        }
        let read: Settings = serde_json::from_value(tree)?;
        reloaded.applied = self.put_in_force(overlaid(&read, &overrides)?).await?;
        *configured = read;
        Ok(reloaded)
    }

    /// Puts the overrides of this node among all `overrides` in force. Other settings have the values of the configuration.
    #[boxed]
    pub async fn override_settings(&self, overrides: Vec<SettingOverride>) -> Result<(), ReloadFault> {
        let here = host_name();
        let is_here = |found: &SettingOverride| found.node.as_ref().is_none_or(|node| *node == here);
        let overrides: Vec<SettingOverride> = overrides.into_iter().filter(is_here).collect();
        if *self.live.overrides.load_full() == overrides {
            return Ok(());
        }
        let configured = self.live.configured.lock().await;
        let changed = self.put_in_force(overlaid(&configured, &overrides)?).await?;
        let names = |paths: Vec<&str>| paths.join(", ");
        tracing::info!(
            settings.overridden = names(overrides.iter().map(|found| found.path.as_str()).collect()),
            settings.changed = names(changed.iter().map(|change| change.path.as_str()).collect()),
            "overrides of settings changed"
        );
        self.live.overrides.store(Arc::new(overrides));
        Ok(())
    }

    /// Passes changed settings on to their readers, and returns the changes.
    async fn put_in_force(&self, new: Settings) -> Result<Vec<SettingChange>, ReloadFault> {
        let old = self.live.get();
        let paths = old.differences(&new)?;
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        if new.telemetry.log != old.telemetry.log {
            telemetry::replace_filter(&new.telemetry.log).map_err(ReloadFault::Filter)?;
        }
        for kind in ActorKind::ALL {
            if new.actors.of(*kind) != old.actors.of(*kind) {
                self.root.retune(*kind, new.actors.of(*kind).clone(), RETUNE_DEADLINE).await?;
            }
        }
        let (before, after) = (serde_json::to_value(&*old)?, serde_json::to_value(&new)?);
        let value = |tree: &Value, path: &str| tree.pointer(&pointer(path)).cloned().unwrap_or_default();
        let change = |path: String| {
            let (before, after) = (value(&before, &path), value(&after, &path));
            SettingChange { path, before, after }
        };
        self.nodes.reconfigure(new.shared_digest(), new.shared_prints());
        for follower in self.live.followers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            follower(&new);
        }
        self.live.in_force.store(Arc::new(new));
        Ok(paths.into_iter().map(change).collect())
    }
}

/// The configuration with overrides. Overrides that this program or this configuration does not allow are left out.
fn overlaid(configured: &Settings, overrides: &[SettingOverride]) -> Result<Settings, ReloadFault> {
    let mut settings = configured.clone();
    for found in overrides {
        let mut tree = serde_json::to_value(&settings)?;
        let place = tree.pointer_mut(&pointer(&found.path)).filter(|_| is_live(&found.path));
        let is_there = place.map(|place| *place = found.value.clone()).is_some();
        let read = if is_there { serde_json::from_value::<Settings>(tree).ok() } else { None };
        if let Some(fitting) = read.filter(|settings| settings.problems().is_empty()) {
            settings = fitting;
        } else {
            tracing::warn!(setting = found.path, "an override does not fit this configuration and is left out");
        }
    }
    Ok(settings)
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}
