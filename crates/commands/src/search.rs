//! `attache search`: searches memories and prints the best first, with the matched words marked.

use clap::Args;
use domain::excerpt::excerpt;
use domain::fit::{self, Fit};
use domain::foreign::visible;
use domain::words::{self, QueryWords};
use serde_json::json;
use wire::knowledge::{SearchRequest, SearchResult};

use crate::connection::{Remote, failed, page_of};
use crate::failure::Done;
use crate::{output, space, terminal};

/// Maximum number of words of a query that are marked.
const WORDS_MARKED: usize = 64;

/// Maximum line width in characters, for readability.
const WIDTH_MAX: usize = 100;

/// Options of `attache search`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Question or keywords
    #[arg(required = true)]
    query: Vec<String>,
    /// Print the less similar documents too
    #[arg(long)]
    all: bool,
    /// Maximum number of documents
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=50))]
    limit: u8,
    /// Minimum similarity, from 0 to 1; prints all documents that have it
    #[arg(long, value_name = "NUMBER")]
    threshold: Option<f64>,
    /// Search only this space, by id or name; may be repeated
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// Number of chunks to show per document
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=5))]
    chunks: u8,
    #[command(flatten)]
    remote: Remote,
}

/// Sends the query and prints the results.
pub async fn run(arguments: &Arguments) -> Done {
    let client = arguments.remote.open()?.with_key()?;
    let query = arguments.query.join(" ");
    let request = SearchRequest {
        query: Some(query.clone()),
        limit: Some(f64::from(arguments.limit)),
        threshold: arguments.threshold,
        spaces: space::named(&client, &arguments.space).await?,
    };
    let response = client.search(&request).await.map_err(failed)?;
    output::show(arguments.remote.json, &json!(response), || {
        if response.results.is_empty() {
            return "no results".to_owned();
        }
        let terms = words::asked(&query, WORDS_MARKED);
        let width = textwrap::termwidth().min(WIDTH_MAX);
        let shows_all = arguments.all || arguments.threshold.is_some();
        let similarities: Vec<f64> = response.results.iter().map(|result| result.similarity).collect();
        let count = similarities.len();
        let close = if shows_all { count } else { fit::shown(similarities.iter().copied()) };
        let fits = fit::fits(&similarities);
        let shown = (1..).zip(response.results.iter().zip(fits).take(close)).map(|(nth, (result, fit))| {
            let page = page_of(&client, &result.url);
            shown(nth, (result, fit), &page, &terms, arguments.chunks, width)
        });
        let mut parts: Vec<String> = shown.collect();
        if close < count {
            parts.push(terminal::styled(terminal::FAINT, format!("{} less similar: --all prints them", count - close)));
        }
        parts.join("\n\n")
    });
    Ok(())
}

fn shown(
    nth: usize,
    (result, fit): (&SearchResult, Fit),
    page: &str,
    asked: &QueryWords,
    chunks: u8,
    width: usize,
) -> String {
    let title = terminal::styled(terminal::STRONG, words_of(&result.title));
    let mut lines = vec![
        format!("{nth:>2}. {title}"),
        format!(
            "    {}  {}",
            terminal::styled(terminal::GOOD, fit.words()),
            terminal::styled(terminal::FAINT, words_of(page)),
        ),
    ];
    let options = textwrap::Options::new(width).initial_indent("    ").subsequent_indent("    ");
    for chunk in result.chunks.iter().take(chunks.into()) {
        let pieces = excerpt(asked, &words_of(without_title(&chunk.content, &result.title)));
        let chunk_text: String = pieces.iter().map(|piece| highlighted(&piece.text, piece.marked)).collect();
        lines.extend(textwrap::wrap(&chunk_text, &options).into_iter().map(std::borrow::Cow::into_owned));
    }
    lines.join("\n")
}

/// Text on one line, without control characters.
fn words_of(text: &str) -> String {
    visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes the first heading of a chunk if it repeats the document's title, which is printed above it.
fn without_title<'t>(chunk: &'t str, title: &str) -> &'t str {
    let (first, rest) = chunk.trim_start().split_once('\n').unwrap_or_default();
    if first.starts_with('#') && first.trim_matches(['#', ' ', '\r']) == title { rest } else { chunk }
}

/// Marks a piece of text if it is a word of the query.
fn highlighted(piece: &str, is_asked: bool) -> String {
    if is_asked { terminal::styled(terminal::WARNING, piece) } else { piece.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_one_line_without_its_title_and_without_commands_for_a_terminal() {
        assert_eq!(words_of("a\u{1b}[31m\n b\tc"), "a [31m b c");
        assert_eq!(without_title("\n# Roses\n\nPrune them.", "Roses"), "\nPrune them.");
        assert_eq!(without_title("# Roses", "Roses"), "# Roses");
        assert_eq!(without_title("Roses\nPrune them.", "Roses"), "Roses\nPrune them.");
    }
}
