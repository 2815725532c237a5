//! `attache verify` with only a proof and a pinned key: it runs in an empty folder, without a server and data.

use domain::Rng;
use domain::checkpoint::SignerKey;
use serde_json::Value;

use blackbox::flow;
use blackbox::process::{Done, Home};
use harness::event::Chain;

/// Proofs of two events of one chain, and the key to pin.
async fn proofs() -> ([Value; 2], String) {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    let mut proofs = Vec::new();
    for _ in 0..2 {
        let event = chain.next();
        flow::event(&server, &machine, &event).await.receipt();
        proofs.push(flow::proof(&server, &machine, event["event_id"].as_str().unwrap()).await);
    }
    (proofs.try_into().unwrap(), flow::vkey(&server).await)
}

fn verify(proof: &Value, vkey: &str) -> Done {
    let home = Home::new();
    let path = home.dir.path().join("proof.json");
    std::fs::write(&path, proof.to_string()).unwrap();
    home.run(&["verify", path.to_str().unwrap(), "--vkey", vkey])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_proof_is_reported_with_its_content() {
    let (proofs, vkey) = proofs().await;
    for proof in &proofs {
        let output = verify(proof, &vkey);
        let said = output.said();
        for member in ["event_id", "receipt_id", "self"] {
            assert!(said.contains(proof[member].as_str().unwrap()), "{said}");
        }
        let home = Home::new();
        let output = home.run_with_input(&["verify", "-", "--vkey", &vkey, "--json"], proof.to_string().as_bytes());
        let value = output.json();
        assert_eq!(value["valid"], true);
        for member in ["event_id", "receipt_id", "self", "leaf_index", "root_hash"] {
            assert_eq!(value[member], proof[member], "{member}");
        }
        assert_eq!(value["seq"], proof["chain"]["seq"]);
        assert!(!home.data().exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_that_was_touched_names_the_member() {
    let ([first, second], vkey) = proofs().await;
    // Each member on its own, with the value of the other proof or another value of the same form.
    let other = "019b76da-a800-7a67-8a14-94a3f41b0634";
    let cases: [(&str, Value, &str); 20] = [
        ("/schema", "audit-proof/v2".into(), "schema"),
        ("/status", "pending".into(), "status"),
        ("/status", "maybe".into(), "status"),
        ("/event_id", first["event_id"].clone(), "event_id"),
        ("/receipt_id", other.into(), "leaf_b64"),
        ("/hash_alg", "md5".into(), "hash_alg"),
        ("/canonical_b64", first["canonical_b64"].clone(), "self"),
        ("/canonical_b64", "!".into(), "canonical_b64"),
        ("/self", first["self"].clone(), "self"),
        ("/chain/machine_id", other.into(), "chain.machine_id"),
        ("/chain/agent_id", "codex".into(), "chain.agent_id"),
        ("/chain/seq", 0.into(), "chain.seq"),
        ("/chain/prev", "GENESIS".into(), "chain.prev"),
        ("/chain/prev_event_id", Value::Null, "chain.prev_event_id"),
        ("/leaf_b64", first["leaf_b64"].clone(), "leaf_b64"),
        ("/leaf_hash", first["leaf_hash"].clone(), "leaf_hash"),
        ("/tree_size", 99.into(), "tree_size"),
        ("/root_hash", "0".repeat(64).into(), "root_hash"),
        ("/checkpoint", "nothing\n".into(), "checkpoint"),
        ("/vkey", "attache/log+00000000+AA==".into(), "vkey"),
    ];
    assert_eq!(verify(&second, &vkey).code, Some(0));
    for (pointer, value, member) in cases {
        let mut touched = second.clone();
        *touched.pointer_mut(pointer).unwrap() = value;
        let output = verify(&touched, &vkey);
        output.refused(1, &[&format!("{member}: ")]);
        assert_eq!(output.stdout, "", "{pointer}");
    }
    let mut touched = second.clone();
    touched.as_object_mut().unwrap().remove("leaf_hash");
    verify(&touched, &vkey).refused(1, &["leaf_hash"]);
    touched = second.clone();
    touched["inclusion_path"].as_array_mut().unwrap().push("0".repeat(64).into());
    verify(&touched, &vkey).refused(1, &["inclusion_path: "]);

    let mut touched = second.clone();
    touched["self"] = first["self"].clone();
    let home = Home::new();
    let output = home.run_with_input(&["verify", "-", "--vkey", &vkey, "--json"], touched.to_string().as_bytes());
    output.refused(1, &["the proof does not hold: self: "]);
    let said: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&said["valid"], &said["member"]), (&false.into(), &"self".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_the_logs_shows_nothing() {
    let ([proof, _], vkey) = proofs().await;
    let stranger = SignerKey::draw("attache/log", &Rng::system()).unwrap().verifier().to_string();
    verify(&proof, &stranger).refused(1, &["vkey: "]);
    // A forger would also write another key into the proof; the signature shows it.
    let mut forged = proof.clone();
    forged["vkey"] = stranger.clone().into();
    verify(&forged, &stranger).refused(1, &["checkpoint: "]);
    for wrong in ["", "attache/log", &vkey.replace('+', "-"), &vkey[..vkey.len() - 8]] {
        verify(&proof, wrong).refused(1, &["invalid --vkey"]);
    }
}

#[test]
fn a_file_that_is_no_proof_is_refused() {
    let home = Home::new();
    let vkey = SignerKey::draw("attache/log", &Rng::system()).unwrap().verifier().to_string();
    home.run(&["verify", "nowhere.json", "--vkey", &vkey]).refused(1, &["nowhere.json: "]);
    for text in [&b""[..], b"{}", b"[]", b"null", b"\xff\xfe", b"{\"schema\":\"audit-proof/v1\"} x"] {
        home.run_with_input(&["verify", "-", "--vkey", &vkey], text).refused(1, &["attache: "]);
    }
}
