//! A server with something to remember, and what a client of its knowledge API does.

use serde_json::{Value, json};

use crate::process::{Home, Server};
use crate::stream::{Stream, assert_whole};

/// A home with a key, where a batch is taken up again soon.
pub fn library() -> (Home, String) {
    let home = Home::new().set("knowledge.batch.lease", "1s").set("knowledge.base_url", "http://attache.test");
    home.run(&["admin", "account", "create", "--email", "ada@example.com"]).said();
    let key =
        home.run(&["admin", "api-key", "create", "--email", "ada@example.com", "--name", "all"]).said().to_owned();
    (home, key)
}

pub fn notes(count: usize) -> Value {
    let contents: Vec<Value> =
        (0..count).map(|nth| json!({ "content": format!("Note {nth} about subject{nth}") })).collect();
    json!({ "contents": contents })
}

/// Asks the server as a client of the knowledge API.
pub fn asking(server: &Server, key: &str, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
    // Fails when another test of this process did it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new().request(method, format!("{}{path}", server.url)).bearer_auth(key)
}

/// The stream of a batch after what was heard of it.
pub async fn rejoin(server: &Server, key: &str, batch: &str, last: Option<&str>) -> Stream {
    let mut request = asking(server, key, reqwest::Method::GET, &format!("/v1/batch-add/{batch}"));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    Stream::open(request.send().await.unwrap()).await
}

/// Everything that was told as kept is found, and nothing else is kept.
pub async fn assert_kept(server: &Server, key: &str, told: &[Value]) {
    assert_whole(told);
    let kept: Vec<&str> = told.iter().filter_map(|message| message["id"].as_str()).collect();
    let exported = asking(server, key, reqwest::Method::GET, "/v1/export").send().await.unwrap().text().await.unwrap();
    assert_eq!(exported.lines().count(), kept.len());
    for id in kept {
        assert!(exported.contains(id), "{id} is not kept");
    }
    let search =
        asking(server, key, reqwest::Method::POST, "/v1/search").json(&json!({ "query": "subject7", "limit": 1 }));
    let found: Value = search.send().await.unwrap().json().await.unwrap();
    assert_eq!(found["results"][0]["title"], "Note 7 about subject7", "{found}");
}
