//! Parses the header `Retry-After` (RFC 9110, section 10.2.3).

use std::time::Duration;

use chrono::DateTime;

use crate::Timestamp;

/// The delay that the value requests, in seconds or by a date; `None` if it is neither. A past date is no delay.
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let moment = DateTime::parse_from_rfc2822(value).ok()?.to_utc();
    Some((moment - now).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_by_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        let delay = |value: &str| retry_after(value, now);
        assert_eq!(delay("120"), Some(Duration::from_mins(2)));
        assert_eq!(delay(" 120 "), Some(Duration::from_mins(2)));
        assert_eq!(delay("99999999999999999999999"), Some(Duration::MAX));
        assert_eq!(delay("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(37)));
        assert_eq!(delay("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!((delay("soon"), delay("-1"), delay("")), (None, None, None));
    }
}
