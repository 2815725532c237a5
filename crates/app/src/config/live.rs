//! When a changed setting takes effect: `docs/decisions/0039-live-settings.md`.

use super::reading::is_within;
use super::shared::is_secret;

/// When a changed setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingEffect {
    /// When the configuration is read again, or by an override.
    Live,
    /// When the configuration is read again. There is no override, because operators could raise their own rights with it.
    Reload,
    /// With the next start.
    Restart,
    /// With the next start. The value is a secret or part of the identity of the installation, so it is never shown.
    Never,
}

impl SettingEffect {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Reload => "reload",
            Self::Restart => "restart",
            Self::Never => "never",
        }
    }
}

/// The classes by the starts of paths; the longest one decides. Secrets have their class by their names.
const CLASSES: &[(&str, SettingEffect)] = {
    use SettingEffect::{Live, Never, Reload, Restart};
    &[
        ("account", Restart),
        ("activity", Restart),
        ("actors", Live),
        ("admin", Restart),
        ("admin.changes", Reload),
        ("admin.free_bytes_min", Live),
        ("admin.hosts", Live),
        ("admin.operator", Reload),
        ("admin.probe_deadline", Live),
        ("admin.probe_every", Live),
        ("admin.stalled_after", Live),
        ("api_keys", Restart),
        ("claims", Restart),
        ("consent", Restart),
        ("consent.outbox_every", Live),
        ("data", Restart),
        ("database", Restart),
        ("database.replica_url", Never),
        ("database.url", Never),
        ("devices", Restart),
        ("events", Restart),
        ("events.unattached", Live),
        ("feeds", Restart),
        ("http", Restart),
        ("http.head_bytes_max", Live),
        ("http.head_deadline", Live),
        ("http.idle_deadline", Live),
        ("http.unread_bytes_max", Live),
        ("http.unread_deadline", Live),
        ("http.write_deadline", Live),
        ("janitor", Live),
        // Requests for device codes name it.
        ("janitor.purge.unattached_kept", Restart),
        ("knowledge", Restart),
        ("knowledge.memories_per_account_max", Live),
        ("limits", Live),
        ("log", Restart),
        ("log.checkpoint_every", Live),
        ("log.remember_every", Live),
        ("machines", Restart),
        ("mail", Restart),
        ("mail.smtp.url", Never),
        ("plans", Live),
        // Counts are kept for the longest window.
        ("plans.FREE.window_days", Restart),
        ("plans.MAX.window_days", Restart),
        ("plans.PLUS.window_days", Restart),
        ("plans.PRO.window_days", Restart),
        ("rules", Restart),
        ("sessions", Restart),
        ("shutdown", Live),
        ("signin", Restart),
        // A list; its rows contain secrets.
        ("signin.oidc", Never),
        ("telemetry", Restart),
        ("telemetry.log", Live),
        ("upstream", Restart),
        ("webhooks", Restart),
    ]
};

/// When a change of the setting at `path` takes effect; `None` if it has no class.
pub fn effect_of(path: &str) -> Option<SettingEffect> {
    if path.rsplit('.').next().is_some_and(is_secret) {
        return Some(SettingEffect::Never);
    }
    let class = CLASSES.iter().filter(|(start, _)| is_within(path, start)).max_by_key(|(start, _)| start.len());
    class.map(|(_, effect)| *effect)
}

/// Whether the setting at `path` can be overridden.
pub fn is_live(path: &str) -> bool {
    effect_of(path) == Some(SettingEffect::Live)
}

/// Whether the setting at `path` takes effect when the configuration is read again.
pub fn is_reloaded(path: &str) -> bool {
    matches!(effect_of(path), Some(SettingEffect::Live | SettingEffect::Reload))
}

/// Whether the value of the setting at `path` is never shown: a secret, or what opens a door.
pub fn is_hidden(path: &str) -> bool {
    path == "admin.operator" || effect_of(path) == Some(SettingEffect::Never)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reading::{paths, schema};

    #[test]
    fn every_setting_has_a_class_and_every_class_a_setting() {
        let paths = paths(&schema());
        for path in &paths {
            assert!(effect_of(path).is_some(), "{path} has no class in config/live.rs");
        }
        for (start, _) in CLASSES {
            assert!(paths.iter().any(|path| path == start || path.starts_with(&format!("{start}."))), "{start}");
        }
        assert!(CLASSES.is_sorted_by_key(|(start, _)| *start));
    }

    #[test]
    fn the_longest_start_decides_and_secrets_are_never_shown() {
        let of = |path| effect_of(path).unwrap();
        assert_eq!(of("actors.claims.idle_after"), SettingEffect::Live);
        assert_eq!((of("telemetry.log"), of("telemetry.format")), (SettingEffect::Live, SettingEffect::Restart));
        for secret in ["mail.smtp.password", "upstream.token", "machines.enrolment_key", "database.url"] {
            assert_eq!(of(secret), SettingEffect::Never, "{secret}");
        }
        assert_eq!(effect_of("logs.origin"), None);
        assert!(is_hidden("admin.operator") && is_reloaded("admin.operator") && !is_live("admin.operator"));
    }
}
