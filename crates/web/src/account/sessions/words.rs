//! Durations and numbers as people read them.

/// "8 s", "42 min", "3 h 5 min", "2 days 4 h"; shorter than a second is "0.4 s".
pub fn duration(millis: i64) -> String {
    let millis = millis.max(0);
    let seconds = millis / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0 => format!("{:.1} s", f64::from(i32::try_from(millis).unwrap_or_default()) / 1_000.0),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        3_600..86_400 if minutes % 60 == 0 => format!("{hours} h"),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} {} h", count(days, "day", "days"), hours % 24),
    }
}

/// "1 tool call", "31 tool calls", "48 k tokens".
pub fn count(number: i64, one: &str, many: &str) -> String {
    format!("{} {}", amount(number), if number == 1 { one } else { many })
}

/// "950", "9,500", "48 k", "1.2 M".
pub fn amount(number: i64) -> String {
    let (unit, name) = match number {
        ..10_000 => return domain::thousands(number),
        10_000..1_000_000 => (1_000, "k"),
        _ => (1_000_000, "M"),
    };
    let tenths = number / (unit / 10);
    if tenths < 1_000 { format!("{}.{} {name}", tenths / 10, tenths % 10) } else { format!("{} {name}", tenths / 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_numbers_have_a_readable_unit() {
        let words = [0, 400, 8_999, 150_000, 7_200_000, 11_100_000, 187_200_000].map(duration);
        assert_eq!(words, ["0.0 s", "0.4 s", "8 s", "2 min", "2 h", "3 h 5 min", "2 days 4 h"]);
        assert_eq!(duration(-5), "0.0 s");
        assert_eq!(duration(i64::MAX), "106751 M days 7 h");
        let amounts = [0, 9_999, 48_300, 150_000, 1_250_000].map(amount);
        assert_eq!(amounts, ["0", "9,999", "48.3 k", "150 k", "1.2 M"]);
        assert_eq!((count(1, "file", "files"), count(2, "file", "files")), ("1 file".to_owned(), "2 files".to_owned()));
    }
}
