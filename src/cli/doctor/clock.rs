//! Checks the system clock, on which the expiry of codes, tokens and signatures depends.

use chrono::TimeDelta;
use domain::clock::date_time;
use domain::{Clock, Timestamp};

use super::finding::Finding;

const CLOCK: &str = "clock";

/// Maximum difference between two synchronised clocks.
const DIFFERENCE_MAX: TimeDelta = TimeDelta::seconds(2);

/// A time from another source, with the local time at which it was read.
#[derive(Debug)]
pub(super) struct ClockReference {
    whose: &'static str,
    at: Timestamp,
    here: Timestamp,
    tense: Tense,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tense {
    Present,
    Past,
}

impl ClockReference {
    /// The current time of another clock, read just now.
    pub(super) fn of_the_present(whose: &'static str, at: Timestamp) -> Self {
        Self { whose, at, here: Clock::system().now(), tense: Tense::Present }
    }

    /// A time in the past, such as the time of a signature.
    pub(super) fn of_the_past(whose: &'static str, at: Timestamp) -> Self {
        Self { whose, at, here: Clock::system().now(), tense: Tense::Past }
    }

    fn contradicts(&self) -> bool {
        let ahead = self.at - self.here;
        ahead > DIFFERENCE_MAX || (self.tense == Tense::Present && -ahead > DIFFERENCE_MAX)
    }
}

/// Compares the local clock with the references.
pub(super) fn judge(now: Timestamp, references: &[ClockReference]) -> Finding {
    let Some(ClockReference { whose, at, here, tense }) = references.iter().find(|reference| reference.contradicts())
    else {
        return Finding::good(CLOCK, date_time(now));
    };
    let (here, at) = (date_time(*here), date_time(*at));
    match tense {
        Tense::Present => Finding::bad(
            CLOCK,
            format!("{here} here, {at} at {whose}"),
            "synchronise both with the same time servers (NTP)",
        ),
        Tense::Past => Finding::bad(
            CLOCK,
            format!("{here} here, before {whose}: {at}"),
            "synchronise the clock (NTP): until then new events appear older than signed ones",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn a_clock_is_good_unless_a_reference_contradicts_it() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let reference =
            |whose, seconds, tense| ClockReference { whose, at: now + TimeDelta::seconds(seconds), here: now, tense };
        for (others, state) in [
            (vec![], State::Good),
            (
                vec![reference("the database", 2, Tense::Present), reference("the log", -86_400, Tense::Past)],
                State::Good,
            ),
            (vec![reference("the database", 3, Tense::Present)], State::Bad),
            (vec![reference("the database", -3, Tense::Present)], State::Bad),
            (vec![reference("the log", 60, Tense::Past)], State::Bad),
        ] {
            assert_eq!(judge(now, &others).state, state, "{others:?}");
        }
    }
}
