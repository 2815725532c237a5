//! Spaces: creating, listing and changing them, and permissions.

use domain::ids::SpaceId;
use domain::space::AccessType;
use serde_json::{Value, json};

use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

on_sqlite! {
    async fn a_space_is_created_with_a_name_and_a_visibility(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let body = world.create_space(&key, json!({ "spaceName": "  Trips ", "isPublic": true, "more": 1 })).await.expect(200);
        assert_eq!(body["message"], "Space created successfully");
        let space = &body["space"];
        let members: Vec<&str> = space.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["accessType", "createdAt", "id", "isFavorite", "isPublic", "name", "owner"]);
        assert_eq!((&space["name"], &space["isPublic"], &space["isFavorite"]), (&json!("Trips"), &json!(true), &json!(false)));
        assert_eq!((&space["accessType"], &space["owner"]), (&json!("owner"), &json!({ "firstName": "", "lastName": "" })));
        assert!(space["id"].as_str().unwrap().parse::<SpaceId>().is_ok());
        assert!(space["createdAt"].as_str().unwrap().ends_with('Z'));
        let closed = world.create_space(&key, json!({ "spaceName": "Closed" })).await.expect(200);
        assert_eq!(closed["space"]["isPublic"], false);
        let listed = world.get("/v1/spaces", &key).await.expect(200);
        assert_eq!(listed["spaces"], json!([closed["space"], body["space"]]));
    }

    async fn limits_of_space_names_are_enforced(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        for name in ["", "  ", &"x".repeat(101), "a\nb"] {
            let body = world.create_space(&key, json!({ "spaceName": name })).await.refused(400, "invalid_request");
            assert_eq!(body["issues"][0]["path"], "spaceName");
            assert!(body["details"].as_str().unwrap().starts_with("spaceName: "), "{body}");
        }
        let missing = world.create_space(&key, json!({ "isPublic": true })).await.refused(400, "invalid_request");
        assert_eq!(missing["issues"], json!([{ "path": "spaceName", "message": "is required" }]));
        world.create_space(&key, json!({ "spaceName": 5 })).await.refused(400, "invalid_request");
        world.create_space(&key, json!({ "spaceName": "x", "isPublic": "yes" })).await.refused(400, "invalid_request");
        world.create_space(&key, json!({ "spaceName": "é".repeat(100) })).await.expect(200);
    }

    async fn a_space_is_renamed_published_and_marked_as_favorite(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let id = world.space(&key, "Trips", false).await;
        let path = format!("/v1/spaces/{id}");
        let change = async |key, body| world.send(world.request(reqwest::Method::PATCH, &path, key).json(&body)).await;
        let space = change(&key, json!({ "spaceName": "Journeys", "isPublic": true, "isFavorite": true })).await.expect(200)["space"].clone();
        assert_eq!((&space["name"], &space["isPublic"], &space["isFavorite"]), (&json!("Journeys"), &json!(true), &json!(true)));
        let unmarked = change(&key, json!({ "isFavorite": false })).await.expect(200);
        assert_eq!((&unmarked["space"]["isFavorite"], &unmarked["space"]["name"]), (&json!(false), &json!("Journeys")));
        change(&stranger, json!({ "spaceName": "Mine" })).await.refused(404, "not_found");
        change(&key, json!({ "spaceName": "" })).await.refused(400, "invalid_request");
        change(&key, json!({ "owner": "me" })).await.refused(400, "invalid_request");
    }

    async fn permissions_of_a_space_are_those_of_its_access_types(world: World) {
        let (ada, owner) = world.librarian("ada@example.com").await;
        let (bob, other) = world.librarian("bob@example.com").await;
        let space = world.space(&owner, "Shared", false).await;
        let into = |text: &str| json!({ "contents": [{ "content": text }], "spaces": [space] });
        let look = json!({ "query": "otters", "spaces": [space] });
        world.add(&owner, into("Otters hold hands")).await.whole().await;
        world.add_refused(&other, into("Otters swim")).await.refused(403, "space_forbidden");
        world.search(&other, look.clone()).await.refused(403, "space_forbidden");

        let (store, id) = (&world.server.app.store, space.parse().unwrap());
        store.space_share(id, &ada.account, &bob.account, Some(AccessType::Read)).await.unwrap();
        assert_eq!(world.found(&other, look.clone()).await, ["Otters hold hands"]);
        world.add_refused(&other, into("Otters swim")).await.refused(403, "space_forbidden");
        store.space_share(id, &ada.account, &bob.account, Some(AccessType::Edit)).await.unwrap();
        world.add(&other, into("Otters swim")).await.whole().await;
        let mut found = world.found(&owner, look.clone()).await;
        found.sort();
        assert_eq!(found, ["Otters hold hands", "Otters swim"]);
        // A memory of another account is not the owner's.
        assert_eq!(world.found(&owner, json!({ "query": "otters" })).await, ["Otters hold hands"]);
        store.space_share(id, &ada.account, &bob.account, None).await.unwrap();
        world.search(&other, look).await.refused(403, "space_forbidden");
    }
}

on_each_database! {
    async fn a_public_space_is_searched_by_other_accounts_only_by_name(world: World) {
        let (_, owner) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let space = world.space(&owner, "Open", true).await;
        world.add(&owner, json!({ "contents": [{ "content": "Public penguins" }], "spaces": [space] })).await.whole().await;
        assert_eq!(world.found(&stranger, json!({ "query": "penguins" })).await, [""; 0]);
        assert_eq!(world.found(&stranger, json!({ "query": "penguins", "spaces": [space] })).await, ["Public penguins"]);
        let into = json!({ "contents": [{ "content": "Graffiti" }], "spaces": [space] });
        world.add_refused(&stranger, into).await.refused(403, "space_forbidden");
        // Unknown and forbidden spaces have the same response, in any notation.
        for unknown in ["019b76da-a800-7a67-8a14-94a3f41b0634", "4B1A7E0E-9C0D-4B8E-8B1E-1B8E0E9C0D4B"] {
            world.search(&stranger, json!({ "query": "x", "spaces": [unknown] })).await.refused(403, "space_forbidden");
        }
        world.search(&stranger, json!({ "query": "x", "spaces": ["nonsense"] })).await.refused(400, "invalid_request");
    }
}

on_sqlite! {
    async fn a_key_limited_to_spaces_streams_only_batches_within_them(world: World) {
        let (person, all) = world.librarian("ada@example.com").await;
        let (inside, outside) = (world.space(&all, "Inside", false).await, world.space(&all, "Outside", false).await);
        let key = world.key(&person, json!({ "name": "some", "spaces": [inside] })).await;
        let batch = async |spaces: Value| {
            let stream = world.add(&all, json!({ "contents": [{ "content": "Walrus" }], "spaces": spaces })).await;
            let batch = stream.batch.clone();
            (batch, stream.whole().await)
        };
        for spaces in [json!([outside]), json!([inside, outside])] {
            let (id, _) = batch(spaces).await;
            let path = format!("/v1/batch-add/{id}");
            world.get(&path, &key).await.refused(404, "not_found");
            world.delete(&path, &key).await.refused(404, "not_found");
            world.delete(&path, &all).await.expect(200);
        }
        let (id, messages) = batch(json!([inside])).await;
        assert_eq!(world.rejoin(&key, &id, None).await.whole().await, messages);
        world.delete(&format!("/v1/batch-add/{id}"), &key).await.expect(200);
    }

    async fn a_key_limited_to_spaces_has_no_write_permission_outside_them(world: World) {
        let (person, all) = world.librarian("ada@example.com").await;
        let (inside, outside) = (world.space(&all, "Inside", false).await, world.space(&all, "Outside", false).await);
        let key = world.key(&person, json!({ "name": "some", "scopes": ["search", "write"], "spaces": [inside] })).await;
        let note = |title: &str, kind: &str, space: &str| {
            json!({ "contents": [{ "content": "Walruses whistle", "title": title, "type": kind }], "spaces": [space] })
        };
        let added = async |key, body| world.add(key, body).await.whole().await[1]["id"].as_str().unwrap().to_owned();
        let id = added(&all, note("Mine", "note", &outside)).await;
        let path = format!("/v1/memories/{id}");
        world.get(&path, &key).await.refused(404, "not_found");
        world.delete(&path, &key).await.refused(404, "not_found");
        let before = world.get(&path, &all).await.expect(200);

        // For a key that cannot read the memory, the same text is another memory; after the account adds it to a readable space, it is the
        // same memory, unchanged.
        let other = added(&key, note("Another title", "tweet", &inside)).await;
        assert_ne!(other, id);
        world.delete(&format!("/v1/memories/{other}"), &key).await.expect(200);
        assert_eq!(added(&all, note("Mine", "note", &inside)).await, id);
        assert_eq!(added(&key, note("Another title", "tweet", &inside)).await, id);
        let after = world.get(&path, &all).await.expect(200);
        for member in ["title", "type", "content", "updatedAt"] {
            assert_eq!(after[member], before[member], "{member}");
        }
        let mut spaces: Vec<_> = after["spaces"].as_array().unwrap().iter().map(|space| space.as_str().unwrap()).collect();
        spaces.sort_unstable();
        let mut both = [inside.as_str(), outside.as_str()];
        both.sort_unstable();
        assert_eq!(spaces, both);
        let look = |space: &str| json!({ "query": "walruses", "spaces": [space] });
        assert_eq!(world.found(&key, look(&inside)).await, ["Mine"]);

        // Deleting removes it from the spaces of the key.
        world.delete(&path, &key).await.expect(200);
        world.get(&path, &key).await.refused(404, "not_found");
        world.delete(&path, &key).await.refused(404, "not_found");
        assert_eq!(world.get(&path, &all).await.expect(200)["spaces"], json!([outside]));
        assert_eq!(world.found(&all, look(&inside)).await, [""; 0]);
        assert_eq!(world.found(&all, look(&outside)).await, ["Mine"]);

        // The key may change and delete a memory that is in no other space.
        let own = |title: &str| json!({ "contents": [{ "content": "Seals sing", "title": title }], "spaces": [inside] });
        let id = added(&key, own("First")).await;
        assert_eq!(added(&key, own("Second")).await, id);
        let path = format!("/v1/memories/{id}");
        assert_eq!(world.get(&path, &all).await.expect(200)["title"], "Second");
        world.delete(&path, &key).await.expect(200);
        world.get(&path, &all).await.refused(404, "not_found");
    }

    async fn a_key_limited_to_spaces_makes_no_space_public(world: World) {
        let (person, all) = world.librarian("ada@example.com").await;
        let space = world.space(&all, "Inside", false).await;
        let path = format!("/v1/spaces/{space}");
        let open = json!({ "isPublic": true });
        let change = async |key, body: &Value| world.send(world.request(reqwest::Method::PATCH, &path, key).json(body)).await;
        let key = world.key(&person, json!({ "name": "some", "scopes": ["search", "write"], "spaces": [space] })).await;
        assert_eq!(change(&key, &open).await.refused(403, "insufficient_scope")["scope"], "settings");
        let renamed = change(&key, &json!({ "spaceName": "Renamed", "isPublic": false })).await.expect(200);
        assert_eq!((&renamed["space"]["name"], &renamed["space"]["isPublic"]), (&json!("Renamed"), &json!(false)));
        let scopes = json!(["write", "settings"]);
        let key = world.key(&person, json!({ "name": "more", "scopes": scopes, "spaces": [space] })).await;
        assert_eq!(change(&key, &open).await.expect(200)["space"]["isPublic"], true);
    }

    async fn a_key_limited_to_spaces_has_no_read_permission_outside_them(world: World) {
        let (person, all) = world.librarian("ada@example.com").await;
        let (inside, outside) = (world.space(&all, "Inside", false).await, world.space(&all, "Outside", false).await);
        let key = world.key(&person, json!({ "name": "some", "spaces": [inside] })).await;
        let note = |text: &str, space: &str| json!({ "contents": [{ "content": text }], "spaces": [space] });
        world.add(&all, note("Walrus outside", &outside)).await.whole().await;
        let messages = world.add(&key, note("Walrus inside", &inside)).await.whole().await;
        world.add_refused(&key, note("x", &outside)).await.refused(403, "space_forbidden");
        world.add_refused(&key, json!({ "contents": [{ "content": "x" }] })).await.refused(403, "space_forbidden");
        world.create_space(&key, json!({ "spaceName": "More" })).await.refused(403, "space_forbidden");
        assert_eq!(world.found(&key, json!({ "query": "walrus" })).await, ["Walrus inside"]);
        world.search(&key, json!({ "query": "walrus", "spaces": [outside] })).await.refused(403, "space_forbidden");
        assert_eq!(world.get("/v1/spaces", &key).await.expect(200)["spaces"].as_array().unwrap().len(), 1);
        let exported = world.get("/v1/export", &key).await;
        assert!(!String::from_utf8_lossy(&exported.body).contains("outside"), "{exported:?}");
        let id = messages[1]["id"].as_str().unwrap();
        assert_eq!(world.get(&format!("/v1/memories/{id}"), &key).await.expect(200)["spaces"], json!([inside]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spaces_per_account_are_limited() {
    let world = World::with(|settings| settings.knowledge.spaces_per_account_max = 2).await;
    let (_, key) = world.librarian("ada@example.com").await;
    world.space(&key, "One", false).await;
    world.notes(&key, &["This makes the default space"]).await;
    world.space(&key, "Two", false).await;
    world.create_space(&key, json!({ "spaceName": "Three" })).await.refused(400, "invalid_request");
    assert_eq!(world.get("/v1/spaces", &key).await.expect(200)["spaces"].as_array().unwrap().len(), 3);
}
