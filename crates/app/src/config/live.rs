//! When a changed setting takes effect: `docs/decisions/0039-live-settings.md`.

use super::reading::is_within;
use super::shared::is_secret;

/// When a changed setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingEffect {
    /// When the configuration is read again, or by an override.
    Live,
    /// When the configuration is read again. There is no override: operators could raise their own rights with it, or close the way to
    /// the database, which has the overrides.
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
        ("database.acquire_timeout", Reload),
        ("database.connect_timeout", Reload),
        ("database.idle_in_transaction_timeout", Reload),
        ("database.lock_timeout", Reload),
        ("database.replica_deadline", Live),
        ("database.replica_lag_max", Live),
        ("database.replica_url", Never),
        ("database.silent_after", Reload),
        ("database.statement_timeout", Reload),
        ("database.url", Never),
        ("devices", Restart),
        ("events", Restart),
        ("events.body_bytes_max", Live),
        ("events.held", Live),
        ("events.unattached", Live),
        ("feeds", Live),
        ("feeds.enabled", Restart),
        ("http", Live),
        ("http.auth_name", Restart),
        ("http.base_url", Restart),
        ("http.bind", Restart),
        // The places are as many as there are file descriptors at the start.
        ("http.connections_max", Restart),
        ("http.descriptors_reserved", Restart),
        ("http.trusted_proxies", Restart),
        ("janitor", Live),
        // Requests for device codes name it.
        ("janitor.purge.unattached_kept", Restart),
        ("knowledge", Restart),
        ("knowledge.batch", Live),
        ("knowledge.database.replica_url", Never),
        ("knowledge.database.url", Never),
        ("knowledge.import.lines_max", Live),
        ("knowledge.memories_per_account_max", Live),
        ("knowledge.tags_per_memory_max", Live),
        ("limits", Live),
        ("log", Restart),
        ("log.checkpoint_every", Live),
        // A list; its rows contain URLs with passwords.
        ("log.part", Never),
        ("log.remember_every", Live),
        ("machines", Restart),
        ("mail", Restart),
        ("mail.smtp.url", Never),
        ("plans", Live),
        ("rules", Restart),
        ("sessions", Restart),
        ("shutdown", Live),
        ("signin", Restart),
        // A list; its rows contain secrets.
        ("signin.oidc", Never),
        ("telemetry", Restart),
        ("telemetry.log", Live),
        ("upstream", Restart),
        ("webhooks", Live),
        ("webhooks.allow_http", Restart),
        ("webhooks.allow_private", Restart),
        ("webhooks.enabled", Restart),
        ("webhooks.ports", Restart),
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
        for secret in ["mail.smtp.password", "upstream.token", "machines.enrolment_key", "database.url", "log.part"] {
            assert_eq!(of(secret), SettingEffect::Never, "{secret}");
        }
        assert_eq!(effect_of("logs.origin"), None);
        assert!(is_hidden("admin.operator") && is_reloaded("admin.operator") && !is_live("admin.operator"));
    }
}
