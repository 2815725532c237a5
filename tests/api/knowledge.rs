//! The knowledge API, black box: every row of its tables and every limit (`docs/decisions/0034-errors-of-the-knowledge-api.md` and `docs/decisions/0040-batches-and-streams.md`).

mod batch;
mod errors;
mod memories;
mod pages;
mod places;
mod search;
mod settings;
mod site;
mod spaces;
mod stream;

use std::time::Duration;

use attache::config::Settings;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use self::stream::Stream;
use crate::contract;
use crate::world::{Answer, Credential, Person, World};

/// Settings under which the tests' own web server may be fetched from, and pages are read by the real program.
pub fn closed_network(settings: &mut Settings) {
    let knowledge = &mut settings.knowledge;
    knowledge.worker = Some(env!("CARGO_BIN_EXE_attache").into());
    knowledge.fetch.allow_private = vec!["127.0.0.1/32".parse().unwrap()];
    knowledge.fetch.host_interval = Duration::ZERO;
    knowledge.fetch.retries_max = 1;
}

impl World {
    /// A key with these scopes, all of them when none is named.
    pub async fn key(&self, person: &Person, body: Value) -> Credential {
        let made = self.post("/api/v1/keys", &person.cookie, &body).await.expect(201);
        Credential::Bearer(made["key"].as_str().unwrap().to_owned())
    }

    /// A person and a key that opens everything of theirs.
    pub async fn librarian(&self, email: &str) -> (Person, Credential) {
        let person = self.person(email).await;
        let key = self.key(&person, json!({ "name": "all" })).await;
        (person, key)
    }

    pub async fn search(&self, key: &Credential, body: Value) -> Answer {
        self.post("/v1/search", key, &body).await
    }

    pub async fn create_space(&self, key: &Credential, body: Value) -> Answer {
        self.post("/v1/spaces/create", key, &body).await
    }

    /// The id of a new space.
    pub async fn space(&self, key: &Credential, name: &str, public: bool) -> String {
        let made = self.create_space(key, json!({ "spaceName": name, "isPublic": public })).await.expect(200);
        made["space"]["id"].as_str().unwrap().to_owned()
    }

    /// Adds, and gives the stream before anything was read of it; the request has to be taken.
    pub async fn add(&self, key: &Credential, body: Value) -> Stream {
        let request = self.request(Method::POST, "/v1/batch-add", key).json(&body);
        judged(request).await
    }

    /// Adds, for requests that are refused.
    pub async fn add_refused(&self, key: &Credential, body: Value) -> Answer {
        self.post("/v1/batch-add", key, &body).await
    }

    /// The stream of a batch again, after a message.
    pub async fn rejoin(&self, key: &Credential, batch: &str, after: Option<&str>) -> Stream {
        let mut request = self.request(Method::GET, &format!("/v1/batch-add/{batch}"), key);
        if let Some(id) = after {
            request = request.header("last-event-id", id);
        }
        judged(request).await
    }

    /// Adds notes, and gives the ids of what is kept of them.
    pub async fn notes(&self, key: &Credential, contents: &[&str]) -> Vec<String> {
        let contents: Vec<Value> = contents.iter().map(|content| json!({ "content": content })).collect();
        let told = self.add(key, json!({ "contents": contents })).await.whole().await;
        told.iter()
            .filter(|message| message["type"] == "success")
            .map(|message| message["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The titles that a search finds, best first.
    pub async fn found(&self, key: &Credential, body: Value) -> Vec<String> {
        let answer = self.search(key, body).await.expect(200);
        answer["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["title"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The stream that answers a request; every message is held against the description of the API.
async fn judged(request: RequestBuilder) -> Stream {
    let mut stream = Stream::open(request.send().await.unwrap()).await;
    stream.judge = contract::judge_message;
    stream
}
