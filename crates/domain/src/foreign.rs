//! Neutralises text from third parties, such as the name of a computer or the title of a page, before it is displayed.
//!
//! Terminals interpret control characters. Characters that change the direction of text, and invisible ones, make one
//! text look like another (Unicode Standard Annex 9, section 2; Unicode Technical Report 36, section 2.1).

use std::fmt::Write;

/// Whether a character is invisible or changes the direction of text.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether a character controls a terminal or breaks a line.
fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Returns the text on one line: invisible characters are removed, control characters become spaces.
pub fn visible(text: &str) -> String {
    let replace = |character| if is_control(character) { ' ' } else { character };
    text.chars().filter(|character| !is_hidden(*character)).map(replace).collect()
}

/// Escapes these characters in JSON text without changing its value (RFC 8259, section 7). Line feeds stay.
pub fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // In JSON, a line feed occurs only between tokens.
        if character != '\n' && (is_control(character) || is_hidden(character)) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// A cell of a CSV file (RFC 4180). A text that a spreadsheet would interpret as a formula gets an apostrophe as prefix.
pub fn csv_cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r', '\'']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_cell_is_never_a_formula_and_never_two_cells() {
        for (text, written) in [
            ("plain text", "plain text"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
        ] {
            assert_eq!(csv_cell(text), written);
        }
    }

    #[test]
    fn words_move_no_cursor_and_turn_no_line_around() {
        assert_eq!(visible("a\u{1b}[2Jb\nc\u{9b}d\u{2028}e"), "a [2Jb c d e");
        assert_eq!(visible("txt.\u{202e}exe\u{2066}!\u{200f}\u{200b}\u{e0041}"), "txt.exe!");
        assert_eq!(visible("Grüße, 世界, שלום"), "Grüße, 世界, שלום");
    }

    #[test]
    fn json_is_escaped_and_not_changed() {
        let value = json!({ "na\u{202e}me": "a\u{1b}\u{9b}\u{7f}\u{e0041}\n\u{2028}é" });
        let text = escaped(&format!("{value:#}"));
        assert_eq!(text, "{\n  \"na\\u202eme\": \"a\\u001b\\u009b\\u007f\\udb40\\udc41\\n\\u2028é\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    proptest! {
        #[test]
        fn escaping_keeps_every_value_and_leaves_nothing_hidden(text: String, hidden in "[\u{0}-\u{9f}\u{2000}-\u{20ff}\u{fe00}-\u{ffff}\u{e0000}-\u{e00ff}]{0,20}") {
            let value = json!([text, hidden]);
            let escaped_json = escaped(&value.to_string());
            prop_assert!(!escaped_json.chars().any(|character| is_control(character) || is_hidden(character)));
            prop_assert_eq!(serde_json::from_str::<Value>(&escaped_json).unwrap(), value);
            prop_assert!(!visible(&hidden).chars().any(|character| is_control(character) || is_hidden(character)));
        }
    }
}
