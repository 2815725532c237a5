//! A database with the current schema of the server, which tests copy: a copy costs less than the migrations.
//!
//! The first caller of a cluster creates it, and the others wait for an advisory lock. Its name contains a hash of the migrations, so a
//! cluster that outlives a test run never serves an older schema.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{connect, with_database};

/// The folders of the migrations, and the schema of PostgreSQL in which each creates its tables.
const SCHEMAS: [(&str, &str); 2] = [
    (concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres"), "public"),
    (concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/statistics/postgres"), "statistics"),
];

/// The key of the advisory lock under which the template is created.
const LOCK: i64 = 0x7465_6d70_6c61_7465;

/// Returns the name of the template in `cluster`, to which `connection` leads.
///
/// # Panics
/// When the cluster refuses.
pub(super) async fn name(cluster: &str, connection: &mut PgConnection) -> String {
    let mut migrators = Vec::new();
    let mut hasher = DefaultHasher::new();
    for (folder, schema) in SCHEMAS {
        let migrator = Migrator::new(Path::new(folder)).await.unwrap_or_else(|error| panic!("{folder}: {error}"));
        for migration in migrator.iter() {
            (schema, migration.version, &migration.description, &migration.checksum).hash(&mut hasher);
        }
        migrators.push((schema, migrator));
    }
    let name = format!("template_attache_{:016x}", hasher.finish());
    if !exists(connection, &name).await {
        run(connection, format!("SELECT pg_advisory_lock({LOCK})")).await;
        if !exists(connection, &name).await {
            let unfinished = format!("{name}_unfinished");
            run(connection, format!("DROP DATABASE IF EXISTS {unfinished}")).await;
            run(connection, format!("CREATE DATABASE {unfinished} TEMPLATE template0")).await;
            migrate(&with_database(cluster, &unfinished), &migrators).await;
            run(connection, format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await;
        }
        run(connection, format!("SELECT pg_advisory_unlock({LOCK})")).await;
    }
    name
}

async fn exists(connection: &mut PgConnection, name: &str) -> bool {
    let exists = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)").bind(name);
    exists.fetch_one(connection).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn run(connection: &mut PgConnection, sql: String) {
    let result = sqlx::raw_sql(AssertSqlSafe(sql.as_str())).execute(connection).await;
    result.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn migrate(url: &str, migrators: &[(&str, Migrator)]) {
    let mut connection = connect(url).await;
    for (schema, migrator) in migrators {
        run(&mut connection, format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}")).await;
        migrator.run(&mut connection).await.unwrap_or_else(|error| panic!("migrations of {schema}: {error}"));
    }
    // A database with connections can be neither renamed nor copied.
    connection.close().await.unwrap_or_else(|error| panic!("{error}"));
}
