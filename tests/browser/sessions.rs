//! `/account/sessions` and the page of one session: a person sees what an agent worked on, while it works and afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::{Browser, Role, pages};
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine};

const SESSION: &str = "019b76da-a800-7a67-8a14-94a3f41b0601";

/// The number of events that wait for a person.
const WAITING: &str =
    "return [...document.querySelectorAll('.badge')].filter((badge) => badge.textContent === 'waiting').length";

/// Sends an event of a session, at a second after its start by the computer's clock.
async fn step(world: &World, machine: &Machine, chain: &mut Chain, second: i64, kind: &str, payload: Value) {
    let level = if payload.get("cwd").is_some() { "full" } else { "metadata-only" };
    let begin = world.clock().now().timestamp_millis() - 3_600_000;
    let event = chain.next_with(|event| {
        event["event_type"] = json!(kind);
        event["lane"] = json!(kind.split('.').next().unwrap());
        event["consent_level"] = json!(level);
        event["ts_edge_ms"] = json!(begin + second * 1_000);
        event["scope"]["session_uuid"] = json!(SESSION);
        event["scope"]["project_id"] = json!("5d41402abc4b2a76b9719d911017c592");
        event["payload"] = payload;
    });
    world.event(machine, &event).await.receipt();
}

fn tool(name: &str, succeeded: bool) -> Value {
    json!({ "activity": "tool_finished", "skill": name, "succeeded": succeeded, "duration_ms": 1_400, "file": name })
}

async fn work(world: &World, machine: &Machine, chain: &mut Chain) {
    let start = json!({ "activity": "session_started", "skill": "session", "cwd": "/home/jo/shop" });
    step(world, machine, chain, 0, "skill.invoked", start).await;
    step(world, machine, chain, 20, "llm.completed", json!({ "activity": "prompt_submitted" })).await;
    step(world, machine, chain, 40, "skill.invoked", tool("Bash", true)).await;
    step(world, machine, chain, 60, "skill.invoked", tool("Bash", false)).await;
    let subagent = |activity: &str| json!({ "activity": activity, "skill": "subagent", "subagent": "reviewer" });
    step(world, machine, chain, 80, "skill.invoked", subagent("subagent_started")).await;
    step(world, machine, chain, 100, "skill.invoked", tool("Read", true)).await;
    step(world, machine, chain, 120, "skill.invoked", subagent("subagent_ended")).await;
    let answer = json!({ "activity": "completed", "model": "m-1", "input_tokens": 41_000, "output_tokens": 7_000, "duration_ms": 3_100 });
    step(world, machine, chain, 140, "llm.completed", answer).await;
    step(world, machine, chain, 740, "llm.completed", json!({ "activity": "prompt_submitted" })).await;
}

/// The open page of a running session shows an event when it arrives.
async fn works_on(world: &World, machine: &Machine, chain: &mut Chain, browser: &Browser) {
    browser.type_keys("j").await;
    let focused = browser.evaluate("return document.activeElement.textContent").await;
    let request =
        json!({ "activity": "permission_requested", "rule": "permission", "severity": "info", "skill": "Write" });
    step(world, machine, chain, 750, "security.finding", request).await;
    browser.sees("Asked for permission · Write").await;
    assert_eq!(browser.evaluate(WAITING).await, 1);
    step(world, machine, chain, 760, "skill.invoked", tool("Write", true)).await;
    browser.sees("Ran Write").await;
    let rows = browser.evaluate("return document.querySelectorAll('[data-row]').length").await;
    assert_eq!(rows, 11);
    assert_eq!(browser.evaluate(WAITING).await, 0, "the request was answered");
    assert_eq!(browser.evaluate("return document.activeElement.textContent").await, focused, "the focus stays");
}

async fn listed(world: &World, machine: &Machine, events: u64) {
    eventually("the session is listed", async || {
        let page = world.get("/api/v1/activity/sessions", &machine.into()).await.expect(200);
        (page["sessions"][0]["events"] == events).then_some(())
    })
    .await;
}

pages! {
    async fn a_person_sees_what_an_agent_worked_on(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::of_agent(&machine, "codex");
        browser.signed_in(&person).await;
        browser.visit("/account/sessions").await;
        browser.sees("No sessions recorded yet.").await;
        browser.look("no-sessions").await;

        work(world, &machine, &mut chain).await;
        listed(world, &machine, 9).await;
        browser.visit("/account/activity").await;
        browser.follow("Sessions").await;
        browser.sees("3 tool calls").await;
        browser.sees("12 min").await;
        browser.sees("1 failed").await;
        browser.sees("Running").await;
        browser.look("sessions").await;

        browser.follow("shop").await;
        browser.sees("Waited 10 min for a prompt").await;
        browser.sees("41.0 k → 7,000").await;
        browser.sees("failed").await;
        browser.sees("m-1").await;
        let depths = browser.evaluate("return document.querySelectorAll('.depth-1').length").await;
        assert_eq!(depths, 1, "the tool of the subagent is a branch");
        browser.look("session").await;

        works_on(world, &machine, &mut chain, browser).await;

        // From an event to its session, and an end.
        step(world, &machine, &mut chain, 800, "skill.invoked", json!({ "activity": "session_ended", "skill": "session" })).await;
        browser.sees("Ended").await;
        let path = browser.path().await;
        browser.type_keys("j").await;
        browser.type_keys("\n").await;
        browser.sees("In its chain").await;
        browser.follow("Its session").await;
        assert_eq!(browser.path().await, path);
        browser.sees("Ended").await;

        // Filters.
        browser.follow("5d41402a…").await;
        browser.sees("shop").await;
        browser.select("Agent", "cursor").await;
        browser.press("Filter").await;
        browser.sees("Nothing fits these filters.").await;
        browser.look("no-session-fits").await;
        browser.follow("Clear all filters").await;
        browser.sees("4 tool calls").await;

        // Costs: the model of this session has no price.
        browser.follow("Costs").await;
        browser.sees("Not included: models without a price.").await;
        browser.sees("m-1").await;
        browser.look("costs").await;
        let file = browser
            .evaluate_later(
                "const done = arguments[arguments.length - 1];
                fetch('/account/costs/export').then((answer) => answer.text()).then((text) => done(text.trimEnd().split('\\r\\n').length))",
            )
            .await;
        assert_eq!(file, 2);

        // An audit link: the reader's browser checks each event.
        browser.visit(&path).await;
        browser.follow("Share with an auditor").await;
        browser.sees("Share this session").await;
        browser.fill("Name", "Review of shop").await;
        browser.look("audit-form").await;
        browser.press("Create the link").await;
        browser.sees("It is not shown again.").await;
        browser.look("audit-link").await;
        let link = browser.find(Role::Field, "Link").await.prop("value").await.unwrap().unwrap();
        browser.follow("I have stored it").await;
        browser.sees("never opened").await;
        browser.look("audit-links").await;
        let link = link.strip_prefix(&world.url).unwrap();
        eventually("all events are in the signed tree", async || {
            browser.visit(link).await;
            let rows = browser.evaluate("return document.querySelectorAll('[data-event]').length").await;
            (rows == 12).then_some(())
        })
        .await;
        browser.sees("Everything was computed in this browser and holds: 12 events, 1 failed.").await;
        let marks = "return ['Proven', 'In the log', 'Fails', 'Not checked'].map((word) =>
            [...document.querySelectorAll('[data-result]')].filter((mark) => mark.textContent === word).length)";
        assert_eq!(browser.evaluate(marks).await, json!([11, 1, 0, 0]), "the event with a folder has content");
        browser.look("audit").await;
        let key = world.get("/api/v1/audit/keys", &Credential::None).await.expect(200)["keys"][0]["vkey"].clone();
        browser.fill("Key that you trust", key.as_str().unwrap()).await;
        browser.sees("The key is the one that you trust.").await;
        browser.fill("Key that you trust", "example/log+1+A=").await;
        browser.sees("0 of 12 events on this page hold.").await;
        browser.look("audit-with-another-key").await;
        browser.visit("/account/audits").await;
        browser.sees("last opened").await;
        browser.press("End Review of shop").await;
        browser.sees("The link has ended").await;

        // A session of another account is refused like an unknown one.
        let other = world.person("ada@example.com").await;
        browser.signed_in(&other).await;
        browser.visit(&path).await;
        browser.sees("No such session").await;
        browser.look("no-such-session").await;
    }

    async fn a_long_session_has_pages_and_works_without_scripts(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::of_agent(&machine, "codex");
        for second in 0..120 {
            step(world, &machine, &mut chain, second, "skill.invoked", tool("Bash", true)).await;
        }
        listed(world, &machine, 120).await;
        world.advance(Duration::from_hours(1));
        browser.signed_in(&person).await;
        browser.without_scripts().await;
        browser.visit("/account/sessions").await;
        browser.sees("Project 5d41402a…").await;
        assert!(!browser.names(Role::Link).await.contains(&"Older sessions".to_owned()));
        browser.follow("Project 5d41402a…").await;
        browser.sees("120").await;
        browser.follow("Earlier events").await;
        browser.look("earlier-events").await;
        assert_eq!(browser.text().await.matches("Ran Bash").count(), 20);
    }
}
