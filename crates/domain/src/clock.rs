//! Time as a value: components read the time from a [`Clock`] that they are given, so that tests can control it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike, DurationRound, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Timelike, Utc};

/// A time in UTC. Clocks return whole milliseconds, the precision of both databases.
pub type Timestamp = DateTime<Utc>;

/// A duration for computations with times; the longest one if it does not fit.
pub fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

/// Parses an RFC 3339 date-time or milliseconds since 1970, into milliseconds.
pub fn read_millis(text: &str) -> Option<i64> {
    let millis = text.parse::<i64>().ok();
    millis.or_else(|| DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.timestamp_millis()))
}

/// Formats a time for the API: RFC 3339 in UTC, with milliseconds.
pub fn date_time(moment: Timestamp) -> String {
    let nanos = moment.timestamp_subsec_nanos();
    let Some(mut text) = seconds(moment) else { return moment.to_rfc3339_opts(SecondsFormat::Millis, true) };
    text.push('.');
    push_digits(&mut text, nanos / 1_000_000, 3);
    text.push('Z');
    text
}

/// Formats a time for SQLite: RFC 3339 with the offset `+00:00` and 0, 3, 6 or 9 decimals, as many as it needs.
pub fn stored(moment: Timestamp) -> String {
    let nanos = moment.timestamp_subsec_nanos();
    let text = seconds(moment).filter(|_| nanos.is_multiple_of(1_000_000));
    let Some(mut text) = text else { return moment.to_rfc3339_opts(SecondsFormat::AutoSi, false) };
    if nanos > 0 {
        text.push('.');
        push_digits(&mut text, nanos / 1_000_000, 3);
    }
    text.push_str("+00:00");
    text
}

/// Parses the format of [`stored`], and any other RFC 3339.
pub fn from_stored(text: &str) -> Result<Timestamp, chrono::ParseError> {
    match whole_millis(text.as_bytes()) {
        Some(moment) => Ok(moment),
        None => DateTime::parse_from_rfc3339(text).map(|moment| moment.to_utc()),
    }
}

/// `2026-01-01T00:00:00`; `None` for years beyond four digits and for leap seconds.
fn seconds(moment: Timestamp) -> Option<String> {
    let (date, time) = (moment.date_naive(), moment.time());
    let year = u32::try_from(date.year()).ok().filter(|year| (1..=9999).contains(year))?;
    if time.nanosecond() >= 1_000_000_000 {
        return None;
    }
    let mut text = String::with_capacity(32);
    push_digits(&mut text, year, 4);
    for (before, number) in
        [('-', date.month()), ('-', date.day()), ('T', time.hour()), (':', time.minute()), (':', time.second())]
    {
        text.push(before);
        push_digits(&mut text, number, 2);
    }
    Some(text)
}

fn push_digits(text: &mut String, number: u32, digits: u32) {
    for place in (0..digits).rev() {
        // The argument is below 10, so the fallback is unreachable.
        text.push(char::from_digit(number / 10_u32.pow(place) % 10, 10).unwrap_or('0'));
    }
}

/// Parses `2026-01-01T00:00:00+00:00` and `2026-01-01T00:00:00.001+00:00`; `None` for anything else.
fn whole_millis(text: &[u8]) -> Option<Timestamp> {
    let number = |from: usize, to: usize| {
        text.get(from..to)?
            .iter()
            .try_fold(0_u32, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0')))
    };
    let millis = match text.get(19..)? {
        b"+00:00" => 0,
        [b'.', _, _, _, b'+', b'0', b'0', b':', b'0', b'0'] => number(20, 23)?,
        _ => return None,
    };
    if [text[4], text[7], text[10], text[13], text[16]] != *b"--T::" {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(i32::try_from(number(0, 4)?).ok()?, number(5, 7)?, number(8, 10)?)?;
    // Rejects the second 60, which the library reads as a leap second.
    let time = NaiveTime::from_hms_milli_opt(number(11, 13)?, number(14, 16)?, number(17, 19)?, millis)?;
    Some(date.and_time(time).and_utc())
}

/// A source of the current time. Clones are the same clock.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    Machine(Arc<MachineClock>),
    Given(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

/// The clock of the machine, or a reference that it follows.
struct MachineClock {
    /// By how much the machine's clock is wrong; zero outside of tests.
    error: TimeDelta,
    /// Origin of elapsed times, which do not depend on changes of the wall clock.
    epoch: Instant,
    /// The reference time at `epoch`, in microseconds since 1970; [`UNSET`] without a reference.
    reference: AtomicI64,
}

const UNSET: i64 = i64::MIN;

impl MachineClock {
    fn wall(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one door to the wall clock")]
        let now = Utc::now();
        now + self.error
    }

    /// Microseconds since `epoch`.
    fn elapsed(&self) -> i64 {
        i64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn now(&self) -> Timestamp {
        match self.reference.load(Ordering::Relaxed) {
            UNSET => self.wall(),
            // Fails only for a reference beyond the years that a `Timestamp` has.
            reference => Timestamp::from_timestamp_micros(reference.saturating_add(self.elapsed()))
                .unwrap_or_else(|| self.wall()),
        }
    }
}

impl Clock {
    /// The wall clock of the machine.
    pub fn system() -> Self {
        Self::wrong_by(TimeDelta::zero())
    }

    /// The wall clock of a machine that differs from the true time by `error`, for tests.
    pub fn wrong_by(error: TimeDelta) -> Self {
        let clock = MachineClock { error, epoch: Instant::now(), reference: AtomicI64::new(UNSET) };
        Self(Source::Machine(Arc::new(clock)))
    }

    /// A clock that calls `source`, for tests and simulations.
    pub fn from_fn(source: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Given(Arc::new(source)))
    }

    /// The current time, truncated to milliseconds.
    pub fn now(&self) -> Timestamp {
        truncated(match &self.0 {
            Source::Machine(clock) => clock.now(),
            Source::Given(source) => source(),
        })
    }

    /// The current time of the machine's clock, truncated to milliseconds, even while this clock follows a reference; `None` for a clock
    /// of [`Self::from_fn`], which has no machine.
    pub fn machine_now(&self) -> Option<Timestamp> {
        match &self.0 {
            Source::Machine(clock) => Some(truncated(clock.wall())),
            Source::Given(_) => None,
        }
    }

    /// Sets the clock to a reference time. From then on it advances with elapsed time, and changes of the machine's clock have no effect.
    /// Does nothing for a clock of [`Self::from_fn`].
    pub fn follow(&self, reference_now: Timestamp) {
        if let Source::Machine(clock) = &self.0 {
            clock.reference.store(reference_now.timestamp_micros() - clock.elapsed(), Ordering::Relaxed);
        }
    }
}

fn truncated(now: Timestamp) -> Timestamp {
    // Fails only beyond the year 2262, where nanoseconds exceed 64 bits.
    now.duration_trunc(TimeDelta::milliseconds(1)).unwrap_or(now)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_is_a_date_time_or_milliseconds() {
        assert_eq!(read_millis("1767225600000"), Some(1_767_225_600_000));
        assert_eq!(read_millis("2026-01-01T00:00:00Z"), Some(1_767_225_600_000));
        assert_eq!(read_millis("2026-01-01T01:00:00+01:00"), Some(1_767_225_600_000));
        assert_eq!(read_millis("yesterday"), None);
    }

    fn assert_as_the_library_does(moment: Timestamp) {
        assert_eq!(date_time(moment), moment.to_rfc3339_opts(SecondsFormat::Millis, true));
        let text = stored(moment);
        assert_eq!(text, moment.to_rfc3339_opts(SecondsFormat::AutoSi, false));
        let read = DateTime::parse_from_rfc3339(&text).map(|moment| moment.to_utc());
        assert_eq!(from_stored(&text), read);
    }

    proptest! {
        #[test]
        fn moments_are_written_and_read_as_the_library_does(
            seconds in -70_000_000_000_i64..260_000_000_000, nanos in 0_u32..2_000_000_000, is_whole: bool, millis in 0_u32..2000,
        ) {
            let nanos = if is_whole { millis * 1_000_000 } else { nanos };
            if let Some(moment) = DateTime::from_timestamp(seconds, nanos) {
                assert_as_the_library_does(moment);
            }
        }

        #[test]
        fn any_other_text_is_read_as_the_library_does(
            text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,4})?(Z|[+-]0[0-9]:00)?",
        ) {
            prop_assert_eq!(from_stored(&text), DateTime::parse_from_rfc3339(&text).map(|moment| moment.to_utc()));
        }
    }

    #[test]
    fn odd_moments_are_no_exception() {
        for text in ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2016-12-31T23:59:60Z"]
        {
            assert_as_the_library_does(text.parse().unwrap());
        }
        for text in
            ["", "2026", "2026-02-30T00:00:00+00:00", "2026-01-01T00:00:00.0é+00:00", "2026-01-01T24:00:00+00:00"]
        {
            assert!(from_stored(text).is_err(), "{text}");
        }
        let leap = "2016-12-31T23:59:60+00:00";
        assert_eq!(from_stored(leap), DateTime::parse_from_rfc3339(leap).map(|moment| moment.to_utc()));
    }

    #[test]
    fn a_wrong_clock_that_follows_a_reference_has_the_time_of_the_reference() {
        let (right, wrong) = (Clock::system(), Clock::wrong_by(TimeDelta::seconds(-60)));
        let behind = |clock: &Clock| (right.now() - clock.now()).num_seconds();
        assert!((59..=61).contains(&behind(&wrong)));
        let copy = wrong.clone();
        wrong.follow(right.now());
        assert!((-1..=1).contains(&behind(&copy)), "clones are the same clock");
        assert!((59..=61).contains(&(right.now() - copy.machine_now().unwrap()).num_seconds()));

        let given = Clock::from_fn(|| Timestamp::UNIX_EPOCH);
        given.follow(right.now());
        assert_eq!((given.now(), given.machine_now()), (Timestamp::UNIX_EPOCH, None));
    }
}
