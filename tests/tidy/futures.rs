//! Public functions of the lower crates return futures in boxes (`docs/decisions/0100-futures-compiled-once.md`).

use std::fs;

use crate::{product_sources, relative};

/// Crates whose futures are awaited by crates above them. `store/src/pool` is below the functions that are awaited.
const CRATES: [&str; 5] = ["store/src/", "statistics/src/", "knowledge/src/", "actors/src/", "app/src/"];

/// Functions that are public and async and not boxed, although the attribute can box them.
fn unboxed(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("pub async fn ") else { continue };
        let signature: String =
            lines[place..].iter().take_while(|line| !line.trim_start().starts_with("where")).copied().collect();
        let signature = signature.split('{').next().unwrap_or_default();
        // A type parameter is known to the caller only, and a lifetime in the type of an argument is beyond the attribute.
        let is_generic = rest.split('(').next().is_some_and(|name| name.contains('<')) || signature.contains("impl ");
        let is_boxed = place > 0 && lines[place - 1].trim() == "#[boxed]";
        if !is_generic && !signature.contains("<'_>") && !is_boxed {
            found.push(rest.split('(').next().unwrap_or(rest).to_owned());
        }
    }
    found
}

#[test]
fn public_futures_of_lower_crates_are_boxed() {
    let mut found = Vec::new();
    for path in product_sources() {
        let name = relative(&path);
        if CRATES.iter().any(|folder| name.starts_with(folder)) && !name.starts_with("store/src/pool/") {
            let source = fs::read_to_string(&path).unwrap();
            found.extend(unboxed(&source).into_iter().map(|function| format!("{name}: {function}")));
        }
    }
    assert!(found.is_empty(), "add `#[boxed]`, or each crate that awaits them compiles them again: {found:#?}");
}

#[test]
fn a_function_without_the_attribute_is_found() {
    let source = "    #[boxed]\n    pub async fn a(&self) {}\n    pub async fn b(&self) {}\n    pub async fn c<T>(t: T) {}\n    pub async fn d(x: X<'_>) {}\n";
    assert_eq!(unboxed(source), ["b"]);
}
