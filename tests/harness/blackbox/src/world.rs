//! A server in the test's process, on a new database and with a clock that the test advances.
//!
//! `endpoints`, `guides` and `knowledge` have one method per request, `flows` the sequences of requests at the start of many tests, `mails`
//! the mails that the server writes.

mod endpoints;
mod flows;
mod guides;
mod knowledge;
mod mails;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use ::knowledge::index::database::Pgvector;
use app::config::reading::Layers;
use app::config::{LogPartSettings, Settings};
use app::installation::LogStart;
use attache::server::Server;
use chrono::TimeDelta;
use domain::log_part::LogPart;
use domain::{Clock, Rng};
use harness::event::Machine;
use harness::postgres::TestDatabase;
use harness::upstream::{TOKEN, Upstream};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use statistics::log::Log;
use tempfile::TempDir;

use crate::client::{Client, Credential, Response};
use crate::contract;

pub use flows::{Agent, Person};

/// A running server, and a client of it.
pub struct World {
    /// The server; its `app` has the state of the handlers.
    pub server: Server,
    /// The public listener, as `http://127.0.0.1:<port>`.
    pub url: String,
    client: Client,
    /// Milliseconds that the server's clock is ahead of the system's.
    ahead: Arc<AtomicI64>,
    /// The folder with the server's data. Dropped after the server.
    pub dir: TempDir,
    databases: Vec<TestDatabase>,
}

/// The environment variable that gives the memory of a server on PostgreSQL a separate database, if it is 1.
const MEMORY_APART: &str = "ATTACHE_TEST_MEMORY_APART";

/// The environment variable with the number of further parts of the log that a server on PostgreSQL has; 0 if absent.
const LOG_PARTS: &str = "ATTACHE_TEST_LOG_PARTS";

impl World {
    /// A server with default settings on SQLite.
    pub async fn on_sqlite() -> Self {
        Self::with(|_| {}).await
    }

    /// A server on SQLite with changed settings.
    pub async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::start(change, Vec::new()).await
    }

    /// A server on SQLite with an external statistics service and changed settings.
    pub async fn over(upstream: &Upstream, change: impl FnOnce(&mut Settings)) -> Self {
        Self::with(|settings| {
            settings.upstream.url = Some(upstream.url());
            settings.upstream.token = Some(TOKEN.into());
            change(settings);
        })
        .await
    }

    /// A server on PostgreSQL. `None` without a PostgreSQL cluster: the harness reports that, or fails the test.
    pub async fn on_postgres() -> Option<Self> {
        let further = std::env::var(LOG_PARTS).map_or(0, |further| further.parse().unwrap());
        Self::on_parts(further, |_| {}).await
    }

    /// A server on PostgreSQL with changed settings, and with further parts of the log, each in a separate database. `None` as for
    /// [`Self::on_postgres`].
    pub async fn on_parts(further: u16, change: impl FnOnce(&mut Settings)) -> Option<Self> {
        let mut databases = vec![harness::postgres::database().await?];
        for _ in 0..further {
            databases.push(harness::postgres::empty_database().await?);
        }
        let urls: Vec<String> = databases.iter().map(|database| database.url.clone()).collect();
        let memory = match std::env::var(MEMORY_APART) {
            Ok(value) if value == "1" => Some(harness::postgres::empty_database().await?),
            _ => None,
        };
        let memory_url = memory.as_ref().map(|database| database.url.clone());
        databases.extend(memory);
        let change = move |settings: &mut Settings| {
            settings.database.url = urls.first().cloned();
            settings.knowledge.database.url = memory_url;
            let part = |(number, url): (u16, String)| LogPartSettings { number, url, weight: 1 };
            settings.log.part = (0..).zip(urls).skip(1).map(part).collect();
            change(settings);
        };
        Some(Self::start(change, databases).await)
    }

    /// A server on PostgreSQL with pgvector, which it must use. `None` as for [`Self::on_postgres`].
    pub async fn on_pgvector() -> Option<Self> {
        let database = harness::postgres::database_with_pgvector().await?;
        let url = database.url.clone();
        let change = |settings: &mut Settings| {
            settings.database.url = Some(url);
            settings.knowledge.search.index.pgvector = Pgvector::Required;
        };
        Some(Self::start(change, vec![database]).await)
    }

    async fn start(change: impl FnOnce(&mut Settings), databases: Vec<TestDatabase>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // On the heap: futures of tests contain this value across a wait.
        let mut settings = Box::<Settings>::default();
        settings.data.dir = dir.path().join("data");
        settings.http.bind = "127.0.0.1:0".parse().unwrap();
        settings.admin.bind = "127.0.0.1:0".parse().unwrap();
        settings.log.checkpoint_every = Duration::from_millis(50);
        change(&mut settings);
        let (client, ahead) = (Client::without_timeout(), Arc::new(AtomicI64::new(0)));
        let server = Box::pin(Server::start_with(in_file(*settings), clock(&ahead), Rng::system(), LogStart::Continue))
            .await
            .unwrap();
        Self { url: format!("http://{}", server.address), server, client, ahead, dir, databases }
    }

    /// Stops the server and starts another on the same data.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    /// Stops the server and starts another on the same data with changed settings.
    pub async fn restart_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let Self { server, client, ahead, dir, databases, .. } = self;
        let mut settings = Box::new(server.app.settings.clone());
        change(&mut settings);
        server.stop().await;
        let server = Box::pin(Server::start_with(in_file(*settings), clock(&ahead), Rng::system(), LogStart::Continue))
            .await
            .unwrap();
        Self { url: format!("http://{}", server.address), server, client, ahead, dir, databases }
    }

    /// Starts a second server on the same PostgreSQL database, with the same clock.
    pub async fn beside(&self) -> Self {
        self.beside_with(clock(&self.ahead), |_| {}).await
    }

    /// The same with another clock and changed settings.
    pub async fn beside_with(&self, clock: Clock, change: impl FnOnce(&mut Settings)) -> Self {
        assert!(!self.databases.is_empty(), "a database file belongs to one server");
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Box::new(self.server.app.settings.clone());
        settings.data.dir = dir.path().join("data");
        change(&mut settings);
        let server =
            Box::pin(Server::start_with(in_file(*settings), clock, Rng::system(), LogStart::Continue)).await.unwrap();
        let (client, ahead) = (self.client.clone(), Arc::clone(&self.ahead));
        Self { url: format!("http://{}", server.address), server, client, ahead, dir, databases: Vec::new() }
    }

    /// The part of the log with the chains of a computer.
    pub async fn part_of(&self, machine: &Machine) -> LogPart {
        let known = self.server.app.store.machine_facts(machine.uuid.parse().unwrap()).await.unwrap();
        known.map_or(LogPart::FIRST, |known| known.facts.part)
    }

    /// The log with the chains of a computer.
    pub async fn log_of(&self, machine: &Machine) -> &Log {
        let logs = self.server.app.upstream.logs().unwrap_or_else(|| panic!("an external service"));
        logs.get(self.part_of(machine).await).unwrap()
    }

    /// Moves the server's clock forward.
    pub fn advance(&self, by: Duration) {
        self.ahead.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// The server's clock.
    pub fn clock(&self) -> &Clock {
        &self.server.app.clock
    }

    /// The server's source of randomness.
    pub fn rng(&self) -> &Rng {
        &self.server.app.rng
    }

    /// Sends a request and checks the response against the description of the API.
    pub async fn send(&self, request: RequestBuilder) -> Response {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let sent = self.client.try_send(RequestBuilder::from_parts(client, request)).await;
        let response = sent.unwrap_or_else(|| panic!("no response: {method} {path}"));
        // If the knowledge API has a separate listener, this one does not serve it.
        if self.server.app.settings.knowledge.bind.is_none() || !path.starts_with("/v1/") {
            contract::judge(&method, &path, &response);
        }
        response
    }

    /// A request to a path of this server.
    pub fn request(&self, method: Method, path: &str, credential: &Credential) -> RequestBuilder {
        self.client.request(method, &format!("{}{path}", self.url), credential)
    }

    /// Sends `GET`.
    pub async fn get(&self, path: &str, credential: &Credential) -> Response {
        self.send(self.request(Method::GET, path, credential)).await
    }

    /// Sends `POST` with a JSON body.
    pub async fn post(&self, path: &str, credential: &Credential, body: &Value) -> Response {
        self.send(self.request(Method::POST, path, credential).json(body)).await
    }

    /// Sends `DELETE`.
    pub async fn delete(&self, path: &str, credential: &Credential) -> Response {
        self.send(self.request(Method::DELETE, path, credential)).await
    }

    /// Sends `POST` with a form, without a credential.
    pub async fn form(&self, path: &str, pairs: &[(&str, &str)]) -> Response {
        self.send(self.client.form(&format!("{}{path}", self.url), pairs)).await
    }
}

/// Writes the settings into a file next to the data folder, which a reload reads again.
fn in_file(settings: Settings) -> Layers {
    let file = settings.data.dir.with_extension("toml");
    let mut tree = serde_json::to_value(&settings).unwrap();
    without_nulls(&mut tree);
    std::fs::write(&file, toml::to_string(&tree).unwrap()).unwrap();
    Layers { named: Some(file), ..settings.into() }
}

/// TOML has no null.
fn without_nulls(tree: &mut Value) {
    match tree {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn clock(ahead: &Arc<AtomicI64>) -> Clock {
    let (ahead, system) = (Arc::clone(ahead), Clock::system());
    Clock::from_fn(move || system.now() + TimeDelta::milliseconds(ahead.load(Ordering::SeqCst)))
}
