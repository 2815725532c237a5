//! Credentials of the knowledge API and its errors: `{error, details, issues?}`.

use api::{Accepts, knowledge_routes};
use reqwest::Method;
use serde_json::json;

use blackbox::client::{Credential, Response};
use blackbox::world::World;
use harness::on_sqlite;

/// An error in the words of this surface.
#[track_caller]
fn refused(response: &Response, status: u16, code: &str) {
    let body = response.refused(status, code);
    assert!(!body["details"].as_str().unwrap().is_empty(), "{body}");
}

on_sqlite! {
    async fn every_knowledge_route_accepts_only_an_api_key(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let machine = world.attached_machine(&person).await;
        let revoked = world.post("/api/v1/keys", &person.cookie, &json!({ "name": "gone" })).await.expect(201);
        world.delete(&format!("/api/v1/keys/{}", revoked["id"].as_str().unwrap()), &person.cookie).await.expect(200);
        let ends = (world.clock().now() + chrono::TimeDelta::seconds(60)).to_rfc3339();
        let expired = world.key(&person, json!({ "name": "short", "expires_at": ends })).await;
        world.advance(std::time::Duration::from_secs(61));
        let bad = [
            Credential::None,
            Credential::Bearer("nonsense".into()),
            Credential::Bearer(format!("ak_{}", "A".repeat(43))),
            Credential::Bearer(format!("msk_{}", "A".repeat(43))),
            Credential::Bearer(revoked["key"].as_str().unwrap().into()),
            expired,
            person.cookie.clone(),
            agent.token.clone(),
        ];
        for route in knowledge_routes() {
            assert_eq!(route.accepts, Accepts::API_KEY, "{} {}", route.method, route.path);
            let path = route.path.replace("{id}", "019b76da-a800-7a67-8a14-94a3f41b0634");
            let ask = async |credential: &Credential| world.send(world.request(route.method.clone(), &path, credential).json(&json!({}))).await;
            for credential in &bad {
                let response = ask(credential).await;
                refused(&response, 401, "unauthorized");
                let challenge = response.header("www-authenticate").unwrap();
                assert!(challenge.starts_with("Bearer "));
                // A session is no credential of this API, so the response is as without a credential.
                assert_eq!(challenge.contains("invalid_token"), matches!(credential, Credential::Bearer(_)), "{challenge}");
            }
            let elsewhere = world.request(route.method.clone(), &path, &person.cookie).header("sec-fetch-site", "cross-site");
            refused(&world.send(elsewhere).await, 401, "unauthorized");
            refused(&ask(&Credential::from(&machine)).await, 401, "unauthorized");
            assert_ne!(ask(&key).await.status, 401, "{} {path}", route.method);
        }
        // A key is no credential of the account and agent API.
        world.activity(key, "").await.refused(401, "unauthorized");
    }

    async fn an_api_key_has_the_permissions_of_its_scopes(world: World) {
        let person = world.person("ada@example.com").await;
        let needed = |method: &Method, path: &str| match (method.as_str(), path) {
            (_, "/v1/settings") => "settings",
            ("POST", "/v1/search") | ("GET", "/v1/spaces" | "/v1/memories" | "/v1/memories/{id}" | "/v1/export") => "search",
            _ => "write",
        };
        for scope in ["search", "write", "settings"] {
            let key = world.key(&person, json!({ "name": scope, "scopes": [scope] })).await;
            for route in knowledge_routes() {
                let path = route.path.replace("{id}", "019b76da-a800-7a67-8a14-94a3f41b0634");
                let response = world.send(world.request(route.method.clone(), &path, &key).json(&json!({}))).await;
                // Its tools have a scope each.
                let is_tools = route.path == "/v1/mcp" && scope != "settings";
                let is_key = route.path == "/v1/key";
                if is_tools || is_key || needed(&route.method, route.path) == scope {
                    assert_ne!(response.status, 403, "{} {path}", route.method);
                } else {
                    refused(&response, 403, "insufficient_scope");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_knowledge_request_have_their_error_codes() {
    let world = World::on_sqlite().await;
    let (_, key) = world.librarian("ada@example.com").await;
    let post = |path: &str| world.request(Method::POST, path, &key);
    for path in ["/v1/search", "/v1/spaces/create", "/v1/batch-add"] {
        refused(
            &world.send(post(path).header("content-type", "application/json").body("{")).await,
            400,
            "invalid_json",
        );
        refused(
            &world.send(post(path).header("content-type", "application/json").body("[]")).await,
            400,
            "invalid_request",
        );
        refused(
            &world.send(post(path).header("content-type", "text/plain").body("{}")).await,
            415,
            "unsupported_media_type",
        );
        let compressed = post(path).header("content-encoding", "gzip").json(&json!({}));
        refused(&world.send(compressed).await, 415, "unsupported_content_encoding");
        refused(&world.send(world.request(Method::OPTIONS, path, &key)).await, 405, "method_not_allowed");
    }
    // Also for members that no handler reads.
    for wrong in [&b"{\"query\":\"x\",\"pad\":\"\xff\xfe\"}"[..], b"{\"query\":\"\xff\xfe\"}", b"{\"\xff\":1}"] {
        let request = post("/v1/search").header("content-type", "application/json").body(wrong);
        refused(&world.send(request).await, 400, "invalid_json");
    }
    let large = vec![b' '; 1024 * 1024 + 1];
    refused(
        &world.send(post("/v1/search").header("content-type", "application/json").body(large)).await,
        413,
        "payload_too_large",
    );
    refused(&world.get("/v1/nothing", &key).await, 404, "not_found");
    // The account and agent API has its own error for the same condition.
    assert_eq!(world.get("/api/v1/nothing", &key).await.expect(404), json!({ "error": "not_found" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn temporarily_unavailable_is_503_for_knowledge_and_424_for_accounts() {
    let world = World::with(|settings| settings.http.requests_max = 0).await;
    let response = world.search(&Credential::None, json!({})).await;
    refused(&response, 503, "temporarily_unavailable");
    assert_eq!(response.json()["retryable"], true);
    assert!(response.header("retry-after").is_some());
    world.get("/api/v1/activity", &Credential::None).await.refused(424, "temporarily_unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_knowledge_api_may_have_a_listener_and_an_address_of_its_own() {
    let world = World::with(|settings| {
        settings.knowledge.bind = Some("127.0.0.1:0".parse().unwrap());
        settings.knowledge.base_url = Some("https://memory.example.com".into());
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    world.search(&key, json!({ "query": "x" })).await.refused(404, "not_found");
    let own = format!("http://{}", world.server.knowledge_address);
    let Credential::Bearer(token) = &key else { unreachable!() };
    let client = reqwest::Client::new();
    let add = client
        .post(format!("{own}/v1/batch-add"))
        .bearer_auth(token)
        .json(&json!({ "contents": [{ "content": "Yaks" }] }));
    let messages = blackbox::stream::Stream::open(add.send().await.unwrap()).await.whole().await;
    assert!(
        messages[1]["url"].as_str().unwrap().starts_with("https://memory.example.com/v1/memories/"),
        "{messages:?}"
    );
    let other = client.get(format!("{own}/api/v1/activity")).send().await.unwrap();
    assert_eq!(other.status(), 404);
}
