//! Asking a server over a real socket.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::event::Machine;
use crate::process::PATIENCE;

/// What a client presents.
#[derive(Debug, Clone)]
pub enum Credential {
    None,
    Bearer(String),
    Cookie(String),
}

impl From<&Machine> for Credential {
    fn from(machine: &Machine) -> Self {
        Self::Bearer(machine.secret.clone())
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// An error with this status and code; gives its body.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["error"], code, "{body}");
        body
    }

    /// The receipt of an event that was forwarded.
    #[track_caller]
    pub fn receipt(&self) -> String {
        self.expect(202)["receipt_id"].as_str().unwrap_or_else(|| panic!("no receipt: {self:?}")).to_owned()
    }

    /// The warning of an event that was held.
    #[track_caller]
    pub fn held(&self) -> String {
        self.expect(202)["warning"].as_str().unwrap_or_else(|| panic!("not held: {self:?}")).to_owned()
    }
}

/// A client without a server of its own: servers come and go.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

impl Client {
    pub fn new() -> Self {
        // Fails when another client of this process did it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        Self(client.timeout(PATIENCE).build().unwrap())
    }

    /// `None`: no answer, or not a whole one.
    pub async fn try_send(&self, request: RequestBuilder) -> Option<Answer> {
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Answer { status, headers, body: response.bytes().await.ok()? })
    }

    pub fn request(&self, method: Method, url: &str, credential: &Credential) -> RequestBuilder {
        let request = self.0.request(method, url);
        match credential {
            Credential::None => request,
            Credential::Bearer(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            Credential::Cookie(pair) => request.header(COOKIE, pair),
        }
    }

    pub async fn get(&self, url: &str, credential: impl Into<Credential>) -> Answer {
        self.try_send(self.request(Method::GET, url, &credential.into()))
            .await
            .unwrap_or_else(|| panic!("no answer: {url}"))
    }

    pub async fn post(&self, url: &str, credential: impl Into<Credential>, body: &Value) -> Answer {
        let request = self.request(Method::POST, url, &credential.into()).json(body);
        self.try_send(request).await.unwrap_or_else(|| panic!("no answer: {url}"))
    }

    /// An event on its way; `None` when it was not answered.
    pub async fn event(&self, url: &str, machine: &Machine, body: Bytes) -> Option<Answer> {
        let request = self.request(Method::POST, &format!("{url}/api/v1/events"), &machine.into());
        self.try_send(request.header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// Registers a computer.
    pub async fn machine(&self, url: &str, user_cuid: &str, uuid: &str) -> Machine {
        let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
        let made = self.post(&format!("{url}/api/v1/machines"), Credential::None, &body).await.expect(201);
        let secret = made["machine_secret"].as_str().unwrap().to_owned();
        Machine { user_cuid: user_cuid.to_owned(), uuid: uuid.to_owned(), secret }
    }
}

/// Asks again and again until there is an answer, or for too long.
pub async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let patience = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(tokio::time::Instant::now() < patience, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
