//! Stems of words for full-text search: lower case, without accents (`docs/decisions/0022-search.md`).
//!
//! Stored texts and queries are stemmed by the same function, on both databases, so that they match. A text is stemmed
//! in its own language, and a query in each language of the memories that it searches
//! (`docs/decisions/0022-search.md`).

use std::borrow::Cow;
use std::collections::HashMap;

use rust_stemmers::Stemmer;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::language::Language;

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
pub fn counted(title: &str, content: &str, language: Language) -> StemCounts {
    let stemmer = Stemmer::create(language.algorithm());
    let mut counted = StemCounts::default();
    for (text, weight) in [(title, TITLE_WEIGHT), (content, 1)] {
        each_word(text, |word| {
            let stem = word.stem(language, &stemmer);
            counted.length = counted.length.saturating_add(weight);
            match counted.stems.get_mut(&*stem) {
                Some(count) => *count = count.saturating_add(weight),
                None => drop(counted.stems.insert(stem.into_owned(), weight)),
            }
        });
    }
    counted
}

/// The words of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryWords(Vec<QueryWord>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct QueryWord {
    folded: String,
    exact: String,
    is_pair: bool,
}

impl QueryWords {
    /// The stem of each word in a language, in the order of the query.
    pub fn stems(&self, language: Language) -> Vec<String> {
        let stemmer = Stemmer::create(language.algorithm());
        self.0.iter().map(|word| word.borrowed().stem(language, &stemmer).into_owned()).collect()
    }

    /// Whether the query has no words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl QueryWord {
    fn borrowed(&self) -> Word<'_> {
        Word { folded: &self.folded, exact: &self.exact, is_pair: self.is_pair }
    }
}

/// The words of a query in their order, at most `words_max`, each with another English stem. Omits English stop words,
/// unless the query has no other words.
pub fn asked(query: &str, words_max: usize) -> QueryWords {
    let stemmer = Stemmer::create(Language::English.algorithm());
    let collect = |keep: fn(&str) -> bool| {
        let (mut words, mut stems): (Vec<QueryWord>, Vec<String>) = (Vec::new(), Vec::new());
        each_word(query, |word| {
            if words.len() >= words_max || !keep(word.folded) {
                return;
            }
            let stem = word.stem(Language::English, &stemmer);
            if !stems.iter().any(|other| *other == stem) {
                stems.push(stem.into_owned());
                let (folded, exact) = (word.folded.to_owned(), word.exact.to_owned());
                words.push(QueryWord { folded, exact, is_pair: word.is_pair });
            }
        });
        QueryWords(words)
    };
    let telling = collect(|word| STOP_WORDS.binary_search(&word).is_err());
    if telling.is_empty() { collect(|_| true) } else { telling }
}

/// The weighted count of each stem of `asked` in a chunk and its title, all of `language`. Equals the counts of
/// [`counted`], but is faster.
pub fn counts_of(asked: &[String], title: &str, content: &str, language: Language) -> Vec<u32> {
    // A stem has the first letter of its word, so most words need no stemming.
    let firsts: Vec<char> = asked.iter().filter_map(|stem| stem.chars().next()).collect();
    let stemmer = Stemmer::create(language.algorithm());
    let mut counts = vec![0_u32; asked.len()];
    for (text, weight) in [(title, TITLE_WEIGHT), (content, 1)] {
        each_word(text, |word| {
            // Some stemmers replace other letters than ASCII, such as ß and ς.
            let first = word.folded.chars().next();
            let is_kept = |first: &char| language == Language::English || first.is_ascii();
            if first.filter(is_kept).is_some_and(|first| !firsts.contains(&first)) {
                return;
            }
            let stem = word.stem(language, &stemmer);
            // Words of a query can have different stems in English and one stem in this language.
            for (count, _) in counts.iter_mut().zip(asked).filter(|(_, asked)| **asked == stem) {
                *count = count.saturating_add(weight);
            }
        });
    }
    counts
}

/// Splits a text into parts, with whether each is a word of the query, in any form that its language or English has.
/// Concatenated, the parts are the text.
pub fn marked<'t>(asked: &QueryWords, text: &'t str) -> Vec<(&'t str, bool)> {
    let languages = match Language::of([text]) {
        Language::English => vec![Language::English],
        other => vec![Language::English, other],
    };
    let stems: Vec<(Language, Stemmer, Vec<String>)> = languages
        .into_iter()
        .map(|language| (language, Stemmer::create(language.algorithm()), asked.stems(language)))
        .collect();
    let is_of_query = |word: &Word<'_>| {
        stems.iter().any(|(language, stemmer, asked)| {
            let stem = word.stem(*language, stemmer);
            asked.iter().any(|asked| *asked == stem)
        })
    };
    let mut pieces = Vec::new();
    let (mut unmarked, mut at) = (0, 0);
    while at < text.len() {
        let end = text[at..].find(is_between_words).map_or(text.len(), |length| at + length);
        let mut is_asked = false;
        each_word(&text[at..end], |word| is_asked |= is_of_query(&word));
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

#[derive(Debug, Clone, Copy)]
struct Word<'w> {
    /// In lower case, without accents.
    folded: &'w str,
    /// In lower case, with the accents that stemmers of languages other than English use.
    exact: &'w str,
    /// Whether it is two characters of a script without spaces, which have no stem.
    is_pair: bool,
}

impl<'w> Word<'w> {
    /// Its stem, without accents; never empty.
    fn stem(&self, language: Language, stemmer: &Stemmer) -> Cow<'w, str> {
        if self.is_pair {
            return Cow::Borrowed(self.folded);
        }
        if language == Language::English {
            let is_stemmed = self.folded.bytes().all(|byte| byte.is_ascii_lowercase());
            return if is_stemmed { stemmer.stem(self.folded) } else { Cow::Borrowed(self.folded) };
        }
        if !self.exact.chars().all(char::is_alphabetic) {
            return Cow::Borrowed(self.folded);
        }
        let stem = stemmer.stem(self.exact);
        if stem.is_ascii() && !stem.is_empty() {
            return stem;
        }
        let stem: String = folded(&stem).filter(|character| character.is_alphanumeric()).collect();
        if stem.is_empty() { Cow::Borrowed(self.folded) } else { Cow::Owned(stem) }
    }
}

fn each_word(text: &str, mut take: impl FnMut(Word<'_>)) {
    let (mut word, mut exact) = (String::new(), String::new());
    for piece in text.split(is_between_words).filter(|piece| !piece.is_empty()) {
        word.clear();
        if piece.is_ascii() {
            word.extend(piece.chars().take(WORD_CHARS_MAX).map(|c| c.to_ascii_lowercase()));
            take(Word { folded: &word, exact: &word, is_pair: false });
            continue;
        }
        word.extend(folded(piece));
        exact.clear();
        exact.extend(piece.nfc().flat_map(char::to_lowercase).take(WORD_CHARS_MAX));
        let is_whole = word.chars().all(char::is_alphanumeric);
        // Compatibility decomposition can produce characters that separate words.
        for part in word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
            if part.chars().any(is_unspaced) {
                each_pair(part, |pair| take(Word { folded: pair, exact: pair, is_pair: true }));
            } else {
                let part: String = part.chars().take(WORD_CHARS_MAX).collect();
                take(Word { folded: &part, exact: if is_whole { &exact } else { &part }, is_pair: false });
            }
        }
    }
}

/// A text in lower case, without accents.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.nfkd().filter(|character| !is_combining_mark(*character)).flat_map(char::to_lowercase)
}

/// Whether a character separates words. A combining mark belongs to the word before it.
fn is_between_words(c: char) -> bool {
    !c.is_alphanumeric() && (c.is_ascii() || !is_combining_mark(c))
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
    use strum::IntoEnumIterator;

    use super::*;

    fn asked(query: &str, words_max: usize) -> Vec<String> {
        super::asked(query, words_max).stems(Language::English)
    }

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
    fn forms_of_a_word_are_one_stem_in_its_language() {
        for (language, forms) in [
            (Language::German, "Häuser Häusern Hauses"),
            (Language::French, "Bateaux bateau"),
            (Language::Spanish, "zarparon zarpar"),
            (Language::Italian, "traghetti traghetto"),
            (Language::Dutch, "veerboten veerboot"),
            (Language::Portuguese, "partiram partir"),
            (Language::Swedish, "hamnarna hamnar hamnen"),
            (Language::Norwegian, "havnene havner havnen"),
            (Language::Danish, "havnene havner havnen"),
            (Language::Finnish, "satamassa satamasta"),
            (Language::Russian, "гавани гаванью гавань"),
            (Language::Hungarian, "házakban házak"),
            (Language::Romanian, "porturile porturi"),
            (Language::Turkish, "adalar adaların"),
            (Language::Greek, "λιμάνια λιμάνι"),
        ] {
            let stems = super::asked(forms, 9).stems(language);
            assert!(stems.len() > 1 && stems.iter().all(|stem| *stem == stems[0]), "{language}: {stems:?}");
        }
    }

    #[test]
    fn words_are_marked_in_the_forms_of_the_language_of_the_text() {
        let text = "Die Fähren verlassen die alten Häfen um sieben Uhr morgens, am Mittag und um sechs Uhr abends.";
        let marked: Vec<&str> =
            marked(&super::asked("Fähre Hafen", 9), text).iter().filter(|part| part.1).map(|part| part.0).collect();
        assert_eq!(marked, ["Fähren", "Häfen"]);
    }

    #[test]
    fn a_title_counts_more_than_the_text() {
        let counted = counted("Wings", "the wing of a wing", Language::English);
        assert_eq!((counted.stems["wing"], counted.length), (2 + TITLE_WEIGHT, 5 + TITLE_WEIGHT));
    }

    #[test]
    fn words_of_a_query_are_marked_in_every_form() {
        let words = super::asked("heated café", 9);
        let pieces = marked(&words, "Heating the Cafés, not cafe\u{301}-heaters.");
        let expected = [
            ("Heating", true),
            (" the ", false),
            ("Cafés", true),
            (", not ", false),
            ("cafe\u{301}", true),
            ("-heaters.", false),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(marked(&QueryWords::default(), "nothing"), [("nothing", false)]);
        assert!(marked(&words, "").is_empty());
    }

    proptest! {
        #[test]
        fn marked_pieces_make_up_the_text(text in ".{0,200}", query in ".{0,40}") {
            let pieces = marked(&super::asked(&format!("{query} {}", text.chars().take(20).collect::<String>()), 50), &text);
            prop_assert!(pieces.iter().all(|(piece, _)| !piece.is_empty()));
            let whole: String = pieces.iter().map(|(piece, _)| *piece).collect();
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn counting_some_stems_agrees_with_counting_all(
            title in ".{0,20}", content in "(.{0,200}|[a-zäöüßéèçñåøæőıа-яё ]{0,200}|[ἀ-ῼα-ώ ]{0,200})", query in ".{0,40}", nth in 0_usize..16,
        ) {
            let language = Language::iter().nth(nth).unwrap_or_default();
            let stems = super::asked(&format!("{query} {content}"), 50).stems(language);
            let all = counted(&title, &content, language);
            let some = counts_of(&stems, &title, &content, language);
            for (stem, count) in stems.iter().zip(some) {
                prop_assert_eq!(all.stems.get(stem).copied().unwrap_or(0), count, "{}", stem);
            }
            prop_assert!(all.stems.keys().all(|stem| stem.chars().all(char::is_alphanumeric) && !stem.is_empty()));
        }
    }
}
