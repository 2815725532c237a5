//! Migrates the tables, and rejects tables that this program does not support.
//!
//! During a rolling upgrade, or after one is undone, a server of the previous version may start on tables that a newer one has migrated.
//! Only the author of a migration knows whether this is safe. If it is, the name of the migration's file ends with
//! `_for_servers_from_NNNN`: programs whose newest migration is NNNN or later may use its tables. The names are stored in the table of
//! migrations, in the transaction of the migration, where older programs read them. Without such a name, only programs that contain the
//! migration may use its tables.

use std::path::{Path, PathBuf};
use std::{fs, io};

use sqlx::AssertSqlSafe;
use sqlx::migrate::{MigrateError, Migration, Migrator};

use super::postgres::{make_schema, qualified};
use super::sqlite::file::SqliteFile;
use super::{Pool, query, scalar, script, sqlite};
use crate::error::{Context, StoreError};

const ASK: &str = "read the schema of the database";

/// The end of a migration's name, before the number. In the table each underscore is replaced by a space.
const FROM: &str = " for servers from ";

/// An applied migration.
struct Applied {
    version: i64,
    name: String,
    checksum: Vec<u8>,
}

impl Applied {
    /// The newest migration that a program must contain to use the tables after this one.
    fn servers_from(&self) -> i64 {
        servers_from(self.version, &self.name)
    }
}

fn servers_from(version: i64, name: &str) -> i64 {
    name.rsplit_once(FROM).and_then(|(_, from)| from.parse().ok()).unwrap_or(version)
}

/// What [`Pool::migrate`] would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaPlan {
    /// The newest applied migration; 0 for a database without tables.
    pub found: i64,
    /// The newest migration that this program contains.
    pub known: i64,
    /// The missing migrations by number and name.
    pub missing: Vec<String>,
    /// Whether programs that contain only the applied migrations may use the tables afterwards.
    pub older_may_stay: bool,
}

impl SchemaPlan {
    /// Fails if a migration is missing.
    pub fn check(self) -> Result<(), StoreError> {
        let Self { found, known, missing, .. } = self;
        if missing.is_empty() {
            return Ok(());
        }
        Err(StoreError::SchemaTooOld { found, known, missing: missing.join(", ") })
    }
}

impl Pool {
    /// Applies missing migrations; only reads if there are none. Concurrent processes apply them once: on PostgreSQL an advisory lock
    /// makes the second process wait, on SQLite the write lock of the single transaction that contains all migrations.
    pub async fn migrate(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<(), StoreError> {
        let migrator = self.migrator_of(sqlite, postgres);
        let applied = self.applied().await?;
        refuse_newer(&applied, migrator)?;
        let is_as_known = |migration: &Migration| {
            let of_it = applied.iter().find(|found| found.version == migration.version);
            of_it.is_some_and(|found| *found.checksum == *migration.checksum)
        };
        if migrator.iter().all(is_as_known) {
            return Ok(());
        }
        let is_edited = migrator
            .iter()
            .any(|migration| applied.iter().any(|found| found.version == migration.version) && !is_as_known(migration));
        match self {
            Self::Sqlite { writer, file, .. } => {
                if file.copy_before_migration && !applied.is_empty() && !is_edited {
                    self.keep_copy(file, newest(&applied)).await?;
                }
                sqlite::migration::migrate(writer, migrator).await
            }
            Self::Postgres(pool) => {
                // A migration may take longer than any other statement, and may wait for another process that migrates.
                let mut connection = pool.acquire_apart().await.context(ASK)?;
                if let Some(schema) = pool.schema {
                    make_schema(&mut connection, schema).await?;
                    let path = AssertSqlSafe(format!("SET search_path TO {schema}"));
                    script(path).execute(&mut connection).await.context(ASK)?;
                }
                let (on, watch) = connection.statement().context(ASK)?;
                let migrated = watch.over(async { Ok(migrator.run_direct(None, on, false).await) }).await;
                connection.close().await;
                match migrated.context(ASK)? {
                    // A newer program has migrated while this one waited.
                    Err(MigrateError::VersionMissing(_)) => self.check_schema(sqlite, postgres).await,
                    migrated => Ok(migrated?),
                }
            }
        }
    }

    /// Copies an SQLite file that is about to be migrated, next to it: the way back to the program of its schema.
    async fn keep_copy(&self, file: &SqliteFile, schema: i64) -> Result<(), StoreError> {
        let kept = with_end(file.path(), &format!(".schema-{schema}"));
        let part = with_end(&kept, &format!(".{}", std::process::id()));
        let cannot = |source: io::Error| StoreError::Open { what: part.display().to_string(), source: source.into() };
        // Absent, unless a process with this id was killed during its copy.
        let _ = fs::remove_file(&part);
        if let Err(error) = sqlite::copy_to(file, &part).await {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        // Another process may have migrated in the meantime, and copied before.
        if newest(&self.applied().await?) != schema {
            return fs::remove_file(&part).map_err(cannot);
        }
        fs::rename(&part, &kept).map_err(cannot)?;
        tracing::info!(copy = %kept.display(), schema, "the database was copied before its migration");
        Ok(())
    }

    /// Rejects tables that are older than this program, or newer and not compatible with it.
    pub async fn check_schema(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<(), StoreError> {
        self.schema_plan(sqlite, postgres).await?.check()
    }

    /// What [`Self::migrate`] would do. Tables that are newer and not compatible with this program are rejected.
    pub async fn schema_plan(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<SchemaPlan, StoreError> {
        let migrator = self.migrator_of(sqlite, postgres);
        let applied = self.applied().await?;
        refuse_newer(&applied, migrator)?;
        let is_missing = |migration: &&Migration| applied.iter().all(|found| found.version != migration.version);
        let missing: Vec<&Migration> = migrator.iter().filter(is_missing).collect();
        let found = newest(&applied);
        Ok(SchemaPlan {
            found,
            known: known(migrator),
            older_may_stay: missing.iter().all(|new| servers_from(new.version, &new.description) <= found),
            missing: missing.into_iter().map(named).collect(),
        })
    }

    /// The newest migration that this program contains.
    pub fn known_schema(&self, sqlite: &Migrator, postgres: &Migrator) -> i64 {
        known(self.migrator_of(sqlite, postgres))
    }

    /// Whether the database has no tables of this program yet.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.applied().await?.is_empty())
    }

    fn migrator_of<'m>(&self, sqlite: &'m Migrator, postgres: &'m Migrator) -> &'m Migrator {
        if self.is_postgres() { postgres } else { sqlite }
    }

    /// The applied migrations, in order.
    async fn applied(&self) -> Result<Vec<Applied>, StoreError> {
        const OF_SQLITE: &str = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        const OF_POSTGRES: &str = "SELECT COUNT(*) FROM information_schema.tables
            WHERE table_schema = COALESCE($1, current_schema()) AND table_name = '_sqlx_migrations'";
        let there = if self.is_postgres() { scalar(OF_POSTGRES).bind(self.schema()) } else { scalar(OF_SQLITE) };
        if there.fetch_one::<i64>(self).await.context(ASK)? == 0 {
            return Ok(Vec::new());
        }
        let table = qualified(self.schema(), "_sqlx_migrations");
        let applied = format!("SELECT version, description, checksum FROM {table} WHERE success ORDER BY version");
        let rows: Vec<(i64, String, Vec<u8>)> = query(AssertSqlSafe(applied)).fetch_all(self).await.context(ASK)?;
        Ok(rows.into_iter().map(|(version, name, checksum)| Applied { version, name, checksum }).collect())
    }
}

/// Rejects unknown migrations that are not compatible with this program.
fn refuse_newer(applied: &[Applied], migrator: &Migrator) -> Result<(), StoreError> {
    let known = known(migrator);
    let newer: Vec<&Applied> = applied.iter().filter(|found| found.version > known).collect();
    if let Some(refusing) = newer.iter().find(|found| found.servers_from() > known) {
        let Applied { version, name, .. } = refusing;
        return Err(StoreError::SchemaTooNew {
            found: newest(applied),
            known,
            refusing: format!("{version} ({name})"),
        });
    }
    if !newer.is_empty() {
        tracing::info!(found = newest(applied), known, "the schema is newer than this program and is for it too");
    }
    Ok(())
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn named(migration: &Migration) -> String {
    format!("{} ({})", migration.version, migration.description)
}

fn newest(applied: &[Applied]) -> i64 {
    applied.last().map_or(0, |found| found.version)
}

fn known(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::DatabaseSettings;

    #[tokio::test]
    async fn a_file_is_copied_before_its_migration_and_planned_as_it_happens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.db");
        let migrations = async |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            Migrator::new(folder.path()).await.unwrap()
        };
        let pool = Pool::open(&DatabaseSettings::default(), &path, None).await.unwrap();
        let copies = || {
            let names =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.filter(|name| name.contains("schema")).collect();
            names.sort();
            names
        };
        let migrate = async |migrator: &Migrator| pool.migrate(migrator, migrator).await;
        let first = [("0001_a.sql", "CREATE TABLE a (n BIGINT); INSERT INTO a VALUES (7);")];
        let one = migrations(&first).await;
        migrate(&one).await.unwrap();
        migrate(&one).await.unwrap();
        assert_eq!(copies(), [""; 0], "new tables have nothing to lose");

        let second =
            [&first[..], &[("0002_b_for_servers_from_0001.sql", "CREATE TABLE b (n BIGINT); DROP TABLE a;")]].concat();
        let two = migrations(&second).await;
        let plan = pool.schema_plan(&two, &two).await.unwrap();
        let missing = vec!["2 (b for servers from 0001)".to_owned()];
        assert_eq!(plan, SchemaPlan { found: 1, known: 2, missing, older_may_stay: true });
        migrate(&two).await.unwrap();
        assert_eq!(copies(), ["data.db.schema-1"]);
        let copy = Pool::open_copy(&folder.path().join("data.db.schema-1")).await.unwrap();
        assert_eq!(scalar("SELECT n FROM a").fetch_one::<i64>(&copy).await.unwrap(), 7);
        assert_eq!(newest(&copy.applied().await.unwrap()), 1);

        // A migration that fails leaves the tables as they were, and the copy.
        let three = migrations(
            &[&second[..], &[("0003_c.sql", "CREATE TABLE c (n BIGINT); SELECT nothing FROM nowhere;")]].concat(),
        )
        .await;
        let plan = pool.schema_plan(&three, &three).await.unwrap();
        assert_eq!((plan.found, plan.missing.len(), plan.older_may_stay), (2, 1, false));
        migrate(&three).await.unwrap_err();
        assert_eq!((copies().len(), newest(&pool.applied().await.unwrap())), (2, 2));
        migrate(&three).await.unwrap_err();
        assert_eq!(copies(), ["data.db.schema-1", "data.db.schema-2"]);
        pool.close().await;
    }

    #[test]
    fn a_migration_states_for_which_servers_it_is() {
        let from = |name: &str| Applied { version: 21, name: name.to_owned(), checksum: Vec::new() }.servers_from();
        for (name, servers_from) in [
            ("tiles for servers from 18", 18),
            ("tiles for servers from 0018", 18),
            ("tiles", 21),
            ("tiles for servers from old times", 21),
            ("for servers from 18 tiles", 21),
        ] {
            assert_eq!(from(name), servers_from, "{name}");
        }
    }
}
