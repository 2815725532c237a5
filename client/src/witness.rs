//! Detects that a log was rolled back, forked or replaced: a witness remembers the largest checkpoint that it has seen, and the next one
//! must continue it (RFC 9162, section 2.1.4).
//!
//! 1. The newest checkpoint is requested after the remembered one was read, so an honest log is never behind it.
//! 2. The checkpoint must be signed by the key that the client trusts.
//! 3. A smaller tree means a rollback. A larger one must begin with the remembered tree, which `/api/v1/audit/consistency` proves.
//!
//! The checks do not trust the server: growth without a valid proof is rejected.

use std::collections::BTreeMap;

use domain::checkpoint::{Checkpoint, VerifierKey, base_of};
use domain::merkle::verify_consistency;
use serde::{Deserialize, Serialize};

use crate::{Client, Error};

/// The largest checkpoint seen of each log. It is a value: programs that live longer than a process store it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Signed notes, keyed by the verifier key, which begins with the log's origin.
    #[serde(default)]
    logs: BTreeMap<String, String>,
}

/// The result of an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The newest checkpoint. It continues the remembered one.
    pub checkpoint: Checkpoint,
    /// The remembered checkpoint; `None` for a log that is seen for the first time.
    pub seen: Option<Checkpoint>,
    /// The largest checkpoint of an earlier epoch, if this epoch is seen for the first time.
    pub earlier_epoch: Option<Checkpoint>,
}

/// A break of the log's promise to be append-only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The tree is smaller than one that the log had signed.
    #[error("{origin} was rolled back: it had signed {} events, and shows {now} now", .seen.size)]
    RolledBack {
        /// Origin of the log.
        origin: String,
        /// The remembered checkpoint.
        seen: Box<Checkpoint>,
        /// Size of the tree in the new checkpoint.
        now: u64,
    },
    /// The tree does not begin with the one that the log had signed.
    #[error("{origin} was forked: its first {} events are not those that it had signed", .seen.size)]
    Forked {
        /// Origin of the log.
        origin: String,
        /// The remembered checkpoint.
        seen: Box<Checkpoint>,
        /// Size of the tree in the new checkpoint.
        now: u64,
    },
    /// The server refused to prove that the tree only grew.
    #[error("{origin} does not prove that its {now} events begin with the {} that it had signed", .seen.size)]
    Unproven {
        /// Origin of the log.
        origin: String,
        /// The remembered checkpoint.
        seen: Box<Checkpoint>,
        /// Size of the tree in the new checkpoint.
        now: u64,
    },
    /// The checkpoint is of a later epoch of the log, under a key that the client does not trust yet.
    #[error("{origin} has ended: the server shows a checkpoint of {now}, which says that a new epoch of the log began")]
    NewEpoch {
        /// Origin of the log.
        origin: String,
        /// Origin in the new checkpoint.
        now: String,
    },
    /// The checkpoint is not signed by the key.
    #[error("the checkpoint that the server shows is not signed by the key of {origin}")]
    OtherKey {
        /// Origin of the log.
        origin: String,
    },
}

impl Violation {
    /// The name of the variant, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RolledBack { .. } => "rolled_back",
            Self::Forked { .. } => "forked",
            Self::Unproven { .. } => "unproven",
            Self::NewEpoch { .. } => "new_epoch",
            Self::OtherKey { .. } => "other_key",
        }
    }

    /// The remembered checkpoint, if the violation concerns one.
    pub fn seen(&self) -> Option<&Checkpoint> {
        match self {
            Self::RolledBack { seen, .. } | Self::Forked { seen, .. } | Self::Unproven { seen, .. } => Some(seen),
            Self::NewEpoch { .. } | Self::OtherKey { .. } => None,
        }
    }
}

/// Why an observation failed.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// The log is not append-only.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A request failed.
    #[error(transparent)]
    Asking(#[from] Error),
    /// The stored note is not a checkpoint of this log.
    #[error("the remembered checkpoint of {origin} cannot be read")]
    Memory {
        /// Origin of the log.
        origin: String,
    },
}

impl Witness {
    /// The remembered checkpoint of the log with this key.
    pub fn seen(&self, key: &VerifierKey) -> Result<Option<Checkpoint>, WitnessError> {
        let Some(note) = self.logs.get(&key.to_string()) else { return Ok(None) };
        let seen = key.open(note).map_err(|_| WitnessError::Memory { origin: key.name().to_owned() })?;
        Ok(Some(seen))
    }

    /// The largest checkpoint of other epochs of the same log.
    fn earlier_epoch(&self, key: &VerifierKey) -> Option<Checkpoint> {
        let others = self.logs.iter().filter_map(|(vkey, note)| Some((vkey.parse::<VerifierKey>().ok()?, note)));
        let epochs =
            others.filter(|(other, _)| other.name() != key.name() && base_of(other.name()) == base_of(key.name()));
        epochs.filter_map(|(other, note)| other.open(note).ok()).max_by_key(|checkpoint| checkpoint.size)
    }

    /// Deletes all remembered checkpoints; returns whether there were any.
    pub fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.logs).is_empty()
    }
}

impl Client {
    /// Requests the newest checkpoint of the log with this key, checks that it continues the one in `witness`, and stores it there.
    pub async fn observe(&self, witness: &mut Witness, key: &VerifierKey) -> Result<Observed, WitnessError> {
        let seen = witness.seen(key)?;
        let note = self.checkpoint().await?;
        let note = String::from_utf8_lossy(&note).into_owned();
        let checkpoint = key.open(&note).map_err(|_| unsigned(key, &note))?;
        if let Some(seen) = &seen {
            self.prove_growth(seen, &checkpoint).await?;
        }
        let earlier_epoch = if seen.is_none() { witness.earlier_epoch(key) } else { None };
        witness.logs.insert(key.to_string(), note);
        Ok(Observed { checkpoint, seen, earlier_epoch })
    }

    /// Checks that the tree of `older` is the beginning of the tree of `newer`. Both must have been opened with the key of the log.
    pub async fn prove_growth(&self, older: &Checkpoint, newer: &Checkpoint) -> Result<(), WitnessError> {
        let (origin, seen, now) = (newer.origin.clone(), Box::new(older.clone()), newer.size);
        if newer.size < older.size {
            return Err(Violation::RolledBack { origin, seen, now }.into());
        }
        if newer.size == older.size {
            return if newer.root == older.root { Ok(()) } else { Err(Violation::Forked { origin, seen, now }.into()) };
        }
        // Every tree begins with the empty one.
        if older.size == 0 {
            return Ok(());
        }
        let proof = match self.consistency(older.size, newer.size).await {
            Ok(proof) => proof,
            // The server reports a smaller tree, or no reason.
            Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 400) => {
                return Err(Violation::Unproven { origin, seen, now }.into());
            }
            Err(error) => return Err(error.into()),
        };
        verify_consistency(older.size, newer.size, &older.root, &newer.root, &proof.proof)
            .map_err(|_| Violation::Forked { origin, seen, now }.into())
    }
}

/// The violation for a checkpoint that the key did not sign. Its origin is not verified, only reported.
fn unsigned(key: &VerifierKey, note: &str) -> Violation {
    let origin = key.name().to_owned();
    let named = note.lines().next().unwrap_or_default();
    if named != origin && base_of(named) == base_of(&origin) {
        Violation::NewEpoch { origin, now: named.to_owned() }
    } else {
        Violation::OtherKey { origin }
    }
}
