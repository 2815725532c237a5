//! Splits Markdown into chunks that can be ranked and displayed on their own.
//!
//! Chunks end at boundaries of the text where possible: before a heading rather than within a section, after a sentence
//! rather than within it. Consecutive chunks overlap, so that one of the two contains a cut sentence completely.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use text_splitter::{ChunkConfig, MarkdownSplitter};

/// `[knowledge.chunk]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ChunkSettings {
    pub chars_max: usize,
    pub overlap_chars: usize,
    /// Maximum number of chunks per item; an item with more is rejected.
    /// No setting of an operator: tests split into few chunks.
    #[serde(skip)]
    pub chunks_max: usize,
}

impl Default for ChunkSettings {
    fn default() -> Self {
        Self { chars_max: 900, overlap_chars: 100, chunks_max: 6000 }
    }
}

impl ChunkSettings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            (!(100..=20_000).contains(&self.chars_max), "chars_max", "must be 100 to 20000"),
            (self.overlap_chars > self.chars_max / 2, "overlap_chars", "must be at most half of chars_max"),
        ];
        rules.into_iter().filter(|(broken, _, _)| *broken).map(|(_, field, rule)| (field, rule)).collect()
    }
}

/// The text has more chunks than one item may have: `too_large`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its text has more than {0} chunks")]
pub struct TooManyChunks(pub usize);

/// Bytes that are split at once. The splitter looks back and ahead within its input, so bounded input keeps the work
/// linear.
const STRETCH_BYTES: usize = 32 * 1024;

/// The chunks of `markdown` in order. No chunk is empty, and every word is in a chunk; a word longer than a chunk is
/// split.
pub fn chunks(markdown: &str, settings: &ChunkSettings) -> Result<Vec<String>, TooManyChunks> {
    let bare = ChunkConfig::new(settings.chars_max.max(1));
    // An overlap that leaves no room is reported by `problems`; the chunks then do not overlap.
    let overlapping = ChunkConfig::new(settings.chars_max.max(1)).with_overlap(settings.overlap_chars).unwrap_or(bare);
    let splitter = MarkdownSplitter::new(overlapping);
    let mut chunks = Vec::new();
    for stretch in stretches(&with_few_empty_lines(markdown)) {
        for chunk in splitter.chunks(stretch).filter(|chunk| !chunk.trim().is_empty()) {
            if chunks.len() == settings.chunks_max {
                return Err(TooManyChunks(settings.chunks_max));
            }
            chunks.push(chunk.to_owned());
        }
    }
    Ok(chunks)
}

/// Collapses runs of empty lines: the splitter takes quadratic time for them.
fn with_few_empty_lines(text: &str) -> Cow<'_, str> {
    const EMPTY_LINES_MAX: usize = 1;
    if text.contains('\r') {
        return with_few_empty_lines(&text.replace("\r\n", "\n").replace('\r', "\n")).into_owned().into();
    }
    let mut empty = 0;
    let mut is_kept = |line: &&str| {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        empty <= EMPTY_LINES_MAX
    };
    let lines: Vec<&str> = text.split_inclusive('\n').filter(&mut is_kept).collect();
    if lines.iter().map(|line| line.len()).sum::<usize>() == text.len() { text.into() } else { lines.concat().into() }
}

/// Splits the text into stretches of at most [`STRETCH_BYTES`]: before a heading if there is one, otherwise after a
/// paragraph, a line or a word.
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (stretch, after) = rest.split_at(if rest.len() <= STRETCH_BYTES { rest.len() } else { border(rest) });
        rest = after;
        Some(stretch)
    })
}

fn border(text: &str) -> usize {
    let window = &text[..text.floor_char_boundary(STRETCH_BYTES)];
    // A boundary in the first half could leave a stretch of a few words.
    let late = window.len() / 2;
    let ends = [("\n# ", 1), ("\n## ", 1), ("\n### ", 1), ("\n\n", 2), ("\n", 1), (" ", 1)];
    let boundary =
        ends.into_iter().find_map(|(mark, length)| window.rfind(mark).filter(|at| *at > late).map(|at| at + length));
    boundary.unwrap_or(window.len())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn small() -> ChunkSettings {
        ChunkSettings { chars_max: 100, overlap_chars: 20, ..ChunkSettings::default() }
    }

    /// Words without markup, because a chunk may end between a word and its markup.
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
    }

    fn cut(markdown: &str, settings: &ChunkSettings) -> Vec<String> {
        chunks(markdown, settings).unwrap()
    }

    #[test]
    fn short_texts_stay_whole() {
        let text = "# Boats\n\nOf wood.\n\n- one\n- two";
        assert_eq!(cut(text, &ChunkSettings::default()), [text]);
        assert_eq!(cut(" \n\n ", &ChunkSettings::default()), Vec::<String>::new());
    }

    #[test]
    fn chunks_end_where_sections_do() {
        let section = |name: &str| format!("## {name}\n\n{}", "Some words about it. ".repeat(30));
        let text = [section("Hulls"), section("Sails"), section("Oars")].join("\n\n");
        let cut = cut(&text, &ChunkSettings::default());
        assert_eq!(cut.len(), 3);
        assert!(cut[1].starts_with("## Sails") && cut[2].starts_with("## Oars"), "{cut:?}");
    }

    #[test]
    fn neighbours_overlap_and_none_is_too_long() {
        let text = (0..200).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ");
        let cut = cut(&text, &small());
        for pair in cut.windows(2) {
            let first = pair[1].split(' ').next().unwrap();
            assert!(pair[0].split(' ').any(|word| word == first), "{pair:?}");
        }
        assert!(cut.iter().all(|chunk| chunk.chars().count() <= 100));
    }

    #[test]
    fn what_has_more_chunks_than_one_may_is_refused() {
        let settings = ChunkSettings { chunks_max: 3, ..small() };
        assert_eq!(chunks(&"word ".repeat(200), &settings), Err(TooManyChunks(3)));
        assert_eq!(chunks("word", &settings).unwrap().len(), 1);
    }

    #[test]
    fn the_work_is_linear_in_the_text() {
        let settings = ChunkSettings { chunks_max: usize::MAX, ..ChunkSettings::default() };
        // Quadratic work on this size would exceed the timeout of the test.
        let size = 64 * 1024;
        for unit in [
            "x",
            "é",
            "word ",
            "*",
            "`",
            "[",
            "> ",
            "- a\n",
            "# a\n",
            "| a ",
            "\n",
            " \n",
            "a\n\n\n\n",
            "\r",
            "&amp;",
            "<b>",
            "```\n",
            "e\u{301}",
        ] {
            let text = unit.repeat(size / unit.len());
            let cut = cut(&text, &settings);
            assert!(unit.trim().is_empty() || cut.len() > size / 10_000, "{unit:?}: {}", cut.len());
        }
    }

    #[test]
    fn a_long_line_without_blanks_is_cut_too() {
        let line = "x".repeat(10 * 1024 * 1024);
        let settings = ChunkSettings { chunks_max: 200, ..ChunkSettings::default() };
        assert_eq!(chunks(&line, &settings), Err(TooManyChunks(200)));
        let cut = cut(&line[..100_000], &settings);
        assert!(cut.iter().all(|chunk| (1..=900).contains(&chunk.len())));
        assert!(cut.iter().map(String::len).sum::<usize>() >= 100_000);
    }

    #[test]
    fn every_setting_has_its_bounds() {
        assert_eq!(ChunkSettings::default().problems(), []);
        let wrong = ChunkSettings { chars_max: 1, overlap_chars: 1, ..ChunkSettings::default() };
        assert_eq!(wrong.problems().len(), 2);
    }

    proptest! {
        #[test]
        fn every_word_is_in_some_chunk_and_they_are_in_order(
            text in "((# |## |- |1. |> |`|```\n|\n|\n\n|\\*\\*|\\[|\\]\\(x\\)|\\| )?[a-zäß]{1,12}[ ,\n]){0,150}",
        ) {
            let cut = cut(&text, &small());
            let chunk_words: HashSet<&str> = cut.iter().flat_map(|chunk| words(chunk)).collect();
            for word in words(&text) {
                prop_assert!(chunk_words.contains(word), "{word} of {text:?} is not in {cut:?}");
            }
            let text = with_few_empty_lines(&text);
            let mut from = 0;
            for chunk in &cut {
                prop_assert!(!chunk.trim().is_empty() && chunk.chars().count() <= 100);
                let at = text[from..].find(chunk.as_str());
                prop_assert!(at.is_some(), "{chunk:?} out of order");
                from += at.unwrap_or_default();
                from += text[from..].chars().next().map_or(0, char::len_utf8);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,400}") {
            let _ = chunks(&text, &small());
        }
    }
}
