//! Text that fits: of the server, so that it may contain anything.

use chrono::{DateTime, TimeDelta};
use domain::Timestamp;
use domain::foreign::visible;
use textwrap::core::display_width;

/// The text on one line of at most this width; the end of a longer one is replaced by `…`.
pub fn cut(text: &str, width: usize) -> String {
    let text = visible(text);
    if display_width(&text) <= width {
        return text;
    }
    let mut short = String::new();
    for letter in text.chars() {
        if display_width(&short) + display_width(letter.encode_utf8(&mut [0; 4])) >= width {
            break;
        }
        short.push(letter);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

/// The end of the text, if it is wider than this.
pub fn end_of(text: &str, width: usize) -> String {
    let text = visible(text);
    let mut places = text.char_indices().map(|(place, _)| place).chain([text.len()]);
    let fitting = places.find(|place| display_width(&text[*place..]) <= width);
    text[fitting.unwrap_or(text.len())..].to_owned()
}

/// The lines of a text, each of at most this width.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let lines = text.lines().map(visible);
    let wrapped = lines.flat_map(|line| {
        let options = textwrap::Options::new(width.max(1)).subsequent_indent("  ");
        textwrap::wrap(&line, options).into_iter().map(String::from).collect::<Vec<_>>()
    });
    wrapped.collect()
}

/// A duration in its largest unit, in at most five characters up to 1,000 days.
pub fn brief(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} m", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time in RFC 3339 with a precision of minutes, without its date if it is within half a day of `now`.
pub fn minute(text: &str, now: Timestamp) -> String {
    let Ok(at) = DateTime::parse_from_rfc3339(text) else { return visible(text) };
    let at = at.to_utc();
    let form = if (at - now).abs() < TimeDelta::hours(12) { "%H:%M UTC" } else { "%m-%d %H:%M UTC" };
    at.format(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_a_width_and_moves_no_cursor() {
        let cuts = [6, 5, 1, 0].map(|width| cut("intake", width));
        assert_eq!(cuts, ["intake", "inta…", "…", ""]);
        assert_eq!(cut("a\u{1b}[2Jb\n\u{202e}c", 20), "a [2Jb c");
        assert_eq!([6, 5, 4].map(|width| cut("世界中", width)), ["世界中", "世界…", "世…"]);
        assert_eq!([end_of("intake", 4), end_of("intake", 9), end_of("世界中", 5)], ["take", "intake", "界中"]);
        assert_eq!(wrapped("one two three\n\u{9b}2J", 8), ["one two", "  three", " 2J"]);
    }

    #[test]
    fn a_time_is_in_its_largest_unit() {
        let texts = [0, 1_999, 119_999, 120_000, 7_199_999, 7_200_000, 172_800_000].map(brief);
        assert_eq!(texts, ["0 s", "1 s", "119 s", "2 m", "119 m", "2 h", "2 d"]);
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(minute("1970-01-01T11:05:59.000Z", now), "11:05 UTC");
        assert_eq!(minute("1970-01-01T14:05:59.000Z", now), "01-01 14:05 UTC");
        assert_eq!(minute("later", now), "later");
    }
}
