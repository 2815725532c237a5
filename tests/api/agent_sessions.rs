//! Sessions of agents, over the API (`docs/protocol/sessions.md`).

use std::time::Duration;

use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::on_each_database;
use harness::upstream::Upstream;

const SESSION: &str = "019b76da-a800-7a67-8a14-94a3f41b0601";
const PATH: &str = "/api/v1/activity/sessions";

/// A session with a prompt, a tool that fails, a tool with content and an answer, at the levels that hooks declare.
async fn session(world: &World, machine: &Machine, chain: &mut Chain, session: &str) -> Vec<String> {
    let events = [
        ("llm", "llm.completed", "metadata-only", json!({ "activity": "prompt_submitted" })),
        (
            "skill",
            "skill.invoked",
            "metadata-only",
            json!({ "activity": "tool_finished", "skill": "Bash", "succeeded": false, "duration_ms": 400 }),
        ),
        (
            "skill",
            "skill.invoked",
            "full",
            json!({ "activity": "file_edited", "skill": "Edit", "file": "f1", "cwd": "/home/ada/shop", "input": "secret text" }),
        ),
        (
            "llm",
            "llm.completed",
            "metadata-only",
            json!({ "activity": "completed", "model": "m-1", "input_tokens": 100, "output_tokens": 7 }),
        ),
    ];
    let mut ids = Vec::new();
    for (number, (lane, event_type, level, payload)) in (0_i64..).zip(events) {
        let event = chain.next_with(|event| {
            event["lane"] = json!(lane);
            event["event_type"] = json!(event_type);
            event["consent_level"] = json!(level);
            event["ts_edge_ms"] = json!(1_767_225_600_000_i64 + number * 1_000);
            event["scope"]["session_uuid"] = json!(session);
            event["scope"]["project_id"] = json!("shop");
            event["payload"] = payload;
        });
        world.event(machine, &event).await.receipt();
        ids.insert(0, event["event_id"].as_str().unwrap().to_owned());
    }
    ids
}

/// The page of sessions, once its newest session has this number of events.
async fn listed(world: &World, credential: &Credential, query: &str, events: u64) -> Value {
    eventually("the session is listed", async || {
        let page = world.get(&format!("{PATH}{query}"), credential).await.expect(200);
        (page["sessions"][0]["events"] == events).then_some(page)
    })
    .await
}

on_each_database! {
    async fn a_session_is_listed_and_shown_to_those_who_see_its_events(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, other) = (world.attached_machine(&ada).await, world.attached_machine(&bob).await);
        let mut chain = Chain::of_agent(&machine, "codex");
        let ids = session(&world, &machine, &mut chain, SESSION).await;
        let of_computer = Credential::from(&machine);
        let page = listed(&world, &of_computer, "", 4).await;
        let listed_session = page["sessions"][0].clone();
        let figures = ["prompts", "tool_calls", "failures", "model_calls", "files", "input_tokens", "output_tokens", "tool_ms"];
        assert_eq!(figures.map(|name| listed_session[name].as_i64().unwrap()), [1, 2, 1, 1, 1, 100, 7, 400], "{listed_session}");
        assert_eq!((&listed_session["folder"], &listed_session["project_id"], &listed_session["agent_id"]), (&json!("shop"), &json!("shop"), &json!("codex")));
        assert_eq!(listed_session["models"], json!([{ "model": "m-1", "calls": 1, "input_tokens": 100, "output_tokens": 7 }]));
        assert_eq!((&page["next_cursor"], &listed_session["ended_ms"]), (&Value::Null, &Value::Null));
        assert_eq!(world.get(PATH, &ada.cookie).await.expect(200), page);

        let path = format!("{PATH}/{}", listed_session["id"].as_str().unwrap());
        for reader in [&of_computer, &ada.cookie] {
            let timeline = world.get(&path, reader).await.expect(200);
            assert_eq!(timeline["session"], listed_session);
            let events = timeline["events"].as_array().unwrap();
            assert_eq!(events.iter().map(|event| event["event_id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
            assert_eq!((&events[2]["skill"], &events[2]["succeeded"], &events[2]["duration_ms"]), (&json!("Bash"), &json!(false), &json!(400)));
            assert!(!timeline.to_string().contains("secret text"), "content is on the page of the event only");
        }
        let (mut seen, mut query) = (Vec::new(), "?limit=3".to_owned());
        loop {
            let timeline = world.get(&format!("{path}{query}"), &ada.cookie).await.expect(200);
            seen.extend(timeline["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap().to_owned()));
            match timeline["next_cursor"].as_str() {
                Some(cursor) => query = format!("?limit=3&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, ids);

        // No other party sees it, also if another computer names the same session.
        for reader in [Credential::from(&other), bob.cookie.clone()] {
            assert_eq!(world.get(PATH, &reader).await.expect(200)["sessions"], json!([]));
            world.get(&path, &reader).await.refused(404, "not_found");
        }
        session(&world, &other, &mut Chain::of_agent(&other, "codex"), SESSION).await;
        let theirs = listed(&world, &bob.cookie, "", 4).await;
        assert_ne!(theirs["sessions"][0]["id"], listed_session["id"]);
        assert_eq!(world.get(PATH, &ada.cookie).await.expect(200)["sessions"].as_array().unwrap().len(), 1);
        // A detached computer's earlier sessions stay visible to the account, like its events.
        world.delete(&format!("/api/v1/machines/{}", machine.uuid), &ada.cookie).await.expect(200);
        assert_eq!(world.get(PATH, &ada.cookie).await.expect(200), page);
        world.get(PATH, &of_computer).await.refused(401, "machine_unknown");
    }

    async fn sessions_are_filtered_and_paged(world: World) {
        let person = world.person("ada@example.com").await;
        let (one, two) = (world.attached_machine(&person).await, world.attached_machine(&person).await);
        let (mut first, mut second) = (Chain::of_agent(&one, "codex"), Chain::of_agent(&two, "cursor"));
        session(&world, &one, &mut first, SESSION).await;
        listed(&world, &person.cookie, "", 4).await;
        world.advance(Duration::from_hours(24));
        session(&world, &two, &mut second, SESSION).await;
        eventually("both are listed", async || {
            let page = world.get(PATH, &person.cookie).await.expect(200);
            let sessions = page["sessions"].as_array().unwrap();
            (sessions.len() == 2 && sessions[0]["events"] == 4).then_some(())
        })
        .await;
        let agents = async |query: &str| {
            let page = world.get(&format!("{PATH}{query}"), &person.cookie).await.expect(200);
            page["sessions"].as_array().unwrap().iter().map(|row| row["agent_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(agents("").await, ["cursor", "codex"]);
        assert_eq!(agents("?agent=codex").await, ["codex"]);
        assert_eq!(agents(&format!("?computer={}", two.uuid)).await, ["cursor"]);
        assert_eq!((agents("?project=shop").await.len(), agents("?project=other").await.len()), (2, 0));
        let today = world.clock().now().format("%Y-%m-%d").to_string();
        assert_eq!(agents(&format!("?day={today}")).await, ["cursor"]);
        assert_eq!(agents(&format!("?since={today}T00:00:00Z")).await, ["cursor"]);
        let page = world.get(&format!("{PATH}?limit=1"), &person.cookie).await.expect(200);
        assert_eq!(agents(&format!("?limit=1&cursor={}", page["next_cursor"].as_str().unwrap())).await, ["codex"]);

        let refused = async |query: &str| world.get(&format!("{PATH}{query}"), &person.cookie).await;
        for query in ["?limit=0", "?limit=201", "?limit=x"] {
            refused(query).await.refused(400, "invalid_limit");
        }
        refused(&format!("?cursor={}", "x".repeat(1025))).await.refused(400, "cursor_too_long");
        for query in ["?cursor=x", "?day=yesterday", "?since=x", "?computer=x", "?project=a%00b", "?agent=a&agent=b"] {
            refused(query).await.refused(400, "invalid_request");
        }
        world.get(&format!("{PATH}/nonsense"), &person.cookie).await.refused(404, "not_found");
        world.get(&format!("{PATH}/{SESSION}"), &person.cookie).await.refused(404, "not_found");
    }
}

on_each_database! {
    async fn costs_are_tokens_at_the_price_of_the_model(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, other) = (world.attached_machine(&ada).await, world.attached_machine(&bob).await);
        let mut chain = Chain::of_agent(&machine, "codex");
        let answers = [("claude-sonnet-4-5", 1_000_000, 100_000), ("claude-sonnet-4-5", 1_000_000, 0), ("m-1", 500, 5)];
        for (model, input, output) in answers {
            let event = chain.next_with(|event| {
                event["lane"] = json!("llm");
                event["event_type"] = json!("llm.completed");
                event["scope"]["session_uuid"] = json!(SESSION);
                event["payload"] = json!({ "model": model, "input_tokens": input, "output_tokens": output });
            });
            world.event(&machine, &event).await.receipt();
        }
        let listed_session = listed(&world, &ada.cookie, "", 3).await["sessions"][0].clone();
        assert_eq!((&listed_session["cost_microdollars"], &listed_session["unpriced"]), (&json!(7_500_000), &json!(true)));
        let page = Browser::of(&world, &ada).get(&format!("/account/sessions/{}", listed_session["id"].as_str().unwrap())).await;
        let page = page.page(200);
        assert!(page.contains("<dt>Costs</dt><dd>at least $7.50 <span class=\"soft small\">a model has no price</span>"), "{page}");
        for reader in [&ada.cookie, &Credential::from(&machine)] {
            let costs = world.get("/api/v1/usage/costs", reader).await.expect(200);
            assert_eq!((&costs["total_microdollars"], &costs["unpriced_models"]), (&json!(7_500_000), &json!(["m-1"])));
            let rows = costs["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 2, "{costs}");
            assert_eq!((&rows[0]["calls"], &rows[0]["input_tokens"], &rows[0]["cost_microdollars"]), (&json!(2), &json!(2_000_000), &json!(7_500_000)));
            assert_eq!((&rows[1]["model"], &rows[1]["project_id"], &rows[1]["cost_microdollars"]), (&json!("m-1"), &Value::Null, &Value::Null));
        }
        for reader in [&bob.cookie, &Credential::from(&other)] {
            assert_eq!(world.get("/api/v1/usage/costs", reader).await.expect(200)["rows"], json!([]));
        }
        world.advance(Duration::from_hours(48));
        assert_eq!(world.get("/api/v1/usage/costs?days=2", &ada.cookie).await.expect(200)["rows"], json!([]));
        for days in ["0", "401", "x"] {
            world.get(&format!("/api/v1/usage/costs?days={days}"), &ada.cookie).await.refused(400, "invalid_request");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_service_has_no_sessions() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let machine = Credential::from(&world.machine().await);
    for path in [PATH.to_owned(), format!("{PATH}/{SESSION}"), "/api/v1/usage/costs".to_owned()] {
        world.get(&path, &machine).await.refused(501, "embedded_log_required");
    }
}
