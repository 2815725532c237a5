//! Feeds of notifications (`docs/protocol/feeds.md` and `docs/decisions/0033-notifications.md`).

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::python::{self, Packages};
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::world::{Person, World};
use harness::event::{Chain, Machine};
use harness::on_sqlite;

const PAGE: &str = "/account/feed";
const MEDIA_TYPE: &str = "application/atom+xml; charset=utf-8";
const ALL: [(&str, &str); 6] = [
    ("kind.event.held", "1"),
    ("kind.agent.revoked", "1"),
    ("kind.computer.detached", "1"),
    ("kind.consent.changed", "1"),
    ("kind.batch.done", "1"),
    ("kind.rule.matched", "1"),
];

/// Texts that no fact has.
const HOSTILE: &str = r#"UPDATE feed_entries SET body =
    '{"data":{"level":"]]></title><script>&amp;\u0001\u000b\u001f\ufffe","lane":"<!--","<b>":"a\u0008\tb\n"}}'"#;

/// The server with feeds.
async fn on(world: World) -> World {
    world.restart_with(|settings| settings.feeds.enabled = true).await
}

/// The path of the link that a page shows.
fn link_in(world: &World, page: &str) -> String {
    let (_, link) = page.split_once(&format!("{}/feeds/", world.server.app.urls.base)).unwrap();
    let token = link.split('<').next().unwrap();
    assert!(token.starts_with("fdt_") && token.len() == 47, "{token}");
    format!("/feeds/{token}")
}

/// Creates the feed of a person for these kinds; the path of its link.
async fn create(world: &World, person: &Person, kinds: &[(&str, &str)]) -> String {
    link_in(world, Browser::of(world, person).submit(PAGE, kinds).await.page(200))
}

/// Reads a feed as a feed reader does: without a credential.
async fn read(world: &World, link: &str) -> Response {
    world.get(link, &Credential::None).await
}

/// The document as feedparser reads it. `None` without the parser.
async fn parsed(response: &Response) -> Option<Value> {
    assert_eq!((response.status, response.header("content-type")), (200, Some(MEDIA_TYPE)), "{response:?}");
    let python = python::with(Packages::Feeds)?;
    let document = response.body.clone();
    let parse = move || {
        let mut parser = Command::new(python);
        parser.args(["-c", include_str!("feeds/parse.py"), MEDIA_TYPE]);
        let mut child = parser.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&document).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(parse).await.unwrap();
    assert!(output.status.success(), "{}\n{response:?}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The kinds of a document, newest first.
fn kinds(response: &Response) -> Vec<String> {
    let text = std::str::from_utf8(&response.body).unwrap();
    let terms = text.split("<category term=\"").skip(1);
    terms.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Holds an event of a computer.
async fn hold(world: &World, machine: &Machine) -> Value {
    let unknown = Chain::new(machine).peek_with(|event| event["event_type"] = json!("memory.dreamt"));
    world.event(machine, &unknown).await.held("unknown_event_type");
    unknown
}

/// A person with a computer, so that consent can change.
async fn owner(world: &World) -> (Person, Machine) {
    let person = world.person("ada@example.com").await;
    let machine = world.attached_machine(&person).await;
    (person, machine)
}

async fn set_level(world: &World, person: &Person, level: &str) {
    let consent = json!({ "level": level, "lane": "llm", "reason": "it is private" });
    world.post("/api/v1/consent", &person.cookie, &consent).await.expect(200);
}

on_sqlite! {
    async fn an_entry_about_a_held_event_names_its_sender(world: World) {
        let world = on(world).await;
        let (person, compromised) = owner(&world).await;
        let innocent = world.attached_machine(&person).await;
        let hers = create(&world, &person, &ALL).await;
        world.event(&compromised, &Chain::new(&innocent).next()).await.held("identity_mismatch");
        let document = read(&world, &hers).await;
        let text = String::from_utf8_lossy(&document.body);
        assert!(text.contains(&compromised.uuid) && !text.contains(&innocent.uuid), "{text}");
    }

    async fn each_kind_of_fact_is_an_entry_without_content(world: World) {
        let world = on(world).await;
        let ((person, machine), stranger) = (owner(&world).await, world.person("bob@example.com").await);
        let (hers, his) = (create(&world, &person, &ALL).await, create(&world, &stranger, &ALL).await);
        let unknown = hold(&world, &machine).await;
        // The same event is already held.
        world.event(&machine, &unknown).await.held("unknown_event_type");
        world.advance(Duration::from_secs(1));
        set_level(&world, &person, "off").await;
        world.advance(Duration::from_secs(1));
        let agent = world.agent_of(&person).await;
        let code = world.device_code(&world.machine().await).await.expect(200);
        world.device_approve(&agent.token, code["user_code"].as_str().unwrap()).await.expect(200);
        world.delete(&format!("/api/v1/agents/{}", agent.id), &person.cookie).await.expect(200);
        world.advance(Duration::from_secs(1));
        world.delete(&format!("/api/v1/machines/{}", machine.uuid), &person.cookie).await.expect(200);
        world.advance(Duration::from_secs(1));
        let key = world.key(&person, json!({ "name": "key" })).await;
        world.notes(&key, &["a secret recipe"]).await;

        let document = read(&world, &hers).await;
        let text = String::from_utf8_lossy(&document.body);
        assert!(!text.contains("private") && !text.contains("recipe"), "{text}");
        assert_eq!(kinds(&read(&world, &his).await), Vec::<String>::new(), "an entry of a foreign account");
        let Some(feed) = parsed(&document).await else { return };
        assert!(feed["id"].as_str().unwrap().starts_with("urn:uuid:"));
        assert_eq!((&feed["links"]["self"], &feed["links"]["alternate"]), (&json!(format!("{}{hers}", world.url)), &json!(format!("{}/account", world.url))));
        let entries = feed["entries"].as_array().unwrap();
        assert_eq!(feed["updated"], entries[0]["updated"]);
        let mut titles: Vec<&str> = entries.iter().map(|entry| entry["title"].as_str().unwrap()).collect();
        // The agent and its computer ended in one moment.
        titles[2..4].sort_unstable();
        assert_eq!(titles, [
            "A batch of memories is complete",
            "A computer was detached by its owner",
            "A computer was detached with the agent that attached it",
            "An agent was revoked by its owner",
            "A consent level changed to off for Model calls",
            "An event was held: unknown type",
        ]);
        let held = &entries[5];
        assert_eq!((&held["kinds"], &held["type"]), (&json!(["event.held"]), &json!("text/plain")));
        let content = held["content"].as_str().unwrap();
        for line in [format!("event_id: {}", unknown["event_id"].as_str().unwrap()), "reason: unknown_event_type".to_owned()] {
            assert!(content.lines().any(|shown| shown == line), "{line}: {content}");
        }
        for entry in entries {
            let path = entry["link"].as_str().unwrap().strip_prefix(&world.url).unwrap();
            assert_eq!(world.get(path, &person.cookie).await.status, 200, "{entry}");
        }
        let mut ids: Vec<&str> = entries.iter().map(|entry| entry["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6);
        // A server shows at most `feeds.entries`.
        let world = world.restart_with(|settings| settings.feeds.entries = 2).await;
        assert_eq!(kinds(&read(&world, &hers).await), ["batch.done", "computer.detached"]);
    }

    async fn a_document_is_revalidated_by_its_etag(world: World) {
        let world = on(world).await;
        let (person, _) = owner(&world).await;
        let link = create(&world, &person, &ALL).await;
        let first = read(&world, &link).await;
        let etag = first.header("etag").unwrap().to_owned();
        for (name, value) in [
            ("cache-control", "private, no-cache"),
            ("referrer-policy", "no-referrer"),
            ("x-robots-tag", "noindex"),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ] {
            assert_eq!(first.header(name), Some(value));
        }
        if let Some(feed) = parsed(&first).await {
            assert_eq!(feed["entries"], json!([]));
        }
        let again = async || {
            world.send(world.request(Method::GET, &link, &Credential::None).header("if-none-match", &etag)).await
        };
        let same = again().await;
        assert_eq!((same.status, same.body.len(), same.header("etag")), (304, 0, Some(etag.as_str())));
        assert_eq!(same.header("cache-control"), Some("private, no-cache"));
        let head = world.send(world.request(Method::HEAD, &link, &Credential::None)).await;
        assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, Some(etag.as_str())));
        set_level(&world, &person, "off").await;
        let changed = again().await;
        assert_eq!(kinds(&changed), ["consent.changed"]);
        assert_ne!(changed.header("etag"), Some(etag.as_str()));
        assert_eq!(read(&world, "/robots.txt").await.status, 200);
        assert!(String::from_utf8_lossy(&read(&world, "/robots.txt").await.body).contains("Disallow: /feeds\n"));
    }

    async fn a_link_ends_when_it_is_replaced_or_deleted(world: World) {
        let world = on(world).await;
        let ((person, _), stranger) = (owner(&world).await, world.person("bob@example.com").await);
        let (browser, other) = (Browser::of(&world, &person), Browser::of(&world, &stranger));
        other.submit("/account/feed/link", &[]).await.page(404);
        other.submit("/account/feed/kinds", &ALL).await.page(404);
        other.get("/account/feed/delete").await.page(404);
        other.submit("/account/feed/delete", &[]).await.page(404);
        let old = create(&world, &person, &ALL).await;
        browser.submit(PAGE, &ALL).await.goes_to(PAGE);
        assert!(browser.get(PAGE).await.page(200).contains("Its link was shown when it was created"));
        assert_eq!(read(&world, &old).await.status, 200, "a second form replaced the link");
        set_level(&world, &person, "off").await;
        let id = |response: &Response| String::from_utf8_lossy(&response.body).split("<id>").nth(1).unwrap()[..45].to_owned();
        let before = id(&read(&world, &old).await);

        let page = browser.submit("/account/feed/link", &[]).await;
        let link = link_in(&world, page.page(200));
        let document = read(&world, &link).await;
        assert_eq!((kinds(&document), id(&document)), (vec!["consent.changed".to_owned()], before));
        assert!(!browser.get(PAGE).await.page(200).contains("fdt_"), "a link is shown once");
        let export = world.get("/account/data/export", &person.cookie).await;
        let export = String::from_utf8_lossy(&export.body).into_owned();
        let line = export.lines().map(|line| line.parse::<Value>().unwrap()).find(|line| line["kind"] == "feed").unwrap();
        assert_eq!(line["kinds"].as_array().unwrap().len(), 6);
        assert!(!export.contains("fdt_"), "{export}");

        // A revoked link, an unknown link and a malformed one get the same response.
        let token = "A".repeat(43);
        let unknown = read(&world, &format!("/feeds/fdt_{token}")).await;
        assert_eq!(unknown.refused(404, "not_found"), json!({ "error": "not_found" }));
        for other in [old.as_str(), "/feeds/fdt_x", "/feeds/x", "/feeds/%ff", &link.replace("fdt_", "ses_"), &format!("{link}A")] {
            let refused = read(&world, other).await;
            assert_eq!((refused.status, &refused.body), (404, &unknown.body), "{other}");
            assert_eq!(refused.headers.len(), unknown.headers.len(), "{other}");
        }

        browser.submit("/account/feed/delete", &[]).await.goes_to(PAGE);
        assert_eq!(read(&world, &link).await.body, unknown.body);
        // The feed's entries are deleted with it.
        let next = create(&world, &person, &ALL).await;
        assert_eq!(kinds(&read(&world, &next).await), Vec::<String>::new());
        let close = browser.submit("/account/close", &[("email", "ada@example.com")]).await;
        assert_eq!(close.status, 303, "{close:?}");
        assert_eq!(read(&world, &next).await.body, unknown.body);
    }

    async fn an_owner_chooses_the_kinds_after_a_recent_sign_in(world: World) {
        let world = on(world).await;
        let (person, machine) = owner(&world).await;
        let browser = Browser::of(&world, &person);
        let nothing = browser.submit(PAGE, &[]).await;
        assert!(nothing.page(400).contains("Choose at least one kind"));
        let unknown = browser.submit(PAGE, &[("kind.webhook.test", "1")]).await;
        assert!(unknown.page(400).contains("Choose the kinds again"));
        let link = create(&world, &person, &ALL[..1]).await;
        set_level(&world, &person, "off").await;
        assert_eq!(kinds(&read(&world, &link).await), Vec::<String>::new());
        browser.submit("/account/feed/kinds", &[]).await.page(400);
        browser.submit("/account/feed/kinds", &[("kind.consent.changed", "1")]).await.goes_to(PAGE);
        set_level(&world, &person, "full").await;
        hold(&world, &machine).await;
        assert_eq!(kinds(&read(&world, &link).await), ["consent.changed"]);

        world.advance(Duration::from_mins(16));
        assert!(browser.get(PAGE).await.page(200).contains("Your sign-in is too old"));
        for path in [PAGE, "/account/feed/kinds", "/account/feed/link"] {
            let again = browser.submit(path, &ALL[..1]).await;
            assert_eq!(again.header("location"), Some("/signin?next=%2Faccount%2Ffeed"), "{path}");
        }
        assert_eq!(read(&world, &link).await.status, 200);
    }

    async fn readings_of_an_address_are_rate_limited(world: World) {
        let world = on(world).await;
        let link = create(&world, &world.person("ada@example.com").await, &ALL).await;
        let world = world.restart_with(|settings| settings.limits.link_reads_per_minute = 2).await;
        assert_eq!(read(&world, &link).await.status, 200);
        assert_eq!(read(&world, "/feeds/x").await.status, 404);
        let refused = read(&world, &link).await;
        assert_eq!(refused.refused(424, "temporarily_unavailable")["reason"], "too_many_link_reads");
        assert!(refused.header("retry-after").is_some());
    }

    async fn hostile_texts_leave_the_document_well_formed(world: World) {
        let world = on(world).await;
        let (person, _) = owner(&world).await;
        let link = create(&world, &person, &ALL).await;
        set_level(&world, &person, "off").await;
        let pool = world.server.app.store.pool();
        assert_eq!(store::pool::script(HOSTILE).execute(pool.writer()).await.unwrap(), 1);
        let Some(feed) = parsed(&read(&world, &link).await).await else { return };
        let entry = &feed["entries"][0];
        assert_eq!(entry["title"], "A consent level changed to ]]></title><script>&amp; for the lane <!--");
        let content = entry["content"].as_str().unwrap();
        assert!(content.contains("level: ]]></title><script>&amp;") && content.contains("<b>: a\tb"), "{content}");
    }

    async fn feeds_are_off_by_default_and_nothing_is_written(world: World) {
        let (person, _) = owner(&world).await;
        let browser = Browser::of(&world, &person);
        for path in [PAGE, "/account/feed/delete"] {
            browser.get(path).await.page(404);
        }
        for path in [PAGE, "/account/feed/kinds", "/account/feed/link", "/account/feed/delete"] {
            let refused = browser.submit(path, if path == PAGE || path.ends_with("kinds") { &ALL } else { &[] }).await;
            refused.page(404);
        }
        assert!(!browser.get("/account/access").await.page(200).contains("Your feed"));
        let world = on(world).await;
        let link = create(&world, &person, &ALL).await;
        assert!(Browser::of(&world, &person).get("/account/access").await.page(200).contains("Your feed"));
        let off = world.restart_with(|settings| settings.feeds.enabled = false).await;
        read(&off, &link).await.refused(404, "not_found");
        set_level(&off, &person, "off").await;
        let only_webhooks = off.restart_with(|settings| settings.webhooks.enabled = true).await;
        set_level(&only_webhooks, &person, "full").await;
        assert_eq!(only_webhooks.server.app.store.feed_entries(&person.account, 10).await.unwrap(), []);
        let world = on(only_webhooks).await;
        set_level(&world, &person, "off").await;
        assert_eq!(kinds(&read(&world, &link).await), ["consent.changed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csrf_forms_of_a_feed_are_refused_to_other_sites() {
    let world = on(World::on_sqlite().await).await;
    let person = world.person("ada@example.com").await;
    let link = create(&world, &person, &ALL).await;
    let browser = Browser::of(&world, &person);
    let evil = [("origin", "https://evil.example".to_owned())];
    for path in [PAGE, "/account/feed/kinds", "/account/feed/link", "/account/feed/delete"] {
        browser.send(Method::POST, path, &evil, Some(&[])).await.page(403);
    }
    assert_eq!(read(&world, &link).await.status, 200);
}
