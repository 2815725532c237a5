//! Comments and documents are plain technical English (`CONTRIBUTING.md#rules`). Some words are rare in technical prose and were frequent
//! here; their rate may not rise again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{files, relative};

/// Counted words in 10,000 words of comments, and of documents. May only be lowered.
const COUNTED_PER_10_000_MAX: f64 = 1.5;
/// Share of one-line comments with two words or fewer, in percent. May only be lowered.
const SHORT_COMMENTS_PERCENT_MAX: f64 = 2.9;

/// Words that count by themselves.
const WORDS: [&str; 10] =
    ["whoever", "whatever", "nobody", "somebody", "anew", "stand", "stands", "tell", "tells", "told"];
/// Word sequences that count, separated by single spaces.
const SEQUENCES: [&[&str]; 17] = [
    &["of", "late"],
    &["for", "ever"],
    &["all", "the", "same"],
    &["go", "on"],
    &["goes", "on"],
    &["is", "over"],
    &["was", "over"],
    &["so", "many"],
    &["at", "hand"],
    &["take", "down"],
    &["takes", "down"],
    &["what", "is"],
    &["what", "was"],
    &["what", "are"],
    &["what", "it"],
    &["what", "a"],
    &["what", "the"],
];

/// A text with its words in lower case. A word is a run of letters; `adjacent` is whether one space separates it from the word before it.
struct Words(Vec<(String, bool)>);

impl Words {
    fn of(text: &str) -> Self {
        let mut words: Vec<(String, bool)> = Vec::new();
        let mut between = String::new();
        for letter in text.chars() {
            if letter.is_ascii_alphabetic() {
                match words.last_mut() {
                    Some((word, _)) if between.is_empty() => word.push(letter.to_ascii_lowercase()),
                    _ => words.push((letter.to_ascii_lowercase().to_string(), between == " ")),
                }
                between.clear();
            } else {
                between.push(letter);
            }
        }
        Self(words)
    }

    fn counted(&self) -> usize {
        let is_at = |start: usize, sequence: &[&str]| {
            sequence.iter().enumerate().all(|(offset, expected)| {
                self.0
                    .get(start + offset)
                    .is_some_and(|(word, adjacent)| word == expected && (offset == 0 || *adjacent))
            })
        };
        let is_counted = |start: &usize| {
            WORDS.contains(&self.0[*start].0.as_str()) || SEQUENCES.iter().any(|sequence| is_at(*start, sequence))
        };
        (0..self.0.len()).filter(is_counted).count()
    }
}

/// The text of a comment that begins this line, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

fn comments(source: &str) -> String {
    let after_code = |line: &str| {
        let (code, text) = line.split_once("// ")?;
        code.ends_with(char::is_whitespace).then(|| text.to_owned())
    };
    let texts = source.lines().filter_map(|line| comment(line).map(str::to_owned).or_else(|| after_code(line)));
    texts.collect::<Vec<_>>().join("\n")
}

/// Fails if counted words are too frequent in these texts, and names the files with most of them.
fn judge(what: &str, texts: impl Iterator<Item = (PathBuf, String)>) {
    let (mut words, mut counted, mut worst) = (0, 0, BTreeMap::new());
    for (path, text) in texts {
        let text = Words::of(&text);
        words += text.0.len();
        counted += text.counted();
        if text.counted() > 0 {
            worst.insert((usize::MAX - text.counted(), path), text.counted());
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate of some thousands")]
    let rate = 1e4 * counted as f64 / words as f64;
    let worst: Vec<String> =
        worst.iter().take(20).map(|((_, path), counted)| format!("{counted:5}  {}", relative(path))).collect();
    assert!(
        rate <= COUNTED_PER_10_000_MAX,
        "{rate:.1} counted words in 10,000 words of {what} ({counted} of {words}); at most {COUNTED_PER_10_000_MAX} are allowed.\n\
         Name the component as the subject and use its verb (see CONTRIBUTING.md, Language). Most are in:\n{}",
        worst.join("\n")
    );
}

#[test]
fn comments_are_plain_technical_english() {
    // These lists are the only place that has to contain the counted words.
    let sources = files(&["rs"]).into_iter().filter(|path| !path.ends_with("tests/tidy/language.rs"));
    judge("comments", sources.map(|path| (path.clone(), comments(&std::fs::read_to_string(path).unwrap()))));
}

#[test]
fn documents_are_plain_technical_english() {
    judge("documents", files(&["md"]).into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())));
}

#[test]
fn names_of_functions_are_plain_technical_english() {
    let mut faults = Vec::new();
    for path in files(&["rs"]) {
        let source = std::fs::read_to_string(&path).unwrap();
        let names = source.lines().filter_map(|line| line.split_once("fn ")).map(|(_, rest)| {
            rest.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).next().unwrap_or_default()
        });
        for name in names.filter(|name| Words::of(&name.replace('_', " ")).counted() > 0) {
            faults.push(format!("{}: {name}", relative(&path)));
        }
    }
    assert!(faults.is_empty(), "names of functions contain counted words:\n{}", faults.join("\n"));
}

#[test]
fn a_comment_says_more_than_two_words() {
    let (mut one_line, mut short) = (0, Vec::new());
    for path in files(&["rs"]) {
        let source = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        let is_comment = |at: usize| lines.get(at).is_some_and(|line| comment(line).is_some());
        for (at, line) in lines.iter().enumerate() {
            let alone = !(is_comment(at + 1) || at > 0 && is_comment(at - 1));
            let Some(text) = comment(line).filter(|text| alone && !text.trim().is_empty()) else { continue };
            one_line += 1;
            if text.split_whitespace().count() <= 2 {
                short.push(format!("{}:{}: {}", relative(&path), at + 1, text.trim()));
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a share of some thousands")]
    let percent = 100.0 * short.len() as f64 / f64::from(one_line);
    assert!(
        percent <= SHORT_COMMENTS_PERCENT_MAX,
        "{percent:.1} % of one-line comments have two words or fewer; at most {SHORT_COMMENTS_PERCENT_MAX} % are allowed.\n\
         Name unit, range, default, source or reason, or remove the comment. The first of them:\n{}",
        short.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn words_are_counted_within_lines() {
    for (text, counted) in [
        ("Whoever is told what is over.", 4),
        ("for ever, forever, for  ever", 1),
        ("It takes down the so many", 2),
        ("whatnot is standing; outstanding results", 0),
    ] {
        assert_eq!(Words::of(text).counted(), counted, "{text}");
    }
    assert_eq!(comments("//! one\nlet x = 1; // two\nlet url = \"http://three\";\n    /// four"), " one\ntwo\n four");
}
