//! Fetches the proof of an event, and determines the trusted log key.

use std::time::Duration;

use bytes::Bytes;
use client::Client;
use domain::ids::EventId;
use serde::Deserialize;
use tokio::time::Instant;

use super::arguments::ProofArguments;
use crate::connection::{ProfileConnection, failed};
use crate::failure::Failure;
use crate::profile_folder::are_of_one_log;
use crate::terminal;

/// Source of the trusted key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Given with `--vkey`.
    Given,
    /// Pinned in the profile.
    Pinned,
    /// Published by the server and not pinned before.
    FirstSeen,
}

/// The bytes of the event's proof, once the event is in the signed tree.
pub async fn fetch(
    arguments: &ProofArguments,
    connection: &mut ProfileConnection,
    event: EventId,
) -> Result<Vec<u8>, Failure> {
    let client = connection.as_whom(arguments.whom).await?;
    let deadline = Instant::now() + Duration::from_secs(arguments.wait);
    let spinner = terminal::spinner("waiting until the event is in the signed tree");
    let proof = proof_in_tree(&client, event, deadline).await;
    spinner.finish_and_clear();
    match proof {
        Ok(Some(proof)) => Ok(proof.to_vec()),
        Ok(None) => Err(Failure::refused(format!(
            "the event was accepted, but is not in the signed tree after {} s: try again later",
            arguments.wait
        ))),
        Err(error) if error.code() == Some("event_not_found") => Err(Failure::not_found(format!(
            "no event {event} that this credential can see\n  `attache activity` lists the events; a held event has no proof"
        ))),
        Err(error) => Err(failed(error)),
    }
}

/// The bytes of a proof, once a checkpoint covers the event; `None` if none does at the deadline.
pub async fn proof_in_tree(client: &Client, event: EventId, deadline: Instant) -> Result<Option<Bytes>, client::Error> {
    /// Pause between two requests; the log signs about every second.
    const PAUSE: Duration = Duration::from_millis(500);
    loop {
        let proof = client.proof(event).await?;
        if !is_pending(&proof) {
            return Ok(Some(proof));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The log key without `--vkey`: the one pinned in the profile, or on first use the one that the server publishes.
pub async fn trusted(
    connection: &ProfileConnection,
    may_ask: bool,
    named: Option<String>,
) -> Result<(String, Trust), Failure> {
    connection.check_server()?;
    match (connection.profile.pinned(named.as_deref()), named) {
        (Some(pinned), Some(named)) if is_another_epoch(pinned, &named) => Err(Failure::refused(format!(
            "the proof belongs to another epoch of the log than the pinned key\n  pinned  {pinned}\n  proof   {named}\n  \
             An operator begins an epoch after the log was lost or an older backup was restored; events that you saw before may be missing. \
             Ask the operator for the reason and the new key, not through this server.\n  \
             If you trust the new key, repeat the command with --vkey '{named}' --pin"
        ))),
        (Some(pinned), Some(named)) if !are_of_one_log(pinned, &named) => Err(Failure::refused(format!(
            "the proof belongs to a log, or a part of one, whose key is not pinned\n  pinned  {pinned}\n  proof   {named}\n  \
             A log on several database servers has a key for each. Ask the operator for the key, not through this server.\n  \
             If you trust it, repeat the command with --vkey '{named}' --pin"
        ))),
        (Some(pinned), Some(named)) if *pinned != named => Err(Failure::refused(format!(
            "the proof names another key of the log than the pinned one\n  pinned  {pinned}\n  proof   {named}\n  \
             Either the log has a new key, or another party answers in its place. Ask the operator, not through this server.\n  \
             If you trust the new key, repeat the command with --vkey '{named}' --pin"
        ))),
        (Some(pinned), _) => Ok((pinned.clone(), Trust::Pinned)),
        (None, Some(named)) if may_ask => {
            let published = connection.client.log_keys().await.map_err(failed)?;
            if published.keys.iter().any(|key| key.vkey == named) {
                Ok((named, Trust::FirstSeen))
            } else {
                Err(Failure::refused(format!("the proof names a key that the log does not publish: {named}")))
            }
        }
        _ => Err(Failure::refused("no trusted log key in this profile: pass one with --vkey")),
    }
}

/// Whether both keys belong to the same log, in different epochs.
fn is_another_epoch(pinned: &str, named: &str) -> bool {
    pinned.split('+').next() != named.split('+').next() && are_of_one_log(pinned, named)
}

#[derive(Deserialize)]
struct Named {
    vkey: String,
}

/// The key that a proof or a receipt names.
pub fn named(proof: &[u8]) -> Option<String> {
    serde_json::from_slice::<Named>(proof).ok().map(|named| named.vkey)
}

#[derive(Deserialize)]
struct Status {
    status: String,
}

/// Whether the response is a proof that is not complete yet. Malformed responses are reported by the verification.
fn is_pending(proof: &[u8]) -> bool {
    serde_json::from_slice::<Status>(proof).is_ok_and(|proof| proof.status == "pending")
}
