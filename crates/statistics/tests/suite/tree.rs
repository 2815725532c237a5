//! Places in the tree, checkpoints, proofs.

use domain::Digest;
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::recorder::Recorder;
use futures_util::future::join_all;
use proofs::merkle::verify_consistency;
use proofs::proof::{AuditProof, verify};
use serde_json::Value;
use statistics::log::{Log, LogError};

use crate::world::{Chain, World, scope_of};
use harness::on_each_database;

async fn vkey(log: &Log) -> VerifierKey {
    let keys: Value = serde_json::from_slice(&log.keys().await.unwrap().body).unwrap();
    keys["keys"][0]["vkey"].as_str().unwrap().parse().unwrap()
}

async fn signed(log: &Log) -> Checkpoint {
    let note = log.checkpoint().await.unwrap().body;
    vkey(log).await.open(std::str::from_utf8(&note).unwrap()).unwrap()
}

on_each_database! {
    async fn every_event_gets_a_place_and_a_proof_that_holds(world: World) {
        let mut chains: Vec<Chain> = (0..3).map(|_| Chain::new(&world)).collect();
        let mut events = Vec::new();
        let vkey = vkey(&world.log).await;
        let mut checkpoints = Vec::new();
        // More than one tile, in passes of odd sizes.
        for pass in 0..12 {
            let group: Vec<Value> = (0..9 * (pass % 4 + 1)).map(|n| chains[n % 3].next()).collect();
            let appends: Vec<_> = group.iter().map(|event| world.append(event)).collect();
            world.log.append(&appends).await.unwrap();
            events.extend(group);
            if pass == 5 {
                let last = &events[events.len() - 1];
                let id = last["event_id"].as_str().unwrap().parse().unwrap();
                let proof = AuditProof::parse(&world.log.proof(&scope_of(last), id).await.unwrap().body).unwrap();
                assert!(verify(&proof, &vkey).unwrap_err().to_string().contains("pending"), "not in the tree yet");
            }
            while world.log.sequence(17).await.unwrap().added > 0 {
                checkpoints.push(signed(&world.log).await);
            }
        }
        assert!(events.len() > 256, "{}", events.len());
        assert_eq!(signed(&world.log).await.size, events.len() as u64);
        let mut places = Vec::new();
        for event in &events {
            let proof = world.log.proof(&scope_of(event), event["event_id"].as_str().unwrap().parse().unwrap()).await.unwrap();
            let proof = AuditProof::parse(&proof.body).unwrap();
            let verified = verify(&proof, &vkey).unwrap();
            assert_eq!(verified.event_id.to_string(), event["event_id"].as_str().unwrap());
            places.push(verified.leaf_index);
        }
        places.sort_unstable();
        assert_eq!(places, (0..events.len() as u64).collect::<Vec<_>>(), "dense");
        for (number, older) in checkpoints.iter().enumerate().step_by(3) {
            for newer in checkpoints[number..].iter().step_by(2) {
                let proof = world.log.consistency(Some(&older.size.to_string()), Some(&newer.size.to_string())).await.unwrap();
                let proof: Value = serde_json::from_slice(&proof.body).unwrap();
                let path: Vec<Digest> = serde_json::from_value(proof["proof"].clone()).unwrap();
                assert!(verify_consistency(older.size, newer.size, &older.root, &newer.root, &path).is_ok());
            }
        }
    }

    async fn a_proof_follows_a_tree_that_another_process_has_grown(world: World) {
        let (mut chain, mut stranger) = (Chain::new(&world), Chain::new(&world));
        let other = world.another(crate::world::ORIGIN).await.unwrap();
        let vkey = vkey(&world.log).await;
        let mut events = Vec::new();
        for round in 0..6 {
            let group: Vec<Value> = (0..3 + 60 * (round % 2)).map(|_| chain.next()).collect();
            let appends: Vec<_> = group.iter().map(|event| world.append(event)).collect();
            other.append(&appends).await.unwrap();
            events.extend(group);
            while other.sequence(1000).await.unwrap().added > 0 {}
            for event in [&events[0], &events[events.len() / 2], &events[events.len() - 1]] {
                let id = event["event_id"].as_str().unwrap().parse().unwrap();
                for log in [&world.log, &other] {
                    let proof = AuditProof::parse(&log.proof(&scope_of(event), id).await.unwrap().body).unwrap();
                    assert_eq!(verify(&proof, &vkey).unwrap().checkpoint.size, events.len() as u64);
                }
            }
        }
        // Another computer, another identity, and an additional identity.
        let id = events[7]["event_id"].as_str().unwrap().parse().unwrap();
        let mut scope = scope_of(&stranger.next());
        assert_eq!(world.log.proof(&scope, id).await.unwrap().status, 404);
        scope.machine = None;
        assert_eq!(world.log.proof(&scope, id).await.unwrap().status, 404);
        // Naming the identity is not enough.
        scope.identities.push(chain.identity());
        scope.shown.computers.push(Recorder { identity: chain.identity(), ..stranger.recorder() });
        assert_eq!(world.log.proof(&scope, id).await.unwrap().status, 404);
        scope.shown.computers.push(chain.recorder());
        assert_eq!(world.log.proof(&scope, id).await.unwrap().status, 200);
        scope.shown.computers.clear();
        assert_eq!(world.log.proof(&scope, id).await.unwrap().status, 404);
    }

    async fn events_are_found_while_another_process_indexes_them(world: World) {
        let mut chain = Chain::new(&world);
        let other = world.another(crate::world::ORIGIN).await.unwrap();
        let events: Vec<Value> = (0..300).map(|_| chain.next()).collect();
        for few in events.chunks(3) {
            let appends: Vec<_> = few.iter().map(|event| world.append(event)).collect();
            other.append(&appends).await.unwrap();
            // The indexes are written once every event has its place.
            let sequenced = async { while other.sequence(1000).await.unwrap().added > 0 {} };
            let found = join_all(few.iter().map(async |event| {
                let id = event["event_id"].as_str().unwrap().parse().unwrap();
                for _ in 0..20 {
                    let proof = world.log.proof(&scope_of(event), id).await.unwrap();
                    assert_ne!(proof.status, 404, "{}", String::from_utf8_lossy(&proof.body));
                }
            }));
            tokio::join!(sequenced, found);
        }
    }

    async fn processes_that_sequence_at_once_grow_one_tree(world: World) {
        let mut chain = Chain::new(&world);
        let other = world.another(crate::world::ORIGIN).await.unwrap();
        let mut added = 0;
        for _ in 0..10 {
            for _ in 0..5 {
                world.take(&chain.next()).await;
            }
            let (one, two) = tokio::join!(world.log.sequence(100), other.sequence(100));
            added += one.unwrap().added + two.unwrap().added;
        }
        world.log.close().await;
        // The lease is released, so the other node continues at once.
        loop {
            let pass = other.sequence(100).await.unwrap();
            added += pass.added;
            if pass.added == 0 {
                break;
            }
        }
        assert_eq!((signed(&other).await.size, added), (50, 50), "every event is counted by the process that placed it");
    }

    async fn a_tree_that_was_tampered_with_is_not_signed(world: World) {
        let mut chain = Chain::new(&world);
        for _ in 0..3 {
            world.take(&chain.next()).await;
        }
        assert_eq!(world.log.sequence(100).await.unwrap().added, 3);
        let before = world.log.checkpoint().await.unwrap();
        world.forge_tiles().await;
        world.take(&chain.next()).await;
        assert!(matches!(world.log.sequence(100).await, Err(LogError::Inconsistent)));
        assert_eq!(world.log.checkpoint().await.unwrap(), before);
    }
}
