//! What a search found, as a person reads it: excerpts around the words that they looked for.

use domain::words::{asked, marked};
use knowledge::search::{Found, Highlight};

use crate::house::House;
use crate::web::Moment;

/// Characters of a passage that are shown.
const EXCERPT_CHARS: usize = 360;
/// Of these, how many before the first word that was looked for.
const LEAD_CHARS: usize = 80;

/// A memory that answers.
pub(super) struct FoundRow {
    pub id: String,
    pub title: String,
    pub kind: &'static str,
    pub url: Option<String>,
    pub percent: String,
    pub created: Moment,
    pub best: Vec<Piece>,
    /// Its other passages.
    pub others: Vec<Passage>,
}

/// A passage that answers.
pub(super) struct Passage {
    pub percent: String,
    pub pieces: Vec<Piece>,
}

/// Some of its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub text: String,
    pub marked: bool,
}

/// What was found, for whoever looked for `query`.
pub(super) fn rows(found: Vec<Found>, query: &str, house: &House) -> Vec<FoundRow> {
    let now = house.clock.now();
    let stems = asked(query, house.settings.knowledge.search.words_max);
    let passage =
        |chunk: &Highlight| Passage { percent: percent(chunk.similarity), pieces: excerpt(&stems, &chunk.content) };
    let row = |found: Found| {
        let mut passages = found.chunks.iter().map(passage);
        FoundRow {
            id: found.memory.id.to_string(),
            title: titled(found.memory.title),
            kind: found.memory.kind.as_str(),
            url: found.memory.url,
            percent: percent(found.similarity),
            created: Moment::new(found.memory.created_at, now),
            best: passages.next().map(|passage| passage.pieces).unwrap_or_default(),
            others: passages.collect(),
        }
    };
    found.into_iter().map(row).collect()
}

/// What a memory is called by.
pub(super) fn titled(title: String) -> String {
    if title.is_empty() { "Without a title".to_owned() } else { title }
}

fn percent(similarity: f64) -> String {
    format!("{:.0} %", similarity * 100.0)
}

/// As much of a passage as shows why it was found.
fn excerpt(stems: &[String], passage: &str) -> Vec<Piece> {
    let starts: Vec<usize> = passage.char_indices().map(|(at, _)| at).collect();
    let piece = |(text, marked): (&str, bool)| Piece { text: text.to_owned(), marked };
    let pieces = marked(stems, passage);
    if starts.len() <= EXCERPT_CHARS {
        return pieces.into_iter().map(piece).collect();
    }
    let before: usize = pieces.iter().take_while(|(_, marked)| !marked).map(|(text, _)| text.chars().count()).sum();
    // Without any such word, the passage answers by its meaning, from its beginning on.
    let first = if before == starts.len() { 0 } else { before.saturating_sub(LEAD_CHARS) };
    let first = first.min(starts.len() - EXCERPT_CHARS);
    let last = first + EXCERPT_CHARS;
    let from = if first == 0 { 0 } else { blank(&passage[starts[first]..]) + starts[first] };
    let to = starts
        .get(last)
        .map_or(passage.len(), |at| passage[from..*at].rfind(char::is_whitespace).map_or(*at, |length| from + length));
    let mut shown: Vec<Piece> = marked(stems, &passage[from..to]).into_iter().map(piece).collect();
    let ellipsis = |text: &str| Piece { text: text.to_owned(), marked: false };
    if from > 0 {
        shown.insert(0, ellipsis("… "));
    }
    if to < passage.len() {
        shown.push(ellipsis(" …"));
    }
    shown
}

/// Where the first whole word begins; at once, if the text has no blank near.
fn blank(text: &str) -> usize {
    let near: usize = text.chars().take(LEAD_CHARS / 2).map(char::len_utf8).sum();
    text[..near].find(char::is_whitespace).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(pieces: &[Piece]) -> String {
        pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    #[test]
    fn a_short_passage_is_shown_whole() {
        let shown = excerpt(&asked("heat", 9), "Heated <b>wings</b>");
        assert_eq!(text(&shown), "Heated <b>wings</b>");
        assert_eq!(shown[0], Piece { text: "Heated".into(), marked: true });
    }

    #[test]
    fn a_long_passage_is_shown_around_what_was_looked_for() {
        let passage = format!("{}the needle {}", "hay ".repeat(200), "straw ".repeat(200));
        let shown = text(&excerpt(&asked("needles", 9), &passage));
        assert!(
            shown.starts_with("… hay ") && shown.contains("the needle straw") && shown.ends_with("straw …"),
            "{shown}"
        );
        let meant = text(&excerpt(&asked("pin", 9), &passage));
        assert!(meant.starts_with("hay hay") && meant.ends_with("hay …"), "{meant}");
    }

    proptest! {
        #[test]
        fn any_passage_has_an_excerpt(passage in "(.{0,20}|[a-z ]{0,20}){0,60}", query in ".{0,10}") {
            let shown = excerpt(&asked(&query, 9), &passage);
            prop_assert!(text(&shown).chars().count() <= EXCERPT_CHARS + 4);
        }
    }
}
