//! Filter settings, which select the new content that is stored.

use reqwest::Method;
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::closed_network;
use blackbox::client::{Credential, Response};
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

async fn put(world: &World, key: &Credential, body: Value) -> Response {
    world.send(world.request(Method::PUT, "/v1/settings", key).json(&body)).await
}

async fn patch(world: &World, key: &Credential, body: Value) -> Response {
    world.send(world.request(Method::PATCH, "/v1/settings", key).json(&body)).await
}

on_sqlite! {
    async fn filter_settings_are_replaced_read_and_changed(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let empty = json!({ "categories": [], "filterPrompt": null, "includeItems": [], "excludeItems": [], "shouldLLMFilter": false });
        assert_eq!(world.get("/v1/settings", &key).await.expect(200), json!({ "settings": empty, "warnings": [] }));
        let body = put(&world, &key, json!({
            "categories": [" Rust ", "Rust", "Databases"], "filterPrompt": " Only programming ", "includeItems": ["actors"], "excludeItems": ["ads"],
        })).await.expect(200);
        assert_eq!(body["message"], "Settings updated successfully");
        let settings = json!({
            "categories": ["Rust", "Databases"], "filterPrompt": "Only programming", "includeItems": ["actors"], "excludeItems": ["ads"],
            "shouldLLMFilter": false,
        });
        assert_eq!(body["settings"], settings);
        assert!(body["warnings"][0].as_str().unwrap().contains("inactive"), "{body}");
        assert_eq!(world.get("/v1/settings", &key).await.expect(200)["settings"], settings);
        let body = patch(&world, &key, json!({ "categories": null, "shouldLLMFilter": true })).await.expect(200);
        assert_eq!((&body["settings"]["categories"], &body["settings"]["includeItems"]), (&json!([]), &json!(["actors"])));
        assert_eq!(put(&world, &key, json!({ "includeItems": [] })).await.expect(200)["settings"], empty);
    }

    async fn a_key_limited_to_spaces_does_not_change_the_settings_of_the_account(world: World) {
        let (person, all) = world.librarian("ada@example.com").await;
        let space = world.space(&all, "Inside", false).await;
        let key = world.key(&person, json!({ "name": "some", "spaces": [space] })).await;
        let before = put(&world, &all, json!({ "excludeItems": ["casino"] })).await.expect(200)["settings"].clone();
        put(&world, &key, json!({})).await.refused(403, "space_forbidden");
        patch(&world, &key, json!({ "excludeItems": [] })).await.refused(403, "space_forbidden");
        assert_eq!(world.get("/v1/settings", &key).await.expect(200)["settings"], before);
    }
}

on_each_database! {
    async fn concurrent_changes_of_settings_are_all_stored(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        for round in 0..12 {
            let word = format!("word {round}");
            let (one, two, three) = tokio::join!(
                patch(&world, &key, json!({ "categories": [word] })),
                patch(&world, &key, json!({ "includeItems": [word] })),
                patch(&world, &key, json!({ "excludeItems": [word], "shouldLLMFilter": round % 2 == 0 })),
            );
            for response in [one, two, three] {
                response.expect(200);
            }
            let settings = world.get("/v1/settings", &key).await.expect(200)["settings"].clone();
            for name in ["categories", "includeItems", "excludeItems"] {
                assert_eq!(settings[name], json!([word]), "{settings}");
            }
        }
    }
}

on_sqlite! {
    async fn validation_issues_name_the_path_of_the_members_of_settings(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let kept = json!({ "categories": ["Rust"], "excludeItems": ["ads"] });
        patch(&world, &key, kept).await.expect(200);
        let before = world.get("/v1/settings", &key).await.expect(200);
        for (body, path) in [
            (r#"{"categories": ["a"], "categories": ["b"]}"#, "categories"),
            (r#"{"includeItems": 5}"#, "includeItems"),
            (r#"{"includeItems": ["ok", ""]}"#, "includeItems[1]"),
            (r#"{"filterPrompt": " "}"#, "filterPrompt"),
        ] {
            for method in [Method::PATCH, Method::PUT] {
                let request = world.request(method, "/v1/settings", &key).header("content-type", "application/json");
                let refused = world.send(request.body(body)).await.refused(400, "invalid_request");
                assert_eq!(refused["issues"][0]["path"], path, "{refused}");
                assert!(!refused["issues"][0]["message"].as_str().unwrap().contains("line"), "{refused}");
            }
        }
        assert_eq!(world.get("/v1/settings", &key).await.expect(200), before);
    }

    async fn limits_of_filter_settings_apply_to_each_element(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let fits = json!({
            "categories": ["é".repeat(50)], "filterPrompt": "é".repeat(750), "includeItems": ["é".repeat(20)],
            "excludeItems": (0..100).map(|nth| format!("item {nth}")).collect::<Vec<_>>(), "shouldLLMFilter": true,
        });
        put(&world, &key, fits).await.expect(200);
        for (body, path) in [
            (json!({ "categories": ["x", "é".repeat(51)] }), "categories[1]"),
            (json!({ "categories": [" "] }), "categories[0]"),
            (json!({ "filterPrompt": "é".repeat(751) }), "filterPrompt"),
            (json!({ "includeItems": ["é".repeat(21)] }), "includeItems[0]"),
            (json!({ "excludeItems": ["a", "b", ""] }), "excludeItems[2]"),
            (json!({ "excludeItems": (0..101).map(|nth| nth.to_string()).collect::<Vec<_>>() }), "excludeItems"),
            (json!({ "categories": "Rust" }), "categories"),
            (json!({ "shouldLLMFilter": "yes" }), "shouldLLMFilter"),
        ] {
            let response = put(&world, &key, body).await.refused(400, "invalid_request");
            assert_eq!(response["issues"][0]["path"], path, "{response}");
        }
        // A refused request changed nothing.
        assert_eq!(world.get("/v1/settings", &key).await.expect(200)["settings"]["excludeItems"].as_array().unwrap().len(), 100);
    }

    async fn without_a_language_model_keywords_filter(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let body = put(&world, &key, json!({
            "includeItems": ["rust"], "excludeItems": ["sponsored post"], "filterPrompt": "good ones", "shouldLLMFilter": true,
        })).await.expect(200);
        assert!(body["warnings"].to_string().contains("filterPrompt"), "{body}");
        let contents: Vec<Value> = ["Rust is a language", "Trust nobody", "Rust: a Sponsored  Post"].map(|text| json!({ "content": text })).to_vec();
        let messages = world.add(&key, json!({ "contents": contents })).await.whole().await;
        let outcome = |index: u64| messages.iter().find(|message| message["index"] == index).unwrap();
        assert_eq!((&outcome(1)["type"], &outcome(1)["reason"]), (&json!("skipped"), &json!("filtered")));
        assert_eq!(outcome(2)["type"], "skipped");
        assert_eq!(messages.iter().filter(|message| message["type"] == "success").count(), 1);
        assert_eq!(world.found(&key, json!({ "query": "rust trust nobody" })).await, ["Rust is a language"]);
    }
}

/// A language model that keeps content with `Rust` and fails on content with `trouble`.
async fn model() -> MockServer {
    let server = MockServer::start().await;
    let response = |request: &wiremock::Request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        if text.contains("trouble") {
            return ResponseTemplate::new(500);
        }
        let keep = text.contains("the borrow checker");
        let verdict = json!({ "keep": keep, "categories": ["Rust"], "reason": "asked for" }).to_string();
        ResponseTemplate::new(200)
            .set_body_json(json!({ "choices": [{ "message": { "role": "assistant", "content": verdict } }] }))
    };
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("authorization", "Bearer secret"))
        .respond_with(response)
        .mount(&server)
        .await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_language_model_filters_and_its_failure_stores_the_item() {
    let model = model().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.llm.base_url = Some(format!("{}/v1", model.uri()));
        settings.knowledge.llm.api_key = Some("secret".into());
        settings.knowledge.llm.model = "judge".into();
    })
    .await;
    let (person, key) = world.librarian("ada@example.com").await;
    let set = json!({ "categories": ["Rust"], "filterPrompt": "only Rust", "shouldLLMFilter": true });
    assert_eq!(put(&world, &key, set).await.expect(200)["warnings"], json!([]));
    let contents: Vec<Value> =
        ["On the borrow checker", "On gardening", "On trouble"].map(|text| json!({ "content": text })).to_vec();
    let messages = world.add(&key, json!({ "contents": contents })).await.whole().await;
    let skipped: Vec<&Value> = messages.iter().filter(|message| message["type"] == "skipped").collect();
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0]["index"], 1);
    let verdicts = world.server.app.store.verdicts_of_account(&person.account, 10).await.unwrap();
    let filed: Vec<(&str, bool, &str)> =
        verdicts.iter().map(|filed| (filed.subject.as_str(), filed.verdict.keep, filed.verdict.by.as_str())).collect();
    assert!(
        filed.contains(&("On gardening", false, "llm")) && filed.contains(&("On trouble", true, "unfiltered")),
        "{filed:?}"
    );
}
