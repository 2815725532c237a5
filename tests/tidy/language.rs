//! Comments and documents are plain technical English (`CONTRIBUTING.md#rules`), with the nouns of `docs/glossary.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{files, relative};

/// Rare words in 10,000 words of comments. May only be lowered.
const PER_10_000_OF_COMMENTS_MAX: f64 = 7.0;
/// Rare words in 10,000 words of documents. May only be lowered.
const PER_10_000_OF_DOCUMENTS_MAX: f64 = 8.0;
/// Share of one-line comments with two words or fewer, in percent. May only be lowered.
const SHORT_COMMENTS_PERCENT_MAX: f64 = 2.9;

fn glossary() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/glossary.md")).unwrap()
}

/// The texts between two markers, such as `` ` `` or `**`.
fn between(text: &str, marker: &str) -> Vec<String> {
    text.split(marker).skip(1).step_by(2).map(str::to_owned).collect()
}

/// The words in bold of the tables: they occur nowhere.
fn avoided() -> Vec<String> {
    let words: Vec<String> =
        glossary().lines().filter(|line| line.starts_with("| ")).flat_map(|line| between(line, "**")).collect();
    assert!(words.len() > 3, "{words:?}");
    words
}

/// The sequences of words under the heading of rare words, each word apart.
fn rare() -> Vec<Vec<String>> {
    let page = glossary();
    let (_, section) = page.split_once("## Rare words").unwrap();
    let (_, list) = section.rsplit_once("\n\n").unwrap();
    let words: Vec<_> =
        between(list, "`").iter().map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(words.len() > 30 && words.iter().any(|words| words.len() > 1), "{words:?}");
    words
}

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

    fn count(&self, rare: &[Vec<String>]) -> usize {
        let is_at = |start: usize, sequence: &[String]| {
            sequence.iter().enumerate().all(|(offset, expected)| {
                self.0
                    .get(start + offset)
                    .is_some_and(|(word, adjacent)| word == expected && (offset == 0 || *adjacent))
            })
        };
        (0..self.0.len()).filter(|start| rare.iter().any(|sequence| is_at(*start, sequence))).count()
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

/// Fails if rare words are too frequent in these texts, and names the files with most of them.
fn judge(kind: &str, max: f64, texts: impl Iterator<Item = (PathBuf, String)>) {
    let sequences = rare();
    let (mut words, mut total, mut worst) = (0, 0, BTreeMap::new());
    for (path, text) in texts {
        let text = Words::of(&text);
        let count = text.count(&sequences);
        words += text.0.len();
        total += count;
        if count > 0 {
            worst.insert((usize::MAX - count, path), count);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate of some thousands")]
    let rate = 1e4 * total as f64 / words as f64;
    let worst: Vec<String> =
        worst.iter().take(20).map(|((_, path), count)| format!("{count:5}  {}", relative(path))).collect();
    assert!(
        rate <= max,
        "{rate:.1} rare words in 10,000 words of {kind} ({total} of {words}); at most {max} are allowed.\n\
         Name the component as the subject and use its verb (docs/glossary.md#rare-words). Most are in:\n{}",
        worst.join("\n")
    );
}

#[test]
fn comments_are_plain_technical_english() {
    let sources = files(&["rs"]).into_iter();
    let texts = sources.map(|path| (path.clone(), comments(&std::fs::read_to_string(path).unwrap())));
    judge("comments", PER_10_000_OF_COMMENTS_MAX, texts);
}

#[test]
fn documents_are_plain_technical_english() {
    let pages = files(&["md"]).into_iter().filter(|path| !path.ends_with("docs/glossary.md"));
    let texts = pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()));
    judge("documents", PER_10_000_OF_DOCUMENTS_MAX, texts);
}

/// Words of a source, those within names too: `TimeLimit` and `time_limit` are two words.
fn words_of_names(source: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in source.chars() {
        let ends_word = !letter.is_ascii_alphabetic()
            || letter.is_ascii_uppercase()
                && words.last().is_some_and(|word| word.ends_with(|last: char| last.is_ascii_lowercase()));
        if ends_word {
            words.push(String::new());
        }
        if letter.is_ascii_alphabetic() {
            words.last_mut().unwrap().push(letter);
        }
    }
    words.into_iter().map(|word| word.to_ascii_lowercase()).collect()
}

#[test]
fn avoided_words_occur_nowhere() {
    let avoided = avoided();
    let is_avoided =
        |word: &str| avoided.iter().any(|avoided| word == avoided || word.strip_suffix('s') == Some(avoided));
    let mut faults = Vec::new();
    for path in files(&["rs", "sql", "md"]).into_iter().filter(|path| !path.ends_with("docs/glossary.md")) {
        for (at, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            if words_of_names(line).iter().any(|word| is_avoided(word)) {
                faults.push(format!("{}:{}: {}", relative(&path), at + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "the glossary avoids these words:\n{}", faults.join("\n"));
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
    let rare = [vec!["whose".to_owned()], ["of", "them"].map(str::to_owned).to_vec()];
    for (text, count) in [("Whose of them?", 2), ("of  them, of, them, thereof them", 0), ("of\nthem", 0)] {
        assert_eq!(Words::of(text).count(&rare), count, "{text}");
    }
    assert_eq!(comments("//! one\nlet x = 1; // two\nlet url = \"http://three\";\n    /// four"), " one\ntwo\n four");
    assert_eq!(
        words_of_names("let desk_of = TimeLimit(HTTP);").join(" ").split_whitespace().collect::<Vec<_>>(),
        ["let", "desk", "of", "time", "limit", "http"]
    );
}
