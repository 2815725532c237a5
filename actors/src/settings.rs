//! The knobs that every kind of actor has.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::restart::RestartSettings;

/// The limits of one kind of actor: `[actors]` in the configuration, overridden by `[actors.<kind>]`.
///
/// Every field has a default, so a table may name only what it changes; the struct serialises to the same table, which is what an
/// override is laid over. Durations are written as people write them (`"500ms"`, `"10s"`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActorSettings {
    /// How many messages may wait for one actor or be in its hands; the next one is refused at once.
    pub queue_max: u32,
    /// How long a caller waits for an answer.
    #[serde(with = "humantime_serde")]
    pub ask_deadline: Duration,
    /// A per-key actor that finished its last message this long ago is passivated; `0s` leaves that to the actor itself.
    #[serde(with = "humantime_serde")]
    pub idle_after: Duration,
    /// How many per-key actors of this kind may live at once; one more is refused.
    pub live_max: usize,
    /// An actor with waiting messages that finished none for this long is killed and started afresh. Longer than its longest
    /// honest handler.
    #[serde(with = "humantime_serde")]
    pub stuck_after: Duration,
    /// How many crashes of one key within `quarantine_window` put that key into quarantine.
    pub quarantine_after: u32,
    /// The sliding window in which crashes of one key are counted.
    #[serde(with = "humantime_serde")]
    pub quarantine_window: Duration,
    /// How long a quarantined key is refused.
    #[serde(with = "humantime_serde")]
    pub quarantine_for: Duration,
    /// When and how often the actor, or the family that owns the per-key actors, is restarted.
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
    /// What is wrong with these values, as pairs of field and rule, for the report of all configuration errors at once.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            (self.queue_max > 0, "queue_max", "must be at least 1"),
            (!self.ask_deadline.is_zero(), "ask_deadline", "must be longer than 0s"),
            (self.live_max > 0, "live_max", "must be at least 1"),
            (!self.stuck_after.is_zero(), "stuck_after", "must be longer than 0s"),
            (self.quarantine_after > 0, "quarantine_after", "must be at least 1"),
        ];
        let broken = rules.into_iter().filter(|(kept, ..)| !kept).map(|(_, field, rule)| (field, rule));
        broken.chain(self.restart.problems()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_name_only_what_it_changes() {
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
    fn an_unknown_knob_is_an_error() {
        assert!(serde_json::from_str::<ActorSettings>(r#"{"idle": "90s"}"#).is_err());
        assert!(serde_json::from_str::<ActorSettings>(r#"{"restart": {"max": 3}}"#).is_err());
    }

    #[test]
    fn impossible_values_are_named_with_their_rule() {
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
