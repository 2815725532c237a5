//! Servers on one database: the row of each node, and differences between nodes to report to the operator.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Timestamp;
use crate::actor_key::CrashRecord;
use crate::clock::date_time;
use crate::digest::Digest;
use crate::ids::NodeId;

/// Time between two beats, in seconds.
pub const BEAT_SECONDS: u64 = 5;

/// A node without a beat for this long is silent: it was killed, or is cut off from the database.
pub const SILENT_AFTER: TimeDelta = TimeDelta::seconds(15);

/// A machine's clock that differs by more from the database's is wrong.
pub const CLOCK_DIFFERENCE_MAX: TimeDelta = TimeDelta::seconds(2);

/// The settings that all nodes share: for each path a prefix of the SHA-256 of the value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SettingPrints(BTreeMap<String, String>);

impl SettingPrints {
    /// Computes the prints of a tree of settings without secrets.
    pub fn of(tree: &Map<String, Value>) -> Self {
        let mut prints = BTreeMap::new();
        add_prints(tree, "", &mut prints);
        Self(prints)
    }

    /// The paths of settings that differ, or that only one of the two has.
    pub fn differing<'p>(&'p self, other: &'p Self) -> Vec<&'p str> {
        let paths: BTreeSet<&str> = self.0.keys().chain(other.0.keys()).map(String::as_str).collect();
        paths.into_iter().filter(|path| self.0.get(*path) != other.0.get(*path)).collect()
    }
}

fn add_prints(tree: &Map<String, Value>, section: &str, prints: &mut BTreeMap<String, String>) {
    for (name, value) in tree {
        let path = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        match value {
            Value::Object(members) if !members.is_empty() => add_prints(members, &path, prints),
            value => drop(prints.insert(path, short(&Digest::of(value.to_string().as_bytes())))),
        }
    }
}

/// Properties of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTraits {
    /// Chosen at the start of the process.
    pub id: NodeId,
    /// Name of its host.
    pub name: String,
    /// Bound address of the public listener.
    pub address: String,
    /// Bound address of the operator's listener.
    pub operator_address: String,
    /// Version of the program.
    pub version: String,
    /// SHA-256 of the settings that all nodes share.
    pub configuration: Digest,
    /// Prints of the same settings.
    pub settings: SettingPrints,
    /// When it started.
    pub started_at: Timestamp,
    /// How far its machine's clock is ahead of the database's.
    pub clock_ahead: TimeDelta,
}

/// A row of the table of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its properties.
    pub traits: NodeTraits,
    /// Why it is not ready; `None` while it is.
    pub unready: Option<String>,
    /// Whether it is shutting down.
    pub is_draining: bool,
    /// Whether it has the lease of the log's sequencer.
    pub has_sequencer: bool,
    /// Number of running batches leased by this node.
    pub batches: u32,
    /// Keys with recently crashed actors on this node.
    pub crashed_keys: Vec<CrashRecord>,
    /// Time of its last beat.
    pub last_beat_at: Timestamp,
    /// Time since its last beat.
    pub silent_for: TimeDelta,
}

impl NodeRecord {
    /// Whether its beats have stopped.
    pub fn is_silent(&self) -> bool {
        self.silent_for > SILENT_AFTER
    }

    /// `host (10.0.0.2:8081)`
    pub fn place(&self) -> String {
        format!("{} ({})", self.traits.name, self.traits.operator_address)
    }
}

/// The kinds of [`Difference`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// Other settings.
    Configuration,
    /// Another version of the program.
    Version,
    /// A machine with a wrong clock.
    Clock,
    /// No beat.
    Silent,
}

/// A difference between nodes that should be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The node.
    pub node: NodeId,
    /// The differing property.
    pub kind: DifferenceKind,
    /// The same for an operator.
    pub text: String,
}

/// The differences between living `nodes` and a node with this configuration and version, and nodes with wrong clocks; silent nodes are
/// only reported as silent.
pub fn differences(
    configuration: &Digest,
    settings: &SettingPrints,
    version: &str,
    nodes: &[NodeRecord],
) -> Vec<Difference> {
    let mut reports = Vec::new();
    for node in nodes {
        let (traits, place) = (&node.traits, node.place());
        let mut add = |kind, text| reports.push(Difference { node: traits.id, kind, text });
        if node.is_silent() {
            let since = date_time(node.last_beat_at);
            add(DifferenceKind::Silent, format!("{place} has been silent since {since}"));
            continue;
        }
        if traits.configuration != *configuration {
            let (remote, local) = (short(&traits.configuration), short(configuration));
            let differing = named(&settings.differing(&traits.settings));
            let text = format!("{place} has other settings: {differing}digest {remote}, here {local}");
            add(DifferenceKind::Configuration, text);
        }
        if traits.version != version {
            add(DifferenceKind::Version, format!("{place} runs version {}, here {version}", traits.version));
        }
        if traits.clock_ahead.abs() > CLOCK_DIFFERENCE_MAX {
            let seconds = traits.clock_ahead.as_seconds_f64();
            let side = if seconds > 0.0 { "ahead of" } else { "behind" };
            add(DifferenceKind::Clock, format!("the clock of {place} is {:.1} s {side} the database's", seconds.abs()));
        }
    }
    reports
}

/// The first of these paths, as the start of a list.
fn named(paths: &[&str]) -> String {
    /// Further paths are counted.
    const NAMED_MAX: usize = 8;
    let (first, rest) = paths.split_at(paths.len().min(NAMED_MAX));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    if first.is_empty() { String::new() } else { format!("{}{more}; ", first.join(", ")) }
}

/// The first 12 digits of a digest.
pub fn short(digest: &Digest) -> String {
    digest.to_string().chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Rng;

    fn prints(tree: &Value) -> SettingPrints {
        SettingPrints::of(tree.as_object().unwrap())
    }

    fn node(name: &str) -> NodeRecord {
        let at = Timestamp::UNIX_EPOCH;
        NodeRecord {
            traits: NodeTraits {
                id: Rng::seeded(name.len() as u64).uuid_v7(at).into(),
                name: name.into(),
                address: "10.0.0.1:8080".into(),
                operator_address: "10.0.0.1:8081".into(),
                version: "1.0.0".into(),
                configuration: Digest::of(b"same"),
                settings: prints(&json!({ "http": { "auth_name": "attache" }, "lists": [1] })),
                started_at: at,
                clock_ahead: TimeDelta::milliseconds(1500),
            },
            unready: None,
            is_draining: false,
            has_sequencer: false,
            batches: 0,
            crashed_keys: Vec::new(),
            last_beat_at: at,
            silent_for: TimeDelta::seconds(5),
        }
    }

    fn kinds(nodes: &[NodeRecord]) -> Vec<DifferenceKind> {
        differences(&Digest::of(b"same"), &SettingPrints::default(), "1.0.0", nodes)
            .into_iter()
            .map(|difference| difference.kind)
            .collect()
    }

    #[test]
    fn settings_that_differ_are_named_and_their_values_are_not() {
        let mut other = node("other");
        other.traits.configuration = Digest::of(b"other");
        let own = prints(&json!({ "http": { "auth_name": "hunter2" }, "lists": [1], "mail": {} }));
        let text = differences(&Digest::of(b"same"), &own, "1.0.0", &[other.clone()])[0].text.clone();
        assert!(text.contains("other settings: http.auth_name, mail; digest "), "{text}");
        assert!(!serde_json::to_string(&own).unwrap().contains("hunter2"));
        let many: Map<String, Value> = (0..20).map(|number| (format!("s{number:02}"), json!(0))).collect();
        let text = differences(&Digest::of(b"same"), &SettingPrints::of(&many), "1.0.0", &[other])[0].text.clone();
        assert!(text.contains("s00") && text.contains("and 14 more; "), "{text}");
    }

    #[test]
    fn nodes_that_are_alike_have_no_differences() {
        assert_eq!(kinds(&[node("one"), node("other")]), []);
    }

    #[test]
    fn a_node_with_other_settings_version_or_clock_differs_and_a_silent_one_is_silent() {
        let mut other = node("other");
        other.traits.configuration = Digest::of(b"other");
        other.traits.version = "1.1.0".into();
        other.traits.clock_ahead = TimeDelta::seconds(-60);
        let expected = [DifferenceKind::Configuration, DifferenceKind::Version, DifferenceKind::Clock];
        assert_eq!(kinds(&[node("one"), other.clone()]), expected);
        let clock =
            &differences(&Digest::of(b"same"), &SettingPrints::default(), "1.0.0", std::slice::from_ref(&other))[2]
                .text;
        assert_eq!(clock, "the clock of other (10.0.0.1:8081) is 60.0 s behind the database's");
        other.silent_for = TimeDelta::seconds(16);
        assert_eq!(kinds(&[other]), [DifferenceKind::Silent]);
    }
}
