//! `attache verify`: checks an audit proof against a key that the verifier trusts. A proof in a file is checked offline, and nothing is asked
//! of any server; the proof of an event that is named by its id is fetched first, and the
//! log has to continue what the profile has seen of it.

mod fetch;

use std::io::Read;
use std::path::{Path, PathBuf};

use chrono::DateTime;
use clap::Args;
use domain::clock::date_time;
use domain::ids::EventId;
use serde_json::json;
use statistics::checkpoint::{Checkpoint, VerifierKey};
use statistics::proof::{AuditProof, Verified, verify as verify_proof};

use super::remote::{Connection, CredentialArgs, Remote};
use super::witness::{NotObserved, compare_offline, observe_with};
use super::{Done, Failure, output};

/// A proof and a key.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  attache verify 019b76da-a800-7274-8acf-2e56e162ebd9 --out proof.json\n  attache verify proof.json --vkey attache/log+1a2b3c4d+Ad...\n\nThe proof of an event is also compared with the largest checkpoint that the profile has seen (log.json in its folder): exit code 3 says that \
                  the log was rolled back, forked or replaced since. `attache audit watch` watches for that."
)]
pub struct Arguments {
    /// File with the proof, as `GET /api/v1/audit/verify` gave it; `-` for standard input; or the id of an event, whose proof is fetched
    #[arg(value_name = "FILE|EVENT_ID")]
    proof: PathBuf,
    /// The log's key that you trust [default: the one in the profile, where the first that is seen is kept]
    #[arg(long)]
    vkey: Option<String>,
    /// Keep this key in the profile, in place of the one that is there
    #[arg(long, requires = "vkey")]
    pin: bool,
    /// Keep the proof that was fetched in a file, for those who check it offline
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How long to wait until the log has the event
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Where the key comes from that a proof is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The person says so.
    Given,
    /// It was kept when it was first seen.
    Pinned,
    /// It is seen for the first time.
    FirstSeen,
}

/// Checks it and says what it proves, or exactly what is wrong with it.
pub async fn verify(arguments: &Arguments) -> Done {
    let event = arguments.proof.to_str().and_then(|text| text.parse::<EventId>().ok());
    // A proof in a file needs no profile when the key is given.
    let mut connection = match (&arguments.vkey, event) {
        (Some(_), None) if !arguments.pin => None,
        _ => Some(arguments.remote.open()?),
    };
    let text = match (event, &mut connection) {
        (Some(event), Some(connection)) => fetch::fetch(arguments, connection, event).await?,
        _ => read(&arguments.proof)?,
    };
    // One that does not hold is worth keeping too.
    if let Some(out) = &arguments.out {
        std::fs::write(out, &text).map_err(|error| Failure::refused(format!("{}: {error}", out.display())))?;
    }
    let json = arguments.remote.json;
    let (key, trust) = match (&arguments.vkey, &connection) {
        (Some(given), _) => (given.clone(), Trust::Given),
        (None, Some(connection)) => fetch::trusted(connection, event.is_some(), &text).await?,
        (None, None) => return Err(Failure::refused("which key is trusted? --vkey says so")),
    };
    let pinned: VerifierKey =
        key.parse().map_err(|error| Failure::Refused(format!("--vkey cannot be used: {error}")))?;
    let proof = AuditProof::parse(&text).map_err(Failure::refused)?;
    let verified = match verify_proof(&proof, &pinned) {
        Ok(verified) => verified,
        Err(fault) => {
            let bad = json!({ "valid": false, "member": fault.member(), "fault": fault.to_string() });
            if json {
                output::say_json(&bad);
            }
            return Err(Failure::Refused(format!("the proof does not hold: {fault}")));
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
            output::say(&format!("{bad:#}"));
        }
        return Err(why.into());
    }
    let kept = keep_key(arguments, connection.as_mut(), event.is_some(), &key, trust)?;
    tell(json, &verified, trust, kept.as_deref());
    Ok(())
}

/// The log has to continue what the profile has seen of it. A proof in a file is compared offline.
async fn compare(
    connection: &Connection,
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

/// The key is kept once a proof holds against it; says so.
fn keep_key(
    arguments: &Arguments,
    connection: Option<&mut Connection>,
    was_asked: bool,
    key: &str,
    trust: Trust,
) -> Result<Option<String>, Failure> {
    let Some(connection) = connection.filter(|_| arguments.pin || trust == Trust::FirstSeen) else { return Ok(None) };
    if was_asked {
        connection.change(|profile| profile.log_key = Some(key.to_owned()))?;
    } else {
        connection.keep_log_key(key)?;
    }
    let why = if arguments.pin { "is kept" } else { "was seen for the first time and is kept" };
    Ok(Some(format!("{key} {why} in {}: later proofs are held against it", connection.folder.path().display())))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| Failure::Refused(format!("{}: {error}", path.display()));
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(unreadable)?;
        Ok(text)
    } else {
        std::fs::read(path).map_err(unreadable)
    }
}

fn tell(json: bool, verified: &Verified, trust: Trust, kept: Option<&str>) {
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
