//! Mails through a real mail server.

use std::net::TcpListener;
use std::time::Duration;

use actors::mail::TransportKind;
use app::config::Settings;
use harness::smtp::{MailServer, Received, Setup};

use blackbox::browser::{Browser, code_in};
use blackbox::eventually;
use blackbox::world::World;

const ADA: &str = "ada@example.com";

fn over(url: String) -> impl FnOnce(&mut Settings) {
    move |settings| {
        settings.mail.transport = TransportKind::Smtp;
        settings.mail.from = Some("attache <attache@example.org>".into());
        settings.mail.smtp.url = Some(url);
        settings.mail.backoff_min = Duration::from_millis(50);
        settings.mail.backoff_max = Duration::from_millis(200);
        settings.mail.drain_every = Duration::from_millis(50);
    }
}

async fn first(server: &MailServer) -> Received {
    eventually("a mail is received", async || server.mails().into_iter().next()).await
}

/// A port without a listener.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The number of mails with this outcome in the operator's metrics.
async fn counted(world: &World, outcome: &str) -> u64 {
    let text =
        reqwest::get(format!("http://{}/metrics", world.server.admin_address)).await.unwrap().text().await.unwrap();
    let name = format!("attache_mails_total{{outcome=\"{outcome}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_code_is_delivered_through_a_mail_server() {
    let Some(server) = MailServer::start(Setup::default()) else { return };
    let world = World::with(over(server.url())).await;
    let browser = Browser::new(&world);
    browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
    let mail = first(&server).await;
    assert_eq!((mail.from.as_str(), &mail.to[..], mail.user), ("attache@example.org", &[ADA.to_owned()][..], None));
    assert!(mail.data.contains("From: attache <attache@example.org>"), "{}", mail.data);
    let code = code_in(&mail.data);
    browser.submit("/signin/code", &[("code", &code)]).await.goes_to("/account");
    assert!(world.mails_to(ADA).is_empty(), "no files");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_authenticates_to_the_mail_server() {
    let Some(server) = MailServer::start(Setup { login: Some(("attache", "pass word")), ..Setup::default() }) else {
        return;
    };
    let url = server.url();
    let world = World::with(|settings| {
        over(url)(settings);
        settings.mail.smtp.username = Some("attache".into());
        settings.mail.smtp.password = Some("pass word".into());
    })
    .await;
    Browser::new(&world).submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
    assert_eq!(first(&server).await.user.as_deref(), Some("attache"));
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_are_queued_while_the_mail_server_is_unavailable() {
    let port = free_port();
    let world = World::with(over(format!("smtp://127.0.0.1:{port}"))).await;
    // A code, which waits in memory, and a notice, which waits in the store.
    let browser = Browser::new(&world);
    browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
    let person = world.person("bob@example.com").await;
    let agent = world.agent_of(&person).await;
    eventually("sending failed twice", async || (counted(&world, "failed").await >= 2).then_some(())).await;
    assert_eq!(counted(&world, "sent").await, 0);

    let Some(server) = MailServer::start(Setup { port, ..Setup::default() }) else { return };
    eventually("both mails left", async || (server.mails().len() >= 2).then_some(())).await;
    let mails = server.mails();
    let to = |email: &str| mails.iter().find(|mail| mail.to == [email]).unwrap();
    assert!(to("bob@example.com").data.contains(&agent.id.to_string()));
    browser.submit("/signin/code", &[("code", &code_in(&to(ADA).data))]).await.goes_to("/account");
    eventually("both are counted", async || (counted(&world, "sent").await == 2).then_some(())).await;
    assert_eq!(server.mails().len(), 2, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_notification_mail_survives_a_restart() {
    let port = free_port();
    let world = World::with(over(format!("smtp://127.0.0.1:{port}"))).await;
    let person = world.person(ADA).await;
    let agent = world.agent_of(&person).await;
    let world = world.restart().await;
    let Some(server) = MailServer::start(Setup { port, ..Setup::default() }) else { return };
    // Should the first server have ended amid a try, its lease has to end first.
    world.advance(Duration::from_mins(5));
    assert!(first(&server).await.data.contains(&agent.id.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_mail_is_retried_and_a_refused_one_is_not() {
    let Some(server) = MailServer::start(Setup::default()) else { return };
    let world = World::with(over(server.url())).await;
    let ask =
        async |email: &str| Browser::new(&world).submit("/signin", &[("email", email)]).await.goes_to("/signin/code");
    ask("busy@example.com").await;
    assert_eq!(first(&server).await.to, ["busy@example.com"]);
    assert_eq!(counted(&world, "failed").await, 1);

    ask("nobody@example.com").await;
    eventually("it is given up", async || (counted(&world, "given_up").await == 1).then_some(())).await;
    let person = world.person("nobody@example.com").await;
    world.agent_of(&person).await;
    eventually("so is the notice", async || (counted(&world, "given_up").await == 2).then_some(())).await;
    let far = world.clock().now() + chrono::TimeDelta::days(30);
    assert_eq!(world.server.app.store.mails_claim_due(far, far, 10).await.unwrap(), []);
    assert_eq!(server.mails().len(), 1);
}
