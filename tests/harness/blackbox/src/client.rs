//! Requests over a real socket: the client, its credentials, and responses with the assertions that tests make about them.

use bytes::Bytes;
use harness::event::Machine;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::TIME_LIMIT;

/// The grant type with which an agent exchanges its claim token.
pub const CLAIM_GRANT: &str = "urn:svc:agent-auth:grant-type:claim";
/// The grant type with which a computer polls its device code.
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The grant type with which an agent exchanges its identity assertion.
pub const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// A credential, in the header in which a client presents it.
#[derive(Debug, Clone)]
pub enum Credential {
    /// No header.
    None,
    /// `Authorization: Bearer …`: the secret of a computer, or the token of an agent.
    Bearer(String),
    /// `Cookie: …`: the session of a person, as `name=value`.
    Cookie(String),
}

impl From<&Machine> for Credential {
    fn from(machine: &Machine) -> Self {
        Self::Bearer(machine.secret.clone())
    }
}

/// A response with its whole body.
#[derive(Debug)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The headers as received.
    pub headers: HeaderMap,
    /// The exact bytes of the body.
    pub body: Bytes,
}

impl Response {
    /// The body as JSON; fails the test if it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// The value of a header, if the response has it.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Asserts the status; returns the body as JSON.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Asserts an error with this status and code; returns the body.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["error"], code, "{body}");
        body
    }

    /// Asserts that the event was forwarded; returns its receipt id.
    #[track_caller]
    pub fn receipt(&self) -> String {
        let body = self.expect(202);
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        body["receipt_id"].as_str().unwrap_or_else(|| panic!("no receipt: {body}")).to_owned()
    }

    /// Asserts that the event was held; returns the warning, which starts with the reason.
    #[track_caller]
    pub fn warning(&self) -> String {
        let body = self.expect(202);
        assert_eq!(body["held"], true, "{body}");
        body["warning"].as_str().unwrap_or_else(|| panic!("no warning: {body}")).to_owned()
    }

    /// Asserts that the event was held for this reason; returns the warning.
    #[track_caller]
    pub fn held(&self, reason: &str) -> String {
        let warning = self.warning();
        assert!(warning.starts_with(&format!("{reason}: ")), "{warning}");
        warning
    }
}

/// A client that is bound to no server. It follows no redirects and uses no proxy.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// A client with the request timeout [`TIME_LIMIT`].
    pub fn new() -> Self {
        Self(builder().timeout(TIME_LIMIT).build().unwrap())
    }

    /// A client without a request timeout, for requests such as streams.
    pub fn without_timeout() -> Self {
        Self(builder().build().unwrap())
    }

    /// Sends a request; `None` if no response was received, or not the whole of it.
    pub async fn try_send(&self, request: RequestBuilder) -> Option<Response> {
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Response { status, headers, body: response.bytes().await.ok()? })
    }

    /// A request that presents this credential.
    pub fn request(&self, method: Method, url: &str, credential: &Credential) -> RequestBuilder {
        let request = self.0.request(method, url);
        match credential {
            Credential::None => request,
            Credential::Bearer(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            Credential::Cookie(pair) => request.header(COOKIE, pair),
        }
    }

    /// A `POST` request with a form as its body.
    pub fn form(&self, url: &str, pairs: &[(&str, &str)]) -> RequestBuilder {
        let body = serde_urlencoded::to_string(pairs).unwrap();
        let request = self.request(Method::POST, url, &Credential::None);
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
    }

    /// Sends `GET`; fails the test if no response is received.
    pub async fn get(&self, url: &str, credential: impl Into<Credential>) -> Response {
        self.try_send(self.request(Method::GET, url, &credential.into()))
            .await
            .unwrap_or_else(|| panic!("no response: {url}"))
    }

    /// Sends `POST` with a JSON body; fails the test if no response is received.
    pub async fn post(&self, url: &str, credential: impl Into<Credential>, body: &Value) -> Response {
        let request = self.request(Method::POST, url, &credential.into()).json(body);
        self.try_send(request).await.unwrap_or_else(|| panic!("no response: {url}"))
    }

    /// Sends an event to the server at `url`; `None` if no response is received.
    pub async fn event(&self, url: &str, machine: &Machine, body: Bytes) -> Option<Response> {
        let request = self.request(Method::POST, &format!("{url}/api/v1/events"), &machine.into());
        self.try_send(request.header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// Registers a computer with the server at `url`.
    pub async fn machine(&self, url: &str, user_cuid: &str, uuid: &str) -> Machine {
        let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
        let registered = self.post(&format!("{url}/api/v1/machines"), Credential::None, &body).await.expect(201);
        let secret = registered["machine_secret"].as_str().unwrap().to_owned();
        Machine { user_cuid: user_cuid.to_owned(), uuid: uuid.to_owned(), secret }
    }
}

/// The token in the link of a claim.
pub fn attempt_of(claim: &Value) -> String {
    let link = claim["verification_uri"].as_str().unwrap();
    link.split_once("attempt=").unwrap().1.to_owned()
}

fn builder() -> reqwest::ClientBuilder {
    // Fails if another client of this process has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Servers of tests have no TLS; reading the certificates of the system would take a tenth of the time of a short test.
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).tls_certs_only([])
}
