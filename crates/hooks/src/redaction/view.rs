//! A JSON object as one text, without the escapes of nested texts, and the mapping from it back to the texts of the object.
//!
//! Often only the surrounding text identifies a secret: `{"password": "…"}`, `["--token", "…"]`, `{"name": "cookie", "value": "…"}`. Tool
//! arguments are JSON within JSON, so that the same pair may also be `{\"password\":\"…\"}`. In the view all these forms look alike. A
//! quote of the object itself is [`QUOTE`], which occurs in no text, so that a text with quotes is still read to its end.

use std::ops::Range;

use serde_json::{Map, Value};

/// A quote around a text of the object.
pub const QUOTE: u8 = 1;

/// A position in the view and in its text, at the start of a text or after an escape.
#[derive(Debug, Clone, Copy)]
struct Point {
    view: usize,
    text: usize,
    leaf: usize,
}

/// A text of the object: a name, or a value that is a text or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Name,
    Value,
}

/// The view of an object.
#[derive(Debug, Default)]
pub struct View {
    bytes: Vec<u8>,
    points: Vec<Point>,
    leaves: Vec<Leaf>,
}

/// A part of one text of the object that is replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the text, in the order in which [`replace`] meets it.
    pub leaf: usize,
    /// The part, in bytes of the text.
    pub part: Range<usize>,
    /// Printed in its place.
    pub mark: String,
}

impl View {
    /// The view of the members of an object.
    pub fn of(members: &Map<String, Value>) -> Self {
        let mut view = Self::default();
        view.add_members(members);
        view
    }

    /// The text that rules are matched against.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_text(text, Leaf::Value),
            Value::Number(number) => {
                self.begin(Leaf::Value, 0);
                self.bytes.extend_from_slice(number.to_string().as_bytes());
            }
            Value::Array(values) => {
                self.bytes.push(b'[');
                for value in values {
                    self.add(value);
                    self.bytes.push(b',');
                }
                self.bytes.push(b']');
            }
            Value::Object(members) => self.add_members(members),
            Value::Null => self.bytes.extend_from_slice(b"null"),
            Value::Bool(is_true) => self.bytes.extend_from_slice(if *is_true { b"true" } else { b"false" }),
        }
    }

    fn add_members(&mut self, members: &Map<String, Value>) {
        self.bytes.push(b'{');
        for (name, value) in members {
            self.add_text(name, Leaf::Name);
            self.bytes.push(b':');
            self.add(value);
            self.bytes.push(b',');
        }
        self.bytes.push(b'}');
    }

    fn begin(&mut self, leaf: Leaf, text: usize) {
        self.leaves.push(leaf);
        self.point(text);
    }

    fn point(&mut self, text: usize) {
        self.points.push(Point { view: self.bytes.len(), text, leaf: self.leaves.len() - 1 });
    }

    fn add_text(&mut self, text: &str, leaf: Leaf) {
        self.bytes.push(QUOTE);
        self.begin(leaf, 0);
        let mut rest = 0;
        while let Some(escape) = text.get(rest..).and_then(|left| left.find('\\')).map(|offset| rest + offset) {
            self.copy(text.get(rest..escape).unwrap_or_default());
            let (character, end) = unescaped(text.as_bytes(), escape);
            self.point(escape);
            self.bytes.push(character);
            self.point(end);
            rest = end;
        }
        self.copy(text.get(rest..).unwrap_or_default());
        self.bytes.push(QUOTE);
    }

    fn copy(&mut self, text: &str) {
        self.bytes.extend(text.bytes().map(|byte| if byte == QUOTE { b' ' } else { byte }));
    }

    /// The parts of texts that a part of the view covers. A part that starts in a value covers only values.
    pub fn cuts(&self, part: &Range<usize>, mark: &str) -> Vec<Cut> {
        let first = self.points.partition_point(|point| point.view <= part.start).saturating_sub(1);
        let mut cuts = Vec::<Cut>::new();
        let is_of_value = self.kind(first) == Some(Leaf::Value);
        for nth in first..self.points.len() {
            let Some(point) = self.points.get(nth).filter(|point| point.view < part.end) else { break };
            let (begin, end) = (part.start.max(point.view), part.end.min(self.end_of(nth)));
            if begin >= end || is_of_value && self.kind(nth) == Some(Leaf::Name) {
                continue;
            }
            let text = point.text + (begin - point.view)..self.text_after(nth, end);
            match cuts.last_mut().filter(|cut| cut.leaf == point.leaf) {
                Some(cut) => cut.part.end = text.end,
                None => cuts.push(Cut { leaf: point.leaf, part: text, mark: mark.to_owned() }),
            }
        }
        cuts
    }

    fn kind(&self, nth: usize) -> Option<Leaf> {
        self.points.get(nth).and_then(|point| self.leaves.get(point.leaf)).copied()
    }

    /// The end, in the view, of the text that starts at a point: the end of the leaf, or the next point.
    fn end_of(&self, nth: usize) -> usize {
        let (Some(point), next) = (self.points.get(nth), self.points.get(nth + 1)) else { return 0 };
        let limit = next.map_or(self.bytes.len(), |next| next.view);
        if next.is_some_and(|next| next.leaf == point.leaf) {
            return limit;
        }
        // The structure between two leaves contains a quote, or follows a number.
        let left = self.bytes.get(point.view..limit).unwrap_or_default();
        let is_text = point.view > 0 && (point.text > 0 || self.bytes.get(point.view - 1) == Some(&QUOTE));
        let is_end = |byte: &u8| if is_text { *byte == QUOTE } else { matches!(byte, b',' | b'}' | b']') };
        point.view + left.iter().position(is_end).unwrap_or(left.len())
    }

    /// The end of a part in its text: an escape is covered completely.
    fn text_after(&self, nth: usize, end: usize) -> usize {
        let Some(point) = self.points.get(nth) else { return 0 };
        let next = self.points.get(nth + 1).filter(|next| next.leaf == point.leaf && next.view == end);
        next.map_or(point.text + (end - point.view), |next| next.text)
    }
}

/// The character that an escape means, at any depth of nested texts, and the end of the escape. A backslash that starts no escape means
/// itself.
fn unescaped(text: &[u8], begin: usize) -> (u8, usize) {
    let left = text.get(begin..).unwrap_or_default();
    let slashes = left.iter().take_while(|byte| **byte == b'\\').count();
    let after = begin + slashes;
    let character = match left.get(slashes) {
        Some(quote @ (b'"' | b'\'' | b'/' | b'`')) => *quote,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => {
            let digits = text.get(after + 1..after + 5).and_then(|digits| std::str::from_utf8(digits).ok());
            let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            return match code.filter(|code| (b' '..=b'~').contains(code)) {
                Some(code) => (code, after + 5),
                None => (b'\\', after),
            };
        }
        _ => return (b'\\', after),
    };
    (character, after + 1)
}

/// Replaces parts of texts, which are in the order of the texts and do not overlap.
pub fn replace(members: &mut Map<String, Value>, cuts: &[Cut]) {
    Replacement { cuts, leaf: 0 }.members(members);
}

struct Replacement<'c> {
    cuts: &'c [Cut],
    leaf: usize,
}

impl Replacement<'_> {
    fn members(&mut self, members: &mut Map<String, Value>) {
        let replaced = std::mem::take(members).into_iter().map(|(name, mut value)| {
            let name = self.next(&name).unwrap_or(name);
            self.value(&mut value);
            (name, value)
        });
        *members = replaced.collect();
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(replaced) = self.next(text) {
                    *text = replaced;
                }
            }
            Value::Number(number) => {
                if let Some(replaced) = self.next(&number.to_string()) {
                    *value = Value::String(replaced);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The next text without its secrets, if it has one.
    fn next(&mut self, text: &str) -> Option<String> {
        let leaf = self.leaf;
        self.leaf += 1;
        let count = self.cuts.iter().take_while(|cut| cut.leaf == leaf).count();
        let (cuts, later) = self.cuts.split_at(count);
        self.cuts = later;
        if cuts.is_empty() {
            return None;
        }
        let (mut replaced, mut end) = (String::with_capacity(text.len()), 0);
        for cut in cuts {
            // Expressions match bytes: a part may end within a character.
            let begin = text.floor_char_boundary(cut.part.start.max(end));
            replaced.push_str(text.get(end..begin).unwrap_or_default());
            replaced.push_str(&cut.mark);
            end = text.ceil_char_boundary(cut.part.end);
        }
        replaced.push_str(text.get(end..).unwrap_or_default());
        Some(replaced)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The object after the part of the view that equals `secret` was replaced.
    fn without(value: &Value, secret: &str) -> Value {
        let mut members = value.as_object().unwrap().clone();
        let view = View::of(&members);
        let start = view.bytes().windows(secret.len()).position(|window| window == secret.as_bytes()).unwrap();
        let cuts = view.cuts(&(start..start + secret.len()), "X");
        replace(&mut members, &cuts);
        Value::Object(members)
    }

    #[test]
    fn a_part_of_the_view_is_replaced_in_the_text_that_has_it() {
        assert_eq!(
            without(&json!({ "a": "1 two 3", "b": [4, "five"] }), "two"),
            json!({ "a": "1 X 3", "b": [4, "five"] })
        );
        assert_eq!(without(&json!({ "a": [4, { "b": "five" }] }), "five"), json!({ "a": [4, { "b": "X" }] }));
        assert_eq!(without(&json!({ "a": [4711, "b"] }), "4711"), json!({ "a": ["X", "b"] }));
        assert_eq!(without(&json!({ "key": 1 }), "key"), json!({ "X": 1 }));
    }

    #[test]
    fn escapes_of_texts_within_texts_are_read_at_each_depth_and_kept() {
        let mut text = r#"{"a":"line\nword","b":"\u003dx"}"#.to_owned();
        for _ in 0..3 {
            let value = json!({ "input": text });
            assert_eq!(without(&value, "word")["input"], text.replace("word", "X"));
            let across = without(&value, "line\nword")["input"].as_str().unwrap().to_owned();
            assert!(across.contains('X') && !across.contains("line") && across.contains("003dx"));
            text = json!(text).to_string();
        }
        assert_eq!(without(&json!({ "a": r"C:\x\y" }), r"\x"), json!({ "a": r"C:X\y" }));
    }

    #[test]
    fn a_part_that_spans_several_texts_leaves_the_names_and_the_structure() {
        let value = json!({ "lines": ["one", "two", "three"], "name": "x" });
        let view = View::of(value.as_object().unwrap());
        let mut members = value.as_object().unwrap().clone();
        let start = view.bytes().windows(3).position(|window| window == b"two").unwrap();
        replace(&mut members, &view.cuts(&(start..view.bytes().len()), "X"));
        assert_eq!(Value::Object(members), json!({ "lines": ["one", "X", "X"], "name": "X" }));
    }
}
