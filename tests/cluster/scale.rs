//! Duration and size of a run.

use std::time::Duration;

use domain::Rng;

/// Sizes and bounds of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Number of chains; their senders run concurrently.
    pub chains: usize,
    /// Number of repetitions of a fault.
    pub rounds: usize,
    /// Number of nodes that are killed, one after the other.
    pub deaths: usize,
    pub fault: Duration,
    /// Attempts to stop a node in the middle of a transaction.
    pub attempts: usize,
    /// Traffic between two faults.
    pub calm: Duration,
    /// Number of events with proofs that are read from each node.
    pub proofs: usize,
    /// Maximum time in which an undisturbed node may accept no event. The promise is 2 s (P25); a short run, at the same time as other
    /// tests, fails only far beyond it.
    pub refused_max: Duration,
    /// Whether the promised times are asserted.
    pub soak: bool,
}

impl Scale {
    pub fn chosen() -> Self {
        let seconds = Duration::from_secs;
        if std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1") {
            let (fault, calm, refused_max) = (seconds(40), seconds(5), seconds(2));
            Self { chains: 24, rounds: 5, deaths: 20, fault, attempts: 200, calm, proofs: 100, refused_max, soak: true }
        } else {
            let (fault, calm, refused_max) = (seconds(2), Duration::from_millis(300), seconds(15));
            Self { chains: 12, rounds: 1, deaths: 2, fault, attempts: 15, calm, proofs: 8, refused_max, soak: false }
        }
    }
}

/// The choices of this run; the seed is printed, so that a failure shows it.
pub fn rng() -> Rng {
    let given = std::env::var("ATTACHE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| Rng::system().below(u64::from(u32::MAX)));
    eprintln!("ATTACHE_SEED={seed}");
    Rng::seeded(seed)
}

/// A random index below `length`.
pub fn index(rng: &Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap()
}
