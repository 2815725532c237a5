//! Nodes with clocks a minute behind and ahead.

use blackbox::preload;

use crate::world::{Differences, World};

#[tokio::test(flavor = "multi_thread")]
async fn soak_clocks_a_minute_apart_change_no_event() {
    let Some(database) = harness::postgres::database().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = preload::compiled("tests/cluster/clock.c", folder.path()) else { return };
    let differences = Differences { clocks: Some((library, [0, -60, 60])), ..Differences::default() };
    let mut world = World::begin(&database.url, differences).await;
    for _ in 0..world.scale.rounds {
        world.traffic(world.scale.fault).await;
        // The lease of the sequencer passes between the clocks.
        for node in 0..world.nodes.len() {
            world.nodes[node].touch();
            world.nodes[node].kill();
            world.traffic(world.scale.calm).await;
            world.nodes[node].start().await;
            world.recovers(node).await;
        }
    }
    world.end("clocks a minute apart").await;
}
