//! Excerpts of search results: the part of a chunk around the words of the query.

use crate::words::{QueryWords, marked};

/// Maximum length of an excerpt, in characters.
const EXCERPT_CHARS: usize = 360;
/// Characters before the first word of the query.
const LEAD_CHARS: usize = 80;

/// An excerpt of at most 360 characters, with an ellipsis where text is left out.
pub fn excerpt(asked: &QueryWords, chunk: &str) -> Vec<ExcerptPart> {
    let starts: Vec<usize> = chunk.char_indices().map(|(at, _)| at).collect();
    let piece = |(text, marked): (&str, bool)| ExcerptPart { text: text.to_owned(), marked };
    let pieces = marked(asked, chunk);
    if starts.len() <= EXCERPT_CHARS {
        return pieces.into_iter().map(piece).collect();
    }
    let lead: usize = pieces.iter().take_while(|(_, marked)| !marked).map(|(text, _)| text.chars().count()).sum();
    // A chunk without a word of the query was found by its vector: take its start.
    let first = if lead == starts.len() { 0 } else { lead.saturating_sub(LEAD_CHARS) };
    let first = first.min(starts.len() - EXCERPT_CHARS);
    let last = first + EXCERPT_CHARS;
    let from = if first == 0 { 0 } else { blank(&chunk[starts[first]..]) + starts[first] };
    let to = starts
        .get(last)
        .map_or(chunk.len(), |at| chunk[from..*at].rfind(char::is_whitespace).map_or(*at, |length| from + length));
    let mut parts: Vec<ExcerptPart> = marked(asked, &chunk[from..to]).into_iter().map(piece).collect();
    let ellipsis = |text: &str| ExcerptPart { text: text.to_owned(), marked: false };
    if from > 0 {
        parts.insert(0, ellipsis("… "));
    }
    if to < chunk.len() {
        parts.push(ellipsis(" …"));
    }
    parts
}

/// Offset after the first white space; 0 if there is none within the first characters.
fn blank(text: &str) -> usize {
    let near: usize = text.chars().take(LEAD_CHARS / 2).map(char::len_utf8).sum();
    text[..near].find(char::is_whitespace).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
}

/// A part of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcerptPart {
    /// Text of the part.
    pub text: String,
    /// Whether it is a word of the query.
    pub marked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::asked;

    fn text(pieces: &[ExcerptPart]) -> String {
        pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    #[test]
    fn a_short_chunk_is_shown_whole() {
        let parts = excerpt(&asked("heat", 9), "Heated <b>wings</b>");
        assert_eq!(text(&parts), "Heated <b>wings</b>");
        assert_eq!(parts[0], ExcerptPart { text: "Heated".into(), marked: true });
    }

    #[test]
    fn a_long_chunk_is_shown_around_the_match() {
        let chunk = format!("{}the needle {}", "hay ".repeat(200), "straw ".repeat(200));
        let output = text(&excerpt(&asked("needles", 9), &chunk));
        assert!(
            output.starts_with("… hay ") && output.contains("the needle straw") && output.ends_with("straw …"),
            "{output}"
        );
        let meant = text(&excerpt(&asked("pin", 9), &chunk));
        assert!(meant.starts_with("hay hay") && meant.ends_with("hay …"), "{meant}");
    }

    #[test]
    fn any_chunk_has_an_excerpt() {
        for unit in ["é", "中文", "long ", "\u{3000}", "a\u{301} ", "no-blank-at-all", " \n"] {
            for count in [0, 1, 80, 119, 360, 361, 1000] {
                for place in [0, count / 2, count] {
                    let chunk = format!("{}needle{}", unit.repeat(place), unit.repeat(count - place));
                    for query in ["needle", "pin", ""] {
                        let output = text(&excerpt(&asked(query, 9), &chunk));
                        assert!(output.chars().count() <= EXCERPT_CHARS + 4, "{output}");
                        assert!(chunk.contains(output.trim_start_matches("… ").trim_end_matches(" …")), "{output}");
                    }
                }
            }
        }
    }
}
