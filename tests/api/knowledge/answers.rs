//! Thirty questions to fifty memories in several languages, with the bundled model: what a person sees of the answers.

use std::fmt::Write;

use domain::fit;
use serde::Deserialize;
use serde_json::{Value, json};

use super::closed_network;
use blackbox::site::Site;
use blackbox::world::World;

/// `answers.toml`
#[derive(Deserialize)]
struct Answers {
    notes: Vec<Note>,
    pages: Vec<Page>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Note {
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct Page {
    path: String,
    title: String,
    text: Vec<String>,
}

#[derive(Deserialize)]
struct Question {
    ask: String,
    answer: String,
}

/// Questions, of thirty, whose right answer has to be the first.
const FIRST_MIN: usize = 26;

#[tokio::test(flavor = "multi_thread")]
async fn every_right_answer_is_shown_and_most_are_the_first() {
    let (site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let answers: Answers = toml::from_str(include_str!("answers.toml")).unwrap();
    for Page { path, title, text } in &answers.pages {
        let paragraphs = text.iter().map(|paragraph| format!("<p>{paragraph}</p>")).collect::<Vec<_>>().concat();
        site.put(path, format!("<!doctype html><meta charset=utf-8><title>{title}</title><article><h1>{title}</h1>{paragraphs}</article>"));
    }
    let urls: Vec<String> = answers.pages.iter().map(|page| format!("http://{address}/{}", page.path)).collect();
    let notes: Vec<Value> =
        answers.notes.iter().map(|note| json!({ "title": note.title, "content": note.text })).collect();
    let stored = world.add(&key, json!({ "urls": urls, "contents": notes })).await.whole().await;
    let stored = stored.iter().filter(|message| message["type"] == "success").count();
    assert_eq!(stored, answers.notes.len() + answers.pages.len());

    let (mut first, mut report) = (0, String::new());
    for Question { ask, answer } in &answers.questions {
        let response = world.search(&key, json!({ "query": ask, "limit": 20 })).await.expect(200);
        let results = response["results"].as_array().unwrap();
        let similarities: Vec<f64> = results.iter().map(|result| result["similarity"].as_f64().unwrap()).collect();
        let place = results.iter().position(|result| result["title"] == *answer);
        let (shown, given) = (fit::shown(similarities.iter().copied()), fit::given(similarities.iter().copied()));
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{ask}: {place:?} of {shown} shown, {similarities:?}");
        assert!(place.is_some_and(|place| place < shown && place < given), "{report}");
        first += usize::from(place == Some(0));
    }
    assert!(first >= FIRST_MIN, "{first} are the first:\n{report}");
}
