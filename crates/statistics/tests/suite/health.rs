//! Health of the log: writes, failures, and the delay of signing.

use domain::Clock;
use store::Pool;
use store::pool::{query, scalar};

use crate::world::{Chain, World};
use harness::on_each_database;

async fn run(pool: &Pool, sql: &'static str) {
    query(sql).execute(pool.writer()).await.unwrap();
}

on_each_database! {
    async fn a_probe_really_writes(world: World) {
        let pool = world.pool().await;
        // A number that changes with every commit of another connection. PostgreSQL has no such number.
        let watcher = match &pool {
            Pool::Sqlite { file, .. } => Some(file.reader().unwrap()),
            Pool::Postgres(_) => None,
        };
        let commits = || -> Option<i64> {
            let watcher = watcher.as_ref()?;
            Some(watcher.pragma_query_value(None, "data_version", |row| row.get(0)).unwrap())
        };
        for _ in 0..3 {
            let before = commits();
            world.log.writable().await.unwrap();
            assert!(before.is_none() || commits() != before, "nothing was written");
        }
        let held: i64 = scalar("SELECT COUNT(*) FROM sequencer WHERE holder IS NOT NULL OR fence <> 0")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(held, 0, "a probe takes no lease");
        world.log.close().await;
        world.log.writable().await.unwrap_err();
        pool.close().await;
    }

    async fn events_without_a_place_are_counted_until_they_are_signed(world: World) {
        let begun = world.log.standing().await.unwrap();
        assert_eq!((begun.tree_size, begun.unplaced), (0, 0));
        let mut chain = Chain::new(&world);
        for _ in 0..5 {
            world.take(&chain.next()).await;
        }
        let waiting = world.log.standing().await.unwrap();
        assert_eq!((waiting.tree_size, waiting.unplaced, waiting.signed_at), (0, 5, begun.signed_at));
        world.log.sequence(3).await.unwrap();
        let signed = world.log.standing().await.unwrap();
        assert_eq!((signed.tree_size, signed.unplaced), (3, 2));
        assert!(signed.signed_at >= begun.signed_at && signed.signed_at <= Clock::system().now());
    }

    async fn a_failed_append_is_remembered_until_one_succeeds(world: World) {
        let (pool, mut chain) = (world.pool().await, Chain::new(&world));
        world.take(&chain.next()).await;
        assert_eq!(world.log.append_failure(), None);
        run(&pool, "ALTER TABLE events RENAME TO gone").await;
        let event = chain.next();
        world.log.append(&[world.append(&event)]).await.unwrap_err();
        let (at, reason) = world.log.append_failure().unwrap();
        assert!(at <= Clock::system().now() && reason.contains("events"), "{reason}");
        run(&pool, "ALTER TABLE gone RENAME TO events").await;
        world.take(&event).await;
        assert_eq!(world.log.append_failure(), None);
        pool.close().await;
    }
}
