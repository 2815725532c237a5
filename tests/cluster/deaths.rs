//! Nodes that are killed and start again.

use std::time::Duration;

use crate::scale::index;
use crate::world::{Differences, NODES, World};

#[tokio::test(flavor = "multi_thread")]
async fn soak_killed_nodes_lose_nothing_and_delay_no_other() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    for _ in 0..world.scale.deaths {
        world.traffic(Duration::from_millis(world.rng.below(500))).await;
        let dying = index(&world.rng, NODES);
        world.nodes[dying].touch();
        world.nodes[dying].kill();
        world.traffic(world.scale.calm).await;
        world.nodes[dying].start().await;
        let recovered = world.recovers(dying).await;
        eprintln!("it took an event {recovered:.1?} after it was ready again");
    }
    world.end("kill -9").await;
}
