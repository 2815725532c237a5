//! A server of its own for every test, and one method per endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use attache::config::Settings;
use attache::server::Server;
use bytes::Bytes;
use chrono::TimeDelta;
use domain::ids::{RegistrationId, UserAccountId};
use domain::secret::{Secret, SecretKind};
use domain::signin::Via;
use domain::{Clock, Rng};
use harness::postgres::TestDatabase;
use knowledge::index::database::Pgvector;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use store::session::NewSession;
use tempfile::TempDir;

use crate::contract;
use crate::event::Machine;

pub const CLAIM_GRANT: &str = "urn:svc:agent-auth:grant-type:claim";
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
pub const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Runs each law on SQLite and on PostgreSQL.
macro_rules! both {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: World) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn law($world: World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                law(World::new().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(world) = World::on_postgres().await {
                    law(world).await;
                }
            }
        }
    )*};
}
pub(crate) use both;

/// A server, and everything that a test wants to do with it.
pub struct World {
    pub server: Server,
    pub url: String,
    client: reqwest::Client,
    ahead: Arc<AtomicI64>,
    // Dropped after the server.
    pub dir: TempDir,
    database: Option<TestDatabase>,
}

/// A credential, as a client would present it.
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

/// A signed-in person.
#[derive(Debug, Clone)]
pub struct Person {
    pub account: UserAccountId,
    pub cookie: Credential,
}

/// A claimed agent.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: RegistrationId,
    pub claim_token: String,
    pub token: Credential,
    pub assertion: String,
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

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
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

    /// An event that was held for this reason; gives the warning.
    #[track_caller]
    pub fn held(&self, reason: &str) -> String {
        let body = self.expect(202);
        assert_eq!(body["held"], true, "{body}");
        let warning = body["warning"].as_str().unwrap().to_owned();
        assert!(warning.starts_with(&format!("{reason}: ")), "{warning}");
        warning
    }

    /// The receipt of an event that was forwarded.
    #[track_caller]
    pub fn receipt(&self) -> String {
        let body = self.expect(202);
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        body["receipt_id"].as_str().unwrap().to_owned()
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::start(change, None).await
    }

    /// `None` when there is no PostgreSQL to test on; the harness has said so, or failed the test.
    pub async fn on_postgres() -> Option<Self> {
        let database = harness::postgres::database().await?;
        let url = database.url.clone();
        Some(Self::start(|settings| settings.database.url = Some(url), Some(database)).await)
    }

    /// The same where the database compares vectors.
    pub async fn on_pgvector() -> Option<Self> {
        let database = harness::postgres::database_with_pgvector().await?;
        let url = database.url.clone();
        let change = |settings: &mut Settings| {
            settings.database.url = Some(url);
            settings.knowledge.search.index.pgvector = Pgvector::Required;
        };
        Some(Self::start(change, Some(database)).await)
    }

    async fn start(change: impl FnOnce(&mut Settings), database: Option<TestDatabase>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.data.dir = dir.path().join("data");
        settings.http.bind = "127.0.0.1:0".parse().unwrap();
        settings.admin.bind = "127.0.0.1:0".parse().unwrap();
        settings.log.checkpoint_every = Duration::from_millis(50);
        change(&mut settings);
        let ahead = Arc::new(AtomicI64::new(0));
        let server = Server::start(settings, clock(&ahead), Rng::system()).await.unwrap();
        Self { url: format!("http://{}", server.address), server, client: client(), ahead, dir, database }
    }

    /// Stops the server and starts another on the same data.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    /// The same with other settings.
    pub async fn restart_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let Self { server, client, ahead, dir, database, .. } = self;
        let mut settings = server.app.settings.clone();
        change(&mut settings);
        server.stop().await;
        let server = Server::start(settings, clock(&ahead), Rng::system()).await.unwrap();
        Self { url: format!("http://{}", server.address), server, client, ahead, dir, database }
    }

    /// Another server on the same PostgreSQL database, with the same clock.
    pub async fn beside(&self) -> Self {
        assert!(self.database.is_some(), "a database file belongs to one server");
        let dir = tempfile::tempdir().unwrap();
        let mut settings = self.server.app.settings.clone();
        settings.data.dir = dir.path().join("data");
        let server = Server::start(settings, clock(&self.ahead), Rng::system()).await.unwrap();
        let (client, ahead) = (client(), Arc::clone(&self.ahead));
        Self { url: format!("http://{}", server.address), server, client, ahead, dir, database: None }
    }

    /// Moves the server's clock on.
    pub fn advance(&self, by: Duration) {
        self.ahead.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Every answer is held against the description of the API.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let answer = Answer { status, headers, body: response.bytes().await.unwrap() };
        // The knowledge API may have a listener of its own, and then its paths are nothing here.
        if self.server.app.settings.knowledge.bind.is_none() || !path.starts_with("/v1/") {
            contract::judge(&method, &path, &answer);
        }
        answer
    }

    pub fn request(&self, method: Method, path: &str, credential: &Credential) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match credential {
            Credential::None => request,
            Credential::Bearer(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            Credential::Cookie(pair) => request.header(COOKIE, pair),
        }
    }

    pub async fn get(&self, path: &str, credential: &Credential) -> Answer {
        self.send(self.request(Method::GET, path, credential)).await
    }

    pub async fn post(&self, path: &str, credential: &Credential, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path, credential).json(body)).await
    }

    pub async fn delete(&self, path: &str, credential: &Credential) -> Answer {
        self.send(self.request(Method::DELETE, path, credential)).await
    }

    pub async fn form(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        let body = serde_urlencoded::to_string(pairs).unwrap();
        let request = self.request(Method::POST, path, &Credential::None);
        self.send(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)).await
    }

    // One method per endpoint.

    pub async fn identity(&self, body: Value) -> Answer {
        self.post("/api/v1/agent-auth/identity", &Credential::None, &body).await
    }

    pub async fn claim(&self, body: Value) -> Answer {
        self.post("/api/v1/agent-auth/claim", &Credential::None, &body).await
    }

    pub async fn complete(&self, credential: &Credential, attempt: &str, code: &str) -> Answer {
        let body = json!({ "claim_attempt_token": attempt, "user_code": code });
        self.post("/api/v1/agent-auth/claim/complete", credential, &body).await
    }

    pub async fn token(&self, pairs: &[(&str, &str)]) -> Answer {
        self.form("/api/v1/agent-auth/token", pairs).await
    }

    pub async fn token_by_claim(&self, claim_token: &str) -> Answer {
        self.token(&[("grant_type", CLAIM_GRANT), ("claim_token", claim_token)]).await
    }

    pub async fn token_by_assertion(&self, assertion: &str) -> Answer {
        self.token(&[("grant_type", JWT_GRANT), ("assertion", assertion)]).await
    }

    pub async fn revoke(&self, token: &str) -> Answer {
        self.form("/api/v1/agent-auth/revoke", &[("token", token)]).await
    }

    pub async fn event(&self, credential: impl Into<Credential>, event: &Value) -> Answer {
        self.post("/api/v1/events", &credential.into(), event).await
    }

    pub async fn event_bytes(&self, credential: impl Into<Credential>, body: impl Into<Bytes>) -> Answer {
        let request = self.request(Method::POST, "/api/v1/events", &credential.into());
        self.send(request.header(CONTENT_TYPE, "application/json").body(body.into())).await
    }

    pub async fn activity(&self, credential: impl Into<Credential>, query: &str) -> Answer {
        self.get(&format!("/api/v1/activity{query}"), &credential.into()).await
    }

    pub async fn proof(&self, credential: impl Into<Credential>, event_id: &str) -> Answer {
        self.get(&format!("/api/v1/audit/verify?event_id={event_id}"), &credential.into()).await
    }

    /// A computer asks to be attached.
    pub async fn device_code(&self, machine: &Machine) -> Answer {
        let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        self.post("/api/v1/device/code", &machine.into(), &body).await
    }

    pub async fn device_approve(&self, credential: &Credential, user_code: &str) -> Answer {
        self.post("/api/v1/device/approve", credential, &json!({ "user_code": user_code })).await
    }

    pub async fn device_deny(&self, credential: &Credential, user_code: &str) -> Answer {
        self.post("/api/v1/device/deny", credential, &json!({ "user_code": user_code })).await
    }

    pub async fn device_token(&self, device_code: &str) -> Answer {
        let body = json!({ "grant_type": DEVICE_GRANT, "device_code": device_code });
        self.post("/api/v1/device/token", &Credential::None, &body).await
    }

    // Flows.

    /// A new computer with an identity of its own.
    pub async fn machine(&self) -> Machine {
        self.machine_of(&self.rng().cuid2()).await
    }

    /// A new computer of an identity.
    pub async fn machine_of(&self, user_cuid: &str) -> Machine {
        let uuid = self.rng().uuid_v7(self.clock().now()).to_string();
        let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
        let answer = self.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
        Machine { user_cuid: user_cuid.into(), uuid, secret: answer["machine_secret"].as_str().unwrap().into() }
    }

    /// A computer that is attached to a person's account.
    pub async fn attached_machine(&self, person: &Person) -> Machine {
        let machine = self.machine().await;
        let code = self.device_code(&machine).await.expect(200);
        self.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
        let attached = self.device_token(code["device_code"].as_str().unwrap()).await.expect(200);
        assert_eq!(attached["user_account_id"], person.account.as_str());
        machine
    }

    /// A signed-in person with an account.
    pub async fn person(&self, email: &str) -> Person {
        let (person, cookie) = self.signed_in(email, true).await;
        Person { account: person.account.unwrap(), cookie }
    }

    /// A signed-in person for whom nobody has made an account.
    pub async fn visitor(&self, email: &str) -> Credential {
        self.signed_in(email, false).await.1
    }

    /// A signed-in person, with an account if it is wanted.
    pub async fn signed_in(&self, email: &str, create_account: bool) -> (store::account::Person, Credential) {
        let app = &self.server.app;
        let (now, email) = (self.clock().now(), email.parse().unwrap());
        let person = app.store.person_sign_in(&email, create_account, now, &app.rng).await.unwrap();
        let secret = Secret::mint(SecretKind::Session, &app.rng);
        let new = NewSession {
            token: secret.hash(),
            id: app.rng.uuid_v7(now).into(),
            person: person.id,
            via: Via::Operator,
            address: None,
            user_agent: None,
            expires_at: now + TimeDelta::days(7),
        };
        app.store.session_create(&new, None, now).await.unwrap();
        let prefix = if app.urls.base.starts_with("https://") { "__Secure-" } else { "" };
        (person, Credential::Cookie(format!("{prefix}attache.session_token={}", secret.expose())))
    }

    /// An agent that registered anonymously and was claimed by `person`.
    pub async fn agent_of(&self, person: &Person) -> Agent {
        self.agent_by(&person.cookie).await
    }

    /// An agent that registered anonymously and was confirmed with this credential.
    pub async fn agent_by(&self, confirmer: &Credential) -> Agent {
        let registered = self.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim_token = registered["claim_token"].as_str().unwrap().to_owned();
        let claim = self.claim(json!({ "claim_token": claim_token })).await.expect(200)["claim"].clone();
        self.complete(confirmer, &attempt_of(&claim), claim["user_code"].as_str().unwrap()).await.expect(200);
        let tokens = self.token_by_claim(&claim_token).await.expect(200);
        Agent {
            id: registered["registration_id"].as_str().unwrap().parse().unwrap(),
            claim_token,
            token: Credential::Bearer(tokens["access_token"].as_str().unwrap().into()),
            assertion: tokens["identity_assertion"].as_str().unwrap().into(),
        }
    }

    /// An agent that nobody has claimed, and its token.
    pub async fn unclaimed(&self) -> (Value, Credential) {
        let registered = self.identity(json!({ "type": "anonymous" })).await.expect(200);
        let tokens = self.token_by_assertion(registered["identity_assertion"].as_str().unwrap()).await.expect(200);
        (registered, Credential::Bearer(tokens["access_token"].as_str().unwrap().into()))
    }

    /// The proof of an event, once it is in the tree.
    pub async fn included(&self, credential: impl Into<Credential> + Clone, event_id: &str) -> Value {
        self.eventually("the event is in the tree", async || {
            let proof = self.proof(credential.clone(), event_id).await.expect(200);
            (proof["status"] == "included").then_some(proof)
        })
        .await
    }

    /// Asks again and again until there is an answer, or for too long.
    pub async fn eventually<T>(&self, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
        let patience = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(tokio::time::Instant::now() < patience, "waited in vain: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.server.app.clock
    }

    pub fn rng(&self) -> &Rng {
        &self.server.app.rng
    }
}

/// The token in a claim's link.
pub fn attempt_of(claim: &Value) -> String {
    let link = claim["verification_uri"].as_str().unwrap();
    link.split_once("attempt=").unwrap().1.to_owned()
}

fn clock(ahead: &Arc<AtomicI64>) -> Clock {
    let (ahead, system) = (Arc::clone(ahead), Clock::system());
    Clock::from_fn(move || system.now() + TimeDelta::milliseconds(ahead.load(Ordering::SeqCst)))
}

fn client() -> reqwest::Client {
    // Fails when another world of this process did it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}
