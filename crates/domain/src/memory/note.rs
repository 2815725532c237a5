//! Notes: duplicate detection, and titles of notes without one (`docs/decisions/0021-memories.md`).

use unicode_normalization::UnicodeNormalization;

use crate::Digest;

/// Maximum length of a memory's title, in characters.
pub const TITLE_CHARS_MAX: usize = 200;

/// SHA-256 of the note as [`normalised`]. Notes with equal digests are duplicates.
pub fn note_digest(note: &str) -> Digest {
    Digest::of(normalised(note).as_bytes())
}

/// Normalises a note for comparison: NFC, line feeds, no white space at the ends of lines, no empty lines at either
/// end, no byte order mark. Keeps indentation and inner white space, which can be significant.
pub fn normalised(note: &str) -> String {
    let composed: String = note.nfc().collect();
    let unix = composed.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = unix.split('\n').map(str::trim_end).collect();
    lines.join("\n").trim_start_matches(['\n', '\u{feff}']).trim_end_matches('\n').to_owned()
}

/// The title of a note without one: its first heading, otherwise its first line with a word, truncated at a word
/// boundary to [`TITLE_CHARS_MAX`] characters. `None` if the note has no words.
pub fn note_title(note: &str) -> Option<String> {
    heading(note).or_else(|| words_of_lines(note).next().and_then(|(_, text)| short_title(text)))
}

/// The first Markdown heading of a note, truncated like a title. Fenced blocks are skipped.
pub fn heading(note: &str) -> Option<String> {
    words_of_lines(note).find(|(is_heading, _)| *is_heading).and_then(|(_, text)| short_title(text))
}

/// Lines with a word, without their Markdown marks, and whether each is a heading.
fn words_of_lines(note: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut fenced = false;
    note.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        }
        let text = line.trim_start_matches(['#', '>', '*', '-', '+', ' ', '\t']).trim_end_matches(['#', ' ', '\t']);
        text.chars().any(char::is_alphanumeric).then_some((!fenced && is_heading(line), text))
    })
}

/// Shortens a title to [`TITLE_CHARS_MAX`] characters: collapses white space and control characters into single spaces,
/// and truncates at a word boundary with `…`. `None` if nothing is left.
pub fn short_title(text: &str) -> Option<String> {
    let is_blank = |character: char| character.is_whitespace() || character.is_control();
    let words: Vec<&str> = text.split(is_blank).filter(|word| !word.is_empty()).collect();
    let title = words.join(" ");
    let Some((cut, _)) = title.char_indices().nth(TITLE_CHARS_MAX) else {
        return Some(title).filter(|title| !title.is_empty());
    };
    let last = title[..cut].char_indices().next_back().map_or(0, |(start, _)| start);
    let room = &title[..last];
    // A single long word is truncated in its middle.
    let end = room.rfind(' ').filter(|end| *end > room.len() / 2).unwrap_or(room.len());
    Some(format!("{}…", room[..end].trim_end()))
}

/// Whether a line is an ATX heading of Markdown: one to six `#`, then white space.
fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - rest.len())) && rest.starts_with([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn notes_that_look_the_same_are_the_same() {
        let note = "Caf\u{e9}\n\n  two";
        for same in
            ["Cafe\u{301}\n\n  two", "Café\r\n\r\n  two\r\n", "\u{feff}\nCafé  \n\t\n  two\n\n", "Café\r\r  two"]
        {
            assert_eq!(note_digest(same), note_digest(note), "{same:?}");
        }
        for other in ["café\n\n  two", "Café\n\ntwo", "Café\n  two", ""] {
            assert_ne!(note_digest(other), note_digest(note), "{other:?}");
        }
    }

    #[test]
    fn a_note_is_called_by_its_heading_or_its_first_words() {
        for (note, title) in [
            ("intro\n\n## The *plan* ##\ntext", Some("The *plan*")),
            ("\n- buy milk\n- and eggs", Some("buy milk")),
            ("#hashtag first", Some("hashtag first")),
            ("```\n# not a heading\n```\n", Some("not a heading")),
            ("one\ttwo\u{0}three", Some("one two three")),
            ("\n---\n***\n", None),
            ("", None),
        ] {
            assert_eq!(note_title(note).as_deref(), title, "{note:?}");
        }
    }

    #[test]
    fn long_titles_end_with_a_word() {
        let title = note_title(&"wörter ".repeat(100)).unwrap();
        assert!(title.ends_with("wörter…") && title.chars().count() <= TITLE_CHARS_MAX, "{title}");
        assert_eq!(note_title(&"ö".repeat(201)).unwrap().chars().count(), TITLE_CHARS_MAX);
        assert_eq!(note_title(&"ö".repeat(200)).unwrap(), "ö".repeat(200));
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing_more(note in "[\\PC\\r\\n\\t ]{0,80}") {
            let once = normalised(&note);
            prop_assert_eq!(normalised(&once), once);
        }

        #[test]
        fn titles_fit(note in "(?s).{0,600}") {
            prop_assert!(note_title(&note).is_none_or(|title| (1..=TITLE_CHARS_MAX).contains(&title.chars().count())));
        }
    }
}
