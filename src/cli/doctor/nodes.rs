//! Compares the servers on this database with each other and with this configuration.

use app::config::Settings;
use domain::clock::date_time;
use domain::node::{NodeRecord, differences, short};
use domain::{Clock, reasons};
use store::Store;

use super::finding::Finding;
use commands::output::table;

const NODES: &str = "nodes";

/// Indentation of further lines of a finding.
const INDENT: usize = 15;

/// Reads the table of nodes. Without a running server, the table has no rows to compare.
pub(super) async fn check(settings: &Settings, store: &Store) -> Finding {
    match store.nodes(Clock::system().now()).await {
        Ok(nodes) => judged(settings, &nodes),
        Err(error) => Finding::bad(NODES, reasons(&error), "check the database's log"),
    }
}

fn judged(settings: &Settings, nodes: &[NodeRecord]) -> Finding {
    if nodes.is_empty() {
        return Finding::good(NODES, "none is running");
    }
    let found = differences(&settings.shared_digest(), &settings.shared_prints(), env!("CARGO_PKG_VERSION"), nodes);
    let alive = nodes.iter().filter(|node| !node.is_silent()).count();
    let listed = shown(nodes);
    if found.is_empty() {
        return Finding::good(NODES, format!("{alive} alive{listed}"));
    }
    let indent = format!("\n{:INDENT$}", "");
    let differ: Vec<String> = found.into_iter().map(|found| found.text).collect();
    let advice = "give all nodes one configuration and one version, synchronise their clocks (NTP); silent nodes were killed or are cut off, and \
                  their rows go after a day";
    Finding::doubtful(NODES, format!("{alive} alive{listed}{indent}{}", differ.join(&indent)), advice)
}

/// The nodes as a table, on separate lines.
fn shown(nodes: &[NodeRecord]) -> String {
    let rows = nodes.iter().map(|node| {
        let traits = &node.traits;
        let mut leases = Vec::new();
        leases.extend(node.has_sequencer.then(|| "sequencer".to_owned()));
        leases.extend((node.batches > 0).then(|| format!("{} batches", node.batches)));
        vec![
            node.place(),
            app::nodes::status(node).to_owned(),
            traits.version.clone(),
            short(&traits.configuration),
            format!("{} ms", traits.clock_ahead.num_milliseconds()),
            date_time(traits.started_at),
            if leases.is_empty() { "-".to_owned() } else { leases.join(", ") },
        ]
    });
    let columns = ["node", "status", "version", "settings", "clock ahead", "started", "leases"];
    let lines = table(&columns, rows);
    lines.lines().flat_map(|line| ["\n".to_owned(), " ".repeat(INDENT), line.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use domain::node::{NodeTraits, SettingPrints};
    use domain::{Digest, Rng, Timestamp};

    use super::super::finding::State;
    use super::*;

    fn node(name: &str, configuration: Digest) -> NodeRecord {
        let at = Timestamp::UNIX_EPOCH;
        NodeRecord {
            traits: NodeTraits {
                id: Rng::seeded(1).uuid_v7(at).into(),
                name: name.into(),
                address: "10.0.0.1:8080".into(),
                operator_address: "10.0.0.1:8081".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                configuration,
                settings: SettingPrints::default(),
                started_at: at,
                clock_ahead: TimeDelta::milliseconds(3),
            },
            unready: None,
            is_draining: false,
            has_sequencer: true,
            batches: 2,
            crashed_keys: Vec::new(),
            last_beat_at: at,
            silent_for: TimeDelta::seconds(1),
        }
    }

    #[test]
    fn nodes_are_listed_and_differences_are_doubtful() {
        let settings = Settings::default();
        let same = settings.shared_digest();
        assert_eq!(judged(&settings, &[]).state, State::Good);
        let alike = judged(&settings, &[node("one", same), node("two", same)]);
        assert_eq!(alike.state, State::Good);
        assert!(
            alike.found.starts_with("2 alive\n") && alike.found.contains("sequencer, 2 batches"),
            "{}",
            alike.found
        );
        let mut silent = node("three", same);
        silent.silent_for = TimeDelta::minutes(1);
        let differing = judged(&settings, &[node("one", same), node("two", Digest::of(b"other")), silent]);
        assert_eq!(differing.state, State::Doubtful);
        for part in ["2 alive", "two (10.0.0.1:8081) has other settings", "three (10.0.0.1:8081) has been silent"] {
            assert!(differing.found.contains(part), "{part:?} is missing: {}", differing.found);
        }
    }
}
