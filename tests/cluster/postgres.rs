//! A database that is restarted, in good order and as after a crash.

use crate::world::{Differences, World};

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_postgres_that_restarts_loses_nothing() {
    let Some(cluster) = harness::postgres::cluster().await else { return };
    let mut world = World::begin(&cluster.url, Differences::default()).await;
    for _ in 0..world.scale.rounds {
        for mode in ["fast", "immediate"] {
            world.touch();
            cluster.stop(mode);
            cluster.start();
            world.all_recover(&format!("the restart ({mode})")).await;
            world.traffic(world.scale.calm).await;
        }
    }
    world.end("PostgreSQL restarted").await;
}
