//! Sessions of PostgreSQL that are not durable: standbys, settings that an operator changes while nodes run, and several servers.

use std::time::Duration;

use futures_util::future::join_all;
use harness::postgres::{TestCluster, cluster, connect};
use harness::relay::Relay;
use sqlx::{AssertSqlSafe, PgConnection};
use store::pool::{query, scalar, script};
use store::{DatabaseSettings, Pool, Replica, Store, StoreError, in_transaction};

use crate::world::World;

/// Number of connections that are open at the same time.
const MANY: usize = 6;

fn settings(url: &str) -> DatabaseSettings {
    DatabaseSettings {
        url: Some(url.to_owned()),
        connections_max: 9,
        silent_after: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(2),
        ..DatabaseSettings::default()
    }
}

async fn open(url: &str) -> Store {
    Store::open(&settings(url), "".as_ref()).await.unwrap()
}

/// Writes concurrently on this number of connections.
async fn writes(store: &Store, count: usize) -> Vec<Result<(), StoreError>> {
    let begun = join_all((0..count).map(|_| store.pool().begin())).await;
    let mut written = Vec::new();
    for transaction in begun {
        let outcome = match transaction {
            Ok(transaction) => {
                let mut transaction = transaction;
                let beat = query("UPDATE heartbeat SET beats = beats + 1");
                let result = beat.execute(&mut transaction.connection().unwrap()).await.map(drop);
                transaction.settle(result, |()| true).await
            }
            Err(error) => Err(error),
        };
        written.push(store::Context::context(outcome, "write"));
    }
    written
}

async fn all_write(store: &Store) {
    for written in writes(store, MANY).await {
        written.unwrap();
    }
}

/// The results of a query on several connections.
async fn shown(store: &Store, sql: &'static str) -> Vec<String> {
    let answers = join_all((0..MANY).map(|_| scalar(sql).fetch_one::<String>(store.pool()))).await;
    answers.into_iter().map(Result::unwrap).collect()
}

/// The reason of a read-only server.
const READ_ONLY: &str = "its default_transaction_read_only is on";

/// Whether a write is refused for this reason, temporarily.
fn is_refused(written: &Result<(), StoreError>, reason: &str) -> bool {
    matches!(written, Err(error) if error.is_unavailable() && domain::reasons(error).contains(reason))
}

async fn none_writes(store: &Store, reason: &str) {
    for written in writes(store, MANY).await {
        assert!(is_refused(&written, reason), "{written:?}");
    }
}

/// Retries until there is a result, for at most ten seconds.
async fn eventually<T>(expected: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within ten seconds: {expected}");
}

async fn run(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.unwrap();
}

/// Ends every other session of the database. The next statements on these sessions fail.
async fn end_sessions(observer: &mut PgConnection) {
    run(
        observer,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    )
    .await;
}

async fn migrated(cluster: &TestCluster) -> Store {
    let store = open(&cluster.url).await;
    store.migrate().await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_a_standby_for_a_while_is_written_to_right_afterwards() {
    let Some(primary) = cluster().await else { return };
    migrated(&primary).await.close().await;
    let standby = primary.standby();
    primary.wait_for(&standby).await;
    let mut observer = connect(&primary.url).await;
    let relay = Relay::before(&primary.url).await;
    let store = open(&relay.url).await;
    for are_cut in [false, true] {
        store.writable().await.unwrap();
        relay.leads_to(&standby.url);
        if are_cut {
            end_sessions(&mut observer).await;
            let _ended = writes(&store, MANY).await;
            none_writes(&store, "is a standby").await;
        } else {
            // The open connections lead to the primary; no other is opened.
            assert!(writes(&store, MANY).await.iter().any(Result::is_ok));
        }
        relay.leads_to(&primary.url);
        for _ in 0..3 {
            all_write(&store).await;
        }
    }
    relay.leads_to(&standby.url);
    let refused = Store::open(&settings(&relay.url), "".as_ref()).await.unwrap_err();
    assert!(refused.is_unavailable() && domain::reasons(&refused).contains("lead to the primary"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_of_several_servers_finds_the_one_that_fits() {
    let Some(primary) = cluster().await else { return };
    migrated(&primary).await.close().await;
    let standby = primary.standby();
    primary.wait_for(&standby).await;
    let address = |url: &str| url.split(['@', '/']).nth(3).unwrap().to_owned();
    let hosts = |first: &str, second: &str, wanted: &str| {
        format!("postgres://postgres@{first},{second}/postgres?target_session_attrs={wanted}")
    };
    let (first, second) = (address(&primary.url), address(&standby.url));
    // A port on which nothing listens, the standby, the primary.
    let store = open(&hosts(&format!("127.0.0.1:1,{second}"), &first, "read-write")).await;
    all_write(&store).await;
    let Pool::Postgres(pool) = store.pool() else { unreachable!() };
    let mut listener = pool.listener().await.unwrap();
    listener.listen("changes").await.unwrap();

    let both = Some(hosts(&first, &second, "standby"));
    let replica =
        DatabaseSettings { replica_url: both, replica_lag_max: Duration::from_mins(10), ..settings(&primary.url) };
    let replica = Replica::of(&replica, None).unwrap();
    let there = eventually("the replica is used", async || replica.current(store.pool())).await;
    let is_standby: bool = scalar("SELECT pg_is_in_recovery()").fetch_one(&there).await.unwrap();
    assert!(is_standby);
    replica.close().await;

    primary.stop("immediate");
    let _ended = writes(&store, MANY).await;
    none_writes(&store, "is a standby").await;
    standby.promote();
    all_write(&store).await;
    pool.listener().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_only_be_read_is_read_and_is_written_to_right_afterwards() {
    let Some(server) = cluster().await else { return };
    let store = migrated(&server).await;
    let mut operator = connect(&server.url).await;
    all_write(&store).await;
    for statement in ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"] {
        run(&mut operator, statement).await;
    }
    eventually("the server is read only", async || {
        writes(&store, MANY).await.iter().all(|written| is_refused(written, READ_ONLY)).then_some(())
    })
    .await;
    for _ in 0..2 {
        none_writes(&store, READ_ONLY).await;
        for read in join_all((0..MANY).map(|_| store.check_schema())).await {
            read.unwrap();
        }
        assert!(store.pool().connections().open <= 8, "{:?}", store.pool().connections());
    }
    let started = open(&server.url).await;
    started.check_schema().await.unwrap();
    for statement in ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"] {
        run(&mut operator, statement).await;
    }
    // A new session has the value of the file after the server has read it.
    eventually("the server is writable", async || writes(&store, 1).await.remove(0).ok()).await;
    for store in [&store, &started] {
        all_write(store).await;
        all_write(store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_or_a_database_whose_default_is_to_read_alone_is_written_to() {
    let Some(server) = cluster().await else { return };
    let store = migrated(&server).await;
    let mut operator = connect(&server.url).await;
    for whose in ["ROLE", "DATABASE"] {
        run(&mut operator, &format!("ALTER {whose} postgres SET default_transaction_read_only = on")).await;
        end_sessions(&mut operator).await;
        let _ended = writes(&store, MANY).await;
        all_write(&store).await;
        run(&mut operator, &format!("ALTER {whose} postgres RESET default_transaction_read_only")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_whose_setting_changes_while_they_are_open_are_replaced_together() {
    let Some(world) = World::on_postgres().await else { return };
    let store = open(world.settings.url.as_ref().unwrap()).await;
    for change in ["SET default_transaction_read_only TO on", "SET search_path TO nowhere"] {
        all_write(&store).await;
        let mut begun = Vec::new();
        for transaction in join_all((0..MANY).map(|_| store.pool().begin())).await {
            begun.push(transaction.unwrap());
        }
        for mut transaction in begun {
            let changed = script(change).execute(&mut transaction.connection().unwrap()).await;
            transaction.settle(changed, |_| true).await.unwrap();
        }
        // A younger session would be closed without the others.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let first: Result<(), sqlx::Error> = in_transaction!(store.pool(), |tx| {
            query("UPDATE heartbeat SET beats = beats + 1").execute(&mut *tx).await.map(drop)
        })
        .await;
        first.unwrap_err();
        assert_eq!(store.pool().connections().open, 0, "after {change}");
        all_write(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_default_of_the_search_path_leads_to_the_same_tables() {
    let Some(world) = World::on_postgres().await else { return };
    let url = world.settings.url.clone().unwrap();
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let store = open(&url).await;
    run(&mut connect(&url).await, &format!("ALTER DATABASE {name} SET search_path = nowhere")).await;
    all_write(&store).await;
    for path in shown(&store, "SELECT current_setting('search_path')").await {
        assert_eq!(path, "\"$user\", public, statistics");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_write_outlives_a_crash_although_commits_need_not_wait() {
    let Some(server) = cluster().await else { return };
    let store = migrated(&server).await;
    let mut operator = connect(&server.url).await;
    // Without a commit that waits, the log is written after this time.
    run(&mut operator, "ALTER SYSTEM SET wal_writer_delay = '10s'").await;
    run(&mut operator, "ALTER ROLE postgres SET synchronous_commit = off").await;
    run(&mut operator, "ALTER SYSTEM SET synchronous_commit = off").await;
    run(&mut operator, "SELECT pg_reload_conf()").await;
    // One connection was open before; the others are new.
    all_write(&store).await;
    let second = open(&server.url).await;
    let modes = shown(&store, "SELECT current_setting('synchronous_commit')").await;
    assert!(modes.iter().all(|mode| mode == "on"), "{modes:?}");
    let mut acknowledged = i64::try_from(MANY).unwrap();
    for _ in 0..20 {
        all_write(&store).await;
        second.writable().await.unwrap();
        acknowledged += i64::try_from(MANY).unwrap() + 1;
    }
    server.stop("immediate");
    server.start();
    let _ended = writes(&store, MANY).await;
    let beats: i64 = scalar("SELECT beats FROM heartbeat").fetch_one(store.pool()).await.unwrap();
    assert!(beats >= acknowledged, "{beats} of {acknowledged}");
    // A session cannot change this setting.
    run(&mut connect(&server.url).await, "ALTER SYSTEM SET fsync = off").await;
    run(&mut connect(&server.url).await, "SELECT pg_reload_conf()").await;
    let refused = eventually("fsync is off", async || Store::open(&settings(&server.url), "".as_ref()).await.err());
    let refused = refused.await;
    assert!(matches!(refused, StoreError::Unsafe { setting: "fsync", .. }), "{refused}");
    assert!(refused.to_string().contains("must be on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_not_cut_off_because_another_server_does_not_know_it() {
    let (Some(world), Some(other)) = (World::on_postgres().await, cluster().await) else { return };
    let relay = Relay::before(world.settings.url.as_ref().unwrap()).await;
    let store = open(&relay.url).await;
    relay.leads_to(&other.url);
    let name = world.settings.url.as_ref().unwrap().rsplit('/').next().unwrap();
    run(&mut connect(&other.url).await, &format!("CREATE DATABASE {name}")).await;
    let accepted = relay.accepted();
    // Three times the silence after which a connection is examined.
    let slow = scalar("SELECT 7 FROM pg_sleep(1.5)").fetch_one::<i32>(store.pool()).await;
    assert_eq!(slow.unwrap(), 7);
    assert!(relay.accepted() > accepted, "the other server was asked");
}

/// Citus writes such a certificate and switches TLS on. libpq accepts it, so an operator sees no fault of the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_version_1_is_named_with_the_remedy() {
    const FILES: [(&str, &str); 2] = [
        ("server.crt", include_str!("version_1_certificate/server.crt")),
        ("server.key", include_str!("version_1_certificate/server.key")),
    ];
    let Some(server) = cluster().await else { return };
    migrated(&server).await.close().await;
    let mut operator = connect(&server.url).await;
    for (name, content) in FILES {
        // PostgreSQL writes its own files: they have to belong to its user.
        let lines = content.trim().replace('\n', "','");
        run(&mut operator, &format!("COPY (SELECT unnest(ARRAY['{lines}'])) TO PROGRAM 'umask 077; cat > {name}'"))
            .await;
    }
    for statement in ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
        run(&mut operator, statement).await;
    }
    let error = eventually("new connections are offered TLS", async || {
        Store::open(&settings(&server.url), "".as_ref()).await.err()
    })
    .await;
    let reasons = domain::reasons(&error);
    assert!(reasons.contains("X.509 version 1") && reasons.contains("sslmode=disable"), "{reasons}");
    Store::open(&settings(&format!("{}?sslmode=disable", server.url)), "".as_ref()).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_on_two_servers_are_counted() {
    let (Some(one), Some(two)) = (cluster().await, cluster().await) else { return };
    let relay = Relay::before(&one.url).await;
    let store = open(&relay.url).await;
    let servers = async |store: &Store| store.pool().server_status().await.unwrap().unwrap().servers;
    assert_eq!(servers(&open(&one.url).await).await, 1);
    relay.leads_to(&two.url);
    assert_eq!(servers(&store).await, 2);
}
