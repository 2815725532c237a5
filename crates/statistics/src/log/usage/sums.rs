//! Usage of the newest leaves, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use domain::recorder::Recorder;
use domain::usage::{Day, QuotaUsed};
use store::usage::UsageDay;

/// Sums of the newest leaves. The writer of this process adds them when it places the leaves, so the events need not be read again; a
/// range that is not here is summed from the rows.
#[derive(Debug, Clone, Default)]
pub struct UsageSums(Arc<Mutex<VecDeque<UsageSum>>>);

/// The sum of the leaves from `from` up to `until`.
#[derive(Debug)]
struct UsageSum {
    from: u64,
    until: u64,
    days: Vec<(Recorder, Day, QuotaUsed)>,
}

/// Maximum number of sums that wait for the meter; the oldest are dropped, and their leaves are summed from the rows.
const SPANS_MAX: usize = 256;

impl UsageSums {
    /// Adds the sum of the newest leaves.
    pub fn add(&self, from: u64, until: u64, days: Vec<(Recorder, Day, QuotaUsed)>) {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spans.push_back(UsageSum { from, until, days });
        if spans.len() > SPANS_MAX {
            spans.pop_front();
        }
    }

    /// The sum of the leaves from `counted` on, at most `leaves_max` leaves, and its end; `None` if no sum starts at `counted`.
    pub fn from(&self, counted: u64, leaves_max: u32) -> Option<(u64, Vec<UsageDay>)> {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while spans.front().is_some_and(|span| span.until <= counted) {
            spans.pop_front();
        }
        let (mut until, mut sums) = (counted, BTreeMap::<(&Recorder, i64), QuotaUsed>::new());
        for span in spans.iter() {
            if span.from != until || span.until - counted > u64::from(leaves_max) {
                break;
            }
            until = span.until;
            for (recorder, day, used) in &span.days {
                *sums.entry((recorder, day.number())).or_default() += *used;
            }
        }
        let day = |((recorder, day), used): ((&Recorder, i64), QuotaUsed)| UsageDay {
            recorder: recorder.clone(),
            day: Day::from(day),
            used,
        };
        (until > counted).then(|| (until, sums.into_iter().map(day).collect()))
    }
}
