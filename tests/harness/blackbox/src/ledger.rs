//! Compares the events that a server shows with the events of the oracle.

use std::collections::{BTreeMap, BTreeSet};

use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::{Digest, Rng};
use proofs::merkle::verify_consistency;
use proofs::proof::{AuditProof, verify};
use serde_json::Value;

use crate::client::{Client, Credential};
use crate::eventually;
use crate::oracle::{Oracle, Sent};
use crate::process::Home;
use crate::sender::Traffic;

/// A witness of the embedded log: it pins the key, stores each checkpoint and verifies that later ones contain it.
pub struct Witness {
    vkey: VerifierKey,
    seen: Vec<Checkpoint>,
}

impl Witness {
    /// Pins the published key.
    pub async fn pin(client: &Client, url: &str) -> Self {
        Self { vkey: published_key(client, url).await, seen: Vec::new() }
    }

    /// Fetches the newest checkpoint; asserts that the pinned key signed it and that it is consistent with the last one and the first one.
    /// Each was proven to continue the one before it, so a proof from every earlier one would show nothing more, and a soak that asks for
    /// all of them spends most of its time on that.
    pub async fn look(&mut self, client: &Client, url: &str) {
        assert_eq!(published_key(client, url).await.to_string(), self.vkey.to_string());
        let note = client.get(&format!("{url}/api/v1/audit/checkpoint"), Credential::None).await;
        if note.status == 404 {
            assert!(self.seen.is_empty(), "a checkpoint has disappeared");
            return;
        }
        assert_eq!(note.status, 200, "{note:?}");
        let newest = self.vkey.open(std::str::from_utf8(&note.body).unwrap()).unwrap();
        for older in self.seen.last().into_iter().chain(self.seen.first()) {
            assert!(older.size <= newest.size, "the tree shrank from {} to {} leaves", older.size, newest.size);
            if older.size == newest.size {
                assert_eq!(older.root, newest.root);
            } else if older.size > 0 {
                let query = format!("{url}/api/v1/audit/consistency?from={}&to={}", older.size, newest.size);
                let proof = client.get(&query, Credential::None).await.expect(200);
                let path: Vec<Digest> = serde_json::from_value(proof["proof"].clone()).unwrap();
                verify_consistency(older.size, newest.size, &older.root, &newest.root, &path).unwrap();
            }
        }
        if self.seen.last().is_none_or(|last| last.size < newest.size) {
            self.seen.push(newest);
        }
    }

    /// Number of different checkpoints so far.
    pub fn seen(&self) -> usize {
        self.seen.len()
    }
}

async fn published_key(client: &Client, url: &str) -> VerifierKey {
    let keys = client.get(&format!("{url}/api/v1/audit/keys"), Credential::None).await.expect(200);
    keys["keys"][0]["vkey"].as_str().unwrap().parse().unwrap()
}

/// P1 to P3 against the embedded log: each event with a receipt is in activity exactly once, with that receipt; no other event is
/// there; chains have no gaps. Returns the number of events.
pub async fn compare_activity(traffic: &Traffic) -> usize {
    let url = traffic.url.borrow().clone();
    let sent = traffic.oracle.all();
    let mut receipts = BTreeMap::new();
    let mut chains: BTreeMap<(String, String, u64), BTreeSet<u64>> = BTreeMap::new();
    for machine in &traffic.machines {
        let mut query = "?limit=500".to_owned();
        loop {
            let page = traffic.client.get(&format!("{url}/api/v1/activity{query}"), machine).await.expect(200);
            for event in page["events"].as_array().unwrap() {
                let text = |name: &str| event[name].as_str().unwrap().to_owned();
                let id = text("event_id");
                assert!(sent.contains_key(&id), "{id} was never sent");
                assert_eq!(receipts.insert(id.clone(), text("receipt_id")), None, "{id} is listed twice");
                let chain = (text("machine_uuid"), text("agent_id"), event["chain_epoch"].as_u64().unwrap());
                let seq = event["seq"].as_u64().unwrap();
                assert!(chains.entry(chain).or_default().insert(seq), "two events at one position: {event}");
            }
            match page["next_cursor"].as_str() {
                Some(cursor) => query = format!("?limit=500&cursor={cursor}"),
                None => break,
            }
        }
    }
    for (id, event) in &sent {
        if let Some(receipt) = &event.receipt {
            assert_eq!(receipts.get(id), Some(receipt), "{id} was answered 202 with that receipt");
        } else if event.held {
            assert_eq!(receipts.get(id), None, "{id} is held");
        }
    }
    for (chain, positions) in chains {
        let dense = positions.iter().copied().eq(0..positions.len() as u64);
        assert!(dense, "{chain:?} has gaps: {positions:?}");
    }
    receipts.len()
}

/// Asserts that each held event that was not forwarded later is listed once, and no event with a receipt. Returns their number.
pub fn compare_held(oracle: &Oracle, home: &Home) -> usize {
    let listed = home.run(&["admin", "held", "list", "--json", "--limit", "1000000"]).json();
    let mut waiting = BTreeSet::new();
    for entry in listed.as_array().unwrap() {
        assert_eq!(entry["state"], "held");
        let id = entry["event_id"].as_str().unwrap().to_owned();
        assert!(waiting.insert(id), "held twice: {entry}");
    }
    for (id, event) in oracle.all() {
        match event {
            Sent { receipt: Some(_), .. } => {
                assert!(!waiting.contains(&id), "{id} has a receipt and is still held");
            }
            Sent { held: true, .. } => assert!(waiting.contains(&id), "{id} was answered 202 held, and is lost"),
            Sent { .. } => {}
        }
    }
    waiting.len()
}

/// Verifies the proofs of at most `sample` of the events with receipts under the pinned key, and their links along the chains.
pub async fn compare_proofs(traffic: &Traffic, witness: &Witness, sample: usize, rng: &Rng) {
    let url = traffic.url.borrow().clone();
    let mut taken: Vec<(String, Sent)> =
        traffic.oracle.all().into_iter().filter(|(_, event)| event.receipt.is_some()).collect();
    while taken.len() > sample {
        taken.swap_remove(usize::try_from(rng.below(taken.len() as u64)).unwrap());
    }
    let mut seals = BTreeMap::new();
    let mut links = Vec::new();
    for (id, event) in taken {
        let path = format!("{url}/api/v1/audit/verify?event_id={id}");
        let machine = &traffic.machines[event.machine];
        let proof = eventually("the event is in the tree", async || {
            let proof: Value = traffic.client.get(&path, machine).await.expect(200);
            (proof["status"] == "included").then_some(proof)
        })
        .await;
        let proof = AuditProof::parse(proof.to_string().as_bytes()).unwrap();
        let verified = verify(&proof, &witness.vkey).unwrap_or_else(|fault| panic!("{id}: {fault}"));
        assert_eq!(Some(verified.receipt_id.to_string()), event.receipt);
        assert_eq!(verified.self_hash.to_string(), event.seal);
        let chain = (verified.machine_id, verified.agent_id, verified.position.chain_epoch);
        seals.insert((chain.clone(), verified.position.seq), event.seal);
        links.push((chain, verified.position.seq, serde_json::to_value(verified.position.prev).unwrap()));
    }
    for (chain, seq, prev) in links {
        let before = seq.checked_sub(1).map(|before| seals.get(&(chain.clone(), before)));
        match before {
            None => assert_eq!(prev, "GENESIS"),
            Some(Some(seal)) => assert_eq!(prev, **seal, "{chain:?} at {seq}"),
            // Not in the sample, or its sender lost it.
            Some(None) => {}
        }
    }
}

/// P1 to P3 against the external service: it accepted each event with a receipt, with the same receipt and bytes, and no other.
/// Returns the number of events.
pub fn compare_upstream(traffic: &Traffic) -> usize {
    let taken = traffic.upstream.as_ref().unwrap().taken();
    let sent = traffic.oracle.all();
    for (id, event) in &taken {
        assert_eq!(sent.get(id).map(|sent| &sent.body), Some(&event.body), "{id} has other bytes than were sent");
    }
    for (id, event) in &sent {
        assert_eq!(taken.get(id).map(|taken| &taken.receipt_id), event.receipt.as_ref(), "{id}");
    }
    taken.len()
}
