//! A further part of the log on another server, while either server fails: the computers of the first part notice nothing of the other one.

use std::time::Duration;

use harness::relay::Relay;

use crate::load::lock;
use crate::world::{Differences, FAR, World};

/// The longest wait of a computer for a part that is not disturbed.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Traffic while the part is disturbed, until the next event of each node is acknowledged.
async fn disturbed(world: &mut World, fault: &str, begin: impl FnOnce(), end: impl FnOnce()) {
    *lock(&world.load.shared.locked) = Some(FAR);
    begin();
    world.traffic(world.scale.fault).await;
    end();
    world.traffic(world.scale.calm).await;
    let waited = *lock(&world.load.shared.waited);
    world.assert_available(fault);
    assert!(!world.scale.soak || waited <= WAIT_MAX, "{fault}: an event of another part waited for {waited:?}");
    // Each event of the part is acknowledged at the end of the run.
    *lock(&world.load.shared.locked) = None;
    world.traffic(world.scale.calm).await;
    *lock(&world.load.shared.waited) = Duration::ZERO;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_part_of_the_log_that_fails_delays_no_computer_of_another() {
    let (Some(main), Some(part)) = (harness::postgres::cluster().await, harness::postgres::cluster().await) else {
        return;
    };
    let relay = Relay::before(&part.url).await;
    let further = Some((relay.url.clone(), part.url.clone()));
    let mut world = World::begin(&main.url, Differences { further, ..Differences::default() }).await;
    for _ in 0..world.scale.rounds {
        disturbed(&mut world, "a part was killed", || part.stop("immediate"), || part.start()).await;
        disturbed(&mut world, "a part froze", || relay.freeze(), || relay.thaw()).await;
        let lose = || {
            relay.lose_open_connections();
        };
        disturbed(&mut world, "the connections of a part were lost", lose, || ()).await;
        world.touch();
        main.stop("immediate");
        main.start();
        world.all_recover("the restart of the first server").await;
        // Events that waited for the first server are acknowledged, and not measured with the next fault.
        world.traffic(world.scale.calm).await;
        *lock(&world.load.shared.waited) = Duration::ZERO;
    }
    world.end("a part of the log").await;
}
