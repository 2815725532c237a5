//! The examples of the typed client run against a server, as their documentation says.
//!
//! Cargo builds examples together with the tests of the workspace; this test starts the executables.

#![expect(clippy::unwrap_used, reason = "a test fails where an answer is missing")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use attache::config::Settings;
use attache::server::Server;
use chrono::TimeDelta;
use client::{Client, Credential};
use domain::secret::{Secret, SecretKind};
use domain::signin::SignInMethod;
use domain::{Clock, Rng};
use store::session::NewSession;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use wire::account::KeyRequest;

/// A server with a signed-in person.
struct World {
    server: Server,
    url: String,
    person: Client,
    // Dropped after the server.
    _data: TempDir,
}

impl World {
    async fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.data.dir = data.path().join("data");
        settings.http.bind = "127.0.0.1:0".parse().unwrap();
        settings.admin.bind = "127.0.0.1:0".parse().unwrap();
        settings.log.checkpoint_every = Duration::from_millis(50);
        let server = Server::start(settings, Clock::system(), Rng::system()).await.unwrap();
        let url = format!("http://{}", server.address);
        let cookie = sign_in(&server).await;
        let person = Client::new(&client::Settings::of(&url)).unwrap().with(Credential::Cookie(cookie));
        Self { server, url, person, _data: data }
    }

    fn example(&self, name: &str) -> Child {
        let mut command = Command::new(executable(name));
        command.arg(&self.url).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    }
}

/// The session cookie of a person with an account.
async fn sign_in(server: &Server) -> Secret {
    let app = &server.app;
    let (now, email) = (app.clock.now(), "ada@example.com".parse().unwrap());
    let person = app.store.person_sign_in(&email, true, now, &app.rng).await.unwrap();
    let secret = Secret::mint(SecretKind::Session, &app.rng);
    let session = NewSession {
        token: secret.hash(),
        id: app.rng.uuid_v7(now).into(),
        person: person.id,
        via: SignInMethod::Operator,
        address: None,
        user_agent: None,
        expires_at: now + TimeDelta::days(7),
    };
    app.store.session_create(&session, None, now).await.unwrap();
    Secret::presented(format!("attache.session_token={}", secret.expose()))
}

/// The executable of an example of `client/`, beside the folder of this test's own executable.
fn executable(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().with_file_name("examples").join(name);
    assert!(path.exists(), "{} is not built: run the tests with --workspace", path.display());
    path
}

/// Waits for the end of an example that must succeed, and returns its output.
async fn output(example: Child) -> String {
    let output = example.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_polls_until_a_person_confirms_it() {
    let world = World::new().await;
    let mut example = world.example("agent");
    let mut lines = BufReader::new(example.stdout.take().unwrap()).lines();
    let asked = lines.next_line().await.unwrap().unwrap();
    let (link, code) = asked.strip_prefix("open ").unwrap().split_once(" and type ").unwrap();
    let attempt = Secret::presented(link.split_once("attempt=").unwrap().1);
    world.person.complete(&attempt, &Secret::presented(code)).await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "confirmed; the summary has version 1");
    assert!(example.wait().await.unwrap().success());
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_verifies_the_proof_of_its_event() {
    let world = World::new().await;
    let printed = output(world.example("event")).await;
    assert_eq!(printed.lines().filter(|line| line.starts_with("recorded with receipt ")).count(), 2, "{printed}");
    assert!(printed.lines().last().unwrap().ends_with(" is in the tree of 2 leaves"), "{printed}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_a_batch_are_found() {
    let world = World::new().await;
    let request = KeyRequest { name: "example".into(), scopes: Vec::new(), spaces: None, expires_at: None };
    let key = world.person.key_create(&request).await.unwrap().key;
    let mut command = Command::new(executable("batch"));
    command.arg(&world.url).env("ATTACHE_KEY", key.expose()).stdout(Stdio::piped()).kill_on_drop(true);
    let printed = output(command.spawn().unwrap()).await;
    assert_eq!(printed.lines().filter(|line| line.starts_with("stored memory ")).count(), 2, "{printed}");
    assert!(printed.lines().last().unwrap().starts_with("found Bakery with similarity "), "{printed}");
    world.server.stop().await;
}
