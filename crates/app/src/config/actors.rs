//! `[actors]`: limits and restart rules of all kinds of actor, and `[actors.<kind>]`, the differences of one kind. Periodic kinds have no
//! such section: no request waits for them, and their limits are built in.
//!
//! Three layers, later ones take precedence: `[actors]`, the built-in limits of a kind ([`ActorKind::limits`]), `[actors.<kind>]`.

use actors::ActorKind;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use supervision::ActorSettings;

const KINDS: usize = ActorKind::ALL.len();

/// Settings of all kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorsSettings {
    base: ActorSettings,
    /// The merged layers of each kind, in the order of [`ActorKind::ALL`].
    kinds: Box<[ActorSettings; KINDS]>,
}

impl ActorsSettings {
    /// The settings of one kind.
    pub fn of(&self, kind: ActorKind) -> &ActorSettings {
        &self.kinds[kind as usize]
    }

    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let kinds = ActorKind::ALL.iter().zip(&*self.kinds).flat_map(|(kind, settings)| {
            settings.problems().into_iter().map(move |(field, rule)| (format!("{kind}.{field}"), rule.to_owned()))
        });
        let base = self.base.problems().into_iter().map(|(field, rule)| (field.to_owned(), rule.to_owned()));
        base.chain(kinds).collect()
    }

    /// The settings without a table of any kind.
    fn built_in(base: ActorSettings) -> Self {
        let kinds = std::array::from_fn(|kind| ActorKind::ALL[kind].limits().applied_to(&base));
        Self { base, kinds: Box::new(kinds) }
    }

    /// Reads `[actors]` with the tables of the kinds in it. An unknown kind is an unknown field of [`ActorSettings`], which is an error.
    fn layered(mut table: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let given: Vec<_> = configurable().filter_map(|kind| Some((kind, table.remove(kind.name())?))).collect();
        let mut settings = Self::built_in(serde_json::from_value(Value::Object(table))?);
        for (kind, given) in given {
            let mut layered = serde_json::to_value(settings.of(kind))?;
            overlay(&mut layered, given);
            settings.kinds[kind as usize] = serde_json::from_value(layered)?;
        }
        Ok(settings)
    }
}

/// The kinds with a section.
fn configurable() -> impl Iterator<Item = ActorKind> {
    ActorKind::ALL.iter().copied().filter(|kind| kind.is_configurable())
}

/// Merges tables; any other value of `over` replaces the value of `under`.
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
        Self::built_in(ActorSettings::default())
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
        for kind in configurable() {
            table[kind.name()] = serde_json::to_value(self.of(kind)).map_err(S::Error::custom)?;
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
    fn the_table_of_a_kind_precedes_its_built_in_limits_and_the_common_values() {
        let settings =
            read(r#"{"queue_max": 7, "restart": {"restarts_max": 9}, "ordered": {"restart": {"jitter": 0.5}}}"#);
        assert_eq!(settings.of(ActorKind::Watch).restart.restarts_max, 9);
        let ordered = settings.of(ActorKind::Ordered);
        assert_eq!(ordered.restart.restarts_max, 9);
        assert_eq!(ordered.queue_max, 400);
        assert!((ordered.restart.jitter - 0.5).abs() < f64::EPSILON);
        let claims = read(r#"{"claims": {"idle_after": "9s"}}"#).of(ActorKind::Claims).clone();
        assert_eq!(claims.idle_after, Duration::from_secs(9));
        assert_eq!(settings.of(ActorKind::Mail).queue_max, 7);
    }

    #[test]
    fn kinds_are_numbered_in_the_order_of_the_list() {
        assert!(ActorKind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
    }

    #[test]
    fn settings_survive_serialisation() {
        let settings = read(r#"{"queue_max": 7, "claims": {"live_max": 3}}"#);
        assert_eq!(read(&serde_json::to_string(&settings).unwrap()), settings);
    }

    #[test]
    fn an_unknown_kind_or_setting_is_an_error() {
        for text in [r#"{"intakes": {}}"#, r#"{"intake": {"queue": 1}}"#, r#"{"janitor": {}}"#] {
            assert!(serde_json::from_str::<ActorsSettings>(text).is_err(), "{text}");
        }
    }
}
