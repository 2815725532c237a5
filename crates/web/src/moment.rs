//! Moments as people read them: "3 minutes ago", with the exact time on hover.

use std::fmt;

use askama::FastWritable;
use askama::filters::HtmlSafe;
use domain::Timestamp;
use domain::clock::date_time;

/// A moment, seen from now. Written as a `<time>` element, which a script keeps up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    at: Timestamp,
    now: Timestamp,
}

impl Moment {
    /// `at`, seen from `now`.
    pub fn new(at: Timestamp, now: Timestamp) -> Self {
        Self { at, now }
    }

    /// "3 minutes ago", "in 2 days": rounded to the nearest unit. The script `page.js` writes the same words.
    pub fn relative(&self) -> String {
        let seconds = (self.at - self.now).num_seconds();
        match in_words(seconds.unsigned_abs()) {
            None => "just now".into(),
            Some(words) if seconds > 0 => format!("in {words}"),
            Some(words) => format!("{words} ago"),
        }
    }
}

/// A unit in seconds, the number of units from which the next one is used, and its name.
const UNITS: [(u64, u64, &str); 5] = [
    (60, 60, "minute"),
    (60 * 60, 24, "hour"),
    (24 * 60 * 60, 60, "day"),
    // A twelfth of a year.
    (2_629_800, 24, "month"),
    // 365.25 days.
    (31_557_600, u64::MAX, "year"),
];

fn in_words(span: u64) -> Option<String> {
    let rounded = |unit: u64| span.saturating_add(unit / 2) / unit;
    let (unit, _, name) = UNITS.into_iter().find(|(unit, end, _)| rounded(*unit) < *end)?;
    match rounded(unit) {
        0 => None,
        1 => Some(format!("1 {name}")),
        count => Some(format!("{count} {name}s")),
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.at.format("%-d %B %Y, %H:%M:%S UTC");
        write!(f, r#"<time datetime="{}" title="{exact}">{}</time>"#, date_time(self.at), self.relative())
    }
}

impl FastWritable for Moment {
    fn write_into(&self, dest: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(write!(dest, "{self}")?)
    }
}

/// The text only contains digits, colons and constant words, which need no escaping.
impl HtmlSafe for Moment {}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_moment_is_written_as_people_say_it() {
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(20_000);
        let text = |delta: TimeDelta| Moment::new(now + delta, now).relative();
        assert_eq!(text(TimeDelta::zero()), "just now");
        assert_eq!(text(TimeDelta::seconds(-29)), "just now");
        assert_eq!(text(TimeDelta::seconds(-30)), "1 minute ago");
        assert_eq!(text(TimeDelta::seconds(-60)), "1 minute ago");
        assert_eq!(text(TimeDelta::seconds(-90)), "2 minutes ago");
        assert_eq!(text(TimeDelta::minutes(-59)), "59 minutes ago");
        assert_eq!(text(TimeDelta::seconds(-3570)), "1 hour ago");
        assert_eq!(text(TimeDelta::hours(-23)), "23 hours ago");
        assert_eq!(text(TimeDelta::minutes(-1410)), "1 day ago");
        assert_eq!(text(TimeDelta::days(-1)), "1 day ago");
        assert_eq!(text(TimeDelta::days(-59)), "59 days ago");
        assert_eq!(text(TimeDelta::days(-60)), "2 months ago");
        assert_eq!(text(TimeDelta::days(-65)), "2 months ago");
        assert_eq!(text(TimeDelta::days(-715)), "23 months ago");
        assert_eq!(text(TimeDelta::days(-716)), "2 years ago");
        assert_eq!(text(TimeDelta::days(-800)), "2 years ago");
        assert_eq!(text(TimeDelta::seconds(29)), "just now");
        assert_eq!(text(TimeDelta::seconds(1799)), "in 30 minutes");
        assert_eq!(text(TimeDelta::days(2)), "in 2 days");
        // A key for 90 days shows the same text at once and half a minute later.
        assert_eq!(text(TimeDelta::days(90)), "in 3 months");
        assert_eq!(text(TimeDelta::days(90) - TimeDelta::seconds(30)), "in 3 months");
    }

    #[test]
    fn the_exact_time_is_on_hover() {
        let at = Timestamp::UNIX_EPOCH;
        let written = Moment::new(at, at).to_string();
        assert!(written.contains(r#"title="1 January 1970, 00:00:00 UTC""#), "{written}");
    }
}
