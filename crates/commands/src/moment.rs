//! Times in tables: relative, in at most ten characters; and lengths of time in options.

use std::time::Duration;

use chrono::TimeDelta;
use domain::Timestamp;

/// A length of time such as `30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// "now", "5 min ago", "3 h ago", "12 d ago", or the day of older times.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    let past = now - at;
    match (past.num_minutes(), past.num_hours(), past.num_days()) {
        (..1, ..) => "now".to_owned(),
        (minutes @ 1..60, ..) => format!("{minutes} min ago"),
        (_, hours @ 1..48, _) => format!("{hours} h ago"),
        (_, _, days @ 2..30) => format!("{days} d ago"),
        _ => at.format("%Y-%m-%d").to_string(),
    }
}

/// [`ago`] of a date-time in RFC 3339; the text itself if it is none.
pub fn ago_of(text: &str, now: Timestamp) -> String {
    chrono::DateTime::parse_from_rfc3339(text).map_or_else(|_| text.to_owned(), |at| ago(at.to_utc(), now))
}

/// [`ago_of`]; for a time to come "in 5 min", "in 3 h", or its day.
pub fn near(text: &str, now: Timestamp) -> String {
    let Ok(at) = chrono::DateTime::parse_from_rfc3339(text) else { return text.to_owned() };
    let at = at.to_utc();
    let left = at - now;
    match (left.num_minutes(), left.num_hours()) {
        (..1, _) => ago(at, now),
        (minutes @ 1..60, _) => format!("in {minutes} min"),
        (_, hours @ 1..48) => format!("in {hours} h"),
        _ => at.format("%Y-%m-%d").to_string(),
    }
}

/// A date-time with a precision of seconds, for wide tables.
pub fn seconds(moment: &str) -> String {
    moment.get(..19).map_or_else(|| moment.to_owned(), |moment| moment.replace('T', " "))
}

/// The end of an id. Ids start with their time, so ids of one minute only differ at the end.
pub fn short(id: &str) -> String {
    const SHOWN: usize = 8;
    if uuid::Uuid::try_parse(id).is_ok() { format!("…{}", &id[id.len() - SHOWN..]) } else { id.to_owned() }
}

/// A time with a precision of minutes.
pub fn minute(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// The expiry of a credential, in words.
pub fn until(end: Option<Timestamp>, now: Timestamp) -> String {
    match end {
        None => "does not expire".to_owned(),
        Some(end) if end - now > TimeDelta::days(2) => format!("expires in {} days", (end - now).num_days()),
        Some(end) => format!("expires at {}", minute(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_until_they_are_a_month_old() {
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(20_000);
        let said = |past: TimeDelta| ago(now - past, now);
        assert_eq!(said(TimeDelta::seconds(59)), "now");
        assert_eq!(said(TimeDelta::seconds(-5)), "now", "a clock may be ahead");
        assert_eq!(said(TimeDelta::minutes(59)), "59 min ago");
        assert_eq!(said(TimeDelta::hours(47)), "47 h ago");
        assert_eq!(said(TimeDelta::days(29)), "29 d ago");
        let text = |days| domain::clock::date_time(now + TimeDelta::days(days));
        let soon = |left: TimeDelta| near(&domain::clock::date_time(now + left), now);
        assert_eq!(
            (soon(TimeDelta::seconds(59)).as_str(), soon(TimeDelta::minutes(29)).as_str()),
            ("now", "in 29 min")
        );
        assert_eq!(soon(TimeDelta::hours(47)), "in 47 h");
        assert_eq!((near(&text(30), now).as_str(), near(&text(-3), now).as_str()), ("2024-11-03", "3 d ago"));
        assert_eq!(near("svc-cli", now), "svc-cli");
        assert_eq!(said(TimeDelta::days(30)), "2024-09-04");
        assert_eq!(ago_of("2024-10-03T23:00:00.000Z", now), "1 h ago");
        assert_eq!(ago_of("yesterday", now), "yesterday");
    }

    #[test]
    fn an_id_is_shown_by_its_end_and_other_text_whole() {
        assert_eq!(short("019b76da-a800-7274-8acf-2e56e162ebd9"), "…e162ebd9");
        assert_eq!(short("svc-cli"), "svc-cli");
    }

    #[test]
    fn an_expiry_is_in_days_until_it_is_near() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(until(None, now), "does not expire");
        assert_eq!(until(Some(now + TimeDelta::days(90)), now), "expires in 90 days");
        assert_eq!(until(Some(now + TimeDelta::hours(5)), now), "expires at 1970-01-01 05:00 UTC");
    }
}
