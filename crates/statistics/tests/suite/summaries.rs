//! Sentences of activity, and the search for a type and a text.

use std::sync::Arc;

use domain::registry::Registry;
use serde_json::{Value, json};
use statistics::contract::{ActivityQuery, EntryFilter, RecordScope, TextFilter};
use statistics::log::AppendOutcome;

use crate::world::{Chain, World, scope_of};
use harness::on_each_database;

async fn take(world: &World, event: &Value) {
    let outcome = world.take(event).await;
    assert!(matches!(outcome, AppendOutcome::Receipt(_)), "{outcome:?}");
}

fn of(chain: &mut Chain, event_type: &str, level: &str, payload: Value) -> Value {
    chain.next_with(|event| {
        event["event_type"] = json!(event_type);
        event["consent_level"] = json!(level);
        event["payload"] = payload;
    })
}

async fn page(world: &World, scope: &RecordScope, entries: Option<EntryFilter>) -> Value {
    let log = world.log.clone().with_registry(Arc::new(Registry::built_in().unwrap()));
    let query = ActivityQuery { entries, ..ActivityQuery::default() };
    serde_json::from_slice(&log.activity(scope, &query).await.unwrap().body).unwrap()
}

fn members(page: &Value, name: &str) -> Vec<Value> {
    page["events"].as_array().unwrap().iter().map(|event| event[name].clone()).collect()
}

fn with_text(text: &str) -> EntryFilter {
    EntryFilter { text: Some(TextFilter { text: text.to_owned(), machines: Vec::new() }), ..EntryFilter::default() }
}

on_each_database! {
    async fn activity_has_sentences_and_no_content_below_full(world: World) {
        let mut chain = Chain::new(&world);
        let bash = json!({ "activity": "tool_finished", "skill": "Bash", "succeeded": false, "input": { "command": "make" } });
        let events = [
            of(&mut chain, "skill.invoked", "full", bash),
            of(&mut chain, "llm.completed", "metadata-only", json!({ "activity": "prompt_submitted", "prompt": "a secret" })),
            of(&mut chain, "deploy.done", "full", json!({ "unknown": true })),
        ];
        for event in &events[..2] {
            take(&world, event).await;
        }
        let scope = scope_of(&events[0]);
        world.log.sequence(100).await.unwrap();
        take(&world, &events[2]).await;
        let page = page(&world, &scope, None).await;
        assert_eq!(members(&page, "summary"), ["Deploy done", "Prompt", "Ran Bash · make"]);
        assert_eq!(members(&page, "tone"), ["plain", "plain", "failed"]);
        assert_eq!(members(&page, "proof_status"), ["pending", "included", "included"]);
        assert!(page.get("searched").is_none());
        // Without a registry there are no sentences.
        let plain = world.log.activity(&scope, &ActivityQuery::default()).await.unwrap();
        let plain: Value = serde_json::from_slice(&plain.body).unwrap();
        assert_eq!(members(&plain, "summary"), [json!(null), json!(null), json!(null)]);
    }

    async fn a_text_is_found_in_sentences_and_payloads(world: World) {
        let mut chain = Chain::new(&world);
        let events = [
            of(&mut chain, "skill.invoked", "full", json!({ "skill": "Bash", "output": ["Grüße", { "a": "NEEDLE" }] })),
            of(&mut chain, "skill.invoked", "metadata-only", json!({ "skill": "Read", "duration_ms": 412 })),
            of(&mut chain, "llm.failed", "metadata-only", json!({ "model": "gpt" })),
        ];
        for event in &events {
            take(&world, event).await;
        }
        let scope = scope_of(&events[0]);
        let types = async |filter| members(&page(&world, &scope, Some(filter)).await, "summary");
        assert_eq!(types(with_text("needle")).await, ["Ran Bash"]);
        assert_eq!(types(with_text("grüße")).await, ["Ran Bash"]);
        assert_eq!(types(with_text("read · 0.4 s")).await, ["Ran Read · 0.4 s"]);
        assert_eq!(types(with_text("failed")).await, ["gpt"]);
        assert_eq!(types(with_text("nowhere")).await, [""; 0]);
        let failed = EntryFilter { event_type: Some("llm.failed".to_owned()), ..EntryFilter::default() };
        assert_eq!(types(failed).await, ["gpt"]);
        let machines = vec![chain.recorder().machine];
        let named = TextFilter { text: "laptop".to_owned(), machines };
        assert_eq!(types(EntryFilter { text: Some(named), ..EntryFilter::default() }).await.len(), 3);
        let found = page(&world, &scope, Some(with_text("nowhere"))).await;
        assert_eq!((&found["searched"], &found["unread"]), (&json!(3), &json!(0)));
        assert!(found["oldest_ms"].is_i64());
    }

    async fn payloads_beyond_the_limit_of_a_page_are_counted_and_not_searched(world: World) {
        let mut chain = Chain::new(&world);
        let long = "word ".repeat(600_000);
        let mut events = Vec::new();
        for number in 0..4 {
            let payload = json!({ "activity": "tool_finished", "skill": format!("Tool{number}"), "output": long });
            let event = of(&mut chain, "skill.invoked", "full", payload);
            take(&world, &event).await;
            events.push(event);
        }
        let scope = scope_of(&events[0]);
        // Two events of 3 MB fit into 8 MiB.
        let all = page(&world, &scope, None).await;
        assert_eq!(members(&all, "summary"), ["Ran Tool3", "Ran Tool2", "Ran a tool", "Ran a tool"]);
        let found = page(&world, &scope, Some(with_text("word word"))).await;
        assert_eq!((members(&found, "summary").len(), &found["unread"]), (2, &json!(2)));
    }
}
