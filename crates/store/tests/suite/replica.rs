//! Searches on a streaming replica find every memory that the primary has acknowledged.

use std::time::Duration;

use domain::ids::UserAccountId;
use store::memory::MemoryScope;
use store::{DatabaseSettings, Store};

const ACCOUNT: &str =
    "INSERT INTO accounts (user_account_id, created_at) VALUES ('tz4a98xxat96iws9zmbrgj3a', '2026-01-01T00:00:00Z')";
const ACCOUNT_INDEX: &str = "INSERT INTO account_indexes (account_id, memories, chunks, words, changes) VALUES ('tz4a98xxat96iws9zmbrgj3a', 1, 1, 1, 1)";
const CHANGE: &str = "UPDATE account_indexes SET changes = changes + 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_search_uses_the_replica_only_while_it_has_the_same_accounts() {
    let Some(primary) = harness::postgres::cluster().await else { return };
    let settings = DatabaseSettings { url: Some(primary.url.clone()), ..DatabaseSettings::default() };
    let store = Store::open(&settings, "".as_ref()).await.unwrap();
    store.migrate().await.unwrap();
    let run =
        async |store: &Store, sql: &'static str| store::pool::script(sql).execute(store.pool().writer()).await.unwrap();
    run(&store, ACCOUNT).await;
    run(&store, ACCOUNT_INDEX).await;
    store.close().await;
    let replica = primary.standby();
    let lag_max = Duration::from_mins(10);
    let settings = DatabaseSettings { replica_url: Some(replica.url.clone()), replica_lag_max: lag_max, ..settings };
    let store = Store::open(&settings, "".as_ref()).await.unwrap();
    let account: UserAccountId = "tz4a98xxat96iws9zmbrgj3a".parse().unwrap();
    let scope = MemoryScope::Account(account);
    let is_on_replica = async || {
        let account_indexes = store.account_indexes_in(&scope, 10).await.unwrap();
        assert_eq!(account_indexes.len(), 1);
        store.for_search(&scope, &account_indexes, 10).await.is_replica()
    };
    let becomes = async |expected: bool| {
        for _ in 0..500 {
            if is_on_replica().await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not within ten seconds: {expected}");
    };
    becomes(true).await;
    store.retune(&DatabaseSettings { replica_lag_max: Duration::ZERO, ..settings.clone() });
    assert!(!is_on_replica().await, "the changed age is in force");
    store.retune(&settings);
    becomes(true).await;
    // A change that is not on the replica yet.
    let mut there = harness::postgres::connect(&replica.url).await;
    sqlx::raw_sql("SELECT pg_wal_replay_pause()").execute(&mut there).await.unwrap();
    run(&store, CHANGE).await;
    assert!(!is_on_replica().await, "the primary is searched");
    sqlx::raw_sql("SELECT pg_wal_replay_resume()").execute(&mut there).await.unwrap();
    becomes(true).await;
    drop(there);
    replica.stop("immediate");
    becomes(false).await;
    store.close().await;
}
