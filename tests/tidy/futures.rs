//! Public functions of the lower crates return futures in boxes (`docs/decisions/0037-futures-compiled-once.md`).

use std::fs;

use crate::{product_sources, relative};

/// Crates with futures that crates above them await. `crates/store/src/pool` is below the awaited functions.
const CRATES: [&str; 6] = [
    "crates/store/src/",
    "crates/extract/src/",
    "crates/statistics/src/",
    "crates/knowledge/src/",
    "actors/src/",
    "crates/app/src/",
];

/// Functions that are public and async and not boxed, although the attribute can box them.
fn unboxed(source: &str) -> Vec<&str> {
    const BEGIN: &str = "pub async fn ";
    let functions = source.match_indices(BEGIN).filter_map(|(place, _)| {
        let signature = source[place + BEGIN.len()..].split('{').next()?;
        let name = signature.split('(').next()?;
        // A type parameter is known to the caller only, and a lifetime in the type of an argument is beyond the attribute.
        let is_apart = name.contains('<') || signature.contains("impl ") || signature.contains("<'_>");
        let is_boxed = source[..place].trim_end().ends_with("#[boxed]");
        (!is_apart && !is_boxed).then_some(name)
    });
    functions.collect()
}

#[test]
fn public_futures_of_lower_crates_are_boxed() {
    let mut found = Vec::new();
    for path in product_sources() {
        let name = relative(&path);
        if CRATES.iter().any(|folder| name.starts_with(folder)) && !name.starts_with("crates/store/src/pool/") {
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
