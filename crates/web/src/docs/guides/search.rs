//! The search: every word of the query must be in a section, or in its headings.

use std::cmp::Reverse;

use serde_json::Value;

use super::library::Guide;
use crate::markdown::DocumentSection;

/// Maximum number of words of a query; further words are ignored.
const WORDS_MAX: usize = 8;
/// Maximum number of results.
pub const FOUND_MAX: usize = 30;
/// Occurrences beyond this number do not make a section fit better.
const OCCURRENCES_MAX: usize = 5;
/// Weight of a word in a heading.
const IN_HEADING: usize = 16;
/// Weight of a word in the title of the guide.
const IN_TITLE: usize = 6;
/// Length of an excerpt in bytes.
const EXCERPT: usize = 220;
/// Length of the part of an excerpt before the first word that was found, in bytes.
const EXCERPT_BEFORE: usize = 60;

/// A section that has every word.
#[derive(Debug)]
pub struct FoundSection<'s> {
    /// Title of the guide; "API" for an operation.
    pub title: &'s str,
    /// Heading of the section, or the summary of an operation.
    pub heading: &'s str,
    /// Its address below `/docs`.
    pub address: String,
    /// Text around the first word.
    pub excerpt: String,
}

/// The best sections of guides and operations of the API, best first.
pub fn find<'s>(
    query: &str,
    sections: impl Iterator<Item = (&'s Guide, &'s DocumentSection)>,
    description: &'s Value,
) -> Vec<FoundSection<'s>> {
    let query = query.to_ascii_lowercase();
    let words: Vec<&str> = query.split_whitespace().take(WORDS_MAX).collect();
    let mut found: Vec<(usize, FoundSection<'s>)> = Vec::new();
    for (guide, DocumentSection { heading, anchor, level, text }) in sections {
        if let Some((weight, excerpt)) = fit(&words, guide.title(), heading, text) {
            let fragment = if *level == 1 { String::new() } else { format!("#{anchor}") };
            let address = format!("/guides/{}{fragment}", guide.name);
            found.push((weight, FoundSection { title: guide.title(), heading, address, excerpt }));
        }
    }
    for (path, item) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let (Some(id), Some(summary)) = (operation["operationId"].as_str(), operation["summary"].as_str()) else {
                continue;
            };
            let what = operation["description"].as_str().unwrap_or_default();
            let request = format!("{} {path}", method.to_uppercase());
            // A request is what a reader calls an operation, so it weighs as much as a heading.
            let text = format!("{request}. {what}");
            if let Some((weight, excerpt)) = fit(&words, id, &format!("{summary} {request}"), &text) {
                found.push((
                    weight,
                    FoundSection { title: "API", heading: summary, address: format!("#{id}"), excerpt },
                ));
            }
        }
    }
    found.sort_by_key(|(weight, _)| Reverse(*weight));
    found.into_iter().take(FOUND_MAX).map(|(_, section)| section).collect()
}

/// How well a section fits and its excerpt, if it has every word.
fn fit(words: &[&str], title: &str, heading: &str, text: &str) -> Option<(usize, String)> {
    let [title, heading, lower] = [title, heading, text].map(str::to_ascii_lowercase);
    let mut weight = 0;
    for word in words {
        let occurrences = lower.matches(word).take(OCCURRENCES_MAX).count();
        let headings = IN_HEADING * usize::from(heading.contains(word)) + IN_TITLE * usize::from(title.contains(word));
        if occurrences + headings == 0 {
            return None;
        }
        weight += occurrences + headings;
    }
    let first = words.iter().filter_map(|word| lower.find(word)).min().unwrap_or_default();
    Some((weight, excerpt(text, first)))
}

/// Whole words of a text around a place.
fn excerpt(text: &str, place: usize) -> String {
    let from = text.floor_char_boundary(place.saturating_sub(EXCERPT_BEFORE));
    let until = text.floor_char_boundary(from + EXCERPT);
    let begin = if from == 0 { 0 } else { text[from..place].find(' ').map_or(place, |space| from + space + 1) };
    let end =
        if until == text.len() { until } else { text[begin..until].rfind(' ').map_or(until, |space| begin + space) };
    let (before, after) = (if begin == 0 { "" } else { "… " }, if end == text.len() { "" } else { " …" });
    format!("{before}{}{after}", &text[begin..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::library::LIBRARY;
    use super::*;

    fn addresses(query: &str) -> Vec<String> {
        find(query, LIBRARY.sections(), &Value::Null).into_iter().map(|found| found.address).collect()
    }

    #[test]
    fn questions_of_each_reader_are_answered_by_their_guide() {
        for (query, guide) in [
            ("backup restore", "/guides/operations"),
            ("slow_down", "/guides/protocol/"),
            ("spool", "/guides/hooks"),
            ("Claude Code undo", "/guides/connect"),
            ("inclusion proof", "/guides/"),
            ("requests_max", "/guides/settings"),
        ] {
            let found = addresses(query);
            assert!(found.iter().take(3).any(|address| address.starts_with(guide)), "{query}: {found:?}");
        }
        assert!(addresses("kubernetes zanzibar").is_empty());
        assert_eq!(addresses("the").len(), FOUND_MAX);
    }

    #[test]
    fn every_word_is_needed_and_headings_weigh_more() {
        let of = |words: &[&str]| fit(words, "Guide", "Held events", "It is held, not lost").map(|(weight, _)| weight);
        assert_eq!(of(&["held"]), Some(IN_HEADING + 1));
        assert_eq!(of(&["guide", "lost"]), Some(IN_TITLE + 1));
        assert_eq!(of(&["held", "found"]), None);
    }

    #[test]
    fn operations_are_found_by_their_path() {
        let description = json!({ "paths": { "/api/v1/events": {
            "post": { "operationId": "submitEvent", "summary": "Submit an event", "description": "Checks the chain." },
            "servers": [],
        } } });
        let found = find("post /api/v1/events", std::iter::empty(), &description);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].address.as_str(), found[0].heading), ("#submitEvent", "Submit an event"));
        assert_eq!(found[0].excerpt, "POST /api/v1/events. Checks the chain.");
    }

    #[test]
    fn an_excerpt_has_whole_words_around_its_place() {
        let text = "wörter ".repeat(60);
        let text = text.trim_end();
        let place = text[text.len() / 2..].find(' ').unwrap() + text.len() / 2 + 1;
        let found = excerpt(text, place);
        assert!(found.starts_with("… wörter ") && found.ends_with("wörter …") && found.len() < EXCERPT + 12, "{found}");
        assert_eq!(excerpt("short", 2), "short");
        assert_eq!(excerpt("", 0), "");
    }
}
