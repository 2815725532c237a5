//! Single memories, lists and the export.

use reqwest::Method;
use serde_json::{Value, json};

use blackbox::world::World;
use harness::on_sqlite;

on_sqlite! {
    async fn a_memory_is_read_and_deleted_only_by_its_owner(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let id = world.notes(&key, &["# Quokkas\n\nQuokkas smile."]).await.remove(0);
        let path = format!("/v1/memories/{id}");
        let memory = world.get(&path, &key).await.expect(200);
        assert_eq!((&memory["title"], &memory["content"], &memory["type"]), (&json!("Quokkas"), &json!("# Quokkas\n\nQuokkas smile."), &json!("note")));
        assert_eq!(memory["spaces"].as_array().unwrap().len(), 1);
        world.get(&path, &stranger).await.refused(404, "not_found");
        world.delete(&path, &stranger).await.refused(404, "not_found");
        world.get("/v1/memories/nonsense", &key).await.refused(404, "not_found");
        assert_eq!(world.delete(&path, &key).await.expect(200), json!({ "ok": true }));
        world.delete(&path, &key).await.refused(404, "not_found");
        assert_eq!(world.found(&key, json!({ "query": "quokkas" })).await, [""; 0]);
    }

    async fn a_search_result_of_a_public_space_is_readable_at_its_url(world: World) {
        let (_, owner) = world.librarian("ada@example.com").await;
        let (bob, stranger) = world.librarian("bob@example.com").await;
        let (open, closed) = (world.space(&owner, "Open", true).await, world.space(&owner, "Closed", false).await);
        let into = |space: &str, text: &str| json!({ "contents": [{ "content": text }], "spaces": [space] });
        for space in [&open, &closed] {
            world.add(&owner, into(space, "Public penguins")).await.whole().await;
        }
        world.add(&owner, into(&closed, "Secret seals")).await.whole().await;
        let response = world.search(&stranger, json!({ "query": "penguins", "spaces": [open] })).await.expect(200);
        let url = response["results"][0]["url"].as_str().unwrap();
        let path = url.strip_prefix(&world.url).unwrap();
        let memory = world.get(path, &stranger).await.expect(200);
        assert_eq!((&memory["content"], &memory["spaces"]), (&json!("Public penguins"), &json!([open])));
        // To read is all that it allows.
        world.delete(path, &stranger).await.refused(404, "not_found");
        assert_eq!(world.get("/v1/export", &stranger).await.body, "");
        let own = world.space(&stranger, "Own", false).await;
        let limited = world.key(&bob, json!({ "name": "own", "spaces": [own] })).await;
        world.get(path, &limited).await.refused(404, "not_found");
        let secret = world.search(&owner, json!({ "query": "seals", "limit": 1 })).await.expect(200);
        let secret = format!("/v1/memories/{}", secret["results"][0]["id"].as_str().unwrap());
        world.get(&secret, &owner).await.expect(200);
        world.get(&secret, &stranger).await.refused(404, "not_found");
        let close = world.request(Method::PATCH, &format!("/v1/spaces/{open}"), &owner).json(&json!({ "isPublic": false }));
        world.send(close).await.expect(200);
        world.get(path, &stranger).await.refused(404, "not_found");
        assert_eq!(world.get(path, &owner).await.expect(200)["spaces"].as_array().unwrap().len(), 2);
    }

    async fn an_export_has_one_line_per_memory(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let notes: Vec<String> = (0..45).map(|nth| format!("Note number {nth}")).collect();
        let ids = world.notes(&key, &notes.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let exported = world.get("/v1/export", &key).await;
        assert_eq!((exported.status, exported.header("content-type")), (200, Some("application/x-ndjson")));
        let lines: Vec<Value> = exported.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap()).collect();
        assert_eq!(lines.len(), 45);
        assert!(ids.iter().all(|id| lines.iter().any(|line| line["id"] == *id.as_str())));
        assert!(lines.iter().all(|line| line["content"].as_str().unwrap().starts_with("Note number")));
        assert_eq!(world.get("/v1/export", &stranger).await.body, "");
    }
}
