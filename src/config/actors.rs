//! `[actors]`: limits and restart rules for every kind of actor, and `[actors.<kind>]`, what one kind has otherwise.
//!
//! Three layers, later ones winning: `[actors]`, the built-in differences of a kind, `[actors.<kind>]`.

use std::collections::BTreeMap;

use actors::ActorSettings;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

/// The kinds of actor, in the order in which they are started.
pub const KINDS: [&str; 18] = [
    "lookup", "append", "sequence", "anchor", "hold", "mail", "claims", "devices", "intake", "batches", "drift",
    "backfill", "outbox", "watch", "meter", "presence", "budget", "janitor",
];

/// What a kind has otherwise than `[actors]` says.
fn built_in(kind: &str) -> Value {
    match kind {
        // What is done in groups lives from many waiting at once.
        "lookup" | "append" | "hold" => json!({ "queue_max": 8192 }),
        // Whoever is let in is answered soon, even by a slow statistics service; the rest is told at once to come back.
        "intake" => json!({ "queue_max": 400, "ask_deadline": "15s" }),
        // A poll that finds sixteen others waiting for the same key comes from a client gone wild.
        "claims" => json!({ "queue_max": 64, "idle_after": "2m" }),
        // A poller forgets its computer's pace when it is put away, so it must outlive the longest interval.
        "devices" => json!({ "queue_max": 64, "idle_after": "2m", "live_max": 200_000 }),
        // A batch keeps itself alive while it has work, and leaves when it has none.
        "batches" => json!({ "queue_max": 64, "idle_after": "0s", "live_max": 10_000 }),
        // They have nobody waiting, and one pass may well take a while on a slow disk.
        "sequence" | "anchor" | "drift" | "backfill" | "outbox" | "watch" | "meter" | "presence" | "budget"
        | "janitor" => {
            json!({ "queue_max": 16, "stuck_after": "2m" })
        }
        _ => json!({}),
    }
}

/// Settings of all kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorsSettings {
    base: ActorSettings,
    kinds: BTreeMap<&'static str, ActorSettings>,
}

impl ActorsSettings {
    /// The settings of one of `KINDS`. Another kind is a mistake of this program: it gets the settings of `[actors]`, with a log line.
    pub fn of(&self, kind: &str) -> &ActorSettings {
        self.kinds.get(kind).unwrap_or_else(|| {
            debug_assert!(false, "\"{kind}\" is no kind of actor");
            tracing::error!(actor.kind = kind, "an actor of an unknown kind has no settings of its own");
            &self.base
        })
    }

    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let kinds = self.kinds.iter().flat_map(|(kind, settings)| {
            settings.problems().into_iter().map(move |(field, rule)| (format!("{kind}.{field}"), rule.to_owned()))
        });
        let base = self.base.problems().into_iter().map(|(field, rule)| (field.to_owned(), rule.to_owned()));
        base.chain(kinds).collect()
    }

    fn layered(mut table: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let mut overrides: Vec<_> = KINDS.iter().map(|kind| (*kind, table.remove(*kind))).collect();
        let base: ActorSettings = serde_json::from_value(Value::Object(table))?;
        let full = serde_json::to_value(&base)?;
        let mut kinds = BTreeMap::new();
        for (kind, given) in &mut overrides {
            let mut settings = full.clone();
            overlay(&mut settings, built_in(kind));
            if let Some(given) = given.take() {
                overlay(&mut settings, given);
            }
            kinds.insert(*kind, serde_json::from_value(settings)?);
        }
        Ok(Self { base, kinds })
    }
}

/// Lays `over` on `under`: tables are merged, everything else is replaced.
fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

impl Default for ActorsSettings {
    fn default() -> Self {
        Self::layered(Map::new()).unwrap_or_else(|_| Self { base: ActorSettings::default(), kinds: BTreeMap::new() })
    }
}

impl<'de> Deserialize<'de> for ActorsSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::layered(Map::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for ActorsSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error as _;
        let mut table = serde_json::to_value(&self.base).map_err(S::Error::custom)?;
        for (kind, settings) in &self.kinds {
            table[*kind] = serde_json::to_value(settings).map_err(S::Error::custom)?;
        }
        table.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> ActorsSettings {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_kind_has_its_own_then_its_built_in_then_the_common_value() {
        let settings =
            read(r#"{"queue_max": 7, "restart": {"restarts_max": 9}, "intake": {"restart": {"jitter": 0.5}}}"#);
        assert_eq!(settings.of("watch").restart.restarts_max, 9);
        assert_eq!(settings.of("intake").restart.restarts_max, 9);
        assert_eq!(settings.of("intake").queue_max, 400);
        assert!((settings.of("intake").restart.jitter - 0.5).abs() < f64::EPSILON);
        assert_eq!(read(r#"{"claims": {"idle_after": "9s"}}"#).of("claims").idle_after, Duration::from_secs(9));
    }

    #[test]
    #[should_panic(expected = "\"intakes\" is no kind of actor")]
    fn a_kind_that_is_none_is_a_mistake() {
        read("{}").of("intakes");
    }

    #[test]
    fn settings_survive_being_written_and_read() {
        let settings = read(r#"{"queue_max": 7, "claims": {"live_max": 3}}"#);
        assert_eq!(read(&serde_json::to_string(&settings).unwrap()), settings);
    }

    #[test]
    fn an_unknown_kind_or_knob_is_an_error() {
        for text in [r#"{"intakes": {}}"#, r#"{"intake": {"queue": 1}}"#] {
            assert!(serde_json::from_str::<ActorsSettings>(text).is_err(), "{text}");
        }
    }
}
