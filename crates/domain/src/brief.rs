//! Shortens messages about an invalid text, so that they do not repeat the text.

/// Characters of a value that a message quotes.
const VALUE_CHARS: usize = 80;

/// Characters of a message without a rule.
const MESSAGE_CHARS: usize = 240;

const RULE_CHARS: usize = 420;

/// Shortens a message that quotes a value, such as a parser's, to a few dozen characters of the value. The rule after the value stays.
pub fn brief(message: &str) -> String {
    match message.rfind(", expected ") {
        Some(at) => cut(&message[..at], VALUE_CHARS) + &cut(&message[at..], RULE_CHARS),
        None => cut(message, MESSAGE_CHARS),
    }
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_and_its_rule_stays() {
        let long = "ß".repeat(1_000_000);
        let message = brief(&format!("unknown variant `{long}`, expected one of `note`, `page`"));
        assert!(
            message.starts_with("unknown variant `ßß") && message.ends_with("ß…, expected one of `note`, `page`"),
            "{message}"
        );
        assert_eq!(brief(&long).chars().count(), MESSAGE_CHARS + 1);
        let forged = brief(&format!("{long}, expected {long}"));
        assert!(forged.chars().count() < VALUE_CHARS + RULE_CHARS + 3, "{forged}");
        let short = "invalid type: integer `1`, expected a string at line 1 column 5";
        assert_eq!(brief(short), short);
    }
}
