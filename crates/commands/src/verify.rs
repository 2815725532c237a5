//! `attache verify`: verifies an audit proof against a trusted log key.
//!
//! A proof in a file is verified offline, without any request. The proof of an event id is fetched first, and the log has to be consistent
//! with the largest checkpoint that the profile has seen.

mod arguments;
mod fetch;
mod receipt;

use std::io::Read;
use std::path::Path;

use chrono::DateTime;
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::clock::date_time;
use domain::ids::EventId;
use proofs::audit_receipt::AuditReceipt;
use proofs::proof::{AuditProof, Verified, verify as verify_proof};
use serde_json::json;

use crate::connection::ProfileConnection;
use crate::failure::{Done, Failure};
use crate::output;
use crate::witness::{NotObserved, compare_offline, observe_with};

pub use self::arguments::Arguments;
use self::arguments::{Command, ProofArguments};
pub use self::fetch::{Trust, proof_in_tree, trusted};

/// Verifies a proof or a receipt.
pub async fn verify(arguments: &Arguments) -> Done {
    match &arguments.command {
        Some(Command::Receipt(receipt)) => receipt::verify(receipt),
        None => verify_one(&arguments.proof).await,
    }
}

/// Verifies the proof and prints its content, or the wrong member.
async fn verify_one(arguments: &ProofArguments) -> Done {
    // The parser requires it unless there is a subcommand.
    let source = arguments.proof.as_deref().unwrap_or(Path::new("-"));
    let event = source.to_str().and_then(|text| text.parse::<EventId>().ok());
    // A proof in a file needs no profile if the key is given.
    let mut connection = match (&arguments.vkey, event) {
        (Some(_), None) if !arguments.pin => None,
        _ => Some(arguments.remote.open()?),
    };
    let text = match (event, &mut connection) {
        (Some(event), Some(connection)) => fetch::fetch(arguments, connection, event).await?,
        _ => read(source)?,
    };
    // Written before it is verified: an invalid proof is evidence.
    if let Some(out) = &arguments.out {
        std::fs::write(out, &text).map_err(|error| Failure::refused(format!("{}: {error}", out.display())))?;
    }
    let json = arguments.remote.json;
    let (key, trust) = match (&arguments.vkey, &connection) {
        (Some(given), _) => (given.clone(), Trust::Given),
        (None, Some(connection)) => trusted(connection, event.is_some(), fetch::named(&text)).await?,
        (None, None) => return Err(Failure::refused("no trusted log key: pass one with --vkey")),
    };
    let pinned: VerifierKey = key.parse().map_err(|error| Failure::refused(format!("invalid --vkey: {error}")))?;
    let proof = AuditProof::parse(&text).map_err(|fault| match AuditReceipt::parse(&text) {
        Ok(_) => Failure::refused("the file is an audit receipt: pass it to `attache verify receipt`"),
        Err(_) => Failure::caused(fault),
    })?;
    let verified = match verify_proof(&proof, &pinned) {
        Ok(verified) => verified,
        Err(fault) => {
            let bad = json!({ "valid": false, "member": fault.member(), "fault": fault.to_string() });
            if json {
                output::print_json(&bad);
            }
            return Err(Failure::refused(format!("the proof does not hold: {fault}")));
        }
    };
    if event.is_some_and(|event| event != verified.event_id) {
        return Err(Failure::refused(format!("the proof holds, but for another event: {}", verified.event_id)));
    }
    if let Some(connection) = &connection
        && let Err(why) = compare(connection, event.is_some(), &pinned, &verified.checkpoint).await
    {
        if let (true, NotObserved::Violation(violation)) = (json, &why) {
            let bad = json!({ "valid": false, "member": "checkpoint", "fault": violation.to_string(), "log": violation.code() });
            output::print(&format!("{bad:#}"));
        }
        return Err(why.into());
    }
    let kept = keep_key(arguments, connection.as_mut(), event.is_some(), &key, trust)?;
    print_result(json, &verified, trust, kept.as_deref());
    Ok(())
}

/// Compares the checkpoint of the proof with the largest one that the profile has seen; offline for a proof in a file.
async fn compare(
    connection: &ProfileConnection,
    was_asked: bool,
    key: &VerifierKey,
    proven: &Checkpoint,
) -> Result<(), NotObserved> {
    if was_asked {
        observe_with(&connection.folder, &connection.client, key, proven).await.map(drop)
    } else {
        compare_offline(&connection.folder, key, proven)
    }
}

/// Pins the key after a successful verification, if it is new or `--pin` is given; returns a line for the output.
fn keep_key(
    arguments: &ProofArguments,
    connection: Option<&mut ProfileConnection>,
    was_asked: bool,
    key: &str,
    trust: Trust,
) -> Result<Option<String>, Failure> {
    let Some(connection) = connection.filter(|_| arguments.pin || trust == Trust::FirstSeen) else { return Ok(None) };
    if was_asked {
        connection.change(|profile| profile.pin(key.to_owned()))?;
    } else {
        connection.keep_log_key(key)?;
    }
    let why = if arguments.pin { "is pinned" } else { "was seen for the first time and is pinned" };
    Ok(Some(format!("{key} {why} in {}: later proofs are verified against it", connection.folder.path().display())))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| Failure::refused(format!("{}: {error}", path.display()));
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(unreadable)?;
        Ok(text)
    } else {
        std::fs::read(path).map_err(unreadable)
    }
}

fn print_result(json: bool, verified: &Verified, trust: Trust, kept: Option<&str>) {
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
        "key": match trust {
            Trust::Given => "given",
            Trust::Pinned => "pinned",
            Trust::FirstSeen => "first_seen",
        },
    });
    output::show(json, &good, || {
        let kept = kept.map(|kept| format!("\n  log key  {kept}")).unwrap_or_default();
        format!(
            "the proof holds\n  event    {}\n  receipt  {}\n  chain    {} of {}, epoch {}, seq {}\n  hash     {}\n  logged   {} as leaf {} of {}{kept}",
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
}
