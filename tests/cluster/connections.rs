//! Connections between a node and the database that freeze, or are lost without a word.

use std::time::Instant;

use crate::scale::index;
use crate::world::{Differences, NODES, World};

#[tokio::test(flavor = "multi_thread")]
async fn soak_frozen_connections_of_a_node_delay_no_other() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    for _ in 0..world.scale.rounds {
        let cut = index(&world.rng, NODES);
        world.nodes[cut].touch();
        world.nodes[cut].relay.freeze();
        world.traffic(world.scale.fault).await;
        world.nodes[cut].relay.thaw();
        let recovered = world.recovers(cut).await;
        eprintln!("it took an event {recovered:.1?} after its connections thawed");
        world.traffic(world.scale.calm).await;
    }
    world.end("frozen connections").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_node_whose_connections_are_lost_opens_others() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    for _ in 0..world.scale.rounds {
        let cut = index(&world.rng, NODES);
        world.nodes[cut].touch();
        let begun = Instant::now();
        world.nodes[cut].relay.lose_open_connections();
        world.recovers(cut).await;
        eprintln!("it took an event {:.1?} after its connections were lost", begun.elapsed());
        world.traffic(world.scale.calm).await;
    }
    world.end("lost connections").await;
}
