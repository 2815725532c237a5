//! Stored memories: a client lists, changes and imports them, and deletes a space.

use domain::space::AccessType;
use knowledge::embed::EmbeddingProvider;
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

pub async fn patched(world: &World, key: &Credential, id: &str, change: Value) -> Response {
    world.send(world.request(Method::PATCH, &format!("/v1/memories/{id}"), key).json(&change)).await
}

pub async fn imported(world: &World, key: &Credential, lines: impl Into<reqwest::Body>) -> Response {
    let request = world.request(Method::POST, "/v1/import", key).header("content-type", "application/x-ndjson");
    world.send(request.body(lines)).await
}

pub fn lines(response: &Response) -> Vec<Value> {
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/x-ndjson")), "{response:?}");
    response
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// Adds a note to a space; returns its id.
async fn note(world: &World, key: &Credential, space: &str, content: &str) -> String {
    let body = json!({ "contents": [{ "content": content }], "spaces": [space] });
    world.add(key, body).await.whole().await[1]["id"].as_str().unwrap().to_owned()
}

/// The titles of the listed memories.
async fn listed(world: &World, key: &Credential, query: &str) -> Vec<String> {
    let page = world.get(&format!("/v1/memories{query}"), key).await.expect(200);
    page["memories"].as_array().unwrap().iter().map(|memory| memory["title"].as_str().unwrap().to_owned()).collect()
}

on_each_database! {
    async fn memories_are_listed_in_pages_with_filters(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let (inside, outside) = (world.space(&key, "Inside", false).await, world.space(&key, "Outside", false).await);
        let limited = world.key(&person, json!({ "name": "some", "spaces": [inside] })).await;
        let first = note(&world, &key, &inside, "One").await;
        world.advance(std::time::Duration::from_hours(24));
        note(&world, &key, &outside, "Two").await;
        world.advance(std::time::Duration::from_secs(1));
        let third = note(&world, &key, &inside, &format!("Three {}", "x".repeat(400))).await;
        let page = world.get("/v1/memories?limit=2", &key).await.expect(200);
        let memory = &page["memories"][0];
        assert_eq!((&memory["id"], &memory["type"], &memory["tags"], &memory["spaces"]), (&json!(third), &json!("note"), &json!([]), &json!([inside])));
        assert_eq!(memory["excerpt"].as_str().unwrap().chars().count(), 300);
        assert_eq!((memory.get("content"), memory["url"].as_str().unwrap()), (None, format!("{}/v1/memories/{third}", world.url).as_str()));
        let cursor = page["nextCursor"].as_str().unwrap();
        let rest = world.get(&format!("/v1/memories?limit=2&cursor={cursor}"), &key).await.expect(200);
        assert_eq!((rest["memories"].as_array().unwrap().len(), &rest["memories"][0]["id"], &rest["nextCursor"]), (1, &json!(first), &Value::Null));

        patched(&world, &key, &first, json!({ "tags": ["Old Things"] })).await.expect(200);
        assert_eq!(listed(&world, &key, "?tag=OLD%20things").await, ["One"]);
        assert_eq!(listed(&world, &key, &format!("?space={outside}")).await, ["Two"]);
        assert_eq!(listed(&world, &key, "?type=page").await, [""; 0]);
        let day = world.clock().now().format("%Y-%m-%d");
        assert_eq!(listed(&world, &key, &format!("?day={day}&type=note")).await.len(), 2);
        assert_eq!(listed(&world, &key, &format!("?day={day}&limit=1&tag=old+things")).await, [""; 0]);

        // A limited key lists its spaces, another account's key none, and forbidden spaces are indistinguishable from unknown ones.
        assert_eq!(listed(&world, &limited, "").await.len(), 2);
        world.get(&format!("/v1/memories?space={outside}"), &limited).await.refused(403, "space_forbidden");
        assert_eq!(listed(&world, &stranger, "").await, [""; 0]);
        world.get(&format!("/v1/memories?space={inside}"), &stranger).await.refused(403, "space_forbidden");
        world.get("/v1/memories?space=019b76da-a800-7a67-8a14-94a3f41b0634", &key).await.refused(403, "space_forbidden");
        for query in ["space=x", "type=book", "tag=", "tag=a,b", "day=2026-02-30", "day=today", "cursor=x", "limit=0", "limit=101", "limit=ten"] {
            let refused = world.get(&format!("/v1/memories?{query}"), &key).await.refused(400, "invalid_request");
            assert_eq!(refused["issues"][0]["path"], query.split('=').next().unwrap(), "{refused}");
        }
    }

    async fn a_memory_is_changed_by_its_owner_and_found_by_its_new_words(world: World) {
        let (ada, key) = world.librarian("ada@example.com").await;
        let (bob, stranger) = world.librarian("bob@example.com").await;
        let space = world.space(&key, "Sea", false).await;
        let id = note(&world, &key, &space, "Walruses whistle").await;
        let other = note(&world, &key, &space, "Otters hold hands").await;
        let before = world.get(&format!("/v1/memories/{id}"), &key).await.expect(200);
        world.advance(std::time::Duration::from_secs(5));
        let changed = patched(&world, &key, &id, json!({ "title": "  Harbour\tnoises ", "tags": ["Sea", "sea ", "Animals"] })).await.expect(200);
        assert_eq!((&changed["title"], &changed["tags"], &changed["content"]), (&json!("Harbour noises"), &json!(["animals", "sea"]), &before["content"]));
        assert_eq!((&changed["createdAt"], changed["updatedAt"] == before["updatedAt"]), (&before["createdAt"], false));
        assert_eq!(world.found(&key, json!({ "query": "harbour" })).await[0], "Harbour noises");
        // Adding the same text again keeps the new title.
        note(&world, &key, &space, "Walruses whistle").await;
        let changed = patched(&world, &key, &id, json!({ "content": "Puffins dive" })).await.expect(200);
        assert_eq!((&changed["title"], &changed["content"]), (&json!("Harbour noises"), &json!("Puffins dive")));
        assert_eq!(world.found(&key, json!({ "query": "puffins" })).await[0], "Harbour noises");
        assert!(!world.found(&key, json!({ "query": "walruses", "threshold": 0.3 })).await.contains(&"Harbour noises".to_owned()));
        assert_eq!(patched(&world, &key, &id, json!({})).await.expect(200), changed);

        for (change, path) in [
            (json!({ "title": " " }), "title"),
            (json!({ "title": "x".repeat(201) }), "title"),
            (json!({ "content": " \n" }), "content"),
            (json!({ "content": "Otters hold hands" }), "content"),
            (json!({ "tags": ["a,b"] }), "tags[0]"),
            (json!({ "tags": (0..21).map(|nth| format!("t{nth}")).collect::<Vec<_>>() }), "tags"),
            (json!({ "spaces": [] }), "spaces"),
            (json!({ "owner": "me" }), "owner"),
        ] {
            let refused = patched(&world, &key, &id, change).await.refused(400, "invalid_request");
            assert_eq!(refused["issues"][0]["path"], path, "{refused}");
        }
        // Others do not change it, whether or not they can read it, and find no difference to a memory that does not exist.
        patched(&world, &stranger, &id, json!({ "title": "Mine" })).await.refused(404, "not_found");
        world.server.app.store.space_share(space.parse().unwrap(), &ada.account, &bob.account, Some(AccessType::Edit)).await.unwrap();
        world.get(&format!("/v1/memories/{id}"), &stranger).await.expect(200);
        patched(&world, &stranger, &id, json!({ "title": "Mine" })).await.refused(404, "not_found");
        patched(&world, &key, "nonsense", json!({})).await.refused(404, "not_found");
        assert_eq!(world.get(&format!("/v1/memories/{other}"), &key).await.expect(200)["content"], "Otters hold hands");
    }
}

on_sqlite! {
    async fn a_form_without_a_known_action_changes_nothing(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let space = world.space(&key, "Sea", false).await;
        let id = note(&world, &key, &space, "Walruses whistle").await;
        let browser = Browser::of(&world, &person);
        for pairs in [&[][..], &[("action", "")], &[("action", "erase")], &[("action", "DELETE")]] {
            let pairs: Vec<(&str, &str)> = pairs.iter().copied().chain([("id", id.as_str()), ("space", &space), ("tags", "x")]).collect();
            assert!(browser.submit("/knowledge/library", &pairs).await.page(400).contains("Nothing was changed"));
        }
        // A part of an address that is no action.
        assert_eq!(browser.submit("/knowledge/library?action=delete", &[("id", &id)]).await.status, 400);
        assert_eq!(world.get(&format!("/v1/memories/{id}"), &key).await.expect(200)["tags"], json!([]));
        browser.submit("/knowledge/library", &[("id", &id), ("action", "delete")]).await.goes_to("/knowledge/library");
        world.get(&format!("/v1/memories/{id}"), &key).await.refused(404, "not_found");
    }

    async fn a_memory_moves_between_spaces_within_what_its_key_covers(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let (red, blue, green) = (world.space(&key, "Red", false).await, world.space(&key, "Blue", false).await, world.space(&key, "Green", false).await);
        let foreign = world.space(&stranger, "Foreign", true).await;
        let limited = world.key(&person, json!({ "name": "some", "spaces": [red, blue] })).await;
        let spaces = |memory: &Value| {
            let mut spaces: Vec<String> = memory["spaces"].as_array().unwrap().iter().map(|space| space.as_str().unwrap().to_owned()).collect();
            spaces.sort_unstable();
            spaces
        };
        let sorted = |spaces: &[&String]| {
            let mut spaces: Vec<String> = spaces.iter().map(|space| (*space).clone()).collect();
            spaces.sort_unstable();
            spaces
        };
        let id = note(&world, &key, &red, "Walruses whistle").await;
        // Within its spaces the limited key has all rights.
        let changed = patched(&world, &limited, &id, json!({ "title": "Whistling", "spaces": [blue] })).await.expect(200);
        assert_eq!((spaces(&changed), &changed["title"]), (sorted(&[&blue]), &json!("Whistling")));
        assert_eq!(world.found(&key, json!({ "query": "walruses", "spaces": [red] })).await, [""; 0]);
        assert_eq!(world.found(&key, json!({ "query": "walruses", "spaces": [blue] })).await, ["Whistling"]);
        for beyond in [&green, &foreign] {
            patched(&world, &limited, &id, json!({ "spaces": [beyond] })).await.refused(403, "space_forbidden");
        }
        patched(&world, &key, &id, json!({ "spaces": [foreign] })).await.refused(403, "space_forbidden");

        // The memory is also in a space beyond the limited key: the key cannot change title and tags, or remove the memory from that space.
        let changed = patched(&world, &key, &id, json!({ "spaces": [blue, green] })).await.expect(200);
        assert_eq!(spaces(&changed), sorted(&[&blue, &green]));
        patched(&world, &limited, &id, json!({ "title": "Mine" })).await.refused(403, "space_forbidden");
        patched(&world, &limited, &id, json!({ "tags": ["mine"] })).await.refused(403, "space_forbidden");
        assert_eq!(spaces(&patched(&world, &limited, &id, json!({ "spaces": [red] })).await.expect(200)), sorted(&[&red]));
        assert_eq!(spaces(&world.get(&format!("/v1/memories/{id}"), &key).await.expect(200)), sorted(&[&red, &green]));
        patched(&world, &key, &id, json!({ "spaces": [green] })).await.expect(200);
        patched(&world, &limited, &id, json!({ "spaces": [red] })).await.refused(404, "not_found");
    }
}

on_each_database! {
    async fn a_deleted_space_leaves_no_memory_without_a_home(world: World) {
        let (ada, key) = world.librarian("ada@example.com").await;
        let (bob, editor) = world.librarian("bob@example.com").await;
        let delete = async |key: &Credential, space: &str, query: &str| world.delete(&format!("/v1/spaces/{space}{query}"), key).await;
        let (doomed, other) = (world.space(&key, "Doomed", false).await, world.space(&key, "Other", false).await);
        let limited = world.key(&ada, json!({ "name": "some", "spaces": [doomed] })).await;
        world.server.app.store.space_share(doomed.parse().unwrap(), &ada.account, &bob.account, Some(AccessType::Edit)).await.unwrap();
        let only = note(&world, &key, &doomed, "Only there").await;
        let both = note(&world, &key, &doomed, "In both").await;
        note(&world, &key, &other, "In both").await;
        let of_bob = note(&world, &editor, &doomed, "Of Bob").await;
        delete(&editor, &doomed, "").await.refused(403, "space_forbidden");
        delete(&limited, &doomed, "").await.refused(403, "space_forbidden");
        delete(&key, &doomed, "?memories=burn").await.refused(400, "invalid_request");
        assert_eq!(delete(&key, &doomed, "").await.expect(200), json!({ "ok": true, "moved": 2, "deleted": 0 }));
        delete(&key, &doomed, "").await.refused(404, "not_found");
        let default = |key: &Credential| { let key = key.clone(); let world = &world; async move { world.get("/v1/spaces", &key).await.expect(200)["spaces"][0]["id"].clone() } };
        let spaces = async |key: &Credential, id: &str| world.get(&format!("/v1/memories/{id}"), key).await.expect(200)["spaces"].clone();
        assert_eq!(spaces(&key, &only).await, json!([default(&key).await]));
        assert_eq!(spaces(&key, &both).await, json!([other]));
        assert_eq!(spaces(&editor, &of_bob).await, json!([default(&editor).await]));
        assert_eq!(world.found(&key, json!({ "query": "only", "spaces": [default(&key).await] })).await, ["Only there"]);

        // With its memories: the owner's memories that are in no other space.
        let second = world.space(&key, "Second", false).await;
        world.server.app.store.space_share(second.parse().unwrap(), &ada.account, &bob.account, Some(AccessType::Edit)).await.unwrap();
        let gone = note(&world, &key, &second, "Gone with it").await;
        note(&world, &key, &second, "In both").await;
        let of_bob = note(&world, &editor, &second, "Of Bob again").await;
        assert_eq!(delete(&key, &second, "?memories=delete").await.expect(200), json!({ "ok": true, "moved": 1, "deleted": 1 }));
        world.get(&format!("/v1/memories/{gone}"), &key).await.refused(404, "not_found");
        assert_eq!(spaces(&key, &both).await, json!([other]));
        spaces(&editor, &of_bob).await;
        let home = default(&key).await;
        delete(&key, home.as_str().unwrap(), "").await.refused(400, "invalid_request");
        for nothing in ["nonsense", "019b76da-a800-7a67-8a14-94a3f41b0634"] {
            delete(&key, nothing, "").await.refused(404, "not_found");
        }
    }
}

on_sqlite! {
    async fn an_export_is_imported_and_exported_alike(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let space = world.space(&key, "Sea", false).await;
        let own = world.space(&key, "Own", false).await;
        let limited = world.key(&person, json!({ "name": "some", "scopes": ["search", "write"], "spaces": [own] })).await;
        let first = note(&world, &key, &space, "# Walruses\n\nThey whistle.").await;
        world.advance(std::time::Duration::from_secs(3));
        patched(&world, &key, &first, json!({ "title": "Two  words", "tags": ["sea"] })).await.expect(200);
        world.notes(&key, &["Otters hold hands", "Puffins dive"]).await;
        let export = async |key: &Credential| world.get("/v1/export", key).await.body;
        let whole = export(&key).await;
        let outcome = |messages: &[Value]| messages.last().unwrap().clone();
        let all = |created: u64, existing: u64, failed: u64| json!({ "type": "complete", "created": created, "existing": existing, "failed": failed });

        // An import into the account that has all lines changes no memory.
        assert_eq!(outcome(&lines(&imported(&world, &key, whole.clone()).await)), all(0, 3, 0));
        assert_eq!(export(&key).await, whole);
        // After all memories were deleted, twice.
        for line in whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let memory: Value = serde_json::from_slice(line).unwrap();
            world.delete(&format!("/v1/memories/{}", memory["id"].as_str().unwrap()), &key).await.expect(200);
        }
        assert_eq!(export(&key).await, "");
        world.advance(std::time::Duration::from_hours(1));
        let messages = lines(&imported(&world, &key, whole.clone()).await);
        assert_eq!((outcome(&messages), &messages[0]), (all(3, 0, 0), &json!({ "type": "success", "index": 0, "id": first, "existing": false })));
        assert_eq!(export(&key).await, whole);
        assert_eq!(outcome(&lines(&imported(&world, &key, whole.clone()).await)), all(0, 3, 0));
        assert_eq!(export(&key).await, whole);
        assert_eq!(world.found(&key, json!({ "query": "walruses", "spaces": [space] })).await[0], "Two words");

        // Into another account: its own ids while the others are taken, and its default space.
        assert_eq!(outcome(&lines(&imported(&world, &stranger, whole.clone()).await)), all(3, 0, 0));
        assert_eq!(outcome(&lines(&imported(&world, &stranger, whole.clone()).await)), all(0, 3, 0));
        let theirs = world.get("/v1/memories", &stranger).await.expect(200);
        let (ids, home) = (theirs["memories"].to_string(), world.get("/v1/spaces", &stranger).await.expect(200)["spaces"][0]["id"].clone());
        assert!(!ids.contains(&first) && theirs["memories"].as_array().unwrap().iter().all(|memory| memory["spaces"] == json!([home])), "{theirs}");
        assert_eq!(export(&key).await, whole);

        // A limited key imports into its spaces only.
        let messages = lines(&imported(&world, &limited, whole.clone()).await);
        assert_eq!((outcome(&messages), &messages[0]["error"]), (all(0, 0, 3), &json!("space_forbidden")));
        let mut line: Value = serde_json::from_slice(whole.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        line["spaces"] = json!([own]);
        line["title"] = json!("Other title");
        assert_eq!(outcome(&lines(&imported(&world, &limited, line.to_string()).await)), all(1, 0, 0));
        assert_eq!(outcome(&lines(&imported(&world, &limited, line.to_string()).await)), all(0, 1, 0));
        assert_eq!(world.get(&format!("/v1/memories/{first}"), &key).await.expect(200)["title"], "Two words");
    }

    async fn lines_that_are_no_memories_are_reported_one_by_one(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let (future, past) = ("2999-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z");
        let line = |change: Value| {
            let mut line = json!({
                "id": "019b76da-a800-7a67-8a14-94a3f41b0634", "title": "Title", "url": "https://example.com/v1/memories/019b76da-a800-7a67-8a14-94a3f41b0634",
                "content": "Text", "createdAt": past, "updatedAt": past, "type": "note", "spaces": [], "tags": [],
            });
            for (name, value) in change.as_object().unwrap() {
                line[name] = value.clone();
            }
            line.to_string()
        };
        let body = [
            "nonsense".to_owned(),
            line(json!({ "content": " " })),
            line(json!({ "url": "javascript:alert(1)" })),
            line(json!({ "tags": (0..21).map(|nth| format!("t{nth}")).collect::<Vec<_>>() })),
            line(json!({ "id": "4b1a7e0e-9c0d-4b8e-8b1e-1b8e0e9c0d4b" })),
            line(json!({ "createdAt": future, "updatedAt": future, "content": "Later" })),
            line(json!({})),
            line(json!({ "url": "https://EXAMPLE.com/page#part", "content": "A page", "type": "page" })),
            String::new(),
        ];
        let messages = lines(&imported(&world, &key, body.join("\n")).await);
        let codes: Vec<&str> = messages.iter().map(|message| message["error"].as_str().unwrap_or("")).collect();
        assert_eq!(codes, ["invalid_request", "empty_content", "invalid_url", "invalid_request", "invalid_request", "", "", "", ""]);
        assert!((0..8_usize).all(|index| messages[index]["index"] == index));
        let now = world.clock().now();
        let listed = world.get("/v1/memories", &key).await.expect(200);
        let memory = |title: &str| listed["memories"].as_array().unwrap().iter().find(|memory| memory["excerpt"] == title).unwrap().clone();
        assert!(memory("Later")["createdAt"].as_str().unwrap() <= now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true).as_str());
        // The id is not of the time of the memory, so it gets another one: lists are in the order of ids.
        assert_eq!(memory("Text")["createdAt"], past);
        assert_ne!(memory("Text")["id"], "019b76da-a800-7a67-8a14-94a3f41b0634");
        assert_eq!(memory("A page")["url"], "https://example.com/page");

        for (body, status, code) in [("", 400, "invalid_request"), ("\n \n", 400, "invalid_request")] {
            imported(&world, &key, body).await.refused(status, code);
        }
        imported(&world, &key, vec![0xff, 0xfe]).await.refused(400, "invalid_json");
        let json = world.request(Method::POST, "/v1/import", &key).json(&json!({}));
        world.send(json).await.refused(415, "unsupported_media_type");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_continues_without_its_client() {
    let world = World::with(|settings| settings.knowledge.embedding.provider = EmbeddingProvider::None).await;
    let (_, key) = world.librarian("ada@example.com").await;
    let line = |nth: usize| {
        let (id, then) = (world.rng().uuid_v7(world.clock().now()), "2026-01-01T00:00:00.000Z");
        json!({ "id": id, "title": "", "url": "", "content": format!("Number {nth}"), "createdAt": then, "updatedAt": then, "type": "note", "spaces": [] })
            .to_string()
    };
    let body = (0..400).map(line).collect::<Vec<_>>().join("\n");
    let request = world.request(Method::POST, "/v1/import", &key).header("content-type", "application/x-ndjson");
    let response = request.body(body.clone()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let batch = response.headers()["x-batch-id"].to_str().unwrap().to_owned();
    drop(response);
    // Its stream can be joined like the stream of a batch.
    let messages = world.rejoin(&key, &batch, None).await.whole().await;
    assert_eq!(messages.iter().filter(|message| message["type"] == "success").count(), 400);
    let again = lines(&imported(&world, &key, body).await);
    assert_eq!(again[400], json!({ "type": "complete", "created": 0, "existing": 400, "failed": 0 }));
    assert!((0..400).all(|nth| again[nth]["index"] == nth), "in the order of the lines");
    // An import is not in the account's list of batches, and owners are not notified.
    let me = world.person("ada@example.com").await;
    assert_eq!(world.server.app.store.batches_of_account(&me.account, 10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_has_limits() {
    let world = World::with(|settings| {
        settings.knowledge.import.lines_max = 2;
        settings.knowledge.memories_per_account_max = 1;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let line = |content: &str| {
        let (id, now) = (world.rng().uuid_v7(world.clock().now()), "2026-01-01T00:00:00.000Z");
        json!({ "id": id, "title": "", "url": "", "content": content, "createdAt": now, "updatedAt": now, "type": "note", "spaces": [] })
            .to_string()
    };
    let three = [line("One"), line("Two"), line("Three")].join("\n");
    imported(&world, &key, three).await.refused(400, "invalid_request");
    let messages = lines(&imported(&world, &key, [line("One"), line("Two")].join("\n")).await);
    assert_eq!((&messages[0]["existing"], &messages[1]["error"]), (&json!(false), &json!("quota_exceeded")));
}
