//! How much of the main content of real pages is found, and how much else comes along.
//!
//! `cargo run --release -p attache-knowledge --example extraction` prints a Markdown table. The pages lie in the folder
//! `$ATTACHE_TEST_DATA/readability`; each has `source.html`, `expected.html` and `expected-metadata.json`. The score of a page is F1 over
//! the bags of its lower-cased words; intervals are 95 % bootstrap intervals of the mean over pages.
//!
//! What the score means: the expected content of these pages is what Readability.js makes of them, and `dom_smoothie` is a port of
//! Readability.js. Its score of 1 says that the port is true, not that people would mark the same text; and whoever takes anything but
//! that algorithm's choice can only lose here. The score shows what is lost on the way to Markdown, and nothing should be tuned by it.

#![expect(clippy::expect_used, reason = "a measurement that cannot read its data has nothing to say")]
#![expect(clippy::cast_precision_loss, reason = "counts of words and pages are small")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dom_query::Document;
use dom_smoothie::Readability;
use domain::Chance;
use knowledge::extract::{ExtractSettings, extract};

const RESAMPLES: usize = 10_000;

struct Page {
    name: String,
    source: Vec<u8>,
    words: Vec<String>,
    title: String,
}

#[derive(Default)]
struct Scores {
    f1: Vec<f64>,
    precision: Vec<f64>,
    recall: Vec<f64>,
    titles: usize,
    title: Vec<String>,
    took: Duration,
}

fn main() {
    let folder = data().join("readability");
    if !folder.is_dir() {
        eprintln!("no pages in {}: set ATTACHE_TEST_DATA", folder.display());
        return;
    }
    let pages = pages(&folder);
    let verbose = std::env::args().any(|argument| argument == "--each");
    let methods: [(&str, fn(&[u8]) -> (String, Vec<String>)); 3] =
        [("attache", ours), ("dom_smoothie as it comes", plain), ("text of the whole body", body)];
    let all: Vec<Scores> = methods.iter().map(|(_, method)| score(&pages, *method)).collect();
    println!("| method | F1 | 95 % interval | precision | recall | titles right | ms a page |");
    println!("|---|---|---|---|---|---|---|");
    for ((name, _), scores) in methods.iter().zip(&all) {
        let (low, high) = interval(&scores.f1);
        println!(
            "| {name} | {:.3} | {low:.3}–{high:.3} | {:.3} | {:.3} | {} of {} | {:.1} |",
            mean(&scores.f1),
            mean(&scores.precision),
            mean(&scores.recall),
            scores.titles,
            pages.len(),
            scores.took.as_secs_f64() * 1000.0 / pages.len() as f64,
        );
    }
    println!(
        "\nThe expected content is the output of Readability.js, of which dom_smoothie is a port: the score is agreement with that \
         algorithm, not with people."
    );
    for (other, (name, _)) in methods.iter().enumerate().skip(1) {
        let gains: Vec<f64> = all[0].f1.iter().zip(&all[other].f1).map(|(ours, theirs)| ours - theirs).collect();
        let (low, high) = interval(&gains);
        println!("\nF1 of attache less F1 of {name}, page by page: {:+.3} ({low:+.3} to {high:+.3})", mean(&gains));
    }
    if verbose {
        println!();
        for (number, page) in pages.iter().enumerate() {
            let scores: Vec<String> = all.iter().map(|scores| format!("{:.5}", scores.f1[number])).collect();
            println!("{:45} {}", page.name, scores.join("  "));
            if !same(&all[0].title[number], &page.title) {
                println!("    title {:?}, expected {:?}", all[0].title[number], page.title);
            }
        }
    }
}

/// Where the pages are: beside the repository, unless told otherwise.
fn data() -> PathBuf {
    std::env::var_os("ATTACHE_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from)
}

fn pages(folder: &Path) -> Vec<Page> {
    let entries = std::fs::read_dir(folder).expect("lists the folder").filter_map(Result::ok).map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    let read = |path: PathBuf| std::fs::read(path).expect("reads a page");
    let page = |folder: PathBuf| {
        let metadata: serde_json::Value =
            serde_json::from_slice(&read(folder.join("expected-metadata.json"))).expect("reads the metadata");
        let expected = String::from_utf8_lossy(&read(folder.join("expected.html"))).into_owned();
        Page {
            name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            source: read(folder.join("source.html")),
            words: words(&Document::from(expected).formatted_text()),
            title: metadata["title"].as_str().unwrap_or_default().to_owned(),
        }
    };
    folders.into_iter().map(page).collect()
}

fn ours(source: &[u8]) -> (String, Vec<String>) {
    let url = Some("http://fakehost/test/page.html");
    extract("text/html", None, source, url, &ExtractSettings::default()).map_or_else(
        |_| (String::new(), Vec::new()),
        |extracted| (extracted.title.unwrap_or_default(), words(&text(&extracted.markdown))),
    )
}

fn plain(source: &[u8]) -> (String, Vec<String>) {
    let source = String::from_utf8_lossy(source).into_owned();
    let article = Readability::from(source).parse();
    article.map_or_else(
        |_| (String::new(), Vec::new()),
        |article| (article.title, words(&Document::from(article.content).formatted_text())),
    )
}

fn body(source: &[u8]) -> (String, Vec<String>) {
    let document = Document::from(String::from_utf8_lossy(source).into_owned());
    document.select("script, style, noscript, template").remove();
    let title = document.select_single("title").text().trim().to_owned();
    (title, document.body().map(|body| words(&body.formatted_text())).unwrap_or_default())
}

/// The words of Markdown that a reader sees: no addresses, no descriptions of images.
fn text(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(start) = rest.find(']') {
        let before = &rest[..start];
        let image = before.rfind("![").filter(|open| !before[open + 2..].contains('['));
        out.push_str(&before[..image.unwrap_or(start)]);
        rest = &rest[start + 1..];
        if let Some(address) = rest.strip_prefix('(') {
            let end =
                address.char_indices().find(|(at, character)| *character == ')' && !address[..*at].ends_with('\\'));
            rest = end.map_or("", |(at, _)| &address[at + 1..]);
        }
    }
    out.push_str(rest);
    out
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn score(pages: &[Page], method: fn(&[u8]) -> (String, Vec<String>)) -> Scores {
    let mut scores = Scores::default();
    for page in pages {
        let begun = Instant::now();
        let (title, words) = method(&page.source);
        scores.took += begun.elapsed();
        let common = common(&words, &page.words) as f64;
        let share = |of: usize| if of == 0 { 0.0 } else { common / of as f64 };
        let (precision, recall) = (share(words.len()), share(page.words.len()));
        let f1 = if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 };
        scores.f1.push(f1);
        scores.precision.push(precision);
        scores.recall.push(recall);
        scores.titles += usize::from(same(&title, &page.title));
        scores.title.push(title);
    }
    scores
}

fn common(found: &[String], expected: &[String]) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in expected {
        *counts.entry(word).or_default() += 1;
    }
    let take =
        |word: &&String| counts.get_mut(word.as_str()).filter(|left| **left > 0).map(|left| *left -= 1).is_some();
    found.iter().filter(take).count()
}

fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn interval(values: &[f64]) -> (f64, f64) {
    let chance = Chance::seeded(1);
    let drawn = |_| usize::try_from(chance.below(values.len() as u64)).map_or(0.0, |page| values[page]);
    let resample = |_| mean(&(0..values.len()).map(drawn).collect::<Vec<_>>());
    let mut means: Vec<f64> = (0..RESAMPLES).map(resample).collect();
    means.sort_by(f64::total_cmp);
    (means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40])
}
