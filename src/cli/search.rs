//! `attache search`: what is remembered, the best first, with the words that were looked for marked.

use clap::Args;
use domain::excerpt::excerpt;
use domain::foreign::visible;
use domain::words;
use serde_json::json;
use wire::knowledge::{SearchRequest, SearchResult};

use super::remote::{Remote, failed};
use super::{Done, output, space, terminal};

/// Words of a query that are marked.
const WORDS_MARKED: usize = 64;

/// Wider lines are hard to read, however wide the terminal is.
const WIDTH_MAX: usize = 100;

/// Cells of the bar that shows how similar a document is.
const BAR: usize = 10;

/// What to look for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A question, or words
    #[arg(required = true)]
    query: Vec<String>,
    /// Documents at most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=50))]
    limit: u8,
    /// The least similarity, from 0 to 1
    #[arg(long, value_name = "NUMBER")]
    threshold: Option<f64>,
    /// Only in this space, by its id or name; may be repeated
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// Passages of each document
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=5))]
    passages: u8,
    #[command(flatten)]
    remote: Remote,
}

/// Looks, and shows what was found.
pub async fn run(arguments: &Arguments) -> Done {
    let client = arguments.remote.open()?.with_key()?;
    let query = arguments.query.join(" ");
    let request = SearchRequest {
        query: Some(query.clone()),
        limit: Some(f64::from(arguments.limit)),
        threshold: arguments.threshold,
        spaces: space::named(&client, &arguments.space).await?,
    };
    let found = client.search(&request).await.map_err(failed)?;
    output::show(arguments.remote.json, &json!(found), || {
        if found.results.is_empty() {
            return "nothing found".to_owned();
        }
        let asked = words::asked(&query, WORDS_MARKED);
        let width = textwrap::termwidth().min(WIDTH_MAX);
        let shown =
            (1..).zip(&found.results).map(|(nth, result)| shown(nth, result, &asked, arguments.passages, width));
        shown.collect::<Vec<_>>().join("\n\n")
    });
    Ok(())
}

fn shown(nth: usize, result: &SearchResult, asked: &[String], passages: u8, width: usize) -> String {
    let title = terminal::styled(terminal::STRONG, words_of(&result.title));
    let mut lines = vec![
        format!("{nth:>2}. {title}"),
        format!(
            "    {} {:.2}  {}",
            terminal::styled(terminal::GOOD, similarity(result.similarity)),
            result.similarity,
            terminal::styled(terminal::FAINT, words_of(&result.url)),
        ),
    ];
    let options = textwrap::Options::new(width).initial_indent("    ").subsequent_indent("    ");
    for chunk in result.chunks.iter().take(passages.into()) {
        let pieces = excerpt(asked, &words_of(without_title(&chunk.content, &result.title)));
        let passage: String = pieces.iter().map(|piece| stood_out(&piece.text, piece.marked)).collect();
        lines.extend(textwrap::wrap(&passage, &options).into_iter().map(std::borrow::Cow::into_owned));
    }
    lines.join("\n")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 10")]
fn similarity(similarity: f64) -> String {
    let full = (similarity.clamp(0.0, 1.0) * 10.0).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR.saturating_sub(full)))
}

/// In one line, without what a terminal would obey.
fn words_of(text: &str) -> String {
    visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A passage often begins with the heading that is its title, which stands above it already.
fn without_title<'t>(passage: &'t str, title: &str) -> &'t str {
    let (first, rest) = passage.trim_start().split_once('\n').unwrap_or_default();
    if first.starts_with('#') && first.trim_matches(['#', ' ', '\r']) == title { rest } else { passage }
}

/// The words that were looked for stand out.
fn stood_out(piece: &str, is_asked: bool) -> String {
    if is_asked { terminal::styled(terminal::WARNING, piece) } else { piece.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_the_document_is_similar() {
        assert_eq!(similarity(0.0), "░".repeat(10));
        assert_eq!(similarity(0.72), format!("{}{}", "█".repeat(7), "░".repeat(3)));
        assert_eq!(similarity(1.0), "█".repeat(10));
    }

    #[test]
    fn a_passage_is_one_line_without_its_title_and_without_commands_for_a_terminal() {
        assert_eq!(words_of("a\u{1b}[31m\n b\tc"), "a [31m b c");
        assert_eq!(without_title("\n# Roses\n\nPrune them.", "Roses"), "\nPrune them.");
        assert_eq!(without_title("# Roses", "Roses"), "# Roses");
        assert_eq!(without_title("Roses\nPrune them.", "Roses"), "Roses\nPrune them.");
    }
}
