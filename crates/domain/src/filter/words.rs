//! Filter rules by whole words and phrases.
//!
//! Words are compared after compatibility normalisation and case folding. White space is collapsed. A word ends at a
//! boundary of UAX #29 or at punctuation: `sail` matches "Sail-boats" but not "sailor"; `C++` matches "C++.", and `東京`
//! matches "東京に".

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use super::{FilterSettings, FilterVerdict, VerdictBy};

/// Characters around a match that decide whether it is at a word boundary. Longer than any item.
const NEIGHBOURHOOD_CHARS: usize = 40;

/// The include and exclude lists, prepared for matching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    include: Vec<Phrase>,
    exclude: Vec<Phrase>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Phrase {
    written: String,
    folded: String,
}

impl Rules {
    /// Prepares the lists of these settings.
    pub fn new(settings: &FilterSettings) -> Self {
        let phrases = |items: &[String]| {
            items.iter().map(|item| Phrase { written: item.clone(), folded: fold(item) }).collect::<Vec<_>>()
        };
        Self { include: phrases(&settings.include_items), exclude: phrases(&settings.exclude_items) }
    }

    /// The verdict about a text with this title. A match of the exclude list wins; one match of the include list
    /// suffices.
    pub fn judge(&self, title: &str, text: &str) -> FilterVerdict {
        if self.include.is_empty() && self.exclude.is_empty() {
            return FilterVerdict::unfiltered("no rules apply");
        }
        // Title and text are matched separately, so that no phrase spans both.
        let texts = [fold(title), fold(text)];
        let find = |phrases: &[Phrase]| {
            let matching = phrases.iter().find(|phrase| texts.iter().any(|text| contains(text, &phrase.folded)));
            matching.map(|phrase| phrase.written.clone())
        };
        let (keep, reason) = match (find(&self.exclude), find(&self.include)) {
            (Some(unwanted), _) => (false, format!("contains the excluded \"{unwanted}\"")),
            (None, Some(wanted)) => (true, format!("contains \"{wanted}\"")),
            (None, None) if self.include.is_empty() => (true, "contains nothing excluded".to_owned()),
            (None, None) => (false, "contains none of the included items".to_owned()),
        };
        FilterVerdict { keep, categories: Vec::new(), reason, by: VerdictBy::Rules }
    }
}

/// Normalises a text for comparison. Converting to upper case first makes `ß` equal `SS`, and `ς` equal `σ`.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        let upper: String = word.nfkc().flat_map(char::to_uppercase).collect();
        folded.extend(upper.chars().flat_map(char::to_lowercase).nfc());
    }
    folded
}

fn contains(text: &str, phrase: &str) -> bool {
    if phrase.is_empty() {
        return false;
    }
    let mut from = 0;
    while let Some(start) = text[from..].find(phrase).map(|offset| from + offset) {
        let end = start + phrase.len();
        if is_border(text, start) && is_border(text, end) {
            return true;
        }
        // Matches can overlap: "ab a" in "xab ab a" is found only inside a match that is not at a boundary.
        from = start + text[start..].chars().next().map_or(1, char::len_utf8);
    }
    false
}

/// Whether there is a word boundary at this offset.
fn is_border(text: &str, offset: usize) -> bool {
    let (before, after) = text.split_at(offset);
    let inside = |neighbour: Option<char>| neighbour.is_some_and(joins);
    if !inside(before.chars().next_back()) || !inside(after.chars().next()) {
        return true;
    }
    // Between two letters there can be a boundary in scripts without spaces.
    let start = before.char_indices().rev().nth(NEIGHBOURHOOD_CHARS).map_or(0, |(start, _)| start);
    let end = after.char_indices().nth(NEIGHBOURHOOD_CHARS).map_or(text.len(), |(end, _)| offset + end);
    text[start..end].split_word_bound_indices().any(|(word, _)| start + word == offset)
}

/// Whether a character joins a word, including the apostrophe: "can" does not match "can't".
fn joins(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '\'' | '’') || is_mark(character)
}

/// Combining marks are not alphanumeric by themselves.
fn is_mark(character: char) -> bool {
    unicode_normalization::char::is_combining_mark(character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_in(phrase: &str, text: &str) -> bool {
        contains(&fold(text), &fold(phrase))
    }

    fn judge(include: &[&str], exclude: &[&str], title: &str, text: &str) -> FilterVerdict {
        let owned = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        let settings = FilterSettings {
            include_items: owned(include),
            exclude_items: owned(exclude),
            should_llm_filter: true,
            ..FilterSettings::default()
        };
        Rules::new(&settings).judge(title, text)
    }

    #[test]
    fn whole_words_match_in_any_case() {
        for (phrase, text) in [
            ("sail", "Sail-boats"),
            ("sail boat", "a SAIL\n  boat!"),
            ("straße", "HAUPT STRASSE 1"),
            ("ΟΔΟΣ", "η οδος"),
            ("é", "E\u{301}"),
            ("C++", "in C++."),
            ("c#", "(C#)"),
            ("東京", "東京に行く"),
            ("next", "The end.Next one"),
            ("ab a", "xab ab a"),
            ("🙂", "fine🙂"),
            ("ﬁsh", "a fish"),
        ] {
            assert!(is_in(phrase, text), "{phrase} in {text}");
        }
    }

    #[test]
    fn parts_of_words_are_not_found() {
        for (phrase, text) in [
            ("sail", "sailor"),
            ("sail", "assail"),
            ("sail boat", "sail boats"),
            ("sail boat", "sailboat"),
            ("can", "can't"),
            ("e", "E\u{301}"),
            ("foo", "foo_bar"),
            ("1", "2021"),
            ("кот", "который"),
            ("", "anything"),
        ] {
            assert!(!is_in(phrase, text), "{phrase} in {text}");
        }
    }

    #[test]
    fn excluding_wins_and_one_included_item_is_enough() {
        let text = "A boat with a sail";
        for (include, exclude, keep) in [
            (&["boat"][..], &[][..], true),
            (&["plane", "sail"], &[], true),
            (&["plane"], &[], false),
            (&["boat"], &["sail"], false),
            (&[], &["sail"], false),
            (&[], &["plane"], true),
        ] {
            let verdict = judge(include, exclude, "", text);
            assert_eq!((verdict.keep, verdict.by), (keep, VerdictBy::Rules), "{include:?} {exclude:?}");
            assert!(!verdict.reason.is_empty());
        }
        assert_eq!(judge(&[], &[], "", text).by, VerdictBy::Unfiltered);
    }

    #[test]
    fn the_title_counts_but_no_phrase_spans_title_and_text() {
        assert!(judge(&["boat"], &[], "Boat", "water").keep);
        assert!(!judge(&["boat water"], &[], "Boat", "water").keep);
    }

    proptest! {
        #[test]
        fn a_word_between_blanks_is_always_found(word in "\\PC{1,20}", before in "\\PC{0,30}", after in "\\PC{0,30}") {
            prop_assume!(!fold(&word).is_empty());
            let text = format!("{before} {word} {after}");
            prop_assert!(is_in(&word, &text));
        }
    }
}
