//! Audit proofs: every client can verify offline that an event was recorded (`docs/decisions/0012-tree-and-proofs.md`).

use domain::checkpoint::{Checkpoint, VerifierKey};
use proofs::proof::{AuditProof, verify};
use serde_json::Value;

use blackbox::client::Credential;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::{on_each_database, on_sqlite};

/// The key of the log with the chains of a computer.
async fn vkey(world: &World, machine: &Machine) -> VerifierKey {
    let origin = world.part_of(machine).await.origin("attache/log");
    let keys = world.get("/api/v1/audit/keys", &Credential::None).await.expect(200);
    let mut keys = keys["keys"].as_array().unwrap().iter().map(|key| key["vkey"].as_str().unwrap());
    keys.find(|key| key.starts_with(&format!("{origin}+"))).unwrap().parse().unwrap()
}

on_each_database! {
    async fn every_accepted_event_has_a_valid_proof(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let mut sent = Vec::new();
        for _ in 0..9 {
            let event = chain.next();
            let receipt = world.event(&machine, &event).await.receipt();
            sent.push((event, receipt));
        }
        let vkey = vkey(&world, &machine).await;
        for (event, receipt) in &sent {
            let id = event["event_id"].as_str().unwrap();
            let proof = world.included(&machine, id).await;
            assert_eq!(proof["schema"], "audit-proof/v1");
            assert_eq!(proof["hash_alg"], "sha256-jcs-v1");
            assert_eq!(proof["receipt_id"], *receipt);
            assert_eq!(proof["self"], event["hash_chain"]["self"]);
            let proof = AuditProof::parse(proof.to_string().as_bytes()).unwrap();
            let verified = verify(&proof, &vkey).unwrap();
            assert_eq!(verified.event_id.to_string(), id);
        }
    }
}

on_sqlite! {
    async fn a_proof_needs_permission_to_read_the_event(world: World) {
        let person = world.person("ada@example.com").await;
        let stranger = world.person("bob@example.com").await;
        let machine = world.attached_machine(&person).await;
        let other = world.machine().await;
        let event = Chain::new(&machine).next();
        world.event(&machine, &event).await.receipt();
        let id = event["event_id"].as_str().unwrap();
        assert_eq!(world.proof(&machine, id).await.status, 200);
        assert_eq!(world.proof(person.cookie, id).await.status, 200);
        world.proof(stranger.cookie, id).await.refused(404, "event_not_found");
        world.proof(&other, id).await.refused(404, "event_not_found");
        world.proof(&machine, "019b76da-a800-7a67-8a14-94a3f41b0634").await.refused(404, "event_not_found");
    }
}

on_each_database! {
    async fn each_checkpoint_is_consistent_with_the_one_before(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let vkey = vkey(&world, &machine).await;
        let part = world.part_of(&machine).await;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let event = chain.next();
            world.event(&machine, &event).await.receipt();
            world.included(&machine, event["event_id"].as_str().unwrap()).await;
            let response = world.get(&format!("/api/v1/audit/checkpoint?log={part}"), &Credential::None).await;
            assert!(response.header("content-type").unwrap().starts_with("text/plain"));
            seen.push(vkey.open(std::str::from_utf8(&response.body).unwrap()).unwrap());
        }
        assert!(seen.is_sorted_by(|a, b| a.size < b.size));
        for (older, newer) in seen.iter().zip(&seen[1..]) {
            let path = format!("/api/v1/audit/consistency?log={part}&from={}&to={}", older.size, newer.size);
            let proof = world.get(&path, &Credential::None).await.expect(200);
            let path: Vec<domain::Digest> = serde_json::from_value(proof["proof"].clone()).unwrap();
            assert!(proofs::merkle::verify_consistency(older.size, newer.size, &older.root, &newer.root, &path).is_ok());
        }
        for wrong in ["", "?from=2&to=1", "?from=x&to=1", "?from=1&to=1000000"] {
            let response = world.get(&format!("/api/v1/audit/consistency{wrong}"), &Credential::None).await;
            assert_eq!(response.status, 400, "{wrong}");
        }
    }

    async fn the_tree_is_served_as_tiles_without_a_credential(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let mut seals = Vec::new();
        for _ in 0..3 {
            let event = chain.next();
            world.event(&machine, &event).await.receipt();
            let proof = world.included(&machine, event["event_id"].as_str().unwrap()).await;
            seals.push((proof["leaf_index"].as_u64().unwrap(), proof["leaf_hash"].as_str().unwrap().to_owned()));
        }
        let part = world.part_of(&machine).await;
        assert_eq!(world.get("/log/checkpoint", &Credential::None).await.status, 200);
        world.get("/log/tile/64/000", &Credential::None).await.refused(404, "not_found");
        let log = if part.is_first() { "/log".to_owned() } else { format!("/log/p{part}") };
        let response = world.get(&format!("{log}/checkpoint"), &Credential::None).await;
        assert_eq!((response.status, response.header("cache-control")), (200, Some("no-store")));
        let checkpoint = vkey(&world, &machine).await.open(std::str::from_utf8(&response.body).unwrap()).unwrap();
        let path = format!("0/000.p/{}", checkpoint.size);
        let tile = world.get(&format!("{log}/tile/{path}"), &Credential::None).await;
        assert_eq!((tile.status, tile.header("content-type")), (200, Some("application/octet-stream")));
        assert_eq!(tile.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(tile.header("content-security-policy"), Some("sandbox; default-src 'none'"));
        let hashes: Vec<domain::Digest> = tile.body.as_chunks().0.iter().map(|hash| domain::Digest::from(*hash)).collect();
        assert_eq!(hashes.len() as u64, checkpoint.size);
        for (index, leaf_hash) in seals {
            assert_eq!(hashes[usize::try_from(index).unwrap()].to_string(), leaf_hash);
        }
        let client = ::client::Client::new(&::client::Settings::of(&world.url)).unwrap();
        assert_eq!(client.log_part(&checkpoint.origin).await.unwrap(), part);
        assert_eq!(client.tile(part, &path).await.unwrap(), tile.body);
        for (path, code) in [
            (format!("0/000.p/{}", checkpoint.size + 1), "tile_not_found"),
            ("0/000".to_owned(), "tile_not_found"),
            ("1/000.p/1".to_owned(), "tile_not_found"),
            ("63/x001/x234/067".to_owned(), "tile_not_found"),
            ("64/000".to_owned(), "not_found"),
            ("0/0".to_owned(), "not_found"),
            ("0/000.p/0".to_owned(), "not_found"),
            ("entries/000.p/1".to_owned(), "not_found"),
            ("..%2F..%2Fapi".to_owned(), "not_found"),
            ("%FF".to_owned(), "not_found"),
        ] {
            let refused = world.get(&format!("{log}/tile/{path}"), &Credential::None).await;
            assert_eq!(refused.header("cache-control"), Some("no-store"), "{path}");
            refused.refused(404, code);
        }
    }
}

on_sqlite! {
    async fn the_typed_client_follows_an_honest_log_and_notices_another(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let key = vkey(&world, &machine).await;
        let client = ::client::Client::new(&::client::Settings::of(&world.url)).unwrap();
        let mut witness = ::client::Witness::default();
        let first = client.observe(&mut witness, &key).await.unwrap();
        assert_eq!((first.seen, first.checkpoint.size), (None, 0));
        for events in [1, 4] {
            for _ in 0..events {
                let event = chain.next();
                world.event(&machine, &event).await.receipt();
                world.included(&machine, event["event_id"].as_str().unwrap()).await;
            }
            let before = witness.seen(&key).unwrap();
            let observed = client.observe(&mut witness, &key).await.unwrap();
            assert_eq!(observed.seen, before);
            assert!(observed.checkpoint.size > before.unwrap().size);
            assert_eq!(witness.seen(&key).unwrap(), Some(observed.checkpoint));
        }
        // The stored value is equal after reading it back.
        let stored = serde_json::to_string(&witness).unwrap();
        assert_eq!(serde_json::from_str::<::client::Witness>(&stored).unwrap(), witness);
        let newest = witness.seen(&key).unwrap().unwrap();
        let root = domain::Digest::of(b"another history");
        for (older, code) in [
            (Checkpoint { size: newest.size + 1, ..newest.clone() }, "rolled_back"),
            (Checkpoint { root, ..newest.clone() }, "forked"),
            (Checkpoint { size: 3, root, ..newest.clone() }, "forked"),
        ] {
            match client.prove_growth(&older, &newest).await {
                Err(::client::WitnessError::Violation(violation)) => assert_eq!(violation.code(), code),
                other => panic!("{code}: {other:?}"),
            }
        }
        // A server without the larger tree returns no valid proof.
        let beyond = Checkpoint { size: newest.size + 9, ..newest.clone() };
        match client.prove_growth(&newest, &beyond).await {
            Err(::client::WitnessError::Violation(violation)) => assert_eq!(violation.code(), "unproven"),
            other => panic!("{other:?}"),
        }
        let stranger = domain::checkpoint::SignerKey::draw(key.name(), &domain::Rng::system()).unwrap();
        match client.observe(&mut witness, stranger.verifier()).await {
            Err(::client::WitnessError::Violation(violation)) => assert_eq!(violation.code(), "other_key"),
            other => panic!("{other:?}"),
        }
    }
}

on_each_database! {
    async fn the_log_continues_after_a_restart(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let first = chain.next();
        world.event(&machine, &first).await.receipt();
        let before = vkey(&world, &machine).await;
        let world = world.restart().await;
        assert_eq!(vkey(&world, &machine).await.to_string(), before.to_string());
        let second = chain.next();
        world.event(&machine, &second).await.receipt();
        for event in [&first, &second] {
            let proof = world.included(&machine, event["event_id"].as_str().unwrap()).await;
            verify(&AuditProof::parse(proof.to_string().as_bytes()).unwrap(), &before).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_request_without_a_valid_event_id_is_refused() {
    let world = World::on_sqlite().await;
    let machine = Credential::from(&world.machine().await);
    world.get("/api/v1/audit/verify", &machine).await.refused(400, "missing_event_id");
    world.get("/api/v1/audit/verify?event_id=", &machine).await.refused(400, "missing_event_id");
    for wrong in ["x", "019B76DA-A800-7A67-8A14-94A3F41B0634", "019b76da-a800-4a67-8a14-94a3f41b0634"] {
        world.proof(machine.clone(), wrong).await.refused(400, "invalid_event_id");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_proof_is_refused_with_the_failed_check() {
    let world = World::on_sqlite().await;
    let machine = world.machine().await;
    let event = Chain::new(&machine).next();
    world.event(&machine, &event).await.receipt();
    let proof = world.included(&machine, event["event_id"].as_str().unwrap()).await;
    let vkey = vkey(&world, &machine).await;
    let touched = |member: &str, value: Value| {
        let mut proof = proof.clone();
        *proof.pointer_mut(member).unwrap() = value;
        let read = AuditProof::parse(proof.to_string().as_bytes());
        read.map_err(|fault| fault.to_string())
            .and_then(|proof| verify(&proof, &vkey).map_err(|fault| fault.to_string()))
    };
    assert!(touched("/schema", "audit-proof/v1".into()).is_ok());
    for (member, value) in [
        ("/receipt_id", "019b76da-a800-7a67-8a14-94a3f41b0634".into()),
        ("/self", "0".repeat(64).into()),
        ("/chain/seq", 7.into()),
        ("/leaf_hash", "0".repeat(64).into()),
        ("/root_hash", "0".repeat(64).into()),
        ("/tree_size", 99.into()),
        ("/checkpoint", "nothing".into()),
    ] {
        assert!(touched(member, value).is_err(), "{member}");
    }
}
