//! Requests to the knowledge API, and its keys.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Person, World};
use crate::client::{Credential, Response};
use crate::contract;
use crate::stream::Stream;

impl World {
    /// Creates an API key; `body` has its name and scopes, by default all scopes.
    pub async fn key(&self, person: &Person, body: Value) -> Credential {
        let made = self.post("/api/v1/keys", &person.cookie, &body).await.expect(201);
        Credential::Bearer(made["key"].as_str().unwrap().to_owned())
    }

    /// Signs a person in who has an account, and creates an API key with all scopes.
    pub async fn librarian(&self, email: &str) -> (Person, Credential) {
        let person = self.person(email).await;
        let key = self.key(&person, json!({ "name": "all" })).await;
        (person, key)
    }

    /// `POST /v1/search`.
    pub async fn search(&self, key: &Credential, body: Value) -> Response {
        self.post("/v1/search", key, &body).await
    }

    /// `POST /v1/spaces/create`.
    pub async fn create_space(&self, key: &Credential, body: Value) -> Response {
        self.post("/v1/spaces/create", key, &body).await
    }

    /// Creates a space; returns its id.
    pub async fn space(&self, key: &Credential, name: &str, public: bool) -> String {
        let made = self.create_space(key, json!({ "spaceName": name, "isPublic": public })).await.expect(200);
        made["space"]["id"].as_str().unwrap().to_owned()
    }

    /// `POST /v1/batch-add`, which must be accepted; returns its stream, of which nothing is read yet.
    pub async fn add(&self, key: &Credential, body: Value) -> Stream {
        let request = self.request(Method::POST, "/v1/batch-add", key).json(&body);
        judged(request).await
    }

    /// `POST /v1/batch-add`, for requests that are refused.
    pub async fn add_refused(&self, key: &Credential, body: Value) -> Response {
        self.post("/v1/batch-add", key, &body).await
    }

    /// `GET /v1/batch-add/{batch}`: the stream after the message with the id `after`, or from its start.
    pub async fn rejoin(&self, key: &Credential, batch: &str, after: Option<&str>) -> Stream {
        let mut request = self.request(Method::GET, &format!("/v1/batch-add/{batch}"), key);
        if let Some(id) = after {
            request = request.header("last-event-id", id);
        }
        judged(request).await
    }

    /// Adds notes; returns the ids of the stored memories.
    pub async fn notes(&self, key: &Credential, contents: &[&str]) -> Vec<String> {
        let contents: Vec<Value> = contents.iter().map(|content| json!({ "content": content })).collect();
        let messages = self.add(key, json!({ "contents": contents })).await.whole().await;
        messages
            .iter()
            .filter(|message| message["type"] == "success")
            .map(|message| message["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The titles of the results of a search, best first.
    pub async fn found(&self, key: &Credential, body: Value) -> Vec<String> {
        let response = self.search(key, body).await.expect(200);
        response["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["title"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Opens the stream that is the response to a request; each of its messages is checked against the description of the API.
async fn judged(request: RequestBuilder) -> Stream {
    let mut stream = Stream::open(request.send().await.unwrap()).await;
    stream.judge = contract::judge_message;
    stream
}
