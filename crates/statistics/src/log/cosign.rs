//! Cosignatures of the newest checkpoint by witnesses, and the effect of a witness's refusal on the log
//! (`docs/decisions/0013-rollbacks-of-the-log.md`).
//!
//! A refusal is a status code, which any proxy can send. It halts the log only as evidence: the witness sends the same refusal twice in a
//! row, over an authenticated connection, and has not cosigned the refused tree itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::checkpoint::Checkpoint;
use domain::merkle::verify_consistency;
use store::in_transaction;
use store::pool::query;

use super::error::{During, LogError};
use super::halt::Halt;
use super::handle::Log;
use super::memory::SeenCheckpoint;
use crate::witness::{WitnessAnswer, WitnessClient, WitnessFault};
use proofs::merkle;
use proofs::merkle::tile::Tiles;

/// Maximum number of requests to one witness per checkpoint: the witness may have seen another size, or serve another node at the same
/// time.
const ATTEMPTS_MAX: u32 = 4;
/// Time in which a checkpoint may lack cosignatures; after it, passes that sign fail.
const LACK_MAX: Duration = Duration::from_secs(2);

/// `(log_vkey, size)` of the newest checkpoint that a witness has cosigned.
const COSIGNED: &str = "SELECT log_vkey, size FROM cosignatures WHERE witness = $1";
/// `(witness, lines)` of a checkpoint. Parameters: vkey, size.
const LINES: &str = "SELECT witness, lines FROM cosignatures WHERE log_vkey = $1 AND size = $2 ORDER BY witness";
const PUT: &str = "INSERT INTO cosignatures (witness, log_vkey, size, lines, cosigned_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (witness) DO UPDATE SET log_vkey = excluded.log_vkey, size = excluded.size, lines = excluded.lines,
        cosigned_at = excluded.cosigned_at
    WHERE cosignatures.log_vkey <> excluded.log_vkey OR cosignatures.size <= excluded.size";

/// The witnesses of the log and the required number of cosignatures.
#[derive(Debug, Default)]
pub struct Witnessing {
    keys: Vec<String>,
    quorum: usize,
    /// The size of the tree that lacks cosignatures, and the start of the lack.
    lack: Mutex<Option<(u64, Instant)>>,
    /// The last refusal of each witness, by the witness's key.
    refusals: Mutex<HashMap<String, Refusal>>,
}

/// A witness's claim about the history that it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The witness has cosigned a tree of this size, which the log does not have.
    Larger(u64),
    /// The witness has cosigned another tree of this size.
    Other(u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Larger(size) => write!(f, "it has cosigned {size} events"),
            Self::Other(size) => write!(f, "the first {size} events are not those that it has cosigned"),
        }
    }
}

impl Witnessing {
    /// Serves the cosignatures of these keys; the next checkpoint is signed after `quorum` witnesses have cosigned the newest.
    pub fn new(keys: Vec<String>, quorum: usize) -> Self {
        Self { keys, quorum, lack: Mutex::default(), refusals: Mutex::default() }
    }
}

/// Why a witness has not cosigned the newest checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CosignError {
    /// The log could not be read or written, or was halted because of the response.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The response does not follow the protocol of witnesses.
    #[error(transparent)]
    Witness(#[from] WitnessFault),
    /// The witness refuses the log, and the refusal is not evidence, or not yet.
    #[error("it refuses the log: {claim}. {because}")]
    Refused {
        /// The claim of the witness.
        claim: String,
        /// Why the log continues.
        because: &'static str,
    },
    /// The log grew faster than the witness answered.
    #[error("other nodes have its answers; the next pass tries again")]
    Overtaken,
}

/// How the newest checkpoint got the cosignature of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cosigned {
    /// The cosignature was stored, or the tree is empty.
    Known,
    /// The cosignature was requested in this call.
    Now,
}

impl Log {
    /// Requests a witness's cosignature of the newest checkpoint, unless it is stored. Halts the log on evidence of another history.
    #[boxed]
    pub async fn cosign(&self, witness: &WitnessClient) -> Result<Cosigned, CosignError> {
        if self.halted().is_some() {
            return Ok(Cosigned::Known);
        }
        let key = witness.key();
        let mut newest = self.seen().await?;
        let mut old = match self.cosigned(&key).await? {
            Some((vkey, size)) if vkey == newest.vkey && size == newest.size => return Ok(Cosigned::Known),
            Some((vkey, size)) if vkey == newest.vkey && size < newest.size => size,
            _ => 0,
        };
        if newest.size == 0 {
            return Ok(Cosigned::Known);
        }
        for _ in 0..ATTEMPTS_MAX {
            let proof = self.continuation(old, &newest).await?;
            match witness.add_checkpoint(old, &proof, &newest.checkpoint).await? {
                WitnessAnswer::Cosigned(lines) => {
                    self.refused(&key, None);
                    self.keep_cosignature(&key, &newest, &lines).await?;
                    return Ok(Cosigned::Now);
                }
                WitnessAnswer::Conflict(Some(size)) if size <= newest.size && size != old => old = size,
                WitnessAnswer::Conflict(Some(size)) if size > newest.size => {
                    // Another node may have grown the log and requested the cosignature.
                    let newer = self.seen().await?;
                    if newer.vkey == newest.vkey && newer.size < size {
                        return Err(self.judge_refusal(witness, &newer, Refusal::Larger(size)).await);
                    }
                    (newest, old) = (newer, 0);
                }
                // An empty tree contradicts no history.
                WitnessAnswer::Inconsistent if old == 0 => {
                    let claim = "the proof from an empty tree does not hold".to_owned();
                    return Err(CosignError::Refused { claim, because: "No history contradicts that proof" });
                }
                WitnessAnswer::Inconsistent => {
                    return Err(self.judge_refusal(witness, &newest, Refusal::Other(old)).await);
                }
                WitnessAnswer::Conflict(_) if old == newest.size => {
                    return Err(self.judge_refusal(witness, &newest, Refusal::Other(old)).await);
                }
                WitnessAnswer::Conflict(_) => return Err(CosignError::Overtaken),
            }
        }
        Err(CosignError::Overtaken)
    }

    /// Halts the log if a refusal is evidence; the error tells whether it did.
    async fn judge_refusal(&self, witness: &WitnessClient, found: &SeenCheckpoint, refusal: Refusal) -> CosignError {
        let refused = |because| CosignError::Refused { claim: refusal.to_string(), because };
        if !witness.is_authentic() {
            return refused("A proxy on the way can answer over http://: configure it with https://");
        }
        if let Refusal::Other(size) = refusal {
            match self.has_cosigned_this(witness, found, size).await {
                Ok(true) => return refused("Its own cosignature of these events holds"),
                Ok(false) => {}
                Err(error) => return error.into(),
            }
        }
        if self.refused(&witness.key(), Some(refusal)) != Some(refusal) {
            return refused("The log is halted if it repeats that");
        }
        self.halt(Halt::by_witness(witness.name(), found, &refusal.to_string()), &found.vkey).await.into()
    }

    /// Stores the last refusal of a witness; returns the previous one.
    fn refused(&self, witness: &str, refusal: Option<Refusal>) -> Option<Refusal> {
        let mut refusals = self.witnessing.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        match refusal {
            Some(refusal) => refusals.insert(witness.to_owned(), refusal),
            None => refusals.remove(witness),
        }
    }

    /// Whether the stored cosignature of a witness holds for the first `size` events, as they are stored now.
    async fn has_cosigned_this(
        &self,
        witness: &WitnessClient,
        seen: &SeenCheckpoint,
        size: u64,
    ) -> Result<bool, LogError> {
        let stored: Vec<(String, String)> = self.cosignature_lines(&seen.vkey, size).await?;
        let key = witness.key();
        let Some((_, lines)) = stored.into_iter().find(|(stored, _)| *stored == key) else { return Ok(false) };
        let checkpoint = Checkpoint { origin: seen.origin().to_owned(), size, root: self.stored_root(size).await? };
        Ok(witness.has_cosigned(&checkpoint, &lines))
    }

    /// The proof that the tree of `seen` continues its first `old` leaves, verified before it is sent.
    async fn continuation(&self, old: u64, seen: &SeenCheckpoint) -> Result<Vec<domain::Digest>, LogError> {
        if old == 0 || old == seen.size {
            return Ok(Vec::new());
        }
        let mut names = Tiles::needed(|tree| merkle::consistency(tree, old, seen.size))?;
        names.extend(Tiles::needed(|tree| merkle::root(tree, old))?);
        names.extend(Tiles::edge(seen.size));
        let mut tiles = self.tiles(names).await?;
        let (proof, root) = (merkle::consistency(&mut tiles, old, seen.size)?, merkle::root(&mut tiles, old)?);
        let checked = verify_consistency(old, seen.size, &root, &seen.root, &proof);
        checked.map(|()| proof).map_err(|_| LogError::Inconsistent)
    }

    /// The key and size of the newest checkpoint that the witness has cosigned.
    async fn cosigned(&self, witness: &str) -> Result<Option<(String, u64)>, LogError> {
        let row: Option<(String, i64)> =
            query(COSIGNED).bind(witness).fetch_optional(&self.pool).await.during("read a cosignature")?;
        let size = |size| u64::try_from(size).map_err(|_| LogError::Corrupt("cosignatures.size"));
        row.map(|(vkey, stored)| Ok((vkey, size(stored)?))).transpose()
    }

    async fn keep_cosignature(&self, witness: &str, seen: &SeenCheckpoint, lines: &str) -> Result<(), LogError> {
        let size = i64::try_from(seen.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let now = self.clock.now();
        in_transaction!(&self.pool, |tx| {
            let put = query(PUT).bind(witness).bind(&seen.vkey).bind(size).bind(lines).bind(now);
            put.execute(&mut *tx).await.map(drop)
        })
        .await
        .during("store a cosignature")
    }

    /// The note of a checkpoint with the cosignatures that it has.
    pub(super) async fn cosigned_note(&self, checkpoint: String, vkey: &str, size: u64) -> Result<String, LogError> {
        if self.witnessing.keys.is_empty() {
            return Ok(checkpoint);
        }
        let lines = self.cosignatures(vkey, size).await?;
        Ok(lines.into_iter().fold(checkpoint, |note, lines| note + &lines))
    }

    /// The lines of the configured witnesses for a checkpoint.
    async fn cosignatures(&self, vkey: &str, size: u64) -> Result<Vec<String>, LogError> {
        let rows = self.cosignature_lines(vkey, size).await?;
        let configured = rows.into_iter().filter(|(witness, _)| self.witnessing.keys.contains(witness));
        Ok(configured.map(|(_, lines)| lines).collect())
    }

    /// `(witness, lines)` of a checkpoint.
    async fn cosignature_lines(&self, vkey: &str, size: u64) -> Result<Vec<(String, String)>, LogError> {
        let size = i64::try_from(size).map_err(|_| LogError::Corrupt("tree.size"))?;
        query(LINES).bind(vkey).bind(size).fetch_all(&self.pool).await.during("read cosignatures")
    }

    /// Whether enough witnesses have cosigned the newest checkpoint to sign the next; fails if they have not for [`LACK_MAX`].
    pub(super) async fn is_witnessed(&self) -> Result<bool, LogError> {
        let Witnessing { quorum, lack, .. } = &*self.witnessing;
        if *quorum == 0 {
            return Ok(true);
        }
        let signed = self.signed_row().await?;
        let have = if signed.size == 0 { *quorum } else { self.cosignatures(&signed.vkey, signed.size).await?.len() };
        let mut lack = lack.lock().unwrap_or_else(PoisonError::into_inner);
        if have >= *quorum {
            *lack = None;
            return Ok(true);
        }
        let (_, since) = lack.filter(|(size, _)| *size == signed.size).unwrap_or((signed.size, Instant::now()));
        *lack = Some((signed.size, since));
        if since.elapsed() < LACK_MAX {
            return Ok(false);
        }
        Err(LogError::Unwitnessed { have, quorum: *quorum })
    }
}
