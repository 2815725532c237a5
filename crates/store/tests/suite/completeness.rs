//! Every method of the store is called by this suite.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_method_of_the_store_is_in_the_suite() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let suite: String =
        sources(&root.join("tests/suite")).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let mut methods = 0;
    for file in sources(&root.join("src")) {
        let source = fs::read_to_string(&file).unwrap();
        for (_, rest) in source.match_indices("pub async fn ").map(|(at, found)| source.split_at(at + found.len())) {
            let name = rest.split(['(', '<']).next().unwrap();
            let called = suite.contains(&format!(".{name}(")) || suite.contains(&format!("::{name}("));
            let ours = matches!(name, "settle" | "open");
            assert!(called || ours, "{} has {name}, which no test calls", file.display());
            methods += 1;
        }
    }
    assert!(methods > 50, "{methods}");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files.extend(sources(&entry));
        } else {
            files.push(entry);
        }
    }
    files
}
