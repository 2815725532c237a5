//! `docs/distributed-engines.md` lists the features of PostgreSQL that the statements need, so that a feature that another engine lacks does
//! not come into use unnoticed.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::literals;
use crate::{files_in, product_sources, relative, root, text};

const PAGE: &str = "docs/distributed-engines.md";

/// How a feature is found in a statement whose white space is single spaces.
enum Pattern {
    /// The statement contains one of these texts.
    Contains(&'static [&'static str]),
    /// One statement creates an index and contains one of these texts.
    Index(&'static [&'static str]),
}
use Pattern::{Contains, Index};

/// Each feature of the page with its pattern.
const FEATURES: &[(&str, Pattern)] = &[
    ("`FOR UPDATE`", Contains(&["FOR UPDATE"])),
    ("`SKIP LOCKED`", Contains(&["SKIP LOCKED"])),
    ("`NOWAIT`", Contains(&["NOWAIT"])),
    ("`ON CONFLICT DO NOTHING`", Contains(&["DO NOTHING"])),
    ("`ON CONFLICT DO UPDATE`", Contains(&["DO UPDATE"])),
    ("`RETURNING`", Contains(&["RETURNING "])),
    ("common table expressions", Contains(&[" AS (SELECT", " AS MATERIALIZED (", " AS NOT MATERIALIZED ("])),
    ("`MATERIALIZED`", Contains(&[" AS MATERIALIZED (", " AS NOT MATERIALIZED ("])),
    ("data-modifying `WITH`", Contains(&[" AS (INSERT", " AS (UPDATE", " AS (DELETE"])),
    ("`WITH RECURSIVE`", Contains(&["WITH RECURSIVE"])),
    ("`LATERAL`", Contains(&["LATERAL "])),
    ("`jsonb_to_recordset`", Contains(&["jsonb_to_recordset", "json_to_recordset"])),
    ("`jsonb_array_elements`", Contains(&["jsonb_array_elements", "json_array_elements"])),
    ("`unnest` of arrays", Contains(&["unnest("])),
    ("`WITH ORDINALITY`", Contains(&["WITH ORDINALITY"])),
    ("`DELETE … USING`", Contains(&["DELETE FROM unsequenced u USING", "DELETE FROM unsequenced USING"])),
    ("window functions", Contains(&[" OVER (", " OVER("])),
    ("`= ANY (array)`", Contains(&["= ANY (", "= ANY("])),
    ("unique constraint", Contains(&[" UNIQUE"])),
    ("partial index", Index(&[" WHERE "])),
    ("expression index", Index(&["(COALESCE(", "((", ", COALESCE(", ", (", "CAST("])),
    ("covering index (`INCLUDE`)", Contains(&["INCLUDE ("])),
    ("`GENERATED … AS IDENTITY`", Contains(&["AS IDENTITY"])),
    ("`pg_sequence`", Contains(&["pg_sequence "])),
    ("foreign keys", Contains(&["REFERENCES "])),
    ("`CHECK` constraints", Contains(&["CHECK ("])),
    ("triggers", Contains(&["CREATE TRIGGER", "CREATE OR REPLACE TRIGGER"])),
    ("functions in PL/pgSQL", Contains(&["LANGUAGE plpgsql"])),
    ("extensions", Contains(&["CREATE EXTENSION"])),
    ("advisory locks", Contains(&["pg_advisory", "pg_try_advisory"])),
    ("`CREATE INDEX CONCURRENTLY`", Contains(&["INDEX CONCURRENTLY"])),
    ("`USING hnsw`", Contains(&["USING hnsw"])),
    ("schemas and `search_path`", Contains(&["search_path"])),
    ("`ALTER SCHEMA … RENAME`", Contains(&["ALTER SCHEMA"])),
    ("`statement_timeout`", Contains(&["statement_timeout"])),
    ("`idle_in_transaction_session_timeout`", Contains(&["idle_in_transaction_session_timeout"])),
    ("`lock_timeout`", Contains(&["lock_timeout"])),
    ("`set_config`", Contains(&["set_config("])),
    ("`clock_timestamp()`", Contains(&["clock_timestamp()"])),
    ("`COLLATE`", Contains(&["COLLATE "])),
    ("`LISTEN`, `NOTIFY`", Contains(&["pg_notify(", "LISTEN ", "NOTIFY "])),
    ("`pg_stat_activity` and other `pg_stat_` views", Contains(&["pg_stat_"])),
    ("`pg_backend_pid()`", Contains(&["pg_backend_pid"])),
    ("`pg_is_in_recovery()`", Contains(&["pg_is_in_recovery"])),
    ("`pg_current_wal_…` positions", Contains(&["pg_current_wal"])),
    ("`pg_postmaster_start_time()`, `inet_server_addr()`", Contains(&["pg_postmaster_start_time", "inet_server_"])),
    ("`hashtext()`", Contains(&["hashtext("])),
    ("table partitioning", Contains(&["PARTITION BY RANGE", "PARTITION BY HASH", "PARTITION BY LIST", "PARTITION OF"])),
    ("`SET TRANSACTION ISOLATION LEVEL`", Contains(&["ISOLATION LEVEL"])),
    ("`LOCK TABLE`", Contains(&["LOCK TABLE"])),
    ("deferrable constraints", Contains(&["DEFERRABLE"])),
    ("exclusion constraints", Contains(&["EXCLUDE USING"])),
    ("generated columns (`STORED`)", Contains(&[") STORED"])),
    ("`SAVEPOINT`", Contains(&["SAVEPOINT"])),
    ("transaction ids (`xmin`)", Contains(&["xmin", "pg_current_xact_id", "txid_current"])),
    ("`UNLOGGED` tables", Contains(&["UNLOGGED"])),
];

/// Sources whose statements only SQLite executes.
const ONLY_SQLITE: [&str; 3] = ["statistics/src/log/writer", "store/src/pool/probe", "store/src/pool/sqlite"];

/// Files whose statements append, hold or sequence events.
const OF_EVENTS: [&str; 5] = [
    "statistics/src/log/sql",
    "statistics/src/log/append",
    "statistics/src/log/postgres",
    "store/src/held/",
    "migrations/statistics/postgres",
];

impl Pattern {
    fn is_in(&self, statement: &str) -> bool {
        match self {
            Contains(texts) => texts.iter().any(|text| statement.contains(text)),
            Index(texts) => statement.split(';').any(|part| {
                part.contains("CREATE ") && part.contains("INDEX ") && texts.iter().any(|text| part.contains(text))
            }),
        }
    }
}

/// Statements with single spaces, without escapes and comments.
fn plain(statement: &str) -> String {
    let lines = statement.lines().map(|line| line.split("--").next().unwrap_or_default().trim_end_matches('\\'));
    let words = lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    words.replace("( ", "(")
}

/// The statements of each file that PostgreSQL may execute.
fn statements() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for path in product_sources() {
        let name = relative(&path);
        let is_of_a_database = name.starts_with("store/src/") || name.starts_with("statistics/src/");
        if is_of_a_database && !ONLY_SQLITE.iter().any(|prefix| name.starts_with(prefix)) {
            let texts = literals(&std::fs::read_to_string(&path).unwrap());
            found.insert(name, texts.iter().map(|text| plain(text)).collect());
        }
    }
    for folder in ["migrations/postgres", "migrations/statistics/postgres"] {
        for path in files_in(&root().join(folder), &["sql"]) {
            found.insert(relative(&path), vec![plain(&std::fs::read_to_string(&path).unwrap())]);
        }
    }
    found
}

/// The rows of the table under a heading of the page, as their cells.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = text(PAGE);
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")).skip(1);
    rows.map(|row| row.split(" | ").map(str::to_owned).collect()).collect()
}

#[test]
fn the_page_lists_the_features_in_use() {
    let statements = statements();
    let used = |pattern: &Pattern, files: &[&str]| {
        statements.iter().any(|(name, texts)| {
            (files.is_empty() || files.iter().any(|prefix| name.starts_with(prefix)))
                && texts.iter().any(|text| pattern.is_in(text))
        })
    };
    let features = || FEATURES.iter().map(|(name, pattern)| ((*name).to_owned(), pattern));
    let (in_use, others): (Vec<_>, Vec<_>) = features().partition(|(_, pattern)| used(pattern, &[]));
    let names = |features: Vec<(String, &Pattern)>| features.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>();
    let firsts = |rows: &[Vec<String>]| rows.iter().map(|row| row[0].clone()).collect::<BTreeSet<_>>();

    let table = rows("Features in use");
    assert_eq!(firsts(&table), names(in_use), "{PAGE}, \"Features in use\" (left), and the statements (right)");
    let unused = rows("Features that are not in use");
    assert_eq!(
        firsts(&unused),
        names(others),
        "{PAGE}, \"Features that are not in use\" (left), and the patterns (right)"
    );

    for row in &table {
        let (_, pattern) = features().find(|(name, _)| *name == row[0]).unwrap();
        let of_events = if used(pattern, &OF_EVENTS) { "yes" } else { "no" };
        assert_eq!(row[1], of_events, "{}: whether the path of an event needs it", row[0]);
        let engines = &row[3..];
        assert_eq!(engines.len(), 3, "{row:?}");
        let has = |cell: &String| cell.starts_with("yes") || cell.starts_with("limited");
        assert!(row[1] == "no" || engines.iter().any(has), "{}: no engine documents it", row[0]);
    }
}

#[test]
fn every_source_of_the_page_is_cited_and_exists() {
    let page = text(PAGE);
    let (tables, sources) = page.split_once("\n## Sources\n").unwrap();
    let numbered = |line: &str| line.split_once(". ")?.0.parse::<u32>().ok();
    let listed: BTreeSet<u32> = sources.lines().filter_map(numbered).collect();
    let cited = tables.split('[').skip(1).filter_map(|rest| rest.split(']').next()?.parse().ok());
    assert_eq!(cited.collect::<BTreeSet<u32>>(), listed);
}

#[test]
fn features_are_found_in_statements() {
    let partial = "CREATE TABLE a (b INT);\nCREATE UNIQUE INDEX c ON a (b) -- one\n    WHERE b > 0;";
    let whole = "CREATE INDEX c ON a (b); SELECT b FROM a WHERE b > 0";
    assert!(Index(&[" WHERE "]).is_in(&plain(partial)));
    assert!(!Index(&[" WHERE "]).is_in(&plain(whole)));
    assert!(Contains(&[" AS (INSERT"]).is_in(&plain("WITH a AS (\n    INSERT INTO b")));
    let found = literals("/// FOR UPDATE\nconst A: &str = \"SELECT 1 \\\n    FOR SHARE\";");
    assert_eq!(found.iter().map(|text| plain(text)).collect::<Vec<_>>(), ["SELECT 1 FOR SHARE"]);
}
