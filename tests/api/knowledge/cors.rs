//! Web pages of configured origins use the knowledge API; others, and cookies, do not.

use reqwest::Method;
use serde_json::json;

use blackbox::client::{Credential, Response};
use blackbox::world::World;

const PAGE: &str = "https://app.example.com";

fn allowed(response: &Response) -> Option<&str> {
    assert_eq!(response.header("access-control-allow-credentials"), None);
    response.header("access-control-allow-origin")
}

async fn preflight(world: &World, path: &str, origin: &str) -> Response {
    let request = world.request(Method::OPTIONS, path, &Credential::None).header("origin", origin);
    world
        .send(
            request
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "authorization"),
        )
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_origin_uses_the_knowledge_api_with_a_key() {
    let world = World::with(|settings| settings.knowledge.cors_origins = vec![PAGE.to_owned()]).await;
    let (person, key) = world.librarian("ada@example.com").await;
    for path in ["/v1/search", "/v1/batch-add", "/v1/memories/x", "/v1/nonsense"] {
        let response = preflight(&world, path, PAGE).await;
        assert_eq!((response.status, allowed(&response), response.body.len()), (204, Some(PAGE), 0), "{path}");
        assert_eq!(response.header("vary"), Some("Origin"));
        let (methods, headers) = (
            response.header("access-control-allow-methods").unwrap(),
            response.header("access-control-allow-headers").unwrap(),
        );
        assert!(["GET", "POST", "PATCH", "PUT", "DELETE"].iter().all(|method| methods.contains(method)), "{methods}");
        assert!(
            ["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"]
                .iter()
                .all(|name| headers.contains(name)),
            "{headers}"
        );
        let foreign = preflight(&world, path, "https://evil.example").await;
        assert_eq!(
            (foreign.status, allowed(&foreign), foreign.header("vary")),
            (if path == "/v1/nonsense" { 404 } else { 405 }, None, Some("Origin"))
        );
    }
    let add = |key: &Credential, origin: &str| {
        let body = json!({ "contents": [{ "content": "Otters" }] });
        world.request(Method::POST, "/v1/batch-add", key).header("origin", origin).json(&body)
    };
    let added = world.send(add(&key, PAGE)).await;
    assert_eq!((added.status, allowed(&added)), (200, Some(PAGE)));
    let exposed = added.header("access-control-expose-headers").unwrap();
    assert!(["X-Batch-Id", "Retry-After"].iter().all(|name| exposed.contains(name)), "{exposed}");
    // A script reads errors too.
    let refused = world.send(add(&Credential::None, PAGE)).await;
    assert_eq!((refused.status, allowed(&refused)), (401, Some(PAGE)));
    // The session of a person is no credential here, and other origins get the response without the permission to read it.
    let with_cookie = world.send(add(&person.cookie, PAGE)).await;
    assert_eq!((with_cookie.status, allowed(&with_cookie)), (401, Some(PAGE)));
    let foreign = world.send(add(&key, "https://evil.example")).await;
    assert_eq!((foreign.status, allowed(&foreign)), (200, None));
    // The pages and the other API stay closed.
    for path in ["/api/v1/account/summary", "/account", "/llms.txt"] {
        let response = preflight(&world, path, PAGE).await;
        assert_eq!((allowed(&response), response.header("vary")), (None, None), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_configured_origins_no_response_names_one() {
    let world = World::on_sqlite().await;
    let (_, key) = world.librarian("ada@example.com").await;
    let response = preflight(&world, "/v1/search", PAGE).await;
    assert_eq!((response.status, allowed(&response), response.header("vary")), (405, None, None));
    let search = world.request(Method::POST, "/v1/search", &key).header("origin", PAGE).json(&json!({ "query": "x" }));
    let found = world.send(search).await;
    assert_eq!((found.status, allowed(&found), found.header("vary")), (200, None, None));
}
