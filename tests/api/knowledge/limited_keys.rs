//! A key limited to spaces gets no information about other memories (`docs/protocol/knowledge.md#keys-limited-to-spaces`).

use api::knowledge_routes;
use domain::Timestamp;
use domain::ids::MemoryId;
use reqwest::Method;
use serde_json::{Value, json};

use super::closed_network;
use super::library::{imported, lines, patched};
use blackbox::client::Credential;
use blackbox::site::Site;
use blackbox::world::{Person, World};
use harness::{on_each_database, on_sqlite};

/// An account with a memory in a closed space, and a key for the open one.
struct Library {
    person: Person,
    all: Credential,
    limited: Credential,
    open: String,
    shut: String,
}

impl Library {
    async fn new(world: &World) -> Self {
        let (person, all) = world.librarian("ada@example.com").await;
        let (open, shut) = (world.space(&all, "Open", false).await, world.space(&all, "Shut", false).await);
        let limited =
            world.key(&person, json!({ "name": "some", "scopes": ["search", "write"], "spaces": [open] })).await;
        Self { person, all, limited, open, shut }
    }

    fn line(world: &World, id: &str, url: Option<&str>, content: &str, space: &str) -> Value {
        let url = url.map_or_else(|| format!("{}/v1/memories/{id}", world.url), str::to_owned);
        // An import keeps an id only if it was made when the memory was.
        let millis = id.parse::<MemoryId>().unwrap().as_uuid().as_u128() >> 80;
        let at = Timestamp::from_timestamp_millis(i64::try_from(millis).unwrap()).unwrap();
        json!({
            "id": id, "title": "A line", "url": url, "content": content, "type": if url.contains("/v1/") { "note" } else { "page" },
            "createdAt": at, "updatedAt": at, "spaces": [space], "tags": [],
        })
    }

    /// All data that a key can read, in lists, exports and searches.
    async fn read(&self, world: &World, key: &Credential) -> String {
        let mut texts = String::new();
        for path in ["/v1/export", "/v1/memories"] {
            texts += &String::from_utf8_lossy(&world.get(path, key).await.body);
        }
        texts + &world.search(key, json!({ "query": "salaries secret" })).await.expect(200).to_string()
    }
}

on_each_database! {
    async fn no_route_shows_or_changes_memories_outside_the_spaces_of_a_key(world: World) {
        let library = Library::new(&world).await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let every_scope = world.key(&library.person, json!({ "name": "every scope", "spaces": [library.open] })).await;
        let hidden = json!({ "contents": [{ "title": "Hidden title", "content": "the secret salaries" }], "spaces": [library.shut] });
        let add = |key: &Credential, body: &Value| {
            world.request(Method::POST, "/v1/batch-add", key).header("idempotency-key", "k-1").json(body)
        };
        let added = world.send(add(&library.all, &hidden)).await;
        let batch = added.header("x-batch-id").unwrap().to_owned();
        let listed = world.get("/v1/memories", &library.all).await.expect(200);
        let memory = listed["memories"][0]["id"].as_str().unwrap().to_owned();
        // Its first use creates the default space; any key can cause that.
        world.notes(&library.all, &["A note in the default space"]).await;
        let view = async || {
            let spaces = world.get("/v1/spaces", &library.all).await.expect(200);
            let settings = world.get("/v1/settings", &library.all).await.expect(200);
            format!("{} {spaces} {settings}", library.read(&world, &library.all).await)
        };
        let rows = view().await;
        let tool = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let bodies = [
            json!({ "query": "secret salaries", "spaces": [library.shut] }),
            json!({ "query": "secret salaries" }),
            hidden.clone(),
            json!({ "contents": [{ "content": "x" }], "spaces": [library.open, library.shut] }),
            json!({ "title": "Mine", "tags": ["mine"] }),
            json!({ "content": "mine" }),
            json!({ "spaces": [library.open] }),
            json!({ "spaceName": "Mine", "isPublic": true }),
            json!({ "isFavorite": true }),
            json!({ "excludeItems": ["salaries"] }),
            tool("tools/call", json!({ "name": "forget_memory", "arguments": { "id": memory } })),
            tool("tools/call", json!({ "name": "search_memory", "arguments": { "query": "secret salaries", "spaces": [library.shut] } })),
            tool("resources/read", json!({ "uri": format!("attache://memories/{memory}") })),
        ];
        let line = Library::line(&world, &memory, None, "anything", &library.shut).to_string();
        for key in [&library.limited, &every_scope, &stranger] {
            for route in knowledge_routes() {
                for id in [&memory, &library.shut, &batch] {
                    let path = route.path.replace("{id}", id);
                    let ask = |query: &str| world.request(route.method.clone(), &format!("{path}{query}"), key);
                    let mut requests = vec![ask(""), ask(&format!("?cursor={memory}")), ask(&format!("?space={}", library.shut))];
                    if route.path == "/v1/import" {
                        requests = vec![ask("").header("content-type", "application/x-ndjson").body(line.clone())];
                    } else if !["GET", "DELETE"].contains(&route.method.as_str()) {
                        requests = bodies.iter().map(|body| ask("").header("idempotency-key", "k-1").json(body)).collect();
                    }
                    for request in requests {
                        let response = world.send(request).await;
                        assert!(response.status < 500, "{} {path}: {response:?}", route.method);
                        let text = String::from_utf8_lossy(&response.body);
                        for secret in ["secret salaries", "Hidden title", "\"Shut\""] {
                            assert!(!text.contains(secret), "{} {path} shows {secret}: {text}", route.method);
                        }
                    }
                }
            }
        }
        assert_eq!(view().await, rows);
    }
}

on_sqlite! {
    async fn an_import_with_a_limited_key_neither_links_nor_names_other_memories(world: World) {
        let library = Library::new(&world).await;
        let page = "https://wiki.intranet.example/salaries";
        let new_id = || world.rng().uuid_v7(world.clock().now()).to_string();
        let (note, wiki) = (new_id(), new_id());
        let own = [
            Library::line(&world, &note, None, "the secret of the note", &library.shut),
            Library::line(&world, &wiki, Some(page), "the secret salaries", &library.shut),
        ];
        let import = async |key: &Credential, line: &Value| lines(&imported(&world, key, line.to_string()).await)[0].clone();
        for line in &own {
            assert_eq!(import(&library.all, line).await["existing"], false);
        }
        // By id, by URL, and with the very bytes.
        let mut ids = Vec::new();
        for line in [
            Library::line(&world, &note, None, "anything", &library.open),
            Library::line(&world, &new_id(), Some(page), "anything else", &library.open),
            Library::line(&world, &note, None, "the secret of the note", &library.open),
        ] {
            let outcome = import(&library.limited, &line).await;
            assert_eq!((&outcome["type"], &outcome["existing"]), (&json!("success"), &json!(false)), "{outcome}");
            assert_ne!(outcome["id"], line["id"], "an id that is free and one that is taken look alike");
            assert_eq!(import(&library.limited, &line).await, json!({ "type": "success", "index": 0, "id": outcome["id"], "existing": true }));
            ids.push(outcome["id"].as_str().unwrap().to_owned());
        }
        for hidden in [&note, &wiki] {
            world.get(&format!("/v1/memories/{hidden}"), &library.limited).await.refused(404, "not_found");
            assert_eq!(world.get(&format!("/v1/memories/{hidden}"), &library.all).await.expect(200)["spaces"], json!([library.shut]));
        }
        let read = library.read(&world, &library.limited).await;
        assert!(!read.contains("secret salaries") && !read.contains(&note) && !read.contains(&wiki), "{read}");
        assert_eq!(world.get(&format!("/v1/memories/{}", ids[1]), &library.limited).await.expect(200)["content"], "anything else");

        // A change does not reveal whether the account has a text.
        let change = json!({ "content": "the secret of the note" });
        world.delete(&format!("/v1/memories/{}", ids[2]), &library.limited).await.expect(200);
        patched(&world, &library.limited, &ids[0], change).await.expect(200);

        // A page that the account adds to its closed space later stays there, though the key has a memory of the URL.
        let later = Library::line(&world, &new_id(), Some(page), "the new salaries", &library.shut);
        assert_eq!(import(&library.all, &later).await["id"], json!(wiki));
        world.delete(&format!("/v1/memories/{wiki}"), &library.all).await.expect(200);
        assert_eq!(import(&library.all, &later).await["existing"], false);
        assert!(!library.read(&world, &library.limited).await.contains("new salaries"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_key_that_adds_a_known_url_gets_the_present_page() {
    let (site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
    })
    .await;
    let library = Library::new(&world).await;
    let url = format!("http://{address}/wiki");
    let added = async |key: &Credential, space: &str| {
        let messages = world.add(key, json!({ "urls": [url], "spaces": [space] })).await.whole().await;
        messages.iter().find_map(|message| message["id"].as_str().map(str::to_owned)).unwrap()
    };
    site.put("wiki", "<title>Wiki</title><article><p>The old salaries secret of the wiki page.</p></article>");
    let own = added(&library.all, &library.shut).await;
    site.put("wiki", "<title>Wiki</title><article><p>The page is empty for everybody now.</p></article>");
    assert_ne!(added(&library.limited, &library.open).await, own);
    let call = json!({ "name": "add_memory", "arguments": { "url": url, "spaces": [library.open] } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    let answer = world.send(world.request(Method::POST, "/v1/mcp", &library.limited).json(&call)).await.expect(200);
    assert_ne!(answer["result"]["structuredContent"]["id"], json!(own), "{answer}");
    let read = library.read(&world, &library.limited).await;
    assert!(read.contains("empty for everybody") && !read.contains("old salaries"), "{read}");
    assert!(library.read(&world, &library.all).await.contains("old salaries"));
}
