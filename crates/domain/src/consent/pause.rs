//! Pauses of recording: during a pause the effective level is [`Off`](super::ConsentLevel::Off). A pause ends at its time, and no recorded
//! level changes (`docs/decisions/0014-consent.md`).

use super::Author;
use crate::Timestamp;

/// The ends of the latest pauses that concern a computer; they may be in the past.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// End of the account's pause.
    pub account: Option<Timestamp>,
    /// End of the computer's pause.
    pub machine: Option<Timestamp>,
}

impl Pauses {
    /// The end of the pause at `now`; `None` if recording is not paused.
    pub fn until(self, now: Timestamp) -> Option<Timestamp> {
        [self.account, self.machine].into_iter().flatten().filter(|until| *until > now).max()
    }
}

/// A current pause with its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Time at which it ends.
    pub until: Timestamp,
    /// The party that started it.
    pub by: Author,
}

impl Pause {
    /// The pause in force after a request for `wanted` during `self`. A person replaces the pause; an agent or a computer can only lengthen
    /// it, and does not become its author.
    #[must_use]
    pub fn changed_to(self, wanted: Self) -> Self {
        match wanted.by {
            Author::Person => wanted,
            Author::Agent | Author::Computer => Self { until: self.until.max(wanted.until), by: self.by },
        }
    }

    /// Whether this party may end the pause early, which raises the effective level: a person always may, a computer only if it started the
    /// pause.
    pub fn may_be_ended_by(self, author: Author) -> bool {
        author == Author::Person || (author == Author::Computer && self.by == Author::Computer)
    }
}

/// The part of a pause that an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseReport {
    /// It started, or its end changed.
    Until(Timestamp),
    /// It was ended early. A pause that ends at its time needs no report, since its start reported the end.
    Ended,
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn agents_and_computers_lengthen_pauses_and_only_persons_shorten_them() {
        let at = |seconds| Timestamp::UNIX_EPOCH + TimeDelta::seconds(seconds);
        for by in Author::ALL.iter().copied() {
            let lasting = Pause { until: at(10), by };
            for author in [Author::Agent, Author::Computer] {
                let changed = |seconds| lasting.changed_to(Pause { until: at(seconds), by: author });
                assert_eq!((changed(5), changed(20)), (lasting, Pause { until: at(20), by }));
                assert_eq!(lasting.may_be_ended_by(author), author == Author::Computer && by == Author::Computer);
            }
            let persons = Pause { until: at(5), by: Author::Person };
            assert_eq!(lasting.changed_to(persons), persons);
            assert!(lasting.may_be_ended_by(Author::Person));
        }
    }

    #[test]
    fn a_pause_lasts_until_its_end_and_the_longer_one_counts() {
        let at = |seconds| Timestamp::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let pauses = Pauses { account: Some(at(10)), machine: Some(at(20)) };
        assert_eq!((pauses.until(at(5)), pauses.until(at(15))), (Some(at(20)), Some(at(20))));
        assert_eq!((pauses.until(at(20)), Pauses::default().until(at(0))), (None, None));
    }
}
