//! The proof of an event from its server, and the key that is trusted there.

use std::time::Duration;

use domain::checkpoint::base_of;
use domain::ids::EventId;
use serde::Deserialize;
use tokio::time::Instant;

use super::{Arguments, Trust};
use crate::cli::remote::{Connection, failed};
use crate::cli::{Failure, terminal};

/// The proof of an event, as it came, once the log has the event.
pub async fn fetch(arguments: &Arguments, connection: &mut Connection, event: EventId) -> Result<Vec<u8>, Failure> {
    /// The log places events about every second.
    const PAUSE: Duration = Duration::from_millis(500);
    let client = connection.as_whom(arguments.whom).await?;
    let patience = Instant::now() + Duration::from_secs(arguments.wait);
    let spinner = terminal::spinner("waiting until the log has the event");
    let fetched = loop {
        let proof = match client.proof(event).await {
            Ok(proof) => proof,
            Err(error) if error.code() == Some("event_not_found") => {
                break Err(Failure::refused(format!(
                    "the server knows no event {event} that you may see\n  `attache activity` shows those that it does; one that is held has no proof"
                )));
            }
            Err(error) => break Err(failed(error)),
        };
        if !is_pending(&proof) {
            break Ok(proof.to_vec());
        }
        if Instant::now() >= patience {
            break Err(Failure::refused(format!(
                "the event is received, but the log does not have it yet after {} s: try again in a while",
                arguments.wait
            )));
        }
        tokio::time::sleep(PAUSE).await;
    };
    spinner.finish_and_clear();
    fetched
}

/// The key that proofs are held against when nobody names one: that in the profile, or the first that its server shows.
pub async fn trusted(connection: &Connection, may_ask: bool, proof: &[u8]) -> Result<(String, Trust), Failure> {
    connection.is_the_profiles()?;
    let named = named(proof);
    match (&connection.profile.log_key, named) {
        (Some(pinned), Some(named)) if is_another_epoch(pinned, &named) => Err(Failure::refused(format!(
            "the proof is of another epoch of the log than the one that was seen first\n  first  {pinned}\n  now    {named}\n  \
             An operator begins an epoch after the log was lost or an older backup was restored: what you saw before may be missing in it. \
             Ask the operator, by another way than this server, why and for the new key.\n  \
             Once you are sure: the same command with --vkey '{named}' --pin"
        ))),
        (Some(pinned), Some(named)) if *pinned != named => Err(Failure::refused(format!(
            "the proof names another key of the log than the one that was seen first\n  first  {pinned}\n  now    {named}\n  \
             Either the log has a new key, which its operator can tell you by another way, or somebody else answers in its place.\n  \
             Once you are sure: the same command with --vkey '{named}' --pin"
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
        _ => Err(Failure::refused(
            "no key of the log is known here that a proof could be held against: --vkey names the one that you trust",
        )),
    }
}

/// Whether both keys are of one log, under different origins.
fn is_another_epoch(pinned: &str, named: &str) -> bool {
    let origin = |vkey: &str| vkey.split('+').next().unwrap_or_default().to_owned();
    let (pinned, named) = (origin(pinned), origin(named));
    pinned != named && base_of(&pinned) == base_of(&named)
}

#[derive(Deserialize)]
struct Named {
    vkey: String,
}

fn named(proof: &[u8]) -> Option<String> {
    serde_json::from_slice::<Named>(proof).ok().map(|named| named.vkey)
}

#[derive(Deserialize)]
struct Status {
    status: String,
}

/// Whether it is a proof that is not complete yet. What is none at all is said to be none by whoever checks it.
fn is_pending(proof: &[u8]) -> bool {
    serde_json::from_slice::<Status>(proof).is_ok_and(|proof| proof.status == "pending")
}
