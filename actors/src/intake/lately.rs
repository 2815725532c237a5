//! Computers with recently held events.
//!
//! A resend may have been authenticated before its first attempt was held; the facts of its credential then do not include the held event.

use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::TimeDelta;
use dashmap::DashMap;
use domain::Timestamp;
use domain::ids::MachineUuid;

/// Maximum time between the authentication of a request and its lookup here.
const LATELY: TimeDelta = TimeDelta::minutes(1);

/// Number of computers at which expired ones are first removed.
const SWEEP_AT_MIN: usize = 4096;

/// Maximum number of computers, about 50 MB. Above it, every computer is treated as listed, which costs each event a query.
const MAX: usize = 1 << 20;

/// The computers, each with the time of its last held event.
#[derive(Debug, Default)]
pub struct HeldLately {
    computers: DashMap<MachineUuid, Timestamp>,
    /// Number of computers that triggers the next sweep. A sweep reads all computers, so it waits until their number has doubled.
    sweep_at: AtomicUsize,
}

impl HeldLately {
    /// Records that an event of a computer was held.
    pub fn note(&self, machine: MachineUuid, at: Timestamp) {
        let sweep_at = self.sweep_at.load(Ordering::Relaxed).clamp(SWEEP_AT_MIN, MAX);
        if self.computers.len() >= sweep_at {
            self.computers.retain(|_, held_at| *held_at >= at - LATELY);
            self.sweep_at.store(self.computers.len().saturating_mul(2), Ordering::Relaxed);
        }
        if self.computers.len() < MAX || self.computers.contains_key(&machine) {
            self.computers.insert(machine, at);
        }
    }

    /// Whether an event of the computer was held recently enough to concern a request in progress.
    pub fn includes(&self, machine: MachineUuid, now: Timestamp) -> bool {
        match self.computers.len() {
            0 => return false,
            MAX.. => return true,
            _ => {}
        }
        let fresh = now - LATELY;
        self.computers.remove_if(&machine, |_, at| *at < fresh).is_none() && self.computers.contains_key(&machine)
    }
}

#[cfg(test)]
mod tests {
    use domain::Rng;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_timestamp_millis(1_767_225_600_123).unwrap()
    }

    #[test]
    fn a_computer_is_included_for_a_minute() {
        let (held, rng) = (HeldLately::default(), Rng::seeded(1));
        let [one, two] = [0, 1].map(|_| rng.uuid_v7(now()).into());
        held.note(one, now());
        assert!(held.includes(one, now() + LATELY) && !held.includes(two, now()));
        assert!(!held.includes(one, now() + LATELY + TimeDelta::milliseconds(1)));
    }

    #[test]
    fn old_computers_are_forgotten_and_the_number_is_bounded() {
        let (held, rng) = (HeldLately::default(), Rng::seeded(1));
        for _ in 0..SWEEP_AT_MIN {
            held.note(rng.uuid_v7(now()).into(), now());
        }
        let later = now() + LATELY * 2;
        held.note(rng.uuid_v7(now()).into(), later);
        assert_eq!(held.computers.len(), 1);
        for _ in 0..MAX + 10 {
            held.note(rng.uuid_v7(now()).into(), later);
        }
        assert_eq!(held.computers.len(), MAX);
        assert!(
            held.includes(rng.uuid_v7(now()).into(), later),
            "a computer that could not be remembered counts as one that was"
        );
        held.note(rng.uuid_v7(now()).into(), later + LATELY * 2);
        assert_eq!(held.computers.len(), 1, "the next minute begins with an empty memory");
    }
}
