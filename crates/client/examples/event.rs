//! A computer registers, records two events of one hash chain, and verifies the proof of the second one with the log's key.
//!
//! ```sh
//! cargo run --example event -- http://127.0.0.1:8080
//! ```

use std::error::Error;
use std::time::Duration;

use client::{Client, Credential, Settings};
use domain::chain::{Position, Prev};
use domain::checkpoint::VerifierKey;
use domain::envelope::{EncodedEvent, seal};
use domain::ids::EventId;
use domain::{Clock, Rng};
use proofs::proof::{AuditProof, ProofStatus, verify};
use serde_json::{Value, json};
use wire::device::{MachineRequest, MachineResult};
use wire::events::SubmitResult;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: event URL")?;
    let (clock, rng) = (Clock::system(), Rng::system());
    let attache = Client::new(&Settings::of(url))?;

    let registration =
        MachineRequest { user_cuid: rng.cuid2().parse()?, machine_uuid: rng.uuid_v7(clock.now()).into(), name: None };
    let machine = attache.machine_register(&registration).await?;
    let computer = attache.with(Credential::Bearer(machine.machine_secret.clone()));

    let first = sealed(&machine, rng.uuid_v7(clock.now()).into(), &clock, &Position::genesis(0))?;
    // The second event links to the seal of the first.
    let next = Position { chain_epoch: 0, seq: 1, prev: Prev::Event(first.seal) };
    let event_id: EventId = rng.uuid_v7(clock.now()).into();
    let second = sealed(&machine, event_id, &clock, &next)?;
    for event in [first, second] {
        match computer.event_submit(event.body).await? {
            SubmitResult::Forwarded { receipt_id } => println!("recorded with receipt {receipt_id}"),
            SubmitResult::Held { warning, .. } => return Err(format!("held: {warning}").into()),
        }
    }

    let proof = loop {
        let proof = AuditProof::parse(&computer.proof(event_id).await?)?;
        if proof.status == ProofStatus::Included {
            break proof;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    // A verifier pins the key once, from a source that it trusts; this example takes the server's.
    let keys = computer.log_keys().await?.keys;
    let key = keys.iter().find(|key| key.vkey == proof.vkey).ok_or("the log does not publish the key of the proof")?;
    let verified = verify(&proof, &key.vkey.parse::<VerifierKey>()?)?;
    println!("event {} is in the tree of {} leaves", verified.event_id, verified.checkpoint.size);
    Ok(())
}

/// The bytes of an event at a position of its chain.
fn sealed(
    machine: &MachineResult,
    event_id: EventId,
    clock: &Clock,
    position: &Position,
) -> Result<EncodedEvent, Box<dyn Error>> {
    let envelope = json!({
        "schema_version": "v1",
        "event_id": event_id,
        "event_type": "memory.stored",
        "lane": "memory",
        "ts_edge_ms": clock.now().timestamp_millis(),
        "consent_level": "full",
        "redacted": false,
        "scope": { "user_id": machine.user_cuid, "machine_id": machine.machine_uuid, "agent_id": "svc-cli" },
        "payload": { "memory_id": "m1", "content": "a lesson learned" },
    });
    let Value::Object(members) = envelope else { return Err("an envelope is an object".into()) };
    Ok(seal(members, position))
}
