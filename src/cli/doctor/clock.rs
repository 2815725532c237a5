//! The clock: codes, tokens and signatures end by it.

use chrono::TimeDelta;
use domain::clock::date_time;
use domain::{Clock, Timestamp};

use super::Finding;

const CLOCK: &str = "clock";

/// More than two clocks that are kept right differ.
const DIFFERENCE_MAX: TimeDelta = TimeDelta::seconds(2);

/// A moment that somebody else knows, and what it was here when it was asked for.
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
    /// Somebody's clock, which was read just now.
    pub(super) fn of_the_present(whose: &'static str, at: Timestamp) -> Self {
        Self { whose, at, here: Clock::system().now(), tense: Tense::Present }
    }

    /// What is over, whenever it was.
    pub(super) fn of_the_past(whose: &'static str, at: Timestamp) -> Self {
        Self { whose, at, here: Clock::system().now(), tense: Tense::Past }
    }

    fn contradicts(&self) -> bool {
        let ahead = self.at - self.here;
        ahead > DIFFERENCE_MAX || (self.tense == Tense::Present && -ahead > DIFFERENCE_MAX)
    }
}

/// Whether nobody knows better.
pub(super) fn judge(now: Timestamp, witnesses: &[ClockReference]) -> Finding {
    let Some(ClockReference { whose, at, here, tense }) = witnesses.iter().find(|witness| witness.contradicts()) else {
        return Finding::good(CLOCK, date_time(now));
    };
    let (here, at) = (date_time(*here), date_time(*at));
    match tense {
        Tense::Present => {
            Finding::bad(CLOCK, format!("{here} here, {at} at {whose}"), "let both follow the same time servers (NTP)")
        }
        Tense::Past => Finding::bad(
            CLOCK,
            format!("{here} here, before {whose}: {at}"),
            "set it right (NTP): until then new events seem older than signed ones",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_clock_is_right_when_nobody_knows_better() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let told =
            |whose, seconds, tense| ClockReference { whose, at: now + TimeDelta::seconds(seconds), here: now, tense };
        for (others, state) in [
            (vec![], State::Good),
            (vec![told("the database", 2, Tense::Present), told("the log", -86_400, Tense::Past)], State::Good),
            (vec![told("the database", 3, Tense::Present)], State::Bad),
            (vec![told("the database", -3, Tense::Present)], State::Bad),
            (vec![told("the log", 60, Tense::Past)], State::Bad),
        ] {
            assert_eq!(judge(now, &others).state, state, "{others:?}");
        }
    }
}
