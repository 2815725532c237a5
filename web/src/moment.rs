//! Moments as people read them: "3 minutes ago", with the exact time on hover.

use std::fmt;

use askama::FastWritable;
use askama::filters::HtmlSafe;
use chrono::TimeDelta;
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

    /// "3 minutes ago", "in 2 days".
    pub fn relative(&self) -> String {
        let delta = self.at - self.now;
        // What has just been given 30 minutes should not say 29.
        let span = if delta > TimeDelta::zero() { delta + TimeDelta::seconds(30) } else { -delta };
        let words = in_words(span);
        match words {
            None => "just now".into(),
            Some(words) if delta > TimeDelta::zero() => format!("in {words}"),
            Some(words) => format!("{words} ago"),
        }
    }
}

fn in_words(span: TimeDelta) -> Option<String> {
    let (minutes, hours, days) = (span.num_minutes(), span.num_hours(), span.num_days());
    let (count, unit) = match (minutes, hours, days) {
        (0, ..) => return None,
        (1..60, ..) => (minutes, "minute"),
        (_, 1..24, _) => (hours, "hour"),
        (_, _, 1..60) => (days, "day"),
        (_, _, 60..730) => (days / 30, "month"),
        _ => (days / 365, "year"),
    };
    Some(if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") })
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

/// Digits, colons and our own words: nothing that needs escaping.
impl HtmlSafe for Moment {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_people_say_it() {
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(20_000);
        let told = |delta: TimeDelta| Moment::new(now + delta, now).relative();
        assert_eq!(told(TimeDelta::zero()), "just now");
        assert_eq!(told(TimeDelta::seconds(-59)), "just now");
        assert_eq!(told(TimeDelta::seconds(-60)), "1 minute ago");
        assert_eq!(told(TimeDelta::minutes(-59)), "59 minutes ago");
        assert_eq!(told(TimeDelta::hours(-23)), "23 hours ago");
        assert_eq!(told(TimeDelta::days(-1)), "1 day ago");
        assert_eq!(told(TimeDelta::days(-59)), "59 days ago");
        assert_eq!(told(TimeDelta::days(-65)), "2 months ago");
        assert_eq!(told(TimeDelta::days(-800)), "2 years ago");
        assert_eq!(told(TimeDelta::seconds(29)), "just now");
        assert_eq!(told(TimeDelta::seconds(1799)), "in 30 minutes");
        assert_eq!(told(TimeDelta::days(2)), "in 2 days");
    }

    #[test]
    fn the_exact_time_is_on_hover() {
        let at = Timestamp::UNIX_EPOCH;
        let written = Moment::new(at, at).to_string();
        assert!(written.contains(r#"title="1 January 1970, 00:00:00 UTC""#), "{written}");
    }
}
