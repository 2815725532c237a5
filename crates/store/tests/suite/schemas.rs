//! Both databases have the same tables, columns and indexes, except for the index of words.

use std::collections::BTreeSet;

use store::pool::{query, scalar};

use crate::world::World;

/// Table, column, type as in SQLite, whether it may be null.
type Column = (String, String, String, bool);

#[tokio::test]
async fn both_databases_have_the_same_tables_columns_and_indexes() {
    let Some(postgres) = World::on_postgres().await else { return };
    let sqlite = World::on_sqlite().await;
    let in_sqlite = query(
        "SELECT m.name AS table_name, c.name AS column_name, c.type AS type, NOT c.\"notnull\" AS may_be_null
        FROM sqlite_master m JOIN pragma_table_info(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> '_sqlx_migrations'
            AND m.name <> 'words' AND m.name NOT LIKE 'words!_%' ESCAPE '!'",
    )
    .fetch_all::<Column>(sqlite.store.pool())
    .await
    .unwrap();
    let in_sqlite = BTreeSet::from_iter(in_sqlite);
    let in_postgres: BTreeSet<Column> = query(
        "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES'
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations'
            AND table_name <> 'words'",
    )
    .fetch_all::<Column>(postgres.store.pool())
    .await
    .unwrap()
    .into_iter()
    .map(|(table, column, of_postgres, may_be_null)| (table, column, in_words_of_sqlite(of_postgres), may_be_null))
    .collect();
    assert!(in_sqlite.len() > 80, "{}", in_sqlite.len());
    assert_eq!(in_sqlite, in_postgres);

    let names = |rows: Vec<String>| rows.into_iter().collect::<BTreeSet<_>>();
    let in_sqlite = names(
        scalar("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
            .fetch_all(sqlite.store.pool())
            .await
            .unwrap(),
    );
    let in_postgres = names(
        scalar(
            "SELECT i.indexname::text FROM pg_indexes i WHERE i.schemaname = 'public' AND i.tablename <> 'words'
            AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname)",
        )
        .fetch_all(postgres.store.pool())
        .await
        .unwrap()
        .into_iter()
        .filter(|name: &String| !name.starts_with("_sqlx"))
        .collect(),
    );
    assert!(!in_sqlite.is_empty());
    assert_eq!(in_sqlite, in_postgres);
}

fn in_words_of_sqlite(postgres: String) -> String {
    match postgres.as_str() {
        "bigint" | "boolean" => "INTEGER".into(),
        "text" | "timestamp with time zone" => "TEXT".into(),
        "bytea" | "uuid" => "BLOB".into(),
        _ => postgres,
    }
}

#[test]
fn both_folders_have_the_same_files() {
    let files = |database: &str| -> BTreeSet<_> {
        let folder = format!("{}/../../migrations/{database}", std::env::var("CARGO_MANIFEST_DIR").unwrap());
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect()
    };
    assert!(!files("sqlite").is_empty());
    assert_eq!(files("sqlite"), files("postgres"));
}
