//! A public type name has one meaning. Floors may share a noun for one thing (`Space` of the domain and of the protocol); two things may
//! not.

use std::collections::BTreeMap;

use super::tokens::tokens;
use crate::{product_sources, relative};

/// Names that several files define. Each of these is one noun on several floors, or two names that no file uses together. May only be
/// lowered.
const SHARED_NAMES_MAX: usize = 40;

/// Names that each module of a kind defines for itself, and that are read with their module: `mail::Dependencies`.
const CONVENTIONS: [&str; 5] = ["Arguments", "Command", "Dependencies", "SavedQuery", "Settings"];

/// The names of the public types of a source file.
fn public_types(source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let named = tokens
        .windows(3)
        .filter(|words| words[0] == "pub" && ["struct", "enum", "trait", "type"].contains(&words[1].as_str()));
    // A macro defines a type by its parameter, `$name`.
    named.map(|words| words[2].clone()).filter(|name| name != "$").collect()
}

#[test]
fn a_type_name_has_one_meaning() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in product_sources() {
        for name in public_types(&std::fs::read_to_string(&path).unwrap()) {
            defined.entry(name).or_default().push(relative(&path));
        }
    }
    defined.retain(|name, files| files.len() > 1 && !CONVENTIONS.contains(&name.as_str()));
    let shown: Vec<String> = defined.iter().map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
    assert!(
        shown.len() <= SHARED_NAMES_MAX,
        "{} names of public types are defined more than once; at most {SHARED_NAMES_MAX} may be. Add the noun that distinguishes them:\n{}",
        shown.len(),
        shown.join("\n")
    );
}

#[test]
fn public_types_are_found_by_their_keyword() {
    let source =
        "pub struct A(u8); struct B; pub enum C { D } pub(crate) type E = u8; pub trait F {} pub fn type_of() {}";
    assert_eq!(public_types(source), ["A", "C", "F"]);
}
