//! The members of a payload as the words of a summary.

use chrono::DateTime;
use serde_json::{Map, Number, Value};

use super::summary::{SummaryNames, cut};
use crate::consent::ConsentLevel;
use crate::lane::Lane;
use crate::thousands;

/// Maximum number of characters of a value.
const VALUE_CHARS_MAX: usize = 80;
/// Characters of a text that are read; more than [`VALUE_CHARS_MAX`], because white space is joined.
const READ_CHARS_MAX: usize = 400;

/// Members that hooks and spans send at the level `full` only (`docs/hooks.md`), although no type declares all of them as content.
const CONTENT: [&str; 17] = [
    "completion",
    "content",
    "cwd",
    "edits",
    "error",
    "excerpt",
    "file_path",
    "input",
    "message",
    "output",
    "prompt",
    "query",
    "reason_text",
    "result",
    "summary",
    "system_instructions",
    "title",
];

/// The members of a payload that the declared level permits in a summary.
pub(super) struct Members<'e> {
    pub payload: &'e Map<String, Value>,
    /// The level that the event declares.
    pub level: ConsentLevel,
    /// Content fields of the event's type.
    pub content: &'e [String],
    pub names: &'e dyn SummaryNames,
}

impl Members<'_> {
    /// Whether a member has this value.
    pub(super) fn is(&self, name: &str, value: &Value) -> bool {
        self.value(name) == Some(value)
    }

    /// A member as text.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.written(path, None)
    }

    /// A member in words; `None` if it is absent, has no words, or is content that the level forbids. With a noun, a number is a count.
    pub(super) fn written(&self, path: &str, noun: Option<&str>) -> Option<String> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let value = self.value(path)?;
        match (value, noun) {
            (Value::Number(number), Some(noun)) => Some(counted(number, noun)),
            (Value::Number(number), None) => Some(number_in_words(name, number)),
            (Value::Bool(value), _) => Some(if *value { "yes" } else { "no" }.to_owned()),
            (Value::String(text), _) => self.text_in_words(name, text),
            (Value::Array(values), _) => {
                let texts: Vec<&str> = values.iter().map_while(Value::as_str).take(READ_CHARS_MAX).collect();
                one_line(&texts.join(" "))
            }
            (Value::Null | Value::Object(_), _) => None,
        }
    }

    fn value(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let first = names.next()?;
        if self.level != ConsentLevel::Full && self.is_content(first) {
            return None;
        }
        names.try_fold(self.payload.get(first)?, |value, name| value.get(name))
    }

    fn is_content(&self, name: &str) -> bool {
        CONTENT.contains(&name) || self.content.iter().any(|content| content == name)
    }

    fn text_in_words(&self, name: &str, text: &str) -> Option<String> {
        if let Some(name) = self.names.name_of(name, text) {
            return one_line(&name);
        }
        match name {
            "lane" => text.parse().map(|lane: Lane| lane.title().to_owned()).ok().or_else(|| one_line(text)),
            // An id says nothing to a reader.
            "machine_uuid" => Some("one computer".to_owned()),
            "agent_id" => Some("an agent".to_owned()),
            "set_by" if matches!(text, "person" | "computer") => Some(format!("a {text}")),
            "set_by" if text == "agent" => Some("an agent".to_owned()),
            _ if name.ends_with("_until") => match DateTime::parse_from_rfc3339(text) {
                Ok(at) => Some(at.to_utc().format("%-d %B %Y, %H:%M UTC").to_string()),
                Err(_) => one_line(text),
            },
            _ if name.ends_with("_path") => {
                one_line(text.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(text))
            }
            _ => one_line(text),
        }
    }
}

/// The beginning of a text on one line; `None` if nothing of it can be seen.
fn one_line(text: &str) -> Option<String> {
    let text: String = text.chars().take(READ_CHARS_MAX).collect();
    let words = crate::foreign::visible(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then(|| cut(&words, VALUE_CHARS_MAX).into_owned())
}

fn counted(number: &Number, noun: &str) -> String {
    let plural = if number.as_f64() == Some(1.0) { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

fn number_in_words(name: &str, number: &Number) -> String {
    let value = number.as_f64().filter(|value| value.is_finite() && *value >= 0.0);
    match value {
        Some(millis) if name.ends_with("_ms") => duration(millis),
        Some(bytes) if name.ends_with("_bytes") => size(bytes),
        _ => grouped(number),
    }
}

/// A duration in one or two units.
fn duration(millis: f64) -> String {
    // `as` saturates, which is right for a text.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and `as` saturates")]
    let whole = |value: f64| value.round() as u64;
    match millis {
        0.0..0.5 => "under 1 ms".to_owned(),
        0.5..99.5 => format!("{} ms", whole(millis)),
        99.5..59_950.0 => format!("{:.1} s", millis / 1_000.0),
        59_950.0..3_599_500.0 => {
            let seconds = whole(millis / 1_000.0);
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
        _ => {
            let minutes = whole(millis / 60_000.0);
            format!("{} h {} min", thousands(minutes / 60), minutes % 60)
        }
    }
}

fn size(bytes: f64) -> String {
    match bytes.min(1e18) {
        bytes @ 0.0..1_000.0 => format!("{bytes:.0} bytes"),
        bytes @ 1_000.0..999_950.0 => format!("{:.1} kB", bytes / 1e3),
        bytes @ 999_950.0..999_950_000.0 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// A number with commas between thousands, and at most two decimals.
fn grouped(number: &Number) -> String {
    /// From here on a number is written with an exponent.
    const LARGE: f64 = 1e15;
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(value) if value.abs() >= LARGE => number.to_string(),
        Some(value) => {
            let text = format!("{value:.2}");
            match text.trim_end_matches('0').trim_end_matches('.').split_once('.') {
                Some((whole, decimals)) => format!("{}.{decimals}", thousands(whole)),
                None => thousands(text.split('.').next().unwrap_or_default()),
            }
        }
        None => thousands(number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_by_the_name_of_their_member() {
        let written = |name: &str, value: Value| match value {
            Value::Number(number) => number_in_words(name, &number),
            other => panic!("{other}"),
        };
        for (name, value, words) in [
            ("duration_ms", json!(0), "under 1 ms"),
            ("duration_ms", json!(12.4), "12 ms"),
            ("duration_ms", json!(412), "0.4 s"),
            ("duration_ms", json!(59_949), "59.9 s"),
            ("duration_ms", json!(59_950), "1 min 0 s"),
            ("duration_ms", json!(3_599_499), "59 min 59 s"),
            ("duration_ms", json!(3_599_500), "1 h 0 min"),
            ("duration_ms", json!(-1), "-1"),
            ("content_bytes", json!(999), "999 bytes"),
            ("content_bytes", json!(12_345), "12.3 kB"),
            ("content_bytes", json!(1e300), "1000000000.0 GB"),
            ("input_tokens", json!(9_893), "9,893"),
            ("count", json!(-1_234_567), "-1,234,567"),
            ("score", json!(0.5), "0.5"),
            ("score", json!(1_234.567), "1,234.57"),
            ("score", json!(3.0), "3"),
            ("score", json!(-0.126), "-0.13"),
            ("score", json!(1e300), "1e+300"),
        ] {
            assert_eq!(written(name, value), words, "{name}");
        }
        assert!(duration(f64::MAX).len() < 40);
        assert_eq!(counted(&Number::from(1), "finding"), "1 finding");
        assert_eq!(counted(&Number::from(1_200), "result"), "1,200 results");
    }
}
