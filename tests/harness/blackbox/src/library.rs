//! A server with a knowledge API key, and requests of a client of that API.

use serde_json::{Value, json};

use crate::client::{Client, Credential};
use crate::process::{Home, Server};
use crate::stream::{Stream, assert_whole};

/// A home with an API key of one person, and the short lease after which another worker resumes a batch.
pub fn library() -> (Home, String) {
    let home = Home::new().set("knowledge.batch.lease", "1s").set("knowledge.base_url", "http://attache.test");
    let key = key_of(&home);
    (home, key)
}

/// An account in this home, and the API key of its person.
pub fn key_of(home: &Home) -> String {
    home.run(&["migrate"]).said();
    home.run(&["admin", "account", "create", "--email", "ada@example.com"]).said();
    home.run(&["admin", "api-key", "create", "--email", "ada@example.com", "--name", "all"]).said().to_owned()
}

/// The body of a batch of `count` notes, each about a different subject.
pub fn notes(count: usize) -> Value {
    let contents: Vec<Value> =
        (0..count).map(|nth| json!({ "content": format!("Note {nth} about subject{nth}") })).collect();
    json!({ "contents": contents })
}

/// The body of a batch of `count` notes about a subject; batches about different subjects share no note.
pub fn notes_about(subject: &str, count: usize) -> Value {
    let contents: Vec<Value> =
        (0..count).map(|nth| json!({ "content": format!("Note {nth} about {subject}") })).collect();
    json!({ "contents": contents })
}

/// A request with the API key.
pub fn request(server: &Server, key: &str, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
    Client::without_timeout().request(method, &format!("{}{path}", server.url), &Credential::Bearer(key.to_owned()))
}

/// Reopens the stream of a batch after the message with the id `last`, or from its start.
pub async fn rejoin(server: &Server, key: &str, batch: &str, last: Option<&str>) -> Stream {
    let mut rejoining = request(server, key, reqwest::Method::GET, &format!("/v1/batch-add/{batch}"));
    if let Some(last) = last {
        rejoining = rejoining.header("last-event-id", last);
    }
    Stream::open(rejoining.send().await.unwrap()).await
}

/// Asserts that the memories in the messages of a whole stream are stored and found, and no others.
pub async fn assert_stored(server: &Server, key: &str, messages: &[Value]) {
    assert_whole(messages);
    let stored: Vec<&str> = messages.iter().filter_map(|message| message["id"].as_str()).collect();
    let exported = request(server, key, reqwest::Method::GET, "/v1/export").send().await.unwrap().text().await.unwrap();
    assert_eq!(exported.lines().count(), stored.len());
    for id in stored {
        assert!(exported.contains(id), "{id} is not stored");
    }
    let search =
        request(server, key, reqwest::Method::POST, "/v1/search").json(&json!({ "query": "subject7", "limit": 1 }));
    let value: Value = search.send().await.unwrap().json().await.unwrap();
    assert_eq!(value["results"][0]["title"], "Note 7 about subject7", "{value}");
}
