//! Detects that a log was rolled back, forked or replaced: the largest observed checkpoint is stored, and the next one
//! must continue it (RFC 9162, section 2.1.4).
//!
//! 1. The newest checkpoint is requested after the stored one is read, so that it is never older with an honest log.
//! 2. It must be signed by the key that the client trusts.
//! 3. A smaller tree was rolled back. A larger tree must extend the stored one, which `/api/v1/audit/consistency` proves.
//!
//! The checks do not trust the server: growth without a valid proof is rejected.

use std::collections::BTreeMap;

use domain::checkpoint::{Checkpoint, VerifierKey, base_of};
use domain::merkle::verify_consistency;
use serde::{Deserialize, Serialize};

use crate::{Client, Error};

/// The largest observed checkpoint of each log. Serialisable, for storage between runs of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Signed notes by verifier key, which contains the origin of the log.
    #[serde(default)]
    logs: BTreeMap<String, String>,
}

/// The result of an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The newest checkpoint, which continues all earlier ones.
    pub checkpoint: Checkpoint,
    /// The checkpoint that was stored; `None` at the first observation of the log.
    pub seen: Option<Checkpoint>,
    /// The newest observed checkpoint of an earlier epoch, at the first observation of this epoch.
    pub earlier_epoch: Option<Checkpoint>,
}

/// Why a checkpoint does not continue the observed log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Violation {
    /// The log has fewer events than it has signed.
    #[error("{origin} was rolled back: it had signed {} events, and shows {now} now", .seen.size)]
    RolledBack {
        /// Origin of the log.
        origin: String,
        /// The stored checkpoint.
        seen: Box<Checkpoint>,
        /// Current number of events.
        now: u64,
    },
    /// The signed events were replaced by others.
    #[error("{origin} was forked: its first {} events are not those that it had signed", .seen.size)]
    Forked {
        /// Origin of the log.
        origin: String,
        /// The stored checkpoint.
        seen: Box<Checkpoint>,
        /// Current number of events.
        now: u64,
    },
    /// The server did not prove that the log only grew.
    #[error("{origin} does not prove that its {now} events begin with the {} that it had signed", .seen.size)]
    Unproven {
        /// Origin of the log.
        origin: String,
        /// The stored checkpoint.
        seen: Box<Checkpoint>,
        /// Current number of events.
        now: u64,
    },
    /// The checkpoint belongs to a later epoch, under a key that the client does not trust yet.
    #[error("{origin} has ended: the server shows a checkpoint of {now}, which says that a new epoch of the log began")]
    NewEpoch {
        /// Origin of the stored epoch.
        origin: String,
        /// Origin of the new epoch.
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
    /// Machine-readable name of the violation.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// The stored checkpoint, if the log was observed before.
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
    /// The log does not continue the stored checkpoint.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The request failed.
    #[error(transparent)]
    Asking(#[from] Error),
    /// The stored note is not a checkpoint of this log.
    #[error("the stored checkpoint of {origin} cannot be read")]
    Memory {
        /// Origin of the log.
        origin: String,
    },
}

impl Witness {
    /// The stored checkpoint of the log with this key.
    pub fn seen(&self, key: &VerifierKey) -> Result<Option<Checkpoint>, WitnessError> {
        let Some(note) = self.logs.get(&key.to_string()) else { return Ok(None) };
        let checkpoint = key.open(note).map_err(|_| WitnessError::Memory { origin: key.name().to_owned() })?;
        Ok(Some(checkpoint))
    }

    /// The largest stored checkpoint of other epochs of the same log. Ignores stored notes that cannot be read: the epoch is only reported.
    fn earlier_epoch(&self, key: &VerifierKey) -> Option<Checkpoint> {
        let others = self.logs.iter().filter_map(|(vkey, note)| Some((vkey.parse::<VerifierKey>().ok()?, note)));
        let epochs =
            others.filter(|(other, _)| other.name() != key.name() && base_of(other.name()) == base_of(key.name()));
        epochs.filter_map(|(other, note)| other.open(note).ok()).max_by_key(|checkpoint| checkpoint.size)
    }

    /// Removes all checkpoints; returns whether there were any.
    pub fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.logs).is_empty()
    }
}

impl Client {
    /// Requests the newest checkpoint of the log with this key, verifies that it continues the stored one, and stores
    /// it.
    pub async fn observe(&self, witness: &mut Witness, key: &VerifierKey) -> Result<Observation, WitnessError> {
        let seen = witness.seen(key)?;
        let part = self.log_part(key.name()).await?;
        let note = match self.checkpoint(part).await {
            // A server without this part, which an unavailable part is not, shows another log.
            Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 404) => {
                return Err(Violation::OtherKey { origin: key.name().to_owned() }.into());
            }
            asked => asked?,
        };
        let note = String::from_utf8_lossy(&note).into_owned();
        let checkpoint = key.open(&note).map_err(|_| unsigned(key, &note))?;
        if let Some(seen) = &seen {
            self.prove_growth(seen, &checkpoint).await?;
        }
        let earlier_epoch = if seen.is_none() { witness.earlier_epoch(key) } else { None };
        witness.logs.insert(key.to_string(), note);
        Ok(Observation { checkpoint, seen, earlier_epoch })
    }

    /// Verifies that the tree of `older` is a prefix of the tree of `newer`. The caller has verified both signatures.
    pub async fn prove_growth(&self, older: &Checkpoint, newer: &Checkpoint) -> Result<(), WitnessError> {
        let (origin, seen, now) = (newer.origin.clone(), Box::new(older.clone()), newer.size);
        if newer.size < older.size {
            return Err(Violation::RolledBack { origin, seen, now }.into());
        }
        if newer.size == older.size {
            return if newer.root == older.root { Ok(()) } else { Err(Violation::Forked { origin, seen, now }.into()) };
        }
        // The empty tree is a prefix of every tree.
        if older.size == 0 {
            return Ok(());
        }
        let part = self.log_part(&newer.origin).await?;
        let proof = match self.consistency(part, older.size, newer.size).await {
            Ok(proof) => proof,
            // The server reports that its tree is smaller, or gives no reason.
            Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 400) => {
                return Err(Violation::Unproven { origin, seen, now }.into());
            }
            Err(error) => return Err(error.into()),
        };
        verify_consistency(older.size, newer.size, &older.root, &newer.root, &proof.proof)
            .map_err(|_| Violation::Forked { origin, seen, now }.into())
    }
}

/// The violation of a checkpoint without a valid signature. Its unverified origin is only reported.
fn unsigned(key: &VerifierKey, note: &str) -> Violation {
    let origin = key.name().to_owned();
    let named = note.lines().next().unwrap_or_default();
    if named != origin && base_of(named) == base_of(&origin) {
        Violation::NewEpoch { origin, now: named.to_owned() }
    } else {
        Violation::OtherKey { origin }
    }
}
