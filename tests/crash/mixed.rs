//! All kinds of acknowledged work under `kill -9`. In addition to the senders of [`super::soak`], a person changes consent levels and
//! attaches computers, events are held, the operator's command releases events, and batches and imports are added. Each client repeats
//! its request until it has a response, and stores the acknowledged facts. The server has to show each fact exactly once and in order;
//! the endpoint of webhooks and the mail server have to receive each notification at least once.

mod clients;
mod compare;

use std::sync::Arc;
use std::time::Duration;

use domain::Rng;
use harness::event::Chain;
use harness::smtp::{MailServer, Setup};
use reqwest::Method;
use serde_json::json;
use tokio::sync::watch;

use super::soak::{Scale, Soak, is_soak};
use blackbox::client::Client;
use blackbox::flow::session;
use blackbox::library::key_of;
use blackbox::process::Home;
use blackbox::receiver::Receiver;
use clients::{Acknowledged, Person};

/// Rounds of a soak on each database.
const SOAK_ROUNDS: u64 = 250;
/// A kill is what finds faults: many short rounds, instead of hours between few.
const SOAK_RESPONSES: u64 = 250;

/// Kills the server while the clients send, then compares the acknowledged facts with the server, the endpoint and the mail server.
async fn everything_survives_kills(home: Home, database: Option<String>) {
    let Some(mails) = MailServer::start(Setup::default()) else { return };
    let (receiver, endpoint) = Receiver::start().await;
    let home = home
        .set("mail.transport", "smtp")
        .set("mail.from", "attache <attache@example.org>")
        .set("mail.smtp.url", &mails.url())
        .set("mail.smtp.timeout", "2s")
        .set("webhooks.enabled", "true")
        .set("webhooks.allow_http", "true")
        .set("webhooks.allow_private", r#"["127.0.0.0/8"]"#)
        .set("webhooks.ports", &format!("[{}]", endpoint.port()))
        .set("knowledge.batch.lease", "1s")
        // A soak lasts longer than the default.
        .set("signin.fresh_within", "1day");
    let key = key_of(&home);
    let cookie = session(&home, "ada@example.com");
    let mut scale = Scale::chosen();
    if is_soak() {
        scale.rounds = SOAK_ROUNDS;
        scale.responses = SOAK_RESPONSES;
    }
    let mut soak = Soak::begin_with(home, None, scale).await;
    let (url, stop) = (soak.traffic.url.clone(), watch::Sender::new(false));
    let person = Arc::new(Person { home: Arc::clone(&soak.home), client: Client::new(), url, stop, cookie, key });
    let hook =
        json!({ "url": format!("http://{endpoint}/all"), "kinds": ["event.held", "consent.changed", "batch.done"] });
    person.insist(201, |url| person.as_person(Method::POST, &format!("{url}/api/v1/webhooks")).json(&hook)).await;
    let computer = person.register().await.unwrap();
    person.attach(&computer).await;

    let consent = tokio::spawn(clients::changes_consent(Arc::clone(&person), computer.clone()));
    let held = tokio::spawn(clients::sends_unknown_events(Arc::clone(&person), Chain::new(&computer)));
    let batches = tokio::spawn(clients::adds_batches(Arc::clone(&person)));
    let imports = tokio::spawn(clients::imports(Arc::clone(&person), Rng::seeded(soak.rng.below(u64::MAX))));
    let attached = tokio::spawn(clients::attaches_computers(Arc::clone(&person)));
    let witness = soak.kill_rounds(database.as_deref()).await;
    person.stop.send_replace(true);
    let (levels, held, batches, imported, attached) =
        tokio::try_join!(consent, held, batches, imports, attached).unwrap();
    let acknowledged = Acknowledged { levels, held, batches, imported, attached };

    let (events, still_held) = soak.compare(witness).await;
    compare::consent(&person, &computer, &acknowledged.levels).await;
    compare::released(&person, &acknowledged.attached).await;
    compare::memories(&person, &acknowledged).await;
    compare::notifications(&person, &receiver, &acknowledged).await;
    compare::mails(&mails, &acknowledged.attached).await;
    eprintln!("{events} events taken, {still_held} held; {}", acknowledged.summary());
    assert!(acknowledged.is_complete(), "a run without each kind of traffic shows nothing: {}", acknowledged.summary());
}

/// Pause between two requests of a client, so that the senders of events have a share of a small machine.
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn soak_everything_acknowledged_survives_kills_on_sqlite() {
    everything_survives_kills(Home::new().set("log.index_every", "40"), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_everything_acknowledged_survives_kills_on_postgres_that_loses_connections() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    everything_survives_kills(home, Some(database.url.clone())).await;
}
