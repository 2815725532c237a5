//! The documents name every metric, and the table of failpoints every place.

use std::collections::BTreeSet;

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

#[test]
fn every_metric_is_documented() {
    let plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let operations = text("docs/operations.md");
    let macros = ["counter!(\"", "gauge!(\"", "histogram!(\""];
    let names: BTreeSet<String> = macros.into_iter().flat_map(quoted).filter(plain).collect();
    assert!(names.len() > 10, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !operations.contains(&format!("| `{name}` |"))).collect();
    assert!(missing.is_empty(), "docs/operations.md#metrics has no row of {missing:?}");
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
