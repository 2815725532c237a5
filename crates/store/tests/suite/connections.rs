//! Opening, closing, and the state after a dropped future.

use std::future::Future;
use std::pin::pin;
use std::task::Waker;

use store::pool::Undo;
use store::pool::{query, scalar, script};
use store::{Context, DatabaseSettings, Pool, Store, StoreError, in_transaction};

use crate::world::{World, email, now};
use harness::on_each_database;

/// A row of columns that were arrays.
type Row = (String, Vec<u8>, uuid::Uuid, Option<uuid::Uuid>, i64, bool);

on_each_database! {
    async fn a_store_takes_writes_and_says_so(world: &World) {
        world.store.writable().await.unwrap();
        let open = world.store.pool().connections().open;
        assert!(open >= 1);
        assert_eq!(world.store.pool().is_postgres(), world.settings.url.is_some());
    }

    async fn the_server_reports_its_durability_and_the_open_transactions_of_others(world: &World) {
        let pool = world.store.pool();
        let other = if pool.is_postgres() { Some(pool.begin().await.unwrap()) } else { None };
        let status = pool.server_status().await.unwrap();
        assert_eq!(status.is_some(), pool.is_postgres(), "SQLite has no server");
        if let (Some(status), Some(other)) = (status, other) {
            assert!(status.fsync == "on" && status.full_page_writes == "on", "{status:?}");
            assert!(status.connections_max >= status.connections_open && status.connections_open >= 2, "{status:?}");
            assert!(status.transaction_seconds.is_some(), "{status:?}");
            other.settle(Ok(()), |()| true).await.unwrap();
        }
    }

    /// Works even if the tables belong to another program.
    async fn a_probe_is_committed_and_changes_nothing(world: &World) {
        let pool = world.store.pool();
        let observer = match pool {
            Pool::Sqlite { file, .. } => Some(file.reader().unwrap()),
            Pool::Postgres(_) => None,
        };
        let version = || observer.as_ref().map(|reader| {
            reader.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap()
        });
        let before = version();
        pool.probe_write().await.unwrap();
        assert!(before.is_none() || version() > before, "nothing was written");
        assert_eq!(beats_of(pool).await, 0);
        world.store.check_schema().await.unwrap();
        world.store.close().await;
        assert!(pool.probe_write().await.unwrap_err().is_unavailable());
    }

    async fn arrays_are_arguments_of_postgres_alone(world: &World) {
        let pool = world.store.pool();
        for on in [store::pool::Target::from(pool), pool.writer()] {
            let (id, hash) = (uuid::Uuid::from_u128(7), [7_u8; 32]);
            // Without types SQLite accepts the text of the statement.
            let sql = if pool.is_postgres() {
                "SELECT a, b, c, d, e, f FROM
                    unnest($1::TEXT[], $2::BYTEA[], $3::BYTEA[], $4::UUID[], $5::UUID[], $6::BIGINT[], $7::BOOLEAN[])
                    AS r (a, b, h, c, d, e, f) WHERE h = b"
            } else {
                "SELECT $1, $2, $3, $4, $5, $6, $7"
            };
            let rows = query(sql)
                .bind(vec!["one", "two"])
                .bind(vec![&hash[..], &[]])
                .bind(vec![hash, hash])
                .bind(vec![id, id])
                .bind(vec![None, Some(id)])
                .bind(vec![-1_i64, 2])
                .bind(vec![true, false])
                .fetch_all::<Row>(on)
                .await;
            if pool.is_postgres() {
                assert_eq!(rows.unwrap(), [("one".to_owned(), hash.to_vec(), id, None, -1, true)]);
            } else {
                assert!(format!("{:?}", rows.unwrap_err()).contains("SQLite has no arrays"));
            }
        }
    }

    async fn facts_outlive_the_connections(world: &World) {
        let person = world.person("ada@example.com").await;
        world.store.close().await;
        assert!(world.store.writable().await.unwrap_err().is_unavailable());
        let again = world.second().await;
        again.migrate().await.unwrap();
        assert_eq!(again.person_by_id(person.id).await.unwrap(), Some(person));
    }

    async fn processes_that_start_together_migrate_once(world: &World) {
        let (one, two) = (world.second().await, world.second().await);
        match world.store.pool() {
            Pool::Sqlite { .. } => {
                let path = world.folder.path().join("fresh.db");
                let (one, two) = (fresh(world, &path).await, fresh(world, &path).await);
                let (first, second) = tokio::join!(one.migrate(), two.migrate());
                first.and(second).unwrap();
            }
            Pool::Postgres(_) => {
                world.tamper("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
                let (first, second) = tokio::join!(one.migrate(), two.migrate());
                first.and(second).unwrap();
            }
        }
        world.second().await.check_schema().await.unwrap();
    }

    async fn tables_of_another_version_are_refused(world: &World) {
        world.tamper("UPDATE _sqlx_migrations SET version = 9999, description = 'newer' WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)").await;
        assert!(matches!(world.store.check_schema().await, Err(StoreError::SchemaTooNew { found: 9999, .. })));
        assert!(matches!(world.store.migrate().await, Err(StoreError::SchemaTooNew { found: 9999, .. })));
        world.tamper("DELETE FROM _sqlx_migrations WHERE version = 9999").await;
        assert!(matches!(world.store.check_schema().await, Err(StoreError::SchemaTooOld { .. })));
        world.tamper("DROP TABLE _sqlx_migrations").await;
        assert!(matches!(world.store.check_schema().await, Err(StoreError::SchemaTooOld { found: 0, .. })));
        let plan = world.store.schema_plan().await.unwrap();
        assert_eq!((plan.found, plan.missing[0].as_str()), (0, "1 (main)"));
        assert_eq!(plan.missing.len(), usize::try_from(plan.known).unwrap());
    }

    /// The state in which a server of the previous version finds the tables after a newer one has migrated them.
    async fn tables_of_a_newer_version_are_used_by_the_servers_that_its_migrations_name(world: &World) {
        world.tamper("ALTER TABLE heartbeat ADD COLUMN later INTEGER").await;
        world.tamper("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            SELECT 9997, 'more for servers from ' || version, success, checksum, 0 FROM _sqlx_migrations
            WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)").await;
        world.tamper("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            SELECT 9998, 'less for servers from ' || (version - 1), success, checksum, 0 FROM _sqlx_migrations
            WHERE version = (SELECT MAX(version) FROM _sqlx_migrations WHERE version < 9997)").await;
        for store in [&world.store, &world.second().await] {
            store.migrate().await.unwrap();
            store.check_schema().await.unwrap();
            store.writable().await.unwrap();
        }
        world.tamper("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            SELECT 9999, 'other for servers from 9998', success, checksum, 0 FROM _sqlx_migrations WHERE version = 9998").await;
        let refused = world.store.migrate().await.unwrap_err();
        assert!(matches!(&refused, StoreError::SchemaTooNew { found: 9999, refusing, .. } if refusing.starts_with("9999 (other")));
        assert!(world.store.check_schema().await.is_err());
        // A newer schema does not replace a missing migration of the program.
        world.tamper("DELETE FROM _sqlx_migrations WHERE version IN (9999, 1)").await;
        let refused = world.store.check_schema().await.unwrap_err();
        assert!(matches!(&refused, StoreError::SchemaTooOld { missing, .. } if missing == "1 (main)"), "{refused}");
    }

    async fn a_statement_returns_its_first_row_or_none(world: &World) {
        const SQL: &str = "SELECT beats FROM heartbeat WHERE id = $1 AND CAST($2 AS TEXT) IS NULL";
        let beats = async |id: i64, text: Option<&'static str>| -> Option<i64> {
            scalar(SQL).bind(id).bind(text).fetch_optional(world.store.pool()).await.unwrap()
        };
        assert_eq!(beats(1, None).await, Some(0));
        assert_eq!(beats(1, Some("text")).await, None);
        assert_eq!(beats(2, None).await, None);
    }

    async fn an_outcome_that_is_not_good_is_given_and_not_written(world: &World) {
        let pool = world.store.pool();
        for (good, beats) in [(false, 0_i64), (true, 1)] {
            let value = in_transaction!(pool, |tx| {
                query("UPDATE heartbeat SET beats = beats + 1").execute(&mut *tx).await?;
                Ok(7)
            }, commit if |_| good).await;
            assert_eq!(value.unwrap(), 7);
            assert_eq!(beats_of(pool).await, beats);
        }
        let refused: Result<i32, sqlx::Error> = in_transaction!(pool, |tx| {
            query("UPDATE heartbeat SET beats = beats + 1").execute(&mut *tx).await?;
            query("INSERT INTO heartbeat (id, beats) VALUES (1, 0)").execute(&mut *tx).await?;
            Ok(7)
        })
        .await;
        assert!(refused.is_err());
        assert_eq!(beats_of(pool).await, 1);
    }

    /// A future may be dropped at any await; the next user of its connection must find it without an open transaction.
    async fn a_transaction_that_was_dropped_half_way_swallows_no_other_writes(world: &World) {
        let settings = DatabaseSettings { connections_max: 1, ..world.settings.clone() };
        let store = Store::open(&settings, &world.path()).await.unwrap();
        for polls in 1..12 {
            {
                let mut dropped = pin!(async {
                    let result: Result<(), sqlx::Error> = in_transaction!(store.pool(), |tx| {
                        query("INSERT INTO accounts (user_account_id, created_at) VALUES ('dropped', $1)")
                            .bind(now())
                            .execute(&mut *tx)
                            .await?;
                        Ok(())
                    }, commit if |()| false).await;
                    result
                });
                for _ in 0..polls {
                    let mut context = std::task::Context::from_waker(Waker::noop());
                    if dropped.as_mut().poll(&mut context).is_ready() {
                        break;
                    }
                    // A delay, measured in round trips.
                    world.store.check_schema().await.unwrap();
                }
            }
            let expected = beats_of(world.store.pool()).await + 1;
            store.writable().await.unwrap();
            // Read through other connections: inside its own transaction the write would be visible in any case.
            assert_eq!(beats_of(world.store.pool()).await, expected, "after {polls} polls");
            assert!(world.store.accounts(None, 1).await.unwrap().is_empty());
        }
    }

    async fn damage_is_named_and_not_shown(world: &World) {
        let person = world.person("ada@example.com").await;
        world.tamper("UPDATE persons SET email = 'not an address'").await;
        let error = world.store.person_by_id(person.id).await.unwrap_err();
        assert_eq!(error.to_string(), "the database is damaged: persons.email cannot be read");
        assert!(!error.is_unavailable());
        assert!(matches!(error, StoreError::Corrupt(_)));
    }

    async fn a_key_that_exists_is_a_unique_violation(world: &World) {
        let registration = world.new_registration();
        world.store.registration_create(&registration, None).await.unwrap();
        let error = world.store.registration_create(&registration, None).await.unwrap_err();
        assert!(error.is_unique_violation() && !error.is_foreign_key_violation() && !error.is_unavailable());
        let stranger = world.rng.uuid_v7(now()).into();
        let error = world.store.session_create(&world.new_session(stranger, now()), None, now()).await.unwrap_err();
        assert!(error.is_foreign_key_violation() && !error.is_unique_violation());
        assert_eq!(error.to_string(), "cannot create session");
    }
}

async fn fresh(world: &World, path: &std::path::Path) -> Store {
    Store::open(&world.settings, path).await.unwrap()
}

async fn beats_of(pool: &Pool) -> i64 {
    scalar("SELECT beats FROM heartbeat").fetch_one(pool).await.unwrap()
}

/// SQLite then ends the transaction itself, and the driver must not treat it as open.
#[tokio::test]
async fn a_full_file_refuses_writes_and_takes_them_again_without_a_restart() {
    let world = World::on_sqlite().await;
    let pool = world.store.pool();
    for _ in 0..3 {
        let filled: Result<(), sqlx::Error> = in_transaction!(pool, |tx| {
            script("PRAGMA max_page_count = 1").execute(&mut *tx).await?;
            let mail = "INSERT INTO mails (id, recipient, subject, text, created_at, next_try_at) VALUES (x'00', hex(zeroblob(1000000)), '', '', $1, $1)";
            query(mail).bind(now()).execute(&mut *tx).await.map(drop)
        })
        .await;
        let error = filled.context("fill the file").unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        world.store.writable().await.unwrap();
    }
    assert_eq!(beats_of(pool).await, 3);
    world.person("ada@example.com").await;
}

#[tokio::test]
async fn a_file_that_is_not_at_its_path_is_not_written_to_until_it_is_there_again() {
    let world = World::on_sqlite().await;
    let (pool, folder) = (world.store.pool(), world.folder.path());
    let away = folder.join("away.db");
    assert_eq!(pool.misplaced(), None);
    assert!(pool.wal_bytes().unwrap() > 0);
    for is_replaced in [false, true] {
        std::fs::rename(world.path(), &away).unwrap();
        if is_replaced {
            std::fs::copy(&away, world.path()).unwrap();
        }
        assert!(pool.misplaced().unwrap().contains("attache.db is not the file that was opened"));
        for refused in futures_util::future::join_all((0..8).map(|_| world.store.writable())).await {
            let error = refused.unwrap_err();
            assert!(error.is_unavailable() && domain::reasons(&error).contains("file"), "{error:?}");
        }
        // Open connections read.
        assert_eq!(beats_of(pool).await, i64::from(is_replaced));
        let Pool::Sqlite { file, .. } = pool else { unreachable!() };
        assert!(file.writer().is_err() && file.reader().is_err(), "another file is opened");
        std::fs::rename(&away, world.path()).unwrap();
        assert_eq!(pool.misplaced(), None);
        world.store.writable().await.unwrap();
    }
    assert_eq!(world.second().await.pool().misplaced(), None);
}

#[tokio::test]
async fn writes_at_the_same_time_share_commits() {
    let world = World::on_sqlite().await;
    let pool = world.store.pool();
    let Pool::Sqlite { writer, .. } = pool else { unreachable!() };
    let before = pool.writer_counts().unwrap();
    let holder = writer.begin(Undo::Whole).await.unwrap();
    let writes = futures_util::future::join_all((0..50).map(|_| world.store.writable()));
    let (held, written) = tokio::join!(holder.settle(Ok(()), |()| true), writes);
    held.unwrap();
    written.into_iter().collect::<Result<(), _>>().unwrap();
    assert_eq!(beats_of(pool).await, 50);
    let after = pool.writer_counts().unwrap();
    assert_eq!(after.members - before.members, 51);
    assert!(after.commits - before.commits < 51, "{after:?}");
}

#[tokio::test]
async fn a_connection_whose_transaction_went_wrong_is_not_used_again() {
    let Some(world) = World::on_postgres().await else { return };
    world.tamper("CREATE TABLE strict (id BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED)").await;
    let settings = DatabaseSettings { connections_max: 1, ..world.settings.clone() };
    let store = Store::open(&settings, &world.path()).await.unwrap();
    let backend = || async { scalar("SELECT pg_backend_pid()").fetch_one::<i32>(store.pool()).await.unwrap() };
    // The commit finds the second row, or the server has ended the connection.
    let wrong = ["INSERT INTO strict VALUES (1), (1)", "SELECT pg_terminate_backend(pg_backend_pid())"];
    for sql in wrong {
        let before = backend().await;
        let result: Result<(), sqlx::Error> =
            in_transaction!(store.pool(), |tx| script(sql).execute(&mut *tx).await.map(drop)).await;
        assert!(result.is_err(), "{sql}");
        store.writable().await.unwrap();
        assert_ne!(backend().await, before, "{sql}");
    }
}

#[tokio::test]
async fn a_reader_of_a_file_cannot_write() {
    let world = World::on_sqlite().await;
    let sql = "UPDATE heartbeat SET beats = 1";
    let written = query(sql).execute(world.store.pool()).await;
    assert!(written.is_err());
    query(sql).execute(world.store.pool().writer()).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_the_file_and_what_lies_beside_it() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::on_sqlite().await;
    world.person("ada@example.com").await;
    let mut files = 0;
    for file in std::fs::read_dir(world.folder.path()).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o077, 0);
        files += 1;
    }
    assert!(files >= 2, "the database and its log");
}

#[tokio::test]
async fn a_path_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folder");
    std::fs::create_dir(&path).unwrap();
    let error = Store::open(&DatabaseSettings::default(), &path).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_may_pass() {
    let settings =
        DatabaseSettings { url: Some("postgres://user:hunter2@127.0.0.1:1/none".into()), ..Default::default() };
    let error = Store::open(&settings, std::path::Path::new("unused")).await.unwrap_err();
    assert!(error.is_unavailable());
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_schema_of_its_own_keeps_the_same_names_apart() {
    let Some(world) = World::on_postgres().await else { return };
    let other = Pool::open(&world.settings, &world.path(), Some("statistics")).await.unwrap();
    let again = Pool::open(&world.settings, &world.path(), Some("statistics")).await.unwrap();
    let make = "CREATE TABLE heartbeat (id BIGINT, beats BIGINT)";
    query(make).execute(other.writer()).await.unwrap();
    let rows: i64 = scalar("SELECT COUNT(*) FROM heartbeat").fetch_one(&again).await.unwrap();
    assert_eq!(rows, 0);
    world.store.writable().await.unwrap();
    assert_eq!(beats_of(world.store.pool()).await, 1);
}

#[tokio::test]
async fn the_server_may_end_every_connection_and_is_used_again() {
    let Some(world) = World::on_postgres().await else { return };
    let person = world.person("ada@example.com").await;
    let Pool::Postgres(pool) = world.store.pool() else { unreachable!() };
    let second = world.second().await;
    let Pool::Postgres(other) = second.pool() else { unreachable!() };
    script(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .execute(other)
    .await
    .unwrap();
    // Each closed connection is noticed at most once; every failure is reported as temporary.
    for _ in 0..=pool.size() {
        match world.store.person_by_id(person.id).await {
            Ok(found) => return assert_eq!(found, Some(person)),
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        }
    }
    panic!("the pool never found a new connection");
}

#[tokio::test]
async fn a_writer_in_another_process_is_waited_for_only_so_long() {
    let world = World::on_sqlite().await;
    let settings =
        DatabaseSettings { busy_timeout: std::time::Duration::from_millis(20), ..DatabaseSettings::default() };
    let hasty = Store::open(&settings, &world.path()).await.unwrap();
    let Pool::Sqlite { writer, .. } = world.store.pool() else { unreachable!() };
    let holder = writer.begin(Undo::Whole).await.unwrap();
    assert!(hasty.writable().await.unwrap_err().is_unavailable());
    let result = hasty.person_sign_in(&email("ada@example.com"), true, now(), &world.rng).await;
    assert!(result.unwrap_err().is_unavailable());
    drop(holder);
    hasty.writable().await.unwrap();
}

#[tokio::test]
async fn a_changed_timeout_bounds_the_next_wait_for_a_turn() {
    let world = World::on_sqlite().await;
    let Pool::Sqlite { writer, .. } = world.store.pool() else { unreachable!() };
    let holder = writer.begin(Undo::Whole).await.unwrap();
    let acquire_timeout = std::time::Duration::from_millis(20);
    world.store.retune(&DatabaseSettings { acquire_timeout, ..DatabaseSettings::default() });
    let refused = tokio::time::timeout(std::time::Duration::from_secs(2), world.store.writable()).await.unwrap();
    assert!(refused.unwrap_err().is_unavailable());
    drop(holder);
    world.store.writable().await.unwrap();
}

/// Several reads in one transaction, as an audit executes them.
#[tokio::test]
async fn a_snapshot_of_a_file_stays_the_same_while_others_write() {
    let world = World::on_sqlite().await;
    let pool = world.store.pool();
    let Pool::Sqlite { readers, .. } = pool else { unreachable!() };
    let (begins, begun) = tokio::sync::oneshot::channel();
    let (writes, written) = std::sync::mpsc::channel::<()>();
    let reads = readers.visit(move |connection| {
        let snapshot = connection.unchecked_transaction()?;
        let beats = || snapshot.query_row("SELECT beats FROM heartbeat", [], |row| row.get::<_, i64>(0));
        let before = beats()?;
        begins.send(()).unwrap();
        written.recv().unwrap();
        Ok((before, beats()?))
    });
    let write = async {
        begun.await.unwrap();
        world.store.writable().await.unwrap();
        writes.send(()).unwrap();
    };
    let (read, ()) = tokio::join!(reads, write);
    assert_eq!(read.unwrap(), (0, 0));
    assert_eq!(beats_of(pool).await, 1);
}
