//! Stems of words for full-text search: lower case, without accents (`docs/decisions/0037-absolute-similarity.md`).
//!
//! Stored texts and queries are stemmed by the same function, on both databases, so that they match.

use std::borrow::Cow;
use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Weight of a word in the title, relative to a word in the text.
pub const TITLE_WEIGHT: u32 = 3;
/// Longer words are truncated, because indexes limit the length of an entry.
const WORD_CHARS_MAX: usize = 40;

/// Weighted counts of the stems in a chunk and its title.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StemCounts {
    /// Weighted count of each stem.
    pub stems: HashMap<String, u32>,
    /// Sum of the counts: the length of the chunk for BM25.
    pub length: u32,
}

/// Counts the stems of a chunk and its title.
pub fn counted(title: &str, content: &str) -> StemCounts {
    let mut counted = StemCounts::default();
    for (text, weight) in [(title, TITLE_WEIGHT), (content, 1)] {
        each_stem(
            text,
            |_| true,
            |stem| {
                counted.length = counted.length.saturating_add(weight);
                match counted.stems.get_mut(stem) {
                    Some(count) => *count = count.saturating_add(weight),
                    None => drop(counted.stems.insert(stem.to_owned(), weight)),
                }
            },
        );
    }
    counted
}

/// The distinct stems of a query in their order, at most `words_max`. Omits stop words, unless the query has no other
/// words.
pub fn asked(query: &str, words_max: usize) -> Vec<String> {
    let collect = |keep: fn(&str) -> bool| {
        let mut stems: Vec<String> = Vec::new();
        each_stem(query, keep, |stem| {
            if stems.len() < words_max && !stems.iter().any(|known| known == stem) {
                stems.push(stem.to_owned());
            }
        });
        stems
    };
    let telling = collect(|word| STOP_WORDS.binary_search(&word).is_err());
    if telling.is_empty() { collect(|_| true) } else { telling }
}

/// The weighted count of each stem of `asked` in a chunk and its title. Equals the counts of [`counted`], but is
/// faster.
pub fn counts_of(asked: &[String], title: &str, content: &str) -> Vec<u32> {
    // A stem has the first letter of its word, so most words need no stemming.
    let firsts: Vec<char> = asked.iter().filter_map(|stem| stem.chars().next()).collect();
    let mut counts = vec![0_u32; asked.len()];
    for (text, weight) in [(title, TITLE_WEIGHT), (content, 1)] {
        each_stem(
            text,
            |word| word.chars().next().is_some_and(|first| firsts.contains(&first)),
            |stem| {
                if let Some(at) = asked.iter().position(|asked| asked == stem) {
                    counts[at] = counts[at].saturating_add(weight);
                }
            },
        );
    }
    counts
}

/// Splits a text into parts, with whether each is a word with a stem in `asked`. Concatenated, the parts are the text.
pub fn marked<'t>(asked: &[String], text: &'t str) -> Vec<(&'t str, bool)> {
    let mut pieces = Vec::new();
    let (mut unmarked, mut at) = (0, 0);
    while at < text.len() {
        let end = text[at..].find(is_between_words).map_or(text.len(), |length| at + length);
        let mut is_asked = false;
        each_stem(&text[at..end], |_| true, |stem| is_asked |= asked.iter().any(|asked| asked == stem));
        if is_asked {
            if unmarked < at {
                pieces.push((&text[unmarked..at], false));
            }
            pieces.push((&text[at..end], true));
            unmarked = end;
        }
        at = end + text[end..].chars().next().map_or(0, char::len_utf8);
    }
    if unmarked < text.len() {
        pieces.push((&text[unmarked..], false));
    }
    pieces
}

/// Calls `take` with the stem of every word that `keep` accepts.
fn each_stem(text: &str, keep: impl Fn(&str) -> bool, mut take: impl FnMut(&str)) {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut word = String::new();
    for piece in text.split(is_between_words).filter(|piece| !piece.is_empty()) {
        word.clear();
        if piece.is_ascii() {
            word.extend(piece.chars().take(WORD_CHARS_MAX).map(|c| c.to_ascii_lowercase()));
            if keep(&word) {
                take(&stem(&stemmer, &word));
            }
            continue;
        }
        word.extend(piece.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase));
        // Compatibility decomposition can produce characters that separate words.
        for part in word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
            if part.chars().any(is_unspaced) {
                each_pair(part, |pair| {
                    if keep(pair) {
                        take(pair);
                    }
                });
            } else {
                let part: String = part.chars().take(WORD_CHARS_MAX).collect();
                if keep(&part) {
                    take(&stem(&stemmer, &part));
                }
            }
        }
    }
}

/// Whether a character separates words. A combining mark belongs to the word before it.
fn is_between_words(c: char) -> bool {
    !c.is_alphanumeric() && (c.is_ascii() || !is_combining_mark(c))
}

fn stem<'a>(stemmer: &Stemmer, word: &'a str) -> Cow<'a, str> {
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) { stemmer.stem(word) } else { Cow::Borrowed(word) }
}

/// Whether a character belongs to a script without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x1100..=0x11ff | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0x20000..=0x3ffff)
}

/// Calls `take` with every pair of neighbouring characters, the closest approximation of a word in such scripts; with
/// the character itself if there is only one.
fn each_pair(text: &str, mut take: impl FnMut(&str)) {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    if starts.len() == 2 {
        take(text);
    }
    for three in starts.windows(3) {
        take(&text[three[0]..three[2]]);
    }
}

/// English stop words, sorted for binary search.
const STOP_WORDS: [&str; 116] = [
    "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "did", "do", "does",
    "doing", "down", "during", "each", "few", "for", "from", "further", "had", "has", "have", "having", "he", "her",
    "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "me", "more",
    "most", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our", "out", "over",
    "own", "same", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "through", "to", "too", "under", "until", "up", "very", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "would", "you", "your",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_of_a_word_are_one_stem() {
        assert_eq!(asked("Heated heating HEATS", 9), ["heat"]);
        assert_eq!(asked("Café CAFE cafe\u{301}", 9), ["cafe"]);
        assert_eq!(asked("東京都", 9), ["東京", "京都"]);
        assert_eq!(asked("東", 9), ["東"]);
    }

    #[test]
    fn words_that_say_nothing_are_asked_for_only_when_there_are_no_others() {
        assert!(STOP_WORDS.is_sorted());
        assert_eq!(asked("what is the speed of sound", 9), ["speed", "sound"]);
        assert_eq!(asked("what is the speed of sound", 1), ["speed"]);
        assert_eq!(asked("to be or not to be", 9), ["to", "be", "or", "not"]);
        assert!(asked(" \" * ' -- ()", 9).is_empty());
    }

    #[test]
    fn a_title_counts_more_than_the_text() {
        let counted = counted("Wings", "the wing of a wing");
        assert_eq!((counted.stems["wing"], counted.length), (2 + TITLE_WEIGHT, 5 + TITLE_WEIGHT));
    }

    #[test]
    fn words_of_a_query_are_marked_in_every_form() {
        let asked = asked("heated café", 9);
        let pieces = marked(&asked, "Heating the Cafés, not cafe\u{301}-heaters.");
        let expected = [
            ("Heating", true),
            (" the ", false),
            ("Cafés", true),
            (", not ", false),
            ("cafe\u{301}", true),
            ("-heaters.", false),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(marked(&[], "nothing"), [("nothing", false)]);
        assert!(marked(&asked, "").is_empty());
    }

    proptest! {
        #[test]
        fn marked_pieces_make_up_the_text(text in ".{0,200}", query in ".{0,40}") {
            let pieces = marked(&asked(&format!("{query} {}", text.chars().take(20).collect::<String>()), 50), &text);
            prop_assert!(pieces.iter().all(|(piece, _)| !piece.is_empty()));
            let whole: String = pieces.iter().map(|(piece, _)| *piece).collect();
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn counting_some_stems_agrees_with_counting_all(title in ".{0,20}", content in ".{0,200}", query in ".{0,40}") {
            let asked = asked(&format!("{query} {content}"), 50);
            let all = counted(&title, &content);
            let some = counts_of(&asked, &title, &content);
            for (stem, count) in asked.iter().zip(some) {
                prop_assert_eq!(all.stems.get(stem).copied().unwrap_or(0), count, "{}", stem);
            }
            prop_assert!(all.stems.keys().all(|stem| stem.chars().all(char::is_alphanumeric) && !stem.is_empty()));
        }
    }
}
