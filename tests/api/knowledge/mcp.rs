//! `POST /v1/mcp`: the memory as tools, with the rights of an API key.

use harness::on_sqlite;
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Credential, Response};
use blackbox::world::World;

async fn rpc(world: &World, key: &Credential, method: &str, params: Value) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    world.send(world.request(Method::POST, "/v1/mcp", key).json(&body)).await
}

async fn called(world: &World, key: &Credential, name: &str, arguments: Value) -> Value {
    let answer = rpc(world, key, "tools/call", json!({ "name": name, "arguments": arguments })).await.expect(200);
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
    answer["result"].clone()
}

async fn tools(world: &World, key: &Credential) -> Vec<String> {
    let answer = rpc(world, key, "tools/list", json!({})).await.expect(200);
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

on_sqlite! {
    async fn tools_of_the_memory_have_the_rights_of_the_key(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let added = called(&world, &key, "add_memory", json!({ "content": "Herons nest in colonies.", "title": "Herons" })).await;
        assert_eq!((&added["isError"], &added["structuredContent"]["state"]), (&json!(false), &json!("added")), "{added}");
        let id = added["structuredContent"]["id"].clone();
        let response = called(&world, &key, "search_memory", json!({ "query": "where do herons breed?" })).await;
        let result = &response["structuredContent"]["results"][0];
        assert_eq!((&result["id"], &result["title"]), (&id, &json!("Herons")));
        assert!(response["content"][0]["text"].as_str().unwrap().contains("Herons nest"), "{response}");
        // Another account cannot find, read or delete the memory.
        let foreign = called(&world, &stranger, "search_memory", json!({ "query": "where do herons breed?" })).await;
        assert_eq!(foreign["structuredContent"]["results"], json!([]));
        let uri = json!({ "uri": format!("attache://memories/{}", id.as_str().unwrap()) });
        let refused = rpc(&world, &stranger, "resources/read", uri.clone()).await.expect(200);
        assert_eq!(refused["error"]["code"], -32002, "{refused}");
        let kept = called(&world, &stranger, "forget_memory", json!({ "id": id })).await;
        assert_eq!(kept["isError"], true);
        let read = rpc(&world, &key, "resources/read", uri.clone()).await.expect(200);
        assert_eq!(read["result"]["contents"][0]["text"], "Herons nest in colonies.");
        // The scopes of a key determine the listed tools.
        let reader = world.key(&person, json!({ "name": "reads", "scopes": ["search"] })).await;
        assert_eq!(tools(&world, &reader).await, ["search_memory", "list_spaces"]);
        let denied = rpc(&world, &reader, "tools/call", json!({ "name": "forget_memory", "arguments": { "id": id } })).await.expect(200);
        assert_eq!(denied["error"]["code"], -32602, "{denied}");
        let writer = world.key(&person, json!({ "name": "writes", "scopes": ["write"] })).await;
        assert_eq!(tools(&world, &writer).await, ["add_memory", "forget_memory"]);
        assert_eq!(rpc(&world, &writer, "resources/read", uri).await.expect(200)["error"]["code"], -32002);
        let forgotten = called(&world, &writer, "forget_memory", json!({ "id": id })).await;
        assert_eq!(forgotten["structuredContent"]["deleted"], id);
        assert_eq!(called(&world, &writer, "forget_memory", json!({ "id": id })).await["isError"], true);
    }

    async fn a_key_for_certain_spaces_reaches_only_these_with_tools(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let space = world.space(&key, "Birds", false).await;
        called(&world, &key, "add_memory", json!({ "content": "Swifts sleep in flight.", "spaces": ["Birds"] })).await;
        called(&world, &key, "add_memory", json!({ "content": "Swift is a language of Apple." })).await;
        let limited = world.key(&person, json!({ "name": "birds", "scopes": ["search", "write"], "spaces": [space] })).await;
        let spaces = called(&world, &limited, "list_spaces", json!({})).await;
        assert_eq!(spaces["structuredContent"]["spaces"].as_array().unwrap().len(), 1, "{spaces}");
        let response = called(&world, &limited, "search_memory", json!({ "query": "swift" })).await;
        let results = response["structuredContent"]["results"].as_array().unwrap();
        assert_eq!(results.len(), 1, "{response}");
        assert!(results[0]["chunks"][0].as_str().unwrap().contains("sleep"), "{response}");
        let unknown = called(&world, &limited, "search_memory", json!({ "query": "swift", "spaces": ["Default"] })).await;
        assert_eq!(unknown["isError"], true, "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_tool_calls_are_results_that_a_model_can_read() {
    let world = World::on_sqlite().await;
    let (_, key) = world.librarian("ada@example.com").await;
    for (name, arguments, reason) in [
        ("search_memory", json!({}), "query"),
        ("search_memory", json!({ "query": "x", "limit": 51 }), "limit"),
        ("search_memory", json!({ "query": "x", "spaces": ["None"] }), "list_spaces"),
        ("add_memory", json!({}), "either"),
        ("add_memory", json!({ "content": "x", "url": "https://example.com" }), "either"),
        ("add_memory", json!({ "url": "ftp://example.com/" }), "not added"),
        ("forget_memory", json!({ "id": "1" }), "id"),
        ("list_spaces", json!({ "all": true }), "all"),
    ] {
        let result = called(&world, &key, name, arguments.clone()).await;
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(result["isError"] == true && text.contains(reason), "{name} {arguments}: {result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
    }
    assert_eq!(rpc(&world, &key, "tools/call", json!({})).await.expect(200)["error"]["code"], -32602);
    assert_eq!(rpc(&world, &key, "prompts/list", json!({})).await.expect(200)["error"]["code"], -32601);
    assert_eq!(rpc(&world, &key, "resources/read", json!({})).await.expect(200)["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocol_of_the_tools_is_that_of_mcp() {
    let world = World::on_sqlite().await;
    let (_, key) = world.librarian("ada@example.com").await;
    for (requested, agreed) in
        [("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2099-01-01", "2025-11-25")]
    {
        let answer = rpc(&world, &key, "initialize", json!({ "protocolVersion": requested })).await.expect(200);
        assert_eq!(answer["result"]["protocolVersion"], agreed);
    }
    let post = |body: &str| {
        world.request(Method::POST, "/v1/mcp", &key).header("content-type", "application/json").body(body.to_owned())
    };
    assert_eq!(world.send(post("{")).await.expect(400)["error"]["code"], -32700);
    assert_eq!(world.send(post("[]")).await.expect(400)["error"]["code"], -32600);
    let other = r#"{"id":1,"jsonrpc":"1.0","method":"ping"}"#;
    assert_eq!(world.send(post(other)).await.expect(400)["error"]["code"], -32600);
    let silent = world.send(post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await;
    assert_eq!((silent.status, silent.body.len()), (202, 0));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let other = world.send(post(ping).header("mcp-protocol-version", "2024-01-01")).await.expect(400);
    assert_eq!(other["error"]["code"], -32022);
    let foreign = world.send(post(ping).header("origin", "https://evil.example")).await;
    foreign.refused(403, "cross_site_request");
    assert_eq!(world.get("/v1/mcp", &key).await.status, 405);
    let none = world.send(world.request(Method::POST, "/v1/mcp", &Credential::None).json(&json!({}))).await;
    assert!(none.header("www-authenticate").unwrap().contains("resource_metadata"), "{none:?}");
    none.refused(401, "unauthorized");
}
