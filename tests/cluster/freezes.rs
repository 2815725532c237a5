//! Nodes that are stopped, at random and in the middle of a transaction.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::scale::index;
use crate::world::{Differences, NODES, World};

/// A transaction that is idle for this long waits for a process that is stopped.
const ABANDONED: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > '60 ms'";

#[tokio::test(flavor = "multi_thread")]
async fn soak_stopped_nodes_delay_no_other() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    for _ in 0..world.scale.rounds {
        world.traffic(Duration::from_millis(world.rng.below(500))).await;
        let stopped = index(&world.rng, NODES);
        world.nodes[stopped].touch();
        world.nodes[stopped].signal("STOP");
        world.traffic(world.scale.fault).await;
        world.nodes[stopped].signal("CONT");
        let recovered = world.recovers(stopped).await;
        eprintln!("it took an event {recovered:.1?} after it continued");
    }
    world.end("SIGSTOP").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_nodes_that_are_stopped_in_a_transaction_delay_no_other() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    let mut activity = PgConnection::connect(&database.url).await.unwrap();
    let mut hits = 0;
    for _ in 0..world.scale.rounds {
        let stopped = index(&world.rng, NODES);
        for attempt in 1..=world.scale.attempts {
            world.traffic(Duration::from_millis(world.rng.below(40))).await;
            world.nodes[stopped].touch();
            world.nodes[stopped].signal("STOP");
            tokio::time::sleep(Duration::from_millis(80)).await;
            let abandoned: i64 = sqlx::query_scalar(ABANDONED).fetch_one(&mut activity).await.unwrap();
            hits += usize::from(abandoned > 0);
            // If transactions never wait for the stopped process, no attempt hits one: the last attempt is an ordinary stop.
            if abandoned > 0 || attempt == world.scale.attempts {
                break;
            }
            world.nodes[stopped].signal("CONT");
            world.recovers(stopped).await;
        }
        world.traffic(world.scale.fault).await;
        world.nodes[stopped].signal("CONT");
        let recovered = world.recovers(stopped).await;
        eprintln!("it took an event {recovered:.1?} after it continued");
    }
    eprintln!("{hits} of {} stops were in a transaction", world.scale.rounds);
    world.end("SIGSTOP in a transaction").await;
}
