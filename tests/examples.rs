//! The examples of the typed client run against a server, as their documentation says.
//!
//! Cargo builds examples together with the tests of the workspace; this test starts the executables.

#![expect(clippy::unwrap_used, reason = "a test fails where an answer is missing")]

use std::path::PathBuf;
use std::process::Stdio;

use blackbox::client::Credential;
use blackbox::world::World;
use client::Client;
use domain::secret::Secret;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use wire::account::KeyRequest;

/// The typed client of a person with an account.
async fn person(world: &World) -> Client {
    let Credential::Cookie(cookie) = world.person("ada@example.com").await.cookie else { panic!("no cookie") };
    let client = Client::new(&client::Settings::of(&world.url)).unwrap();
    client.with(client::Credential::Cookie(Secret::presented(cookie)))
}

fn example(world: &World, name: &str) -> Child {
    let mut command = Command::new(executable(name));
    command.arg(&world.url).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// The executable of an example of `crates/client/`, next to the folder of this test's executable.
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
    let world = World::on_sqlite().await;
    let mut example = example(&world, "agent");
    let mut lines = BufReader::new(example.stdout.take().unwrap()).lines();
    let asked = lines.next_line().await.unwrap().unwrap();
    let (link, code) = asked.strip_prefix("open ").unwrap().split_once(" and type ").unwrap();
    let attempt = Secret::presented(link.split_once("attempt=").unwrap().1);
    person(&world).await.complete(&attempt, &Secret::presented(code)).await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "confirmed; the summary has version 1");
    assert!(example.wait().await.unwrap().success());
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_verifies_the_proof_of_its_event() {
    let world = World::on_sqlite().await;
    let printed = output(example(&world, "event")).await;
    assert_eq!(printed.lines().filter(|line| line.starts_with("recorded with receipt ")).count(), 2, "{printed}");
    assert!(printed.lines().last().unwrap().ends_with(" is in the tree of 2 leaves"), "{printed}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_a_batch_are_found() {
    let world = World::on_sqlite().await;
    let request = KeyRequest { name: "example".into(), scopes: None, spaces: None, expires_at: None };
    let key = person(&world).await.key_create(&request).await.unwrap().key;
    let mut command = Command::new(executable("batch"));
    command.arg(&world.url).env("ATTACHE_KEY", key.expose()).stdout(Stdio::piped()).kill_on_drop(true);
    let printed = output(command.spawn().unwrap()).await;
    assert_eq!(printed.lines().filter(|line| line.starts_with("stored memory ")).count(), 2, "{printed}");
    assert!(printed.lines().last().unwrap().starts_with("found Bakery with similarity "), "{printed}");
    world.server.stop().await;
}
