//! Reading the configuration again while the server runs: `docs/decisions/0039-live-settings.md`.

use std::sync::Arc;

use domain::act::{ActOutcome, OperatorAct};
use domain::ids::EventId;
use serde_json::Value;
use store::setting::SettingOverride;

use super::App;
use super::acts::Acting;
use super::config::live::is_reloaded;
use super::config::reading::{Layers, load_layers};
use super::config::{Problems, Settings};
use super::in_force::NodeOverrides;
use super::live::{ReloadFault, SettingChange, overlaid, put};

/// The result of reading the configuration again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Changed settings that are in force.
    pub applied: Vec<SettingChange>,
    /// Paths of changed settings that the next start applies.
    pub restart_needed: Vec<String>,
    /// Changed settings that an override hides, with the values of the configuration. They are in force when the override ends.
    pub shadowed: Vec<SettingChange>,
}

/// Why the configuration was not applied. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadRefusal {
    /// It has mistakes.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// The server cannot apply it now.
    #[error(transparent)]
    Fault(#[from] ReloadFault),
}

impl ReloadRefusal {
    /// The mistakes, each with its place.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Invalid(problems) => problems.0.iter().map(ToString::to_string).collect(),
            Self::Fault(fault) => vec![domain::reasons(fault)],
        }
    }
}

/// A change of the configuration that is not in force yet.
struct Reload {
    configured: Layers,
    settings: Settings,
    overrides: NodeOverrides,
    report: Reloaded,
}

impl App {
    /// The changes that [`App::reload`] would apply.
    #[boxed]
    pub async fn reload_preview(&self) -> Result<Reloaded, ReloadRefusal> {
        let overrides = self.live.change.lock().await;
        Ok(self.planned(self.read_again()?, &overrides)?.report)
    }

    /// Reads the configuration again, puts its live settings in force, and records `act`. Returns the result, and the id of the act.
    #[boxed]
    pub async fn reload(&self, act: OperatorAct) -> (Result<Reloaded, ReloadRefusal>, EventId) {
        let (reloaded, act, outcome) = self.reload_unrecorded(act).await;
        let acting = Acting::new(&self.store, (&self.clock, &self.rng), act);
        let id = acting.id;
        self.record_later(acting, outcome);
        (reloaded, id)
    }

    /// The same without a record: returns the result, and the act to be recorded with its outcome.
    #[boxed]
    pub async fn reload_unrecorded(
        &self,
        act: OperatorAct,
    ) -> (Result<Reloaded, ReloadRefusal>, OperatorAct, ActOutcome) {
        let reloaded = match self.read_again() {
            Ok(read) => self.apply(read).await.map_err(ReloadRefusal::from),
            Err(problems) => Err(problems.into()),
        };
        let (act, outcome) = match &reloaded {
            Ok(Reloaded { applied, restart_needed, shadowed }) => {
                tracing::info!(
                    settings.applied = SettingChange::paths(applied),
                    settings.restart_needed = restart_needed.join(", "),
                    settings.shadowed = SettingChange::paths(shadowed),
                    "the configuration was read again"
                );
                metrics::gauge!("attache_config_last_reload_success_timestamp_seconds").set(seconds(self));
                // A setting that an override hides is in force when the override ends.
                let changes: Vec<&SettingChange> = applied.iter().chain(shadowed).collect();
                counted(if changes.is_empty() { "unchanged" } else { "applied" });
                let values = |value: fn(&SettingChange) -> &Value| -> Value {
                    changes.iter().map(|change| (change.path.clone(), value(change).clone())).collect()
                };
                let (before, after) = (Some(values(|change| &change.before)), Some(values(|change| &change.after)));
                (OperatorAct { before, after, ..act }, ActOutcome::Applied)
            }
            Err(refusal) => {
                for problem in refusal.problems() {
                    tracing::warn!(problem, "the configuration is not applied, so nothing has changed");
                }
                counted("rejected");
                (act, ActOutcome::Refused)
            }
        };
        (reloaded, act, outcome)
    }

    /// Reads the configuration again, from the places of the start.
    fn read_again(&self) -> Result<Layers, Problems> {
        load_layers(self.live.configured().named.as_deref(), std::env::vars())
    }

    /// Puts the live settings of a configuration in force.
    #[boxed]
    pub async fn apply(&self, read: Layers) -> Result<Reloaded, ReloadFault> {
        let overrides = self.live.change.lock().await;
        let Reload { configured, settings, overrides, report } = self.planned(read, &overrides)?;
        self.put_in_force(settings).await?;
        self.live.overrides.store(Arc::new(overrides));
        // Without overrides: the table of nodes compares configurations.
        self.nodes.reconfigure(configured.settings.shared_digest(), configured.settings.shared_prints());
        self.live.configured.store(Arc::new(configured));
        Ok(report)
    }

    fn planned(&self, read: Layers, overrides: &[SettingOverride]) -> Result<Reload, ReloadFault> {
        let old = self.live.configured();
        let changes = SettingChange::between(&old.settings, &read.settings)?;
        let (live, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| is_reloaded(&change.path));
        let mut tree = serde_json::to_value(&old.settings)?;
        for change in &live {
            put(&mut tree, &change.path, &change.after);
        }
        let configured = Layers { settings: serde_json::from_value(tree)?, ..read };
        let (settings, overrides) = overlaid(&configured.settings, overrides)?;
        let applied = SettingChange::between(&self.live.get(), &settings)?;
        let is_applied = |path: &str| applied.iter().any(|change| change.path == path);
        let shadowed = live.into_iter().filter(|change| !is_applied(&change.path)).map(SettingChange::hidden).collect();
        let restart_needed = others.into_iter().map(|change| change.path).collect();
        let applied = applied.into_iter().map(SettingChange::hidden).collect();
        Ok(Reload { configured, settings, overrides, report: Reloaded { applied, restart_needed, shadowed } })
    }
}

fn counted(outcome: &'static str) {
    metrics::counter!("attache_config_reloads_total", "outcome" => outcome).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are below 2^53")]
fn seconds(app: &App) -> f64 {
    app.clock.now().timestamp() as f64
}
