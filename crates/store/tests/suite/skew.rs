//! Servers of an older version work on newer tables: the servers that the name of a migration admits are compared with its changes
//! (`docs/decisions/0031-schema-compatibility.md`). Both databases have the same files and the same tables, so only one is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sqlx::{AssertSqlSafe, PgConnection, Row};

/// A file of a folder of migrations.
struct Migration {
    version: i64,
    /// The newest migration that a server must contain to use the tables after this one.
    servers_from: i64,
    sql: String,
}

/// The tables after a migration, as far as an older server's statements depend on them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Tables {
    /// By table and column.
    columns: BTreeMap<(String, String), Column>,
    /// By table and definition: unique keys, foreign keys, checks, triggers.
    rules: BTreeSet<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    kind: String,
    is_optional: bool,
    /// Whether a row that does not name the column gets a value.
    has_default: bool,
}

#[tokio::test]
async fn migrations_change_nothing_that_the_servers_they_are_for_rely_on() {
    let Some(database) = harness::postgres::empty_database().await else { return };
    let mut connection = harness::postgres::connect(&database.url).await;
    for (folder, schema) in [("migrations/postgres", "public"), ("migrations/statistics/postgres", "statistics")] {
        let migrations = migrations(folder);
        assert!(!migrations.is_empty(), "{folder}");
        assert_eq!(breaks(&mut connection, schema, migrations).await, Vec::<String>::new(), "{folder}");
    }
}

#[tokio::test]
async fn a_migration_that_breaks_a_server_it_names_is_found() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut connection = harness::postgres::connect(&database.url).await;
    let migration = |version, servers_from, sql: &str| Migration { version, servers_from, sql: sql.to_owned() };
    let migrations = vec![
        migration(1, 1, "CREATE TABLE codes (code TEXT NOT NULL UNIQUE)"),
        migration(2, 1, "ALTER TABLE codes ADD COLUMN label TEXT"),
        migration(3, 3, "ALTER TABLE codes ADD COLUMN note TEXT NOT NULL"),
        migration(4, 3, "CREATE INDEX codes_by_note ON codes (note)"),
        migration(5, 3, "ALTER TABLE codes DROP COLUMN label"),
        migration(6, 2, "CREATE TABLE labels (label TEXT NOT NULL)"),
    ];
    assert_eq!(
        breaks(&mut connection, "public", migrations).await,
        [
            "5 is for servers from 3: codes.label: is gone",
            "6 is for servers from 2: codes.label: is gone",
            "6 is for servers from 2: codes.note: a new row has to name it",
        ]
    );
}

/// Applies the migrations to a schema, and compares the tables after each with the tables that its admitted servers know.
async fn breaks(connection: &mut PgConnection, schema: &str, migrations: Vec<Migration>) -> Vec<String> {
    run(connection, format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}")).await;
    let mut after: BTreeMap<i64, Tables> = BTreeMap::new();
    let mut breaks = Vec::new();
    for Migration { version, servers_from, sql } in migrations {
        run(connection, sql).await;
        let newer = tables(connection, schema).await;
        if servers_from < version {
            let older = after.get(&servers_from).unwrap_or_else(|| panic!("{schema}: no migration {servers_from}"));
            let named = |broken| format!("{version} is for servers from {servers_from}: {broken}");
            breaks.extend(broken(older, &newer).into_iter().map(named));
        }
        after.insert(version, newer);
    }
    breaks
}

#[test]
fn each_kind_of_change_that_breaks_an_older_server_is_found() {
    let column = |kind: &str, is_optional, has_default| Column { kind: kind.into(), is_optional, has_default };
    let key = |table: &str, name: &str| (table.to_owned(), name.to_owned());
    let unique = key("codes", "UNIQUE (code)");
    let older = Tables {
        columns: [
            (key("codes", "code"), column("text", false, false)),
            (key("codes", "note"), column("text", true, false)),
        ]
        .into(),
        rules: [unique.clone()].into(),
    };
    let changed = |change: &dyn Fn(&mut Tables)| {
        let mut newer = older.clone();
        change(&mut newer);
        broken(&older, &newer)
    };
    let add = |name: &str, added: Column| {
        let name = key("codes", name);
        changed(&move |newer| {
            newer.columns.insert(name.clone(), added.clone());
        })
    };
    let rule = |rule: &str| {
        changed(&|newer| {
            newer.rules.insert(key("codes", rule));
        })
    };

    assert_eq!(changed(&|_| {}), Vec::<String>::new());
    assert_eq!(add("label", column("text", true, false)), Vec::<String>::new());
    assert_eq!(add("label", column("text", false, true)), Vec::<String>::new());
    assert_eq!(add("label", column("text", false, false)), ["codes.label: a new row has to name it"]);
    assert_eq!(add("code", column("bytea", false, false)), ["codes.code: another type"]);
    assert_eq!(add("note", column("text", false, true)), ["codes.note: may no longer be null"]);
    assert_eq!(
        changed(&|newer| {
            newer.columns.remove(&key("codes", "note"));
        }),
        ["codes.note: is gone"]
    );
    assert_eq!(
        changed(&|newer| {
            newer.rules.remove(&unique);
        }),
        ["codes: UNIQUE (code) is gone"]
    );
    assert_eq!(rule("CHECK ((note <> ''::text))"), ["codes: CHECK ((note <> ''::text)) is new"]);
    let with_column = changed(&|newer| {
        newer.columns.insert(key("codes", "label"), column("text", true, false));
        newer.rules.insert(key("codes", "UNIQUE (code, label)"));
    });
    assert_eq!(with_column, Vec::<String>::new());
    let of_new_table = changed(&|newer| {
        newer.columns.insert(key("labels", "label"), column("text", false, false));
        newer.rules.insert(key("labels", "PRIMARY KEY (label)"));
    });
    assert_eq!(of_new_table, Vec::<String>::new());
}

/// Properties of the older tables that a server relies on and the newer ones lack.
fn broken(older: &Tables, newer: &Tables) -> Vec<String> {
    let mut broken = Vec::new();
    for ((table, name), before) in &older.columns {
        let place = format!("{table}.{name}");
        match newer.columns.get(&(table.clone(), name.clone())) {
            None => broken.push(format!("{place}: is gone")),
            Some(now) if now.kind != before.kind => broken.push(format!("{place}: another type")),
            Some(now) if before.is_optional && !now.is_optional => {
                broken.push(format!("{place}: may no longer be null"));
            }
            Some(now) if before.has_default && !now.has_default => {
                broken.push(format!("{place}: has lost its default"));
            }
            Some(_) => {}
        }
    }
    let is_older_table = |table: &str| older.columns.keys().any(|(older, _)| older == table);
    let added = newer.columns.iter().filter(|(key, _)| !older.columns.contains_key(*key));
    let added: Vec<_> = added.filter(|((table, _), _)| is_older_table(table)).collect();
    for ((table, name), column) in &added {
        if !column.is_optional && !column.has_default {
            broken.push(format!("{table}.{name}: a new row has to name it"));
        }
    }
    for (table, rule) in older.rules.difference(&newer.rules) {
        broken.push(format!("{table}: {rule} is gone"));
    }
    for (table, rule) in newer.rules.difference(&older.rules) {
        // A rule about a column that an older server does not write does not hold for its rows.
        let is_of_added = added.iter().any(|((of, name), _)| of == table && words(rule).any(|word| word == name));
        if is_older_table(table) && !is_of_added {
            broken.push(format!("{table}: {rule} is new"));
        }
    }
    broken
}

fn words(rule: &str) -> impl Iterator<Item = &str> {
    rule.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

fn migrations(folder: &str) -> Vec<Migration> {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut migrations: Vec<Migration> = files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let version = name.split('_').next().unwrap().parse().unwrap();
            let servers_from =
                name.rsplit_once("_for_servers_from_").map_or(version, |(_, from)| from.parse().unwrap());
            Migration { version, servers_from, sql: fs::read_to_string(path).unwrap() }
        })
        .collect();
    migrations.sort_by_key(|migration| migration.version);
    migrations
}

async fn run(connection: &mut PgConnection, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

async fn tables(connection: &mut PgConnection, schema: &str) -> Tables {
    const COLUMNS: &str = "SELECT table_name::TEXT, column_name::TEXT, data_type::TEXT, is_nullable = 'YES',
            column_default IS NOT NULL OR is_identity = 'YES'
        FROM information_schema.columns WHERE table_schema = $1";
    const RULES: &str = "SELECT t.relname::TEXT, pg_get_constraintdef(c.oid) FROM pg_constraint c
            JOIN pg_class t ON t.oid = c.conrelid WHERE t.relnamespace = $1::REGNAMESPACE
        UNION ALL SELECT t.relname::TEXT, substr(pg_get_indexdef(i.indexrelid), position(' USING ' IN pg_get_indexdef(i.indexrelid)))
            FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid WHERE t.relnamespace = $1::REGNAMESPACE AND i.indisunique
        UNION ALL SELECT t.relname::TEXT, pg_get_triggerdef(g.oid) FROM pg_trigger g
            JOIN pg_class t ON t.oid = g.tgrelid WHERE t.relnamespace = $1::REGNAMESPACE AND NOT g.tgisinternal";
    let rows = sqlx::query(COLUMNS).bind(schema).fetch_all(&mut *connection).await.unwrap();
    let column = |row: &sqlx::postgres::PgRow| {
        let described = Column { kind: row.get(2), is_optional: row.get(3), has_default: row.get(4) };
        ((row.get(0), row.get(1)), described)
    };
    let columns = rows.iter().map(column).collect();
    let rows = sqlx::query(RULES).bind(schema).fetch_all(&mut *connection).await.unwrap();
    Tables { columns, rules: rows.iter().map(|row| (row.get(0), row.get(1))).collect() }
}
