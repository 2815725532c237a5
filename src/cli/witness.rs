//! What a profile remembers of its server's log: the largest checkpoint that was seen, in `log.json` in the profile's folder.

use std::fs::File;

use client::{Client, Error, Observed, Violation, Witness, WitnessError};
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::foreign::visible;

use super::Failure;
use super::profile::Folder;
use super::remote::failed;

const FILE: &str = "log.json";

/// Other commands of the profile wait for it meanwhile.
const LOCK: &str = "log";

/// Why nothing was observed.
#[derive(Debug)]
pub enum NotObserved {
    /// The log was rolled back, forked or replaced.
    Violation(Violation),
    /// The server did not answer.
    Asking(Error),
    /// The profile cannot be read or written.
    Here(Failure),
}

impl From<WitnessError> for NotObserved {
    fn from(error: WitnessError) -> Self {
        match error {
            WitnessError::Violation(violation) => Self::Violation(violation),
            WitnessError::Asking(error) => Self::Asking(error),
            error @ WitnessError::Memory { .. } => {
                Self::Here(Failure::refused(format!("{error}: somebody changed {FILE} in the profile's folder")))
            }
        }
    }
}

impl From<Failure> for NotObserved {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

impl From<NotObserved> for Failure {
    fn from(why: NotObserved) -> Self {
        match why {
            NotObserved::Violation(violation) => Self::LogViolated(alarm(&violation)),
            NotObserved::Asking(error) => match failed(error) {
                Self::Refused(reason) => {
                    Self::Refused(format!("the log could not be compared with what was seen of it before: {reason}"))
                }
                failure => failure,
            },
            NotObserved::Here(failure) => failure,
        }
    }
}

/// Asks for the newest checkpoint, demands that it continues the remembered one, and remembers it.
pub async fn observe(folder: &Folder, client: &Client, key: &VerifierKey) -> Result<Observed, NotObserved> {
    let (_others_wait, mut witness) = open(folder)?;
    let observed = client.observe(&mut witness, key).await?;
    if observed.seen.as_ref() != Some(&observed.checkpoint) {
        folder.keep_json(FILE, &witness)?;
    }
    Ok(observed)
}

/// The same, and the checkpoint of a proof that the server gave a moment ago has to be a beginning of the newest.
pub async fn observe_with(
    folder: &Folder,
    client: &Client,
    key: &VerifierKey,
    proven: &Checkpoint,
) -> Result<Observed, NotObserved> {
    let observed = observe(folder, client, key).await?;
    client.prove_growth(proven, &observed.checkpoint).await?;
    Ok(observed)
}

/// Compares the checkpoint of a proof in a file with what is remembered, as far as that is possible offline: two trees of one size have one
/// root.
pub fn compare_offline(folder: &Folder, key: &VerifierKey, proven: &Checkpoint) -> Result<(), NotObserved> {
    let witness: Witness = folder.json(FILE)?.unwrap_or_default();
    match witness.seen(key)? {
        Some(seen) if seen.size == proven.size && seen.root != proven.root => {
            let (origin, now) = (seen.origin.clone(), proven.size);
            Err(NotObserved::Violation(Violation::Forked { origin, seen: Box::new(seen), now }))
        }
        _ => Ok(()),
    }
}

/// Forgets what was seen; returns whether there was something.
pub fn forget(folder: &Folder) -> Result<bool, Failure> {
    let _others_wait = folder.lock(LOCK)?;
    let mut witness: Witness = folder.json(FILE)?.unwrap_or_default();
    let was_known = witness.forget();
    folder.forget(FILE)?;
    Ok(was_known)
}

fn open(folder: &Folder) -> Result<(File, Witness), Failure> {
    let lock = folder.lock(LOCK)?;
    Ok((lock, folder.json(FILE)?.unwrap_or_default()))
}

/// What a person is told, who has to act.
fn alarm(violation: &Violation) -> String {
    let fault = visible(&violation.to_string());
    let advice = match violation {
        Violation::NewEpoch { .. } => {
            "The operator began a new log, or somebody else answers in the server's place. Ask the operator, by another way than this \
             server, why, and for the new key.\n  \
             Once you are sure: `attache audit watch --vkey KEY --pin`"
        }
        Violation::OtherKey { .. } => {
            "Somebody else may answer in the server's place. Ask the operator, by another way than this server.\n  \
             Once you are sure of another key: `attache audit watch --vkey KEY --pin`"
        }
        Violation::RolledBack { .. } | Violation::Forked { .. } | Violation::Unproven { .. } => {
            "Events that it had acknowledged are missing now, or were replaced: do not rely on what this server shows.\n  \
             Keep log.json of the profile's folder and every proof that you have: they are the evidence. Ask the operator, by another \
             way than this server.\n  \
             An operator who restored an older backup begins a new epoch of the log: `attache serve --new-log`. Only once the reason is \
             known: `attache audit forget`"
        }
    };
    format!("THE LOG IS NOT THE ONE THAT WAS SEEN BEFORE\n  {fault}\n  {advice}")
}
