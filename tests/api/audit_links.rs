//! Audit links: what a reader without an account sees, and when a link ends (`docs/protocol/receipts.md#audit-links`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::checkpoint::VerifierKey;
use proofs::audit_receipt::{AuditReceipt, verify};
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::world::{Person, World};
use harness::event::{Chain, Machine};
use harness::upstream::Upstream;
use harness::{on_each_database, on_sqlite};

const SESSION: &str = "019b76da-a800-7a67-8a14-94a3f41b0601";
const PAGE: &str = "/account/audits";

/// Sends two events of a session in each of two lanes: one without content, one with content.
async fn work(world: &World, machine: &Machine, chain: &mut Chain) {
    let events = [
        ("llm", "llm.completed", "metadata-only", json!({ "activity": "prompt_submitted" })),
        ("skill", "skill.invoked", "full", json!({ "skill": "Bash", "cwd": "/home/ada/shop", "input": "secret text" })),
    ];
    for (lane, event_type, level, payload) in events {
        let event = chain.next_with(|event| {
            event["lane"] = json!(lane);
            event["event_type"] = json!(event_type);
            event["consent_level"] = json!(level);
            event["scope"]["session_uuid"] = json!(SESSION);
            event["payload"] = payload;
        });
        world.event(machine, &event).await.receipt();
    }
}

/// The id of the only session of a person, once it has this number of events.
async fn session_of(world: &World, person: &Person, events: u64) -> String {
    eventually("the session is listed", async || {
        let page = world.get("/api/v1/activity/sessions", &person.cookie).await.expect(200);
        let session = &page["sessions"][0];
        (session["events"] == events).then(|| session["id"].as_str().unwrap().to_owned())
    })
    .await
}

/// The path of the link that a page shows.
fn link_in(world: &World, page: &Response) -> String {
    let page = page.page(200);
    let (_, link) = page.split_once(&format!("{}/audits/", world.server.app.urls.base)).unwrap();
    let token = link.split('<').next().unwrap();
    assert!(token.starts_with("adl_") && token.len() == 47, "{token}");
    format!("/audits/{token}")
}

async fn read(world: &World, link: &str) -> Response {
    world.get(link, &Credential::None).await
}

/// The receipt of a page, verified with a key of the server; its events are in the signed tree once there are `events`.
async fn receipt(world: &World, link: &str, events: usize) -> AuditReceipt {
    // A loaded machine may need more readings than the limit of a minute.
    let mut settings = world.server.app.settings.clone();
    settings.limits.link_reads_per_minute = 0;
    world.server.app.apply(settings.into()).await.unwrap();
    let keys = world.get("/api/v1/audit/keys", &Credential::None).await.expect(200);
    let keys: Vec<VerifierKey> =
        keys["keys"].as_array().unwrap().iter().map(|key| key["vkey"].as_str().unwrap().parse().unwrap()).collect();
    eventually("the events are in the tree", async || {
        let file = read(world, link).await;
        let receipt = (file.status == 200).then(|| AuditReceipt::parse(&file.body).unwrap())?;
        let key = keys.iter().find(|key| key.to_string() == receipt.vkey).unwrap();
        verify(&receipt, key).unwrap();
        (receipt.events.len() == events).then_some(receipt)
    })
    .await
}

fn form<'f>(with: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    let mut pairs = vec![("name", "Review"), ("days", "7")];
    pairs.retain(|(name, _)| with.iter().all(|(other, _)| other != name));
    pairs.extend(with);
    pairs
}

on_each_database! {
    async fn a_session_is_shown_with_a_receipt_and_with_content_only_if_its_owner_says_so(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, other) = (world.attached_machine(&ada).await, world.attached_machine(&bob).await);
        work(&world, &machine, &mut Chain::of_agent(&machine, "codex")).await;
        work(&world, &other, &mut Chain::of_agent(&other, "codex")).await;
        let session = session_of(&world, &ada, 2).await;
        let browser = Browser::of(&world, &ada);
        let without = link_in(&world, &browser.submit(PAGE, &form(&[("session", &session)])).await);
        let with = link_in(&world, &browser.submit(PAGE, &form(&[("session", &session), ("content", "1")])).await);

        let plain = receipt(&world, &format!("{without}/receipt"), 2).await;
        assert_eq!((plain.head.content, plain.head.session_uuid), (0, Some(SESSION.parse().unwrap())));
        let whole = receipt(&world, &format!("{with}/receipt"), 2).await;
        assert_eq!((whole.head.content, whole.head.proven), (1, 2));
        for (link, is_shown) in [(&without, false), (&with, true)] {
            let page = read(&world, link).await;
            let html = page.page(200);
            assert_eq!(page.header("x-robots-tag"), Some("noindex"));
            assert!(html.contains("<h1>Review</h1>") && html.contains("Bash") && html.contains("Prompt"), "{html}");
            let receipt = html.split("id=\"receipt-data\">").nth(1).unwrap().split("</script>").next().unwrap();
            let receipt: Value = serde_json::from_str(receipt).unwrap();
            assert_eq!(receipt["events"].as_array().unwrap().len(), 2);
            let file = read(&world, &format!("{link}/receipt")).await;
            assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"attache-receipt.json\""));
            let canonical = receipt["events"][1]["canonical_b64"].as_str();
            assert_eq!(canonical.is_some(), is_shown, "{receipt}");
            for secret in ["secret text", "/home/ada", "ada@example.com"] {
                assert!(!html.contains(secret), "{secret}: {html}");
            }
        }
        // Bob's event has the same session id, and his account has no such session.
        browser.submit(PAGE, &form(&[("session", SESSION)])).await.page(400);
        let refused = Browser::of(&world, &bob).submit(PAGE, &form(&[("session", &session)])).await;
        assert!(refused.page(400).contains("Your account has no such session."));
    }

    async fn a_lane_is_shown_from_its_first_day_in_pages(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::of_agent(&machine, "codex");
        work(&world, &machine, &mut chain).await;
        world.advance(Duration::from_hours(24));
        for _ in 0..60 {
            work(&world, &machine, &mut chain).await;
        }
        let browser = Browser::of(&world, &person);
        browser.sign_in("ada@example.com").await;
        let today = world.clock().now().format("%Y-%m-%d").to_string();
        let link = link_in(&world, &browser.submit(PAGE, &form(&[("lane", "skill"), ("first", &today)])).await);
        let first = receipt(&world, &format!("{link}/receipt"), 50).await;
        assert_eq!(first.head.types.keys().collect::<Vec<_>>(), ["skill.invoked"]);
        let html = read(&world, &link).await;
        let html = html.page(200);
        let next = html.split("href=\"").find(|rest| rest.starts_with(&format!("{link}?cursor="))).unwrap();
        let next = next.split('"').next().unwrap();
        let html = read(&world, next).await;
        assert_eq!(html.page(200).matches("data-event=").count(), 10);
        let rest = receipt(&world, &next.replace('?', "/receipt?"), 10).await;
        assert!(rest.events.iter().all(|event| first.events.iter().all(|other| other.leaf.event_id != event.leaf.event_id)));
        read(&world, &format!("{link}?cursor=x")).await.page(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_of_computers_in_several_parts_has_a_receipt_on_each_page_on_postgres() {
    let Some(world) = World::on_parts(2, |_| {}).await else { return };
    let person = world.person("ada@example.com").await;
    let mut parts = BTreeSet::new();
    let mut computers = 0;
    while parts.len() < 3 {
        let machine = world.attached_machine(&person).await;
        work(&world, &machine, &mut Chain::of_agent(&machine, "codex")).await;
        parts.insert(world.part_of(&machine).await);
        computers += 1;
    }
    let browser = Browser::of(&world, &person);
    let today = world.clock().now().format("%Y-%m-%d").to_string();
    let link = link_in(&world, &browser.submit(PAGE, &form(&[("lane", "skill"), ("first", &today)])).await);
    let mut settings = world.server.app.settings.clone();
    settings.limits.link_reads_per_minute = 0;
    world.server.app.apply(settings.into()).await.unwrap();
    // The events of each page, by the key of its receipt.
    let pages = eventually("all events are in the tree", async || {
        let (mut at, mut pages) = (link.clone(), BTreeMap::new());
        loop {
            let html = read(&world, &at).await.page(200).to_owned();
            let file = read(&world, &at.replacen(&link, &format!("{link}/receipt"), 1)).await;
            if file.status == 200 {
                let receipt = AuditReceipt::parse(&file.body).unwrap();
                verify(&receipt, &receipt.vkey.parse().unwrap()).unwrap();
                pages.insert(receipt.vkey.clone(), receipt.events.len());
            }
            let next = html.split("href=\"").find(|rest| rest.starts_with(&format!("{link}?cursor=")));
            let Some(next) = next else { break };
            at = next.split('"').next().unwrap().to_owned();
        }
        (pages.values().sum::<usize>() == computers).then_some(pages)
    })
    .await;
    assert_eq!(pages.len(), 3, "{pages:?}");
}

on_sqlite! {
    async fn a_link_ends_by_itself_by_its_owner_and_with_the_account(world: World) {
        let person = world.person("ada@example.com").await;
        world.attached_machine(&person).await;
        let browser = Browser::of(&world, &person);
        let make = async |days: &str| {
            link_in(&world, &browser.submit(PAGE, &form(&[("lane", "llm"), ("first", "2026-01-01"), ("days", days)])).await)
        };
        let [short, long, last] = [make("1").await, make("30").await, make("90").await];
        assert!(read(&world, &short).await.page(200).contains("No events yet."));
        read(&world, &format!("{short}/receipt")).await.page(404);
        world.advance(Duration::from_hours(24));
        assert!(read(&world, &short).await.page(404).contains("This link shows nothing"));

        browser.sign_in("ada@example.com").await;
        let page = browser.get(PAGE).await;
        let html = page.page(200);
        assert_eq!(html.matches("/end\"").count(), 2, "{html}");
        let end = html.split("action=\"").filter_map(|rest| rest.split('"').next()).filter(|path| path.ends_with("/end")).last().unwrap();
        let stranger = Browser::of(&world, &world.person("bob@example.com").await);
        stranger.submit(end, &[]).await.page(404);
        read(&world, &long).await.page(200);
        browser.submit(end, &[]).await.goes_to(PAGE);
        read(&world, &long).await.page(404);
        browser.submit(end, &[]).await.page(404);

        read(&world, &last).await.page(200);
        browser.submit("/account/close", &[("email", "ada@example.com")]).await;
        read(&world, &last).await.page(404);
        for unknown in ["/audits/x", "/audits/adl_x", &format!("{last}x")] {
            read(&world, unknown).await.page(404);
        }
    }

    async fn a_wrong_form_and_an_old_sign_in_create_no_link(world: World) {
        let person = world.person("ada@example.com").await;
        let browser = Browser::of(&world, &person);
        let lane = [("lane", "llm"), ("first", "2026-01-01")];
        for (wrong, words) in [
            (("name", ""), "Name:"),
            (("days", "365"), "Choose when the link ends."),
            (("lane", "dreams"), "Choose a lane."),
            (("first", "tomorrow"), "Choose the first day."),
            (("session", "x"), "There is no such session."),
        ] {
            let mut with = vec![wrong];
            with.extend(lane.into_iter().filter(|(name, _)| *name != wrong.0));
            let page = browser.submit(PAGE, &form(&with)).await;
            assert!(page.page(400).contains(words), "{words}");
        }
        world.advance(Duration::from_mins(16));
        assert!(browser.get(PAGE).await.page(200).contains("Your sign-in is too old"));
        let again = browser.submit(PAGE, &form(&lane)).await;
        assert_eq!(again.header("location"), Some("/signin?next=%2Faccount%2Faudits"));
        assert!(browser.get(PAGE).await.page(200).contains("You have no audit links."));
    }

    async fn readings_of_links_are_rate_limited_and_their_number_is_limited(world: World) {
        let person = world.person("ada@example.com").await;
        let browser = Browser::of(&world, &person);
        let lane = form(&[("lane", "llm"), ("first", "2026-01-01")]);
        let link = link_in(&world, &browser.submit(PAGE, &lane).await);
        for _ in 1..50 {
            browser.submit(PAGE, &lane).await.page(200);
        }
        assert!(browser.submit(PAGE, &lane).await.page(400).contains("maximum number of audit links"));
        assert!(browser.get(PAGE).await.page(200).contains("End one to create another."));
        let world = world.restart_with(|settings| settings.limits.link_reads_per_minute = 2).await;
        read(&world, &link).await.page(200);
        read(&world, "/audits/x").await.page(404);
        let refused = read(&world, &link).await;
        refused.page(424);
        assert!(refused.header("retry-after").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_service_has_no_audit_links() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let person = world.person("ada@example.com").await;
    let browser = Browser::of(&world, &person);
    assert!(browser.get(PAGE).await.page(200).contains("So it has no audit links."));
    let refused = browser.submit(PAGE, &form(&[("lane", "llm"), ("first", "2026-01-01")])).await;
    assert!(refused.page(400).contains("So it has no audit links."));
}
