//! The usage quota of an account, its remainder, and the time of its reset (`docs/decisions/0008-usage-and-quotas.md`).
//!
//! Time is divided into consecutive windows of whole days, from the UTC day on which the account was created. An event
//! counts in the window in which it was received.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveTime};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::lane::Lane;
use crate::{Timestamp, UnknownName};

/// The plan of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the specification names the plans and says no more about them")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::VariantArray)]
#[strum(serialize_all = "UPPERCASE", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum Plan {
    Free,
    Plus,
    Pro,
    Max,
}

impl Plan {
    /// All plans, the smallest first.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in responses, the configuration and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A value for each plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByPlan<T>([T; Plan::ALL.len()]);

impl<T: Copy> ByPlan<T> {
    /// The values that `of` gives to the plans.
    pub fn new(of: impl Fn(Plan) -> T) -> Self {
        Self([of(Plan::Free), of(Plan::Plus), of(Plan::Pro), of(Plan::Max)])
    }

    /// The value of a plan.
    pub fn of(&self, plan: Plan) -> T {
        let [free, plus, pro, max] = self.0;
        match plan {
            Plan::Free => free,
            Plan::Plus => plus,
            Plan::Pro => pro,
            Plan::Max => max,
        }
    }
}

/// Limits of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Limit of forwarded events of the lane `memory` within one window; 0 for no limit.
    pub memory_events: u64,
    /// Limit of forwarded events of type [`RETROSPECTIVE`] within one window; 0 for no limit.
    pub retrospectives: u64,
    /// Length of a window, in days; at least 1.
    pub window_days: u32,
    /// Limit of bytes of events within one UTC day; 0 for no limit.
    pub event_bytes_per_day: u64,
    /// Limit of bytes of the texts of memories; 0 for no limit.
    pub memory_bytes: u64,
}

/// The event type that counts as a retrospective.
pub const RETROSPECTIVE: &str = "rsi.retrospective_completed";

/// The lane of events that count as memory.
pub const MEMORY: Lane = Lane::Memory;

/// Consumed quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaUsed {
    /// Number of events of the lane `memory`.
    pub memory: u64,
    /// Number of events of type [`RETROSPECTIVE`].
    pub retrospectives: u64,
}

impl QuotaUsed {
    /// The quota that one forwarded event consumes.
    pub fn by(lane: Lane, event_type: &str) -> Self {
        Self { memory: u64::from(lane == MEMORY), retrospectives: u64::from(event_type == RETROSPECTIVE) }
    }

    /// Subtracts `part`, down to zero.
    #[must_use]
    pub fn less(self, part: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(part.memory),
            retrospectives: self.retrospectives.saturating_sub(part.retrospectives),
        }
    }

    /// Whether both counts are zero.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl Add for QuotaUsed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            retrospectives: self.retrospectives.saturating_add(other.retrospectives),
        }
    }
}

impl AddAssign for QuotaUsed {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A UTC day, counted from 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    /// The day before the first that a clock names.
    pub const BEFORE_ALL: Self = Self(-1);

    /// Milliseconds of a day.
    pub const MILLISECONDS: i64 = 24 * 60 * 60 * 1000;

    /// The UTC day of a time.
    pub fn of(moment: Timestamp) -> Self {
        Self(moment.timestamp_millis().div_euclid(Self::MILLISECONDS))
    }

    /// Days since 1970-01-01, as stored.
    pub fn number(self) -> i64 {
        self.0
    }

    /// Midnight UTC at the start of the day; 1970-01-01 for a day beyond the range of [`Timestamp`], which no clock reaches.
    pub fn begin(self) -> Timestamp {
        let millis = self.0.checked_mul(Self::MILLISECONDS);
        millis.and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::UNIX_EPOCH)
    }

    /// The following day.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A text that is not a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a day such as 2026-01-31")]
pub struct InvalidDay;

impl FromStr for Day {
    type Err = InvalidDay;

    fn from_str(text: &str) -> Result<Self, InvalidDay> {
        let date: NaiveDate = text.parse().map_err(|_| InvalidDay)?;
        let begin = date.and_time(NaiveTime::MIN).and_utc();
        Some(Self::of(begin)).filter(|day| day.begin() == begin).ok_or(InvalidDay)
    }
}

/// "2026-01-31".
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.begin().format("%Y-%m-%d"))
    }
}

impl From<i64> for Day {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

/// A range of days with a common quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageWindow {
    /// First day of the window.
    pub first: Day,
    /// First day of the next window.
    pub end: Day,
}

impl UsageWindow {
    /// The window of `now`; the first window if `now` is before the creation of the account.
    pub fn at(created: Timestamp, now: Timestamp, window_days: u32) -> Self {
        let length = i64::from(window_days.max(1));
        let begin = Day::of(created).0;
        let past = (Day::of(now).0 - begin).max(0) / length;
        let first = begin + past * length;
        Self { first: Day(first), end: Day(first + length) }
    }

    /// Whether a day is in the window.
    pub fn holds(&self, day: Day) -> bool {
        (self.first..self.end).contains(&day)
    }

    /// Time at which the quota resets.
    pub fn reset_at(&self) -> Timestamp {
        self.end.begin()
    }
}

/// Remaining quota in tenths of a percent, rounded down: 0 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PercentLeft(u16);

impl PercentLeft {
    /// The whole quota.
    pub const ALL: Self = Self(1000);

    /// The remainder of `limit` after `used`; always the whole quota if `limit` is 0.
    pub fn of(limit: u64, used: u64) -> Self {
        if limit == 0 {
            return Self::ALL;
        }
        let tenths = u128::from(limit.saturating_sub(used)) * 1000 / u128::from(limit);
        // At most 1000, so the conversion succeeds.
        Self(u16::try_from(tenths).unwrap_or(1000))
    }

    /// Tenths of a percent, 0 to 1000.
    pub fn tenths(self) -> u16 {
        self.0
    }
}

impl fmt::Display for PercentLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenth) = (self.0 / 10, self.0 % 10);
        if tenth == 0 { write!(f, "{whole}") } else { write!(f, "{whole}.{tenth}") }
    }
}

impl Serialize for PercentLeft {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (f64::from(self.0) / 10.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PercentLeft {
    /// Accepts 0 to 100, and rounds down to one decimal.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let percent = f64::deserialize(deserializer)?;
        // Compares the decimal form: 0.3 is three tenths, although the nearest double is smaller.
        let tenths = (0..=1000).rev().find(|tenths| f64::from(*tenths) / 10.0 <= percent);
        let tenths = tenths.filter(|_| percent <= 100.0);
        tenths.map(Self).ok_or_else(|| de::Error::custom("expected a number from 0 to 100"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_rest_is_rounded_down_to_one_decimal() {
        let written = |limit, used| serde_json::to_string(&PercentLeft::of(limit, used)).unwrap();
        for (limit, used, expected) in [
            (3, 0, "100.0"),
            (3, 1, "66.6"),
            (3, 2, "33.3"),
            (3, 3, "0.0"),
            (3, 4, "0.0"),
            (1000, 1, "99.9"),
            (10_000, 1, "99.9"),
            (10_000, 9_999, "0.0"),
            (0, u64::MAX, "100.0"),
            (u64::MAX, 1, "99.9"),
        ] {
            assert_eq!(written(limit, used), expected, "{used} of {limit}");
        }
    }

    #[test]
    fn windows_follow_each_other_from_the_day_of_creation() {
        let created = moment("2026-01-31T23:59:59.999Z");
        let window = |now: &str| {
            let window = UsageWindow::at(created, moment(now), 30);
            (window.first.begin(), window.reset_at())
        };
        let first = (moment("2026-01-31T00:00:00Z"), moment("2026-03-02T00:00:00Z"));
        assert_eq!(window("2026-01-31T23:59:59.999Z"), first);
        assert_eq!(window("2026-03-01T23:59:59.999Z"), first);
        assert_eq!(window("2026-01-30T00:00:00Z"), first, "a clock that runs behind");
        assert_eq!(window("2026-03-02T00:00:00Z"), (moment("2026-03-02T00:00:00Z"), moment("2026-04-01T00:00:00Z")));
    }

    #[test]
    fn one_event_may_count_once_twice_or_not_at_all() {
        assert_eq!(QuotaUsed::by(Lane::Memory, "memory.stored"), QuotaUsed { memory: 1, retrospectives: 0 });
        assert_eq!(QuotaUsed::by(Lane::Rsi, RETROSPECTIVE), QuotaUsed { memory: 0, retrospectives: 1 });
        assert!(QuotaUsed::by(Lane::Llm, "llm.called").is_nothing());
    }

    #[test]
    fn plans_are_read_as_they_are_written() {
        for plan in Plan::ALL.iter().copied() {
            assert_eq!(plan.as_str().parse(), Ok(plan));
            assert_eq!(serde_json::to_string(&plan).unwrap(), format!("\"{}\"", plan.as_str()));
        }
        assert!("free".parse::<Plan>().is_err());
    }

    proptest! {
        #[test]
        fn using_more_never_leaves_more_and_never_leaves_the_scale(limit: u64, one: u64, two: u64) {
            let (less, more) = (one.min(two), one.max(two));
            let (left, left_then) = (PercentLeft::of(limit, less), PercentLeft::of(limit, more));
            prop_assert!(left_then <= left && left <= PercentLeft::ALL);
            prop_assert_eq!(PercentLeft::of(limit, 0), PercentLeft::ALL);
        }

        #[test]
        fn every_moment_lies_in_one_window(created in 0_i64..4_000_000_000_000, later in 0_i64..4_000_000_000_000, days in 1_u32..400) {
            let at = |millis| DateTime::from_timestamp_millis(millis).unwrap();
            let now = at(created + later);
            let window = UsageWindow::at(at(created), now, days);
            prop_assert!(window.holds(Day::of(now)) && window.reset_at() > now);
            let next = UsageWindow::at(at(created), window.reset_at(), days);
            prop_assert_eq!(next.first, window.end);
            prop_assert_eq!(next.end.number() - next.first.number(), i64::from(days));
        }
    }
}
