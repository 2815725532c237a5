//! The settings of a kind of actor.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::restart::RestartSettings;

/// The limits of one kind of actor.
///
/// Every field has a default, so a table of the configuration may contain only changed fields. The struct serialises to the same table.
/// Durations are texts such as `"500ms"` or `"10s"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActorSettings {
    /// Maximum number of messages that wait for one actor or are being handled; the next one is refused at once. Default 256.
    pub queue_max: u32,
    /// How long a caller waits for an answer. Default 5 s.
    #[serde(with = "humantime_serde")]
    pub ask_deadline: Duration,
    /// A keyed actor that finished its last message this long ago is passivated; with `0s` the actor decides itself. Default 1 min.
    #[serde(with = "humantime_serde")]
    pub idle_after: Duration,
    /// Maximum number of keyed actors of this kind; the activation of one more is refused. Default 100,000.
    pub live_max: usize,
    /// An actor that holds messages and finished none for this time is killed and restarted. It must be longer than the longest correct run
    /// of a handler. Default 30 s.
    #[serde(with = "humantime_serde")]
    pub stuck_after: Duration,
    /// Number of crashes of one key within `quarantine_window` that put the key into quarantine. Default 3.
    pub quarantine_after: u32,
    /// The sliding window in which crashes of one key are counted. Default 1 min.
    #[serde(with = "humantime_serde")]
    pub quarantine_window: Duration,
    /// How long a key in quarantine is refused. Default 1 min.
    #[serde(with = "humantime_serde")]
    pub quarantine_for: Duration,
    /// Restart budget and delays of the actor, or of the family that owns the keyed actors.
    pub restart: RestartSettings,
}

impl Default for ActorSettings {
    fn default() -> Self {
        Self {
            queue_max: 256,
            ask_deadline: Duration::from_secs(5),
            idle_after: Duration::from_mins(1),
            live_max: 100_000,
            stuck_after: Duration::from_secs(30),
            quarantine_after: 3,
            quarantine_window: Duration::from_mins(1),
            quarantine_for: Duration::from_mins(1),
            restart: RestartSettings::default(),
        }
    }
}

impl ActorSettings {
    /// The invalid values, as pairs of field and rule, for a report of all configuration errors at once.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            (self.queue_max > 0, "queue_max", "must be at least 1"),
            (!self.ask_deadline.is_zero(), "ask_deadline", "must be longer than 0s"),
            (self.live_max > 0, "live_max", "must be at least 1"),
            (!self.stuck_after.is_zero(), "stuck_after", "must be longer than 0s"),
            (self.quarantine_after > 0, "quarantine_after", "must be at least 1"),
        ];
        let broken = rules.into_iter().filter(|(is_valid, ..)| !is_valid).map(|(_, field, rule)| (field, rule));
        broken.chain(self.restart.problems()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_contain_only_the_fields_that_it_changes() {
        let settings: ActorSettings =
            serde_json::from_str(r#"{"idle_after": "90s", "restart": {"backoff_max": "2m"}}"#).unwrap();
        let expected = ActorSettings {
            idle_after: Duration::from_secs(90),
            restart: RestartSettings { backoff_max: Duration::from_mins(2), ..RestartSettings::default() },
            ..ActorSettings::default()
        };
        assert_eq!(settings, expected);
        let written = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<ActorSettings>(&written).unwrap(), settings);
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        assert!(serde_json::from_str::<ActorSettings>(r#"{"idle": "90s"}"#).is_err());
        assert!(serde_json::from_str::<ActorSettings>(r#"{"restart": {"max": 3}}"#).is_err());
    }

    #[test]
    fn invalid_values_are_reported_with_their_rule() {
        assert_eq!(ActorSettings::default().problems(), []);
        let wrong = ActorSettings {
            queue_max: 0,
            restart: RestartSettings { jitter: 2.0, ..RestartSettings::default() },
            ..ActorSettings::default()
        };
        assert_eq!(
            wrong.problems(),
            [("queue_max", "must be at least 1"), ("restart.jitter", "must be a fraction from 0 to 1")]
        );
    }
}
