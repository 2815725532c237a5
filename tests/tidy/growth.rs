//! `docs/growth.md` says of each table how it grows.

use std::collections::BTreeSet;

use crate::{files_in, root, text};

#[test]
fn every_table_has_a_line_about_its_growth() {
    let mut tables: BTreeSet<String> = BTreeSet::new();
    let mut files = files_in(&root().join("migrations"), &["sql"]);
    // In the order of their numbers: a table may be made again under another name, which is changed at once.
    files.sort();
    for file in files {
        let sql = std::fs::read_to_string(file).unwrap();
        for line in sql.lines() {
            let mut words = line.trim_end_matches(['(', ';', ' ']).split_whitespace();
            match (words.next(), words.next(), words.next(), words.next(), words.last()) {
                (Some("CREATE"), Some("TABLE"), Some(name), ..) => drop(tables.insert(name.to_owned())),
                (Some("ALTER"), Some("TABLE"), Some(old), Some("RENAME"), Some(new)) => {
                    tables.remove(old);
                    tables.insert(new.to_owned());
                }
                _ => {}
            }
        }
    }
    assert!(tables.len() > 50, "{tables:?}");
    let growth = text("docs/growth.md");
    let section = growth.split("\n## ").find(|section| section.starts_with("Tables")).unwrap();
    let missing: Vec<&String> = tables.iter().filter(|table| !section.contains(&format!("`{table}`"))).collect();
    assert!(missing.is_empty(), "docs/growth.md has no line about {missing:?}");
}
