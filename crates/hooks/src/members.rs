//! Reads members of payloads, which name the same thing differently.

use std::borrow::Cow;

use chrono::DateTime;
use serde_json::{Map, Value};

/// Longest content member in bytes of JSON; a longer one is cut.
const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of a last word that is dropped when content is cut.
const LAST_WORD_BYTES_MAX: usize = 4 * 1024;

const LABEL_BYTES_MAX: usize = 64;

/// The first of `names` that is present and not null.
pub fn first<'v>(members: &'v Map<String, Value>, names: &[&str]) -> Option<&'v Value> {
    names.iter().find_map(|name| members.get(*name).filter(|value| !value.is_null()))
}

/// The first of `names` that is a text with at least one character.
pub fn text<'v>(members: &'v Map<String, Value>, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| members.get(*name)?.as_str().filter(|text| !text.is_empty()))
}

/// A name that the tool defines, such as the name of a hook, tool or model: a letter followed by letters, digits and `_ - . :`, at most
/// 64 in total.
///
/// Labels are sent at every level except `off`. The form excludes sentences, paths and values that a member may contain instead of a
/// name.
pub fn label(text: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    (begins && text.len() <= LABEL_BYTES_MAX && text.bytes().all(plain)).then_some(text)
}

/// The first of `names` that is a label.
pub fn label_of<'v>(members: &'v Map<String, Value>, names: &[&str]) -> Option<&'v str> {
    text(members, names).and_then(label)
}

/// A time in epoch milliseconds, from a number of milliseconds or RFC 3339.
pub fn millis(value: &Value) -> Option<i64> {
    match value {
        Value::Number(_) => number(value).map(|number| {
            #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and times are far below")]
            let millis = number as i64;
            millis
        }),
        Value::String(text) => DateTime::parse_from_rfc3339(text).ok().map(|at| at.timestamp_millis()),
        _ => None,
    }
    .filter(|millis| (0..1 << 47).contains(millis))
}

/// A number that is not negative.
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A value as content, and whether it was cut. Text that exceeds the limit is cut at its end; other values are converted to text first.
pub fn content(value: &Value) -> (Value, bool) {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    };
    let is_short =
        if value.is_string() { end_of_content(&text) == text.len() } else { text.len() <= CONTENT_BYTES_MAX };
    if is_short {
        return (value.clone(), false);
    }
    let end = end_of_content(&text);
    let begin = text.get(..end).unwrap_or_default();
    // A secret that is cut in two would not be recognised, so the last word is dropped.
    let word = begin.rfind(char::is_whitespace).filter(|space| end - space <= LAST_WORD_BYTES_MAX);
    (Value::String(begin.get(..word.unwrap_or(end)).unwrap_or_default().to_owned()), true)
}

/// The end of the longest start of a text that fits into the limit as JSON.
fn end_of_content(text: &str) -> usize {
    let mut written = 0;
    let is_beyond = |character: char| {
        written += match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            control if control.is_control() => 6,
            other => other.len_utf8(),
        };
        written > CONTENT_BYTES_MAX
    };
    text.find(is_beyond).unwrap_or(text.len())
}

/// JSON within a text, as GitHub Copilot and Cursor pass arguments; other values unchanged.
pub fn unpacked(value: &Value) -> Value {
    let parsed = value.as_str().filter(|text| text.trim_start().starts_with(['{', '[']));
    parsed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_names_and_neither_sentences_nor_paths() {
        for good in ["Bash", "mcp__github__create_issue", "MCP:server:tool", "gpt-5.1-codex"] {
            assert_eq!(label(good), Some(good));
        }
        for bad in ["", "two words", "/etc/passwd", "src/main.rs", "1st", "ümlaut", &"x".repeat(65), "a\nb"] {
            assert_eq!(label(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_milliseconds_or_rfc_3339() {
        assert_eq!(millis(&json!(1_704_614_400_000_i64)), Some(1_704_614_400_000));
        assert_eq!(millis(&json!("2024-01-07T08:00:00Z")), Some(1_704_614_400_000));
        for none in [json!(-1), json!(1e300), json!("yesterday"), json!(null), json!([1])] {
            assert_eq!(millis(&none), None, "{none}");
        }
    }

    #[test]
    fn long_content_is_cut_between_characters() {
        let (cut, is_cut) = content(&json!("\u{1}".repeat(CONTENT_BYTES_MAX)));
        assert!(is_cut && cut.to_string().len() <= CONTENT_BYTES_MAX + 2);
        let (cut, is_cut) = content(&json!("ü".repeat(CONTENT_BYTES_MAX)));
        assert!(is_cut && cut.as_str().unwrap().len() <= CONTENT_BYTES_MAX);
        let (cut, is_cut) = content(&json!({ "a": "x".repeat(CONTENT_BYTES_MAX) }));
        assert!(is_cut && cut.as_str().unwrap().starts_with(r#"{"a":"x"#));
        assert_eq!(content(&json!({ "a": 1 })), (json!({ "a": 1 }), false));
    }
}
