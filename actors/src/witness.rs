//! Requests cosignatures of the newest checkpoint of the embedded log from the configured witnesses.
//!
//! 1. Each pass asks, concurrently, every witness that has not cosigned the newest checkpoint. On several nodes the first answer is stored
//!    for all.
//! 2. A witness that has seen another history halts the log. A witness that cannot be reached, or refuses the log without evidence, is a
//!    degradation, and is asked again after a pause.
//!
//! **If it crashes:** the next pass asks again; the cosignatures are in the log's database and with the witnesses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::log_part::LogPart;
use futures_util::future;
use statistics::log::{CosignError, Cosigned, Log, LogError};
use statistics::parts::PartSlot;
use statistics::witness::WitnessClient;
use supervision::periodic::{Next, Pass, PassError};

/// Pause after a witness did not answer.
const PAUSE: Duration = Duration::from_secs(5);

/// The witnesses of the log. Clones share the faults.
#[derive(Debug, Clone)]
pub struct Witnesses {
    part: LogPart,
    log: PartSlot,
    all: Arc<[WitnessClient]>,
    /// By name: why a witness did not cosign, and when.
    faults: Arc<Mutex<BTreeMap<String, (String, Instant)>>>,
}

impl Witnesses {
    /// The witnesses of a part of the log.
    pub fn new(part: LogPart, log: PartSlot, witnesses: Vec<WitnessClient>) -> Self {
        for outcome in ["cosigned", "failed", "refused"] {
            count(outcome, 0);
        }
        Self { part, log, all: witnesses.into(), faults: Arc::default() }
    }

    /// The part of the log.
    pub fn part(&self) -> LogPart {
        self.part
    }

    /// The witnesses that did not cosign at the last request, and why.
    pub fn faults(&self) -> Vec<String> {
        self.lock().iter().map(|(name, (fault, _))| format!("{name}: {fault}")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (String, Instant)>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, log: &Log, witness: &WitnessClient) -> Result<(), LogError> {
        let name = witness.name();
        if self.lock().get(name).is_some_and(|(_, at)| at.elapsed() < PAUSE) {
            return Ok(());
        }
        let fault = match log.cosign(witness).await {
            Ok(Cosigned::Known) => None,
            Ok(Cosigned::Now) => {
                count("cosigned", 1);
                None
            }
            Err(CosignError::Log(error)) => return Err(error),
            Err(fault) => {
                count(if matches!(fault, CosignError::Refused { .. }) { "refused" } else { "failed" }, 1);
                Some(domain::reasons(&fault))
            }
        };
        let mut faults = self.lock();
        match fault {
            None => drop(faults.remove(name)),
            Some(fault) => {
                if faults.get(name).is_none_or(|(previous, _)| *previous != fault) {
                    tracing::warn!(witness = name, error = fault, "a witness did not cosign the newest checkpoint");
                }
                faults.insert(name.to_owned(), (fault, Instant::now()));
            }
        }
        Ok(())
    }
}

fn count(outcome: &'static str, answers: u64) {
    metrics::counter!("attache_witness_answers_total", "outcome" => outcome).increment(answers);
}

impl Pass for Witnesses {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        let Some(log) = self.log.get() else { return Ok(Next::AfterPause) };
        let results = future::join_all(self.all.iter().map(|witness| self.ask(log, witness))).await;
        results.into_iter().collect::<Result<(), LogError>>()?;
        Ok(Next::AfterPause)
    }
}
