//! A node compares the log with the checkpoints that it remembers while another one signs.

use std::future::Future;

use domain::ids::InstallationId;

use crate::world::{Chain, ORIGIN, World};

async fn forever<F: Future<Output = ()>>(mut work: impl FnMut() -> F) {
    loop {
        work().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_is_served_during_a_comparison_does_not_halt_the_log_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let other = world.another(ORIGIN).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.json");
    let installation = InstallationId::from(world.rng.uuid_v7(domain::Clock::system().now()));
    let mut chain = Chain::new(&world);
    let signs = async {
        for _ in 0..300 {
            world.take(&chain.next()).await;
            world.log.sequence(100).await.unwrap();
        }
    };
    let serves = forever(async || drop(other.checkpoint().await.unwrap()));
    let compares = forever(async || other.remember_in(&path, installation).await.unwrap());
    tokio::select! {
        () = signs => {}
        () = serves => {}
        () = compares => {}
    }
    assert!(other.halted().is_none(), "{:?}", other.halted());
    other.close().await;
}
