//! The guide endpoints and the guides (`docs/protocol/guides.md` and `docs/decisions/0018-names-guides-and-description.md`).

mod walk;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Credential, Response};
use blackbox::world::World;
use harness::on_sqlite;

const A2A: &str = "/api/v1/a2a";
const MCP: &str = "/api/v1/mcp";

/// An error of JSON-RPC with this status, code and id.
#[track_caller]
fn assert_error(response: &Response, status: u16, code: i32, id: &Value) -> Value {
    let body = response.expect(status);
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), id), "{body}");
    assert_eq!(body["error"]["code"], code, "{body}");
    assert!(body.get("result").is_none() && body.as_object().unwrap().contains_key("id"), "{body}");
    body
}

/// The result of a request with this id.
#[track_caller]
fn result(response: &Response, id: &Value) -> Value {
    let body = response.expect(200);
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), id), "{body}");
    assert!(body.get("error").is_none(), "{body}");
    body["result"].clone()
}

on_sqlite! {
    async fn an_a2a_message_with_any_parameters_is_answered_with_the_guide(world: World) {
        let guide = world.guide("/llms.txt").await;
        for link in ["llms-full.txt", "auth.md"] {
            assert!(guide.contains(&format!("{}/{link}", world.url)), "{guide}");
        }
        let mut ids = Vec::new();
        for params in [json!(null), json!({}), json!([1]), json!("x"), json!({ "message": { "parts": [] } })] {
            let response = world.rpc(A2A, json!({ "jsonrpc": "2.0", "id": "a", "method": "SendMessage", "params": params, "more": 1 })).await;
            let message = result(&response, &json!("a"))["message"].clone();
            assert_eq!((&message["role"], &message["parts"]), (&json!("ROLE_AGENT"), &json!([{ "text": guide }])));
            ids.push(message["messageId"].as_str().unwrap().parse::<uuid::Uuid>().unwrap());
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 5, "every message is another one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a2a_returns_the_request_id_unchanged() {
    let world = World::on_sqlite().await;
    for id in [json!("x"), json!(""), json!(7), json!(-1.5), json!(u64::MAX), json!(null)] {
        result(&world.rpc(A2A, json!({ "id": id, "method": "SendMessage" })).await, &id);
        assert_error(&world.rpc(A2A, json!({ "id": id, "method": "GetTask" })).await, 200, -32601, &id);
    }
    result(&world.rpc(A2A, json!({ "method": "SendMessage" })).await, &Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a2a_answers_every_other_method_and_invalid_body_with_method_not_found() {
    let world = World::on_sqlite().await;
    for method in ["message/send", "sendmessage", "SendStreamingMessage", "GetTask", ""] {
        let response = world.rpc(A2A, json!({ "jsonrpc": "2.0", "id": 1, "method": method })).await;
        assert_eq!(assert_error(&response, 200, -32601, &json!(1))["error"]["message"], "Method not found");
    }
    assert_error(&world.rpc(A2A, json!({ "method": "message/send" })).await, 200, -32601, &Value::Null);
    assert_error(&world.rpc(A2A, json!({ "id": "a" })).await, 200, -32601, &json!("a"));
    assert_error(&world.rpc(A2A, json!({ "id": "a", "method": ["SendMessage"] })).await, 200, -32601, &json!("a"));
    for id in [json!(true), json!([]), json!({})] {
        let response = world.rpc(A2A, json!({ "id": id, "method": "SendMessage" })).await;
        assert_error(&response, 200, -32601, &Value::Null);
    }
    for body in ["", "{", "nonsense", "[]", "[{\"id\": 1, \"method\": \"SendMessage\"}]", "null", "1", "\"x\"", "{} {}"]
    {
        assert_error(&world.raw(A2A, body).await, 200, -32601, &Value::Null);
    }
    assert_error(&world.raw(A2A, vec![0xff, 0xfe]).await, 200, -32601, &Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_and_unknown_members_of_a2a_are_ignored() {
    let world = World::on_sqlite().await;
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for odd in ["1e400", r#""\ud800""#, r#"{"\udfff": 1, "a": 1, "a": 2}"#, &deep] {
        for body in [
            format!(r#"{{"id": 1, "method": "METHOD", "params": {odd}}}"#),
            format!(r#"{{"id": 1, "\ud800": {odd}, "method": "METHOD"}}"#),
        ] {
            let sent = |method: &str| body.replace("METHOD", method);
            result(&world.raw(A2A, sent("SendMessage")).await, &json!(1));
            assert_eq!(result(&world.raw(MCP, sent("ping")).await, &json!(1)), json!({}));
            assert_error(&world.raw(A2A, sent("GetTask")).await, 200, -32601, &json!(1));
            assert_error(&world.raw(MCP, sent("GetTask")).await, 200, -32601, &json!(1));
        }
        let call = format!(
            r#"{{"id": 1, "method": "tools/call", "params": {{"name": "about_service", "arguments": {odd}}}}}"#
        );
        assert_eq!(result(&world.raw(MCP, call).await, &json!(1))["isError"], false);
    }
    // A method that is not a string does not exist.
    assert_error(&world.raw(MCP, r#"{"id": 1, "method": "\ud800"}"#).await, 200, -32601, &json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_given_back_as_it_was_written() {
    let world = World::on_sqlite().await;
    for id in ["123456789012345678901234567890", "1.50", "-0", "1E2", r#""\u0061""#] {
        for (path, method) in [(A2A, "SendMessage"), (MCP, "ping"), (A2A, "none"), (MCP, "none")] {
            let response = world.raw(path, format!(r#"{{"id": {id}, "method": "{method}"}}"#)).await;
            let text = String::from_utf8(response.body.to_vec()).unwrap();
            assert!(text.contains(&format!(r#""id":{id},"#)), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a2a_reads_no_version_header() {
    let world = World::on_sqlite().await;
    for version in ["0.3", "1.0", "9"] {
        let request = world.request(Method::POST, A2A, &Credential::None).header("a2a-version", version);
        result(&world.send(request.json(&json!({ "id": 1, "method": "SendMessage" }))).await, &json!(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_initialize_returns_the_supported_version() {
    let world = World::on_sqlite().await;
    for version in [json!("2024-11-05"), json!("2025-06-18"), json!("2099-01-01"), json!(5), json!(null)] {
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let response =
            world.rpc(MCP, json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        assert!(response.header("content-type").unwrap().starts_with("application/json"));
        assert_eq!(response.header("mcp-session-id"), None);
        let begun = result(&response, &json!(0));
        assert_eq!(begun["protocolVersion"], "2025-06-18");
        assert_eq!(begun["capabilities"], json!({ "tools": {} }));
        assert!(begun["serverInfo"]["name"].is_string() && begun["serverInfo"]["version"].is_string(), "{begun}");
    }
    result(&world.rpc(MCP, json!({ "id": "i", "method": "initialize" })).await, &json!("i"));
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_has_one_tool_that_returns_the_guide() {
    let world = World::on_sqlite().await;
    assert_eq!(result(&world.rpc(MCP, json!({ "id": 1, "method": "ping" })).await, &json!(1)), json!({}));
    let listed = result(&world.rpc(MCP, json!({ "id": "b", "method": "tools/list", "params": {} })).await, &json!("b"));
    let tools = listed["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("about_service")));
    assert_eq!(tools[0]["inputSchema"]["type"], "object");
    let guide = world.guide("/llms.txt").await;
    for params in [json!({ "name": "about_service" }), json!({ "name": "about_service", "arguments": { "any": 1 } })] {
        let response = world.rpc(MCP, json!({ "id": 2, "method": "tools/call", "params": params })).await;
        let called = result(&response, &json!(2));
        assert_eq!(called, json!({ "content": [{ "type": "text", "text": guide }], "isError": false }));
    }
    for params in [json!({ "name": "other" }), json!({ "name": 1 }), json!({}), json!([]), json!(null)] {
        let response = world.rpc(MCP, json!({ "id": 3, "method": "tools/call", "params": params })).await;
        assert_error(&response, 200, -32602, &json!(3));
    }
    assert_error(&world.rpc(MCP, json!({ "id": 3, "method": "tools/call" })).await, 200, -32602, &json!(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_has_no_other_method() {
    let world = World::on_sqlite().await;
    for method in ["resources/list", "prompts/list", "server/discover", "logging/setLevel", "tools/Call", ""] {
        let response = world.rpc(MCP, json!({ "jsonrpc": "2.0", "id": 1, "method": method })).await;
        assert_eq!(assert_error(&response, 200, -32601, &json!(1))["error"]["message"], "Method not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_answers_notifications_and_responses_without_a_body() {
    let world = World::on_sqlite().await;
    for body in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!({ "method": "tools/list" }),
        json!({ "method": "unknown" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": "no" } }),
    ] {
        let response = world.rpc(MCP, body.clone()).await;
        assert_eq!((response.status, response.body.len()), (202, 0), "{body}");
        assert_eq!(world.mcp_with(("mcp-protocol-version", "1999-01-01"), body).await.status, 202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_distinguishes_parse_errors_from_invalid_requests() {
    let world = World::on_sqlite().await;
    for body in ["", "{", "nonsense", "{} {}", "\u{feff}{}"] {
        let response = world.raw(MCP, body).await;
        let body = assert_error(&response, 400, -32700, &Value::Null);
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &Value::Null));
    }
    assert_error(&world.raw(MCP, vec![0xff]).await, 400, -32700, &Value::Null);
    for body in [json!([]), json!([{ "id": 1, "method": "ping" }]), json!(1), json!(null), json!({}), json!("ping")] {
        assert_error(&world.rpc(MCP, body).await, 400, -32600, &Value::Null);
    }
    assert_error(&world.rpc(MCP, json!({ "id": null, "method": "ping" })).await, 400, -32600, &Value::Null);
    assert_error(&world.rpc(MCP, json!({ "id": {}, "method": "ping" })).await, 400, -32600, &Value::Null);
    assert_error(&world.rpc(MCP, json!({ "id": 4, "method": 1 })).await, 400, -32600, &json!(4));
    assert_error(&world.rpc(MCP, json!({ "id": 4 })).await, 400, -32600, &json!(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_accepts_post_only() {
    let world = World::on_sqlite().await;
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let response = world.send(world.request(method, MCP, &Credential::None)).await;
        response.refused(405, "method_not_allowed");
        assert_eq!(response.header("allow"), Some("POST"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csrf_mcp_requests_of_another_origin_are_refused() {
    let world = World::on_sqlite().await;
    let ping = json!({ "id": 1, "method": "ping" });
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"] {
        world.mcp_with(("origin", origin), ping.clone()).await.refused(403, "cross_site_request");
    }
    result(&world.mcp_with(("origin", &world.url.clone()), ping.clone()).await, &json!(1));
    // Before the body is parsed.
    let request = world.request(Method::POST, MCP, &Credential::None).header("origin", "https://evil.example");
    world.send(request.body("{")).await.refused(403, "cross_site_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_ours_is_refused_by_the_methods_that_we_have() {
    let world = World::on_sqlite().await;
    let versioned = async |version: &str, method: &str| {
        let body = json!({ "id": 1, "method": method, "params": { "name": "about_service" } });
        world.mcp_with(("mcp-protocol-version", version), body).await
    };
    for method in ["initialize", "ping", "tools/list", "tools/call"] {
        result(&versioned("2025-06-18", method).await, &json!(1));
        for version in ["2025-03-26", "2026-07-28", "x", ""] {
            let refused = versioned(version, method).await.expect(400);
            assert_eq!(refused["id"], 1, "{refused}");
            assert_eq!(refused["error"]["data"]["supported"], json!(["2025-06-18"]), "{refused}");
        }
    }
    assert_error(&versioned("2026-07-28", "server/discover").await, 200, -32601, &json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_endpoints_have_the_body_limits_of_every_route() {
    let world = World::on_sqlite().await;
    for path in [A2A, MCP] {
        world.raw(path, vec![b' '; 1_048_577]).await.refused(413, "payload_too_large");
        let compressed = world.request(Method::POST, path, &Credential::None).header("content-encoding", "gzip");
        world.send(compressed.body("x")).await.refused(415, "unsupported_content_encoding");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_are_cached_by_their_etag() {
    let world = World::on_sqlite().await;
    for (path, media_type) in [
        ("/llms.txt", "text/plain; charset=utf-8"),
        ("/llms-full.txt", "text/plain; charset=utf-8"),
        ("/auth.md", "text/markdown; charset=utf-8"),
        ("/.well-known/agent-card.json", "application/json"),
        ("/.well-known/oauth-authorization-server", "application/json"),
        ("/.well-known/oauth-protected-resource", "application/json"),
        ("/.well-known/oauth-protected-resource/api/v1", "application/json"),
    ] {
        let response = world.get(path, &Credential::None).await;
        assert_eq!((response.status, response.header("content-type")), (200, Some(media_type)), "{path}");
        assert_eq!(response.header("cache-control"), Some("public, max-age=300"), "{path}");
        let etag = response.header("etag").unwrap().to_owned();
        let ask = async |tag: &str| {
            let request = world.request(Method::GET, path, &Credential::None).header("if-none-match", tag);
            world.send(request).await
        };
        let held = ask(&etag).await;
        assert_eq!((held.status, held.body.len(), held.header("etag")), (304, 0, Some(etag.as_str())), "{path}");
        assert_eq!(held.header("cache-control"), Some("public, max-age=300"), "{path}");
        assert_eq!(ask("\"other\"").await.body, response.body, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_url_of_the_guides_begins_with_a_configured_base_url() {
    let world = World::with(|settings| {
        settings.http.base_url = Some("https://attache.example.com/sub".into());
        settings.knowledge.base_url = Some("https://memory.example.com".into());
    })
    .await;
    for path in ["/llms.txt", "/llms-full.txt", "/auth.md"] {
        let request = world.request(Method::GET, path, &Credential::None).header("host", "evil.example");
        let text = String::from_utf8(world.send(request).await.body.to_vec()).unwrap();
        assert!(text.contains("https://attache.example.com/sub/auth.md") || path == "/auth.md", "{text}");
        assert!(!text.contains("127.0.0.1") && !text.contains("evil.example"), "{text}");
        for address in text.split("http").skip(1).filter(|rest| rest.starts_with("s://") || rest.starts_with("://")) {
            assert!(
                ["s://attache.example.com/sub", "s://memory.example.com"]
                    .iter()
                    .any(|known| address.starts_with(known)),
                "{path}: http{address:.60}"
            );
        }
        assert!(path == "/auth.md" || text.contains("https://memory.example.com/v1"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_of_the_guides_leads_somewhere() {
    let world = World::on_sqlite().await;
    let mut followed = 0;
    for path in ["/llms.txt", "/llms-full.txt", "/auth.md"] {
        let text = world.guide(path).await;
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let response = world.get(link.strip_prefix(&world.url).unwrap(), &Credential::None).await;
            assert_eq!(response.status, 200, "{path}: {link}");
            followed += 1;
        }
    }
    assert!(followed >= 9, "{followed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_short_guide_is_an_index_in_the_form_that_is_agreed_on() {
    let world = World::on_sqlite().await;
    let text = world.guide("/llms.txt").await;
    let mut lines = text.lines().filter(|line| !line.is_empty());
    assert!(lines.next().unwrap().starts_with("# "));
    assert!(lines.next().unwrap().starts_with("> "));
    let sections = text.split("\n## ").skip(1);
    for section in sections {
        for line in section.lines().skip(1).filter(|line| !line.is_empty()) {
            assert!(line.starts_with("- "), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_contain_the_configured_lifetimes() {
    let world = World::with(|settings| {
        settings.claims.claim_token_valid_for = Duration::from_hours(48);
        settings.claims.access_token_valid_for = Duration::from_mins(90);
        settings.claims.assertion_claimed_valid_for = Duration::from_secs(61);
    })
    .await;
    for path in ["/auth.md", "/llms-full.txt"] {
        let guide = world.guide(path).await;
        for expected in
            ["can start claims for 2 days", "A token is valid for 90 minutes", "an identity assertion for 61 seconds"]
        {
            assert!(guide.contains(expected), "{path}: {expected}");
        }
    }
}
