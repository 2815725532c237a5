//! Activity and proofs from a streaming replica.

use std::time::Duration;

use domain::{Clock, Rng};
use harness::postgres::TestCluster;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use statistics::contract::ActivityQuery;
use statistics::log::Log;
use store::{DatabaseSettings, Pool, Replica};

use crate::world::{Chain, World, append_of, scope_of};

/// A log on a cluster with a replica.
struct Pair {
    primary: TestCluster,
    replica: TestCluster,
    log: Log,
    /// Creates the events of the tests.
    world: World,
}

impl Pair {
    async fn make(lag_max: Duration) -> Option<Self> {
        let primary = harness::postgres::cluster().await?;
        // The tables are created before the copy is made.
        drop(log_on(&primary.url, None, lag_max).await);
        let replica = primary.standby();
        let log = log_on(&primary.url, Some(&replica.url), lag_max).await;
        Some(Self { primary, replica, log, world: World::on_sqlite().await })
    }

    /// Reads until the replica answers.
    async fn wait_until_current(&self, event: &Value) {
        for _ in 0..500 {
            if self.reads_of_replica(event).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the replica was never used");
    }

    /// Whether a proof was read on the replica, which counts the scans of its tables.
    async fn reads_of_replica(&self, event: &Value) -> bool {
        const READS: &str = "SELECT CAST(COALESCE(SUM(idx_scan + seq_scan), 0) AS BIGINT) FROM pg_stat_all_tables WHERE relname = 'events'";
        self.proof(event).await;
        let mut connection = PgConnection::connect(&self.replica.url).await.unwrap();
        let reads: i64 = sqlx::query_scalar(READS).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        reads > 0
    }

    async fn proof(&self, event: &Value) -> (u16, String) {
        let id = event["event_id"].as_str().unwrap().parse().unwrap();
        let proof = self.log.proof(&scope_of(event), id).await.unwrap();
        let body: Value = serde_json::from_slice(&proof.body).unwrap();
        (proof.status.as_u16(), body["status"].as_str().unwrap_or_default().to_owned())
    }

    /// A pair and two events of one chain: the replica has only the first one and has stopped replay.
    async fn paused(lag_max: Duration) -> Option<(Self, [Value; 2])> {
        let pair = Self::make(lag_max).await?;
        let mut chain = Chain::new(&pair.world);
        let events = [chain.next(), chain.next()];
        pair.take(&events[0]).await;
        pair.wait_until_current(&events[0]).await;
        pair.replay("pg_wal_replay_pause").await;
        pair.take(&events[1]).await;
        Some((pair, events))
    }

    async fn page(&self, event: &Value) -> usize {
        let page = self.log.activity(&scope_of(event), &ActivityQuery::default()).await.unwrap();
        let page: Value = serde_json::from_slice(&page.body).unwrap();
        page["events"].as_array().unwrap().len()
    }

    async fn take(&self, event: &Value) {
        self.log.append(&[append_of(event, &self.world.rng)]).await.unwrap();
        while self.log.sequence(100).await.unwrap().added > 0 {}
    }

    async fn replay(&self, function: &'static str) {
        let mut connection = PgConnection::connect(&self.replica.url).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("SELECT {function}()"))).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

async fn log_on(url: &str, replica_url: Option<&str>, replica_lag_max: Duration) -> Log {
    let settings = DatabaseSettings {
        url: Some(url.to_owned()),
        replica_url: replica_url.map(str::to_owned),
        replica_lag_max,
        ..DatabaseSettings::default()
    };
    let pool = Pool::open(&settings, "".as_ref(), Some("statistics")).await.unwrap();
    let log = Log::open(pool, crate::world::ORIGIN, &Clock::system(), &Rng::system()).await.unwrap();
    log.with_replica(Replica::of(&settings, Some("statistics")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_current_replica_answers_also_while_the_primary_is_away() {
    let Some(pair) = Pair::make(Duration::from_mins(10)).await else { return };
    let mut chain = Chain::new(&pair.world);
    let events: Vec<Value> = (0..3).map(|_| chain.next()).collect();
    for event in &events {
        pair.take(event).await;
    }
    pair.wait_until_current(&events[0]).await;
    pair.primary.stop("immediate");
    assert_eq!(pair.page(&events[0]).await, 3);
    assert_eq!(pair.proof(&events[2]).await, (200, "included".to_owned()));
    pair.primary.start();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_replica_does_not_have_yet_is_found() {
    let Some((pair, [first, second])) = Pair::paused(Duration::from_mins(10)).await else { return };
    assert_eq!(pair.proof(&second).await, (200, "included".to_owned()), "the primary has it");
    assert_eq!(pair.proof(&first).await, (200, "included".to_owned()));
    assert_eq!(pair.page(&first).await, 1, "the replica answers, as old as the setting allows");
    pair.replay("pg_wal_replay_resume").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_behind_or_away_is_not_asked() {
    let Some((pair, [first, second])) = Pair::paused(Duration::from_millis(1500)).await else { return };
    // The replica answers until the missing commit is too old.
    while pair.page(&first).await != 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pair.replay("pg_wal_replay_resume").await;
    pair.replica.stop("immediate");
    for event in [&first, &second] {
        assert_eq!(pair.proof(event).await, (200, "included".to_owned()));
        assert_eq!(pair.page(event).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_replica_is_not_asked() {
    let (Some(primary), Some(other)) = (harness::postgres::cluster().await, harness::postgres::cluster().await) else {
        return;
    };
    // Another log with the same tables.
    drop(log_on(&other.url, None, Duration::from_mins(10)).await);
    let world = World::on_sqlite().await;
    let log = log_on(&primary.url, Some(&other.url), Duration::from_mins(10)).await;
    let event = Chain::new(&world).next();
    log.append(&[append_of(&event, &world.rng)]).await.unwrap();
    for _ in 0..100 {
        let page = log.activity(&scope_of(&event), &ActivityQuery::default()).await.unwrap();
        let page: Value = serde_json::from_slice(&page.body).unwrap();
        assert_eq!(page["events"].as_array().unwrap().len(), 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
