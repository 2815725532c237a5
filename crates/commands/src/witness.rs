//! Stores the largest checkpoint of a server's log in `log.json` of the profile's folder, and compares later ones with it.

use std::fs::File;

use client::{Client, Error, Observation, Violation, Witness, WitnessError};
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::foreign::visible;

use crate::connection::failed;
use crate::failure::{Failure, FailureKind};
use crate::profile_folder::ProfileFolder;

const FILE: &str = "log.json";

/// Lock against other commands of the same profile.
const LOCK: &str = "log";

/// Why the log could not be confirmed as consistent.
#[derive(Debug)]
pub enum NotObserved {
    /// The log was rolled back, forked or replaced.
    Violation(Violation),
    /// The request failed.
    Asking(Error),
    /// The profile cannot be read or written.
    Local(Failure),
}

impl From<WitnessError> for NotObserved {
    fn from(error: WitnessError) -> Self {
        match error {
            WitnessError::Violation(violation) => Self::Violation(violation),
            WitnessError::Asking(error) => Self::Asking(error),
            error @ WitnessError::Memory { .. } => {
                Self::Local(Failure::refused(format!("{error}: {FILE} in the profile's folder was modified")))
            }
        }
    }
}

impl From<Failure> for NotObserved {
    fn from(failure: Failure) -> Self {
        Self::Local(failure)
    }
}

impl From<NotObserved> for Failure {
    fn from(why: NotObserved) -> Self {
        match why {
            NotObserved::Violation(violation) => Self::of(FailureKind::LogViolated, alarm(&violation)),
            NotObserved::Asking(error) => {
                let failure = failed(error);
                let reason = format!("cannot compare the log with the stored checkpoint: {}", failure.reason());
                failure.with_reason(reason)
            }
            NotObserved::Local(failure) => failure,
        }
    }
}

/// Requests the newest checkpoint, checks that it is consistent with the stored one, and stores it.
pub async fn observe(folder: &ProfileFolder, client: &Client, key: &VerifierKey) -> Result<Observation, NotObserved> {
    let (_others_wait, mut witness) = open(folder)?;
    let observed = client.observe(&mut witness, key).await?;
    if observed.seen.as_ref() != Some(&observed.checkpoint) {
        folder.write_json(FILE, &witness)?;
    }
    Ok(observed)
}

/// Like [`observe`]; also checks that the newest checkpoint is consistent with the one in a proof that the server has just returned.
pub async fn observe_with(
    folder: &ProfileFolder,
    client: &Client,
    key: &VerifierKey,
    proven: &Checkpoint,
) -> Result<Observation, NotObserved> {
    let observed = observe(folder, client, key).await?;
    client.prove_growth(proven, &observed.checkpoint).await?;
    Ok(observed)
}

/// Compares the checkpoint of a proof in a file with the stored one. Offline, only trees of the same size can be compared: they must have
/// the same root.
pub fn compare_offline(folder: &ProfileFolder, key: &VerifierKey, proven: &Checkpoint) -> Result<(), NotObserved> {
    let witness: Witness = folder.json(FILE)?.unwrap_or_default();
    match witness.seen(key)? {
        Some(seen) if seen.size == proven.size && seen.root != proven.root => {
            let (origin, now) = (seen.origin.clone(), proven.size);
            Err(NotObserved::Violation(Violation::Forked { origin, seen: Box::new(seen), now }))
        }
        _ => Ok(()),
    }
}

/// Deletes the stored checkpoint; returns whether there was one.
pub fn forget(folder: &ProfileFolder) -> Result<bool, Failure> {
    let _others_wait = folder.lock(LOCK)?;
    let mut witness: Witness = folder.json(FILE)?.unwrap_or_default();
    let was_known = witness.forget();
    folder.forget(FILE)?;
    Ok(was_known)
}

fn open(folder: &ProfileFolder) -> Result<(File, Witness), Failure> {
    let lock = folder.lock(LOCK)?;
    Ok((lock, folder.json(FILE)?.unwrap_or_default()))
}

/// The error message for a violation, with advice.
fn alarm(violation: &Violation) -> String {
    let fault = visible(&violation.to_string());
    let advice = match violation {
        Violation::NewEpoch { .. } => {
            "The operator began a new log, or another party answers in the server's place. Ask the operator for the reason and the new key, not \
             through this server.\n  \
             If you trust the new key: `attache audit watch --vkey KEY --pin`"
        }
        Violation::OtherKey { .. } => {
            "Another party may answer in the server's place. Ask the operator, not through this server.\n  \
             If you trust another key: `attache audit watch --vkey KEY --pin`"
        }
        Violation::RolledBack { .. } | Violation::Forked { .. } | Violation::Unproven { .. } => {
            "Acknowledged events are missing or were replaced: do not rely on the data of this server.\n  \
             Keep log.json of the profile's folder and every proof that you have as evidence. Ask the operator, not through this server.\n  \
             An operator who restored an older backup begins a new epoch of the log: `attache admin log epoch`. After the reason is \
             known: `attache audit forget`"
        }
    };
    format!("THE LOG IS NOT CONSISTENT WITH THE ONE SEEN BEFORE\n  {fault}\n  {advice}")
}
