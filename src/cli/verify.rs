//! `attache verify`: checks an audit proof offline, against a key that the verifier trusts. Nothing is asked of any server.

use std::io::Read;
use std::path::PathBuf;

use chrono::DateTime;
use clap::Args;
use serde_json::json;
use statistics::checkpoint::VerifierKey;
use statistics::proof::{AuditProof, verify as verify_proof};

use super::{Done, Failure, output};
use domain::clock::date_time;

/// A proof and a key.
#[derive(Debug, Args)]
pub struct Arguments {
    /// File with the proof, as `GET /api/v1/audit/verify` gave it; `-` for standard input
    proof: PathBuf,
    /// The log's key that you trust, as `GET /api/v1/audit/keys` showed it when you pinned it
    #[arg(long)]
    vkey: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Checks it and says what it proves, or exactly what is wrong with it.
pub fn verify(arguments: &Arguments) -> Done {
    let unreadable = |error: std::io::Error| Failure::Refused(format!("{}: {error}", arguments.proof.display()));
    let text = if arguments.proof.as_os_str() == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(unreadable)?;
        text
    } else {
        std::fs::read(&arguments.proof).map_err(unreadable)?
    };
    let pinned: VerifierKey =
        arguments.vkey.parse().map_err(|error| Failure::Refused(format!("--vkey cannot be used: {error}")))?;
    let proof = AuditProof::parse(&text).map_err(Failure::refused)?;
    let verified = match verify_proof(&proof, &pinned) {
        Ok(verified) => verified,
        Err(fault) => {
            let bad = json!({ "valid": false, "member": fault.member(), "fault": fault.to_string() });
            if arguments.json {
                output::say(&format!("{bad:#}"));
            }
            return Err(Failure::Refused(format!("the proof does not hold: {fault}")));
        }
    };
    let received_at = DateTime::from_timestamp_millis(verified.received_at_ms).map(date_time);
    let good = json!({
        "valid": true,
        "event_id": verified.event_id,
        "receipt_id": verified.receipt_id,
        "machine_id": verified.machine_id,
        "agent_id": verified.agent_id,
        "chain_epoch": verified.position.chain_epoch,
        "seq": verified.position.seq,
        "prev": verified.position.prev,
        "self": verified.self_hash,
        "received_at": received_at,
        "leaf_index": verified.leaf_index,
        "tree_size": verified.checkpoint.size,
        "root_hash": verified.checkpoint.root,
    });
    output::show(arguments.json, &good, || {
        format!(
            "the proof holds\n  event    {}\n  receipt  {}\n  chain    {} of {}, epoch {}, seq {}\n  hash     {}\n  logged   {} as leaf {} of {}",
            verified.event_id,
            verified.receipt_id,
            verified.agent_id,
            verified.machine_id,
            verified.position.chain_epoch,
            verified.position.seq,
            verified.self_hash,
            received_at.as_deref().unwrap_or("-"),
            verified.leaf_index,
            verified.checkpoint.size,
        )
    });
    Ok(())
}
