//! PostgreSQL behind a relay: connections that break silently, servers that freeze, and slow statements.

use std::time::Duration;

use futures_util::future::join_all;
use harness::relay::Relay;
use store::pool::{query, scalar};
use store::{DatabaseSettings, Pool, Store, in_transaction};
use tokio::time::timeout;

use crate::world::World;

/// Maximum time of each operation in these tests; without the watch over statements they would never end.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The timeouts are far apart, so that a busy machine does not confuse them.
fn settings(world: &World, url: &str) -> DatabaseSettings {
    DatabaseSettings {
        url: Some(url.to_owned()),
        connections_max: 9,
        silent_after: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(2),
        ..world.settings.clone()
    }
}

async fn backend(pool: &Pool) -> Result<i32, sqlx::Error> {
    scalar("SELECT pg_backend_pid()").fetch_one(pool).await
}

/// Opens this number of connections and leaves them idle.
async fn fill(pool: &Pool, connections: usize) {
    let held: Vec<_> =
        join_all((0..connections).map(|_| pool.begin())).await.into_iter().collect::<Result<_, _>>().unwrap();
    for transaction in held {
        transaction.settle(Ok(()), |()| true).await.unwrap();
    }
    assert_eq!(pool.connections().idle, connections as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_dead_connection_is_enough_to_replace_all() {
    let Some(world) = World::on_postgres().await else { return };
    let relay = Relay::before(world.settings.url.as_ref().unwrap()).await;
    let store = Store::open(&settings(&world, &relay.url), &world.path()).await.unwrap();
    let pool = store.pool();
    for is_fresh in [true, false] {
        fill(pool, 6).await;
        if !is_fresh {
            // Connections that were idle for longer than this are tested before a statement is sent.
            tokio::time::sleep(Duration::from_millis(1_100)).await;
        }
        relay.lose_open_connections();
        let first = timeout(TIME_LIMIT, backend(pool)).await.expect("a dead connection held a statement up");
        match first {
            // The statement that finds the connection broken fails; later ones do not.
            Err(error) => assert!(is_fresh && store::error::is_unavailable(&error), "{error}"),
            Ok(_) => assert!(!is_fresh, "a black hole answered"),
        }
        assert!(pool.connections().open <= 1, "{:?}", pool.connections());
        for found in join_all((0..6).map(|_| backend(pool))).await {
            found.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_holds_nothing_up_and_is_used_again() {
    let Some(world) = World::on_postgres().await else { return };
    let relay = Relay::before(world.settings.url.as_ref().unwrap()).await;
    let store = Store::open(&settings(&world, &relay.url), &world.path()).await.unwrap();
    fill(store.pool(), 3).await;
    relay.freeze();
    // Running statements share the result of one examination; later ones cannot connect.
    let writes = timeout(TIME_LIMIT, join_all((0..8).map(|_| store.writable()))).await.expect("writes were held up");
    assert!(writes.iter().all(|written| written.as_ref().is_err_and(store::StoreError::is_unavailable)), "{writes:?}");
    timeout(TIME_LIMIT, store.close()).await.expect("closing was held up");

    let (settings, path) = (settings(&world, &relay.url), world.path());
    let refused = timeout(TIME_LIMIT, Store::open(&settings, &path)).await.expect("opening was held up").unwrap_err();
    let address = relay.url.split(['@', '/']).nth(3).unwrap();
    assert_eq!(refused.to_string(), format!("the database cannot be opened: no connection to {address}"));
    assert!(std::error::Error::source(&refused).unwrap().to_string().contains("did not answer within 2s"));
    relay.thaw();
    let again = Store::open(&settings, &path).await.unwrap();
    again.writable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_only_takes_long_is_waited_for() {
    let Some(world) = World::on_postgres().await else { return };
    let settings = settings(&world, world.settings.url.as_ref().unwrap());
    let store = Store::open(&settings, &world.path()).await.unwrap();
    // Three times the silence after which a connection is examined.
    let sql = "SELECT pg_backend_pid() FROM pg_sleep(1.5)";
    let slow = scalar(sql).fetch_one::<i32>(store.pool()).await.unwrap();
    assert_eq!(backend(store.pool()).await.unwrap(), slow, "the connection is still good");
    let limited = DatabaseSettings { statement_timeout: Duration::from_millis(300), ..settings };
    let store = Store::open(&limited, &world.path()).await.unwrap();
    let error = scalar(sql).fetch_one::<i32>(store.pool()).await.unwrap_err();
    assert_eq!(
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref(),
        Some("57014"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_waited_for_only_so_long() {
    let Some(world) = World::on_postgres().await else { return };
    let settings = DatabaseSettings { lock_timeout: Duration::from_millis(200), ..world.settings.clone() };
    let store = Store::open(&settings, &world.path()).await.unwrap();
    let lock = "LOCK TABLE heartbeat IN ACCESS EXCLUSIVE MODE";
    let mut holder = world.store.pool().begin().await.unwrap();
    query(lock).execute(&mut holder.connection().unwrap()).await.unwrap();
    let error = timeout(TIME_LIMIT, store.writable()).await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    holder.settle(Ok(()), |()| true).await.unwrap();
    store.writable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_timeouts_hold_for_each_connection_once_it_is_returned() {
    let Some(world) = World::on_postgres().await else { return };
    let settings = DatabaseSettings { connections_max: 2, ..world.settings.clone() };
    let store = Store::open(&settings, &world.path()).await.unwrap();
    let pool = store.pool();
    let in_force = "SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'),
        current_setting('idle_in_transaction_session_timeout'))";
    let first = backend(pool).await.unwrap();
    let seconds = Duration::from_secs;
    let longer = DatabaseSettings {
        lock_timeout: seconds(7),
        statement_timeout: seconds(8),
        idle_in_transaction_timeout: seconds(9),
        ..settings
    };
    let holder = pool.begin().await.unwrap();
    store.retune(&longer);
    holder.settle(Ok(()), |()| true).await.unwrap();
    assert_eq!(scalar(in_force).fetch_one::<String>(pool).await.unwrap(), "7s 8s 9s");
    let second = backend(pool).await.unwrap();
    assert_ne!(first, second);
    // Times that are no settings of a session are in force at once, on the same connection.
    let holder = pool.begin().await.unwrap();
    store.retune(&DatabaseSettings { acquire_timeout: Duration::from_millis(200), ..longer });
    let refused = timeout(seconds(3), store.writable()).await.unwrap();
    assert!(refused.unwrap_err().is_unavailable());
    holder.settle(Ok(()), |()| true).await.unwrap();
    assert_eq!(backend(pool).await.unwrap(), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_lent_again_without_a_word_to_the_server() {
    let Some(world) = World::on_postgres().await else { return };
    let settings = DatabaseSettings { connections_max: 1, ..world.settings.clone() };
    let store = Store::open(&settings, &world.path()).await.unwrap();
    let first = backend(store.pool()).await.unwrap();
    for good in [true, false] {
        let ended: Result<(), sqlx::Error> = in_transaction!(store.pool(), |tx| {
            query("UPDATE heartbeat SET beats = beats").execute(&mut *tx).await.map(drop)
        }, commit if |()| good)
        .await;
        ended.unwrap();
        // The last statement of the connection belongs to the transaction.
        let last: String = scalar("SELECT query FROM pg_stat_activity WHERE pid = $1")
            .bind(i64::from(first))
            .fetch_one(world.store.pool())
            .await
            .unwrap();
        assert_eq!(last, if good { "COMMIT" } else { "ROLLBACK" });
        store.readable().await.unwrap();
        let last: String = scalar("SELECT query FROM pg_stat_activity WHERE pid = $1")
            .bind(i64::from(first))
            .fetch_one(world.store.pool())
            .await
            .unwrap();
        assert!(last.starts_with("SELECT"), "{last}");
    }
    assert_eq!(backend(store.pool()).await.unwrap(), first);
    // If a response was not awaited, the connection is closed: the next statement would read this response.
    let dropped = timeout(Duration::from_millis(300), query("SELECT pg_sleep(5)").execute(store.pool()));
    assert!(dropped.await.is_err());
    assert_ne!(backend(store.pool()).await.unwrap(), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_and_the_facts_share_connections_and_keep_their_tables_apart() {
    let Some(world) = World::on_postgres().await else { return };
    world.without_log().await;
    let store =
        Store::open(&DatabaseSettings { connections_max: 1, ..world.settings.clone() }, &world.path()).await.unwrap();
    let log = store.pool().in_schema("statistics").unwrap();
    assert!(log.is_empty().await.unwrap() && !store.pool().is_empty().await.unwrap());
    let same = (backend(store.pool()).await.unwrap(), backend(&log).await.unwrap());
    assert_eq!(same.0, same.1);
    world.tamper("CREATE SCHEMA statistics; CREATE TABLE statistics.leaves (id BIGINT)").await;
    let rows: i64 = scalar("SELECT COUNT(*) FROM leaves").fetch_one(&log).await.unwrap();
    assert_eq!(rows, 0);
    let moved = log.clone().set_aside("statistics", "THEN").await.unwrap();
    assert_eq!(moved, "the schema statistics_then");
    log.close().await;
    store.writable().await.unwrap();
    assert_ne!(backend(store.pool()).await.unwrap(), same.0, "it could remember the old tables");
    store.close().await;
    assert!(matches!(backend(&log).await, Err(sqlx::Error::PoolClosed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_counts_as_a_lent_connection() {
    let Some(world) = World::on_postgres().await else { return };
    let settings =
        DatabaseSettings { connections_max: 2, acquire_timeout: Duration::from_millis(300), ..world.settings.clone() };
    let store = Store::open(&settings, &world.path()).await.unwrap();
    let Pool::Postgres(pool) = store.pool() else { unreachable!() };
    assert_eq!(pool.lent_max(), 1);
    let mut listener = pool.listener().await.unwrap();
    listener.listen("changes").await.unwrap();
    assert!(store.writable().await.unwrap_err().is_unavailable());
    query("SELECT pg_notify('changes', 'one')").execute(world.store.pool()).await.unwrap();
    let notice = timeout(TIME_LIMIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(notice.payload(), "one");
    drop(listener);
    store.writable().await.unwrap();
}
