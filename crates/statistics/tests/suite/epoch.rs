//! The installation of the log, the checkpoints that it continues, and the start of an epoch.

use domain::checkpoint::{VerifierKey, epoch_origin};
use domain::ids::InstallationId;
use domain::{Clock, Timestamp};
use statistics::log::{Continuity, Log, LogHead};

use crate::world::{Chain, ORIGIN, World};
use harness::on_each_database;

async fn grow(world: &World, chain: &mut Chain, events: usize) -> LogHead {
    for _ in 0..events {
        world.take(&chain.next()).await;
    }
    world.log.sequence(1000).await.unwrap();
    world.log.head().await.unwrap()
}

async fn continues(log: &Log, head: &LogHead) -> Continuity {
    let checkpoint = head.vkey.parse::<VerifierKey>().unwrap().open(&head.checkpoint).unwrap();
    log.continues(&head.vkey, &checkpoint).await.unwrap()
}

on_each_database! {
    async fn a_log_belongs_to_the_first_installation(world: World) {
        let id = || InstallationId::from(world.rng.uuid_v7(Clock::system().now()));
        let (one, two) = (id(), id());
        assert_eq!(world.log.installation().await.unwrap(), None);
        assert_eq!(world.log.installation_begin(one).await.unwrap(), one);
        assert_eq!(world.log.installation_begin(two).await.unwrap(), one);
        assert_eq!(world.log.installation().await.unwrap(), Some(one));
    }

    async fn a_log_continues_the_signed_tree_and_nothing_else(world: World) {
        let mut chain = Chain::new(&world);
        let empty = world.log.head().await.unwrap();
        let mut heads = vec![empty];
        for events in [1, 2, 300, 5] {
            heads.push(grow(&world, &mut chain, events).await);
        }
        for head in &heads {
            assert_eq!(continues(&world.log, head).await, Continuity::Continues, "{}", head.size);
        }
        assert!(world.log.is_intact().await.unwrap());
        let last = heads.last().unwrap();
        let seen = last.vkey.parse::<VerifierKey>().unwrap().open(&last.checkpoint).unwrap();
        let larger = domain::checkpoint::Checkpoint { size: seen.size + 1, ..seen.clone() };
        assert_eq!(world.log.continues(&last.vkey, &larger).await.unwrap(), Continuity::Smaller);
        for size in [1, 256, seen.size] {
            let other = domain::checkpoint::Checkpoint { size, root: domain::Digest::of(b"other"), ..seen.clone() };
            assert_eq!(world.log.continues(&last.vkey, &other).await.unwrap(), Continuity::Differs, "{size}");
        }
        let origin = epoch_origin(ORIGIN, Timestamp::UNIX_EPOCH);
        let other = domain::checkpoint::SignerKey::draw(&origin, &world.rng).unwrap().verifier().to_string();
        assert_eq!(world.log.continues(&other, &seen).await.unwrap(), Continuity::OtherKey);
    }

    async fn an_epoch_keeps_the_tree_and_has_another_key_and_origin(world: World) {
        let mut chain = Chain::new(&world);
        let before = grow(&world, &mut chain, 5).await;
        let origin = epoch_origin(ORIGIN, Timestamp::UNIX_EPOCH);
        world.log.begin_epoch(&origin).await.unwrap();
        let begun = world.log.head().await.unwrap();
        let key: VerifierKey = begun.vkey.parse().unwrap();
        let (old, new) = (before.vkey.parse::<VerifierKey>().unwrap().open(&before.checkpoint).unwrap(), key.open(&begun.checkpoint).unwrap());
        assert_eq!((new.origin.as_str(), new.size, new.root), (origin.as_str(), old.size, old.root));
        assert_eq!(continues(&world.log, &before).await, Continuity::OtherKey);
        let keys: serde_json::Value = serde_json::from_slice(&world.log.keys().await.unwrap().body).unwrap();
        let retired: Vec<bool> = keys["keys"].as_array().unwrap().iter().map(|key| !key["retired_at"].is_null()).collect();
        assert_eq!(retired.iter().filter(|retired| **retired).count(), 1, "{keys}");
        // The log grows under the new key, in this process and in another that opens it by the configured name.
        let grown = grow(&world, &mut chain, 3).await;
        assert_eq!((grown.vkey.as_str(), grown.size), (begun.vkey.as_str(), 8));
        let again = world.another(ORIGIN).await.unwrap();
        assert_eq!(again.head().await.unwrap(), grown);
        assert_eq!(continues(&again, &begun).await, Continuity::Continues);
        world.log.audit().await.unwrap();
    }
}
