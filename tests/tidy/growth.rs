//! `docs/growth.md` describes the growth of each table, and closing an account reaches each table with its rows.

use std::collections::BTreeSet;

use crate::{files_in, root, text};

#[test]
fn every_table_has_a_line_about_its_growth() {
    let mut tables: BTreeSet<String> = BTreeSet::new();
    let mut files = files_in(&root().join("migrations"), &["sql"]);
    // In the order of their numbers: a migration may create a table again under another name and then rename it.
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

/// Tables with a column `account_id` that closing an account does not name, with the reason.
const KEPT: [(&str, &str); 2] = [
    ("balance_entries", "the ledger of purchases is kept"),
    ("account_indexes", "an empty account_index has a number and the account's id alone"),
];

#[test]
fn closing_an_account_reaches_every_table_with_its_rows() {
    let closing = text("crates/store/src/closing.rs");
    let mut checked = 0;
    for file in files_in(&root().join("migrations/sqlite"), &["sql"]) {
        let sql = std::fs::read_to_string(file).unwrap();
        for statement in sql.split("CREATE TABLE ").skip(1) {
            let (name, columns) = statement.split_once('(').unwrap();
            let name = name.trim();
            let columns = columns.split(';').next().unwrap();
            if columns.lines().any(|line| line.trim_start().starts_with("account_id ")) {
                checked += 1;
                let is_kept = KEPT.iter().any(|(kept, _)| *kept == name);
                assert!(
                    is_kept || closing.contains(name),
                    "crates/store/src/closing.rs does not name the table {name}"
                );
            }
        }
    }
    assert!(checked > 10, "{checked} tables");
}
