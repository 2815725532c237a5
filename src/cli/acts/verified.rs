//! Compares the recorded acts with the log, without any request.

use std::collections::{BTreeMap, BTreeSet};

use app::acts::{act_scope, opened};
use domain::act::OperatorAct;
use domain::checkpoint::VerifierKey;
use domain::ids::EventId;
use domain::recorder::Recorder;
use domain::{Digest, Timestamp};
use proofs::proof::verify as verify_proof;
use serde::Serialize;
use statistics::log::Log;
use store::Store;
use store::act::RecordedAct;

use commands::failure::Failure;

/// Number of acts per page.
const PAGE: usize = 500;

/// Number of events of the log per page.
const EVENTS_AT_ONCE: u32 = 1_000;

/// The acts in comparison with the log.
#[derive(Debug, Default, Serialize)]
pub struct ActsVerified {
    /// Number of acts with a valid proof in the newest signed tree.
    pub proven: usize,
    /// Number of acts that are not in the signed tree yet.
    pub waiting: usize,
    /// Gaps between table and log, and changed events.
    pub faults: Vec<String>,
}

/// Verifies the proof of each act, and looks for acts in the log that the table does not have.
pub async fn compare(store: &Store, log: &Log) -> Result<ActsVerified, Failure> {
    let mut verified = ActsVerified::default();
    let installation = store.installation().await.map_err(Failure::caused)?;
    let Some(recorder) = installation.map(|installation| installation.id.recorder()) else { return Ok(verified) };
    // Read first: a server may record acts during the comparison.
    let leaves = log.leaves().await.map_err(Failure::caused)?;
    let mut known = BTreeSet::new();
    let mut before = None;
    loop {
        let page = store.acts(before, PAGE).await.map_err(Failure::caused)?;
        before = page.last().map(|act| act.id);
        known.extend(page.iter().map(|act| act.id));
        prove(&page, log, &recorder, &mut verified).await?;
        if page.len() < PAGE {
            break;
        }
    }
    for id in recorded(log, &recorder, leaves).await? {
        if !known.contains(&id) {
            verified.faults.push(format!("the log contains the act {id}, the table does not"));
        }
    }
    Ok(verified)
}

async fn prove(
    page: &[RecordedAct],
    log: &Log,
    recorder: &Recorder,
    verified: &mut ActsVerified,
) -> Result<(), Failure> {
    let mut seals: BTreeMap<EventId, (Digest, Option<Timestamp>)> = BTreeMap::new();
    for act in page {
        match opened(act) {
            Ok(sealed) => drop(seals.insert(act.id, (sealed.seal, act.sent_at))),
            Err(changed) => verified.faults.push(changed.to_string()),
        }
    }
    let scope = act_scope(recorder.clone());
    let ids: Vec<EventId> = seals.keys().copied().collect();
    let head = log.head().await.map_err(Failure::caused)?;
    let key: VerifierKey = head.vkey.parse().map_err(Failure::caused)?;
    for proof in log.included_proofs(&scope, &ids).await.map_err(Failure::caused)? {
        let Some((seal, _)) = seals.remove(&proof.event_id) else { continue };
        match verify_proof(&proof, &key) {
            Ok(proven) if proven.self_hash == seal => verified.proven += 1,
            Ok(_) => verified.faults.push(format!("the log has another event for the act {}", proof.event_id)),
            Err(fault) => {
                verified.faults.push(format!("the proof of the act {} does not hold: {fault}", proof.event_id));
            }
        }
    }
    for (id, (_, sent_at)) in seals {
        let is_recorded = || async { log.proof(&scope, id).await.map(|proof| proof.status.is_success()) };
        // An event without a place in the tree waits for the sequencer.
        if sent_at.is_none() || is_recorded().await.map_err(Failure::caused)? {
            verified.waiting += 1;
        } else {
            verified.faults.push(format!("the log does not contain the act {id}, which it accepted"));
        }
    }
    Ok(())
}

/// The acts in the first leaves of the log.
async fn recorded(log: &Log, recorder: &Recorder, until: u64) -> Result<Vec<EventId>, Failure> {
    let recorders = BTreeSet::from([recorder.clone()]);
    let mut from = 0;
    let mut found = Vec::new();
    while from < until {
        let events = log.events_between(&recorders, from, until, EVENTS_AT_ONCE).await.map_err(Failure::caused)?;
        let Some(last) = events.last() else { break };
        from = last.place + 1;
        found.extend(
            events.iter().filter(|event| event.event_type.starts_with(OperatorAct::PREFIX)).map(|event| event.event_id),
        );
    }
    Ok(found)
}
