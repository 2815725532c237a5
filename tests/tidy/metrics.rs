//! The documents name every metric, and the table of failpoints every place.

use std::collections::BTreeSet;

use app::telemetry::METRICS;

use crate::{product_sources, text};

/// The parts of the product's text between `before` and the next quotation mark.
fn quoted(before: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in product_sources() {
        let source = std::fs::read_to_string(&path).unwrap();
        found.extend(source.split(before).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    found
}

/// The plain text of a cell: without code marks, and links by their words.
fn plain(cell: &str) -> String {
    let mut parts = cell.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once(')').map_or(part, |(_, words)| words));
    rest.fold(first, |text, part| text + part).replace(['[', '`'], "")
}

#[test]
fn every_metric_is_described_and_documented_by_the_same_words() {
    let is_whole = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let macros = ["counter!(\"", "gauge!(\"", "histogram!(\""];
    let recorded: BTreeSet<String> = macros.into_iter().flat_map(quoted).filter(is_whole).collect();
    assert!(recorded.len() > 10, "{recorded:?}");
    let described: BTreeSet<String> = METRICS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(recorded.difference(&described).count(), 0, "{:?}", recorded.difference(&described));

    let operations = text("docs/operations.md");
    let section = operations.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").map(plain).collect::<Vec<_>>());
    let documented: Vec<[String; 3]> = cells
        .map(|cells| {
            let [name, kind, meaning] = cells.try_into().unwrap();
            [name, kind.split(':').next().unwrap().to_owned(), meaning]
        })
        .collect();
    let of_catalogue =
        METRICS.map(|(name, kind, meaning)| [name.to_owned(), format!("{kind:?}").to_lowercase(), meaning.to_owned()]);
    assert_eq!(documented, of_catalogue);
}

#[test]
fn the_rules_for_alerts_name_metrics_that_exist() {
    let rules = text("docs/deploy/alerts.yml");
    let words = rules.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("attache_")).collect();
    assert!(named.len() > 10, "{named:?}");
    let unknown: Vec<&str> =
        named.iter().copied().filter(|name| METRICS.iter().all(|(known, ..)| known != name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");

    let operations = text("docs/operations.md");
    let table = operations.split("\n## Alerts\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let conditions = table.lines().filter_map(|line| line.split('|').nth(1)).filter(|cell| !cell.contains("_max`"));
    let missing: Vec<&str> = conditions
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter_map(|code| code.split('{').next())
        .filter(|code| code.starts_with("attache_") && !named.contains(code))
        .collect();
    assert!(missing.is_empty(), "docs/deploy/alerts.yml has no rule of {missing:?}");
}

#[test]
fn every_failpoint_has_a_place_in_the_table() {
    let table = text("tests/failpoints/main.rs");
    let places = quoted("failpoint!(\"");
    assert!(places.len() > 20, "{places:?}");
    let missing: Vec<&String> = places.iter().filter(|place| !table.contains(&format!("`{place}`"))).collect();
    assert!(missing.is_empty(), "tests/failpoints/main.rs does not name {missing:?}");
}

#[test]
fn the_protocol_lists_the_hold_reasons_in_the_order_of_the_checks() {
    let events = text("docs/protocol/events.md");
    let section = events.split("\n## Held reasons\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter_map(|line| line.split('|').nth(2)).map(str::trim).collect();
    let names: Vec<&str> = rows.iter().filter_map(|cell| cell.strip_prefix('`')?.strip_suffix('`')).collect();
    assert_eq!(names, domain::held::HoldReason::NAMES);
}
