//! Searching: results, their order, and limits.

use knowledge::embed::EmbeddingProvider;
use knowledge::index::database::Pgvector;
use serde_json::{Value, json};

use super::closed_network;
use blackbox::eventually;
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

const ZEBRA: &str = "Zebras\n\nThe zebra is an animal with black and white stripes that lives in Africa.";
const BREAD: &str = "Bread\n\nKnead the dough for ten minutes and let it rise in a warm kitchen.";
const SHIPS: &str = "Ships\n\nCargo vessels cross the ocean with containers full of goods.";

on_each_database! {
    async fn added_memories_are_found_by_keyword_and_by_meaning(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let ids = world.notes(&key, &[ZEBRA, BREAD, SHIPS]).await;
        assert_eq!(ids.len(), 3);
        let response = world.search(&key, json!({ "query": "zebra" })).await.expect(200);
        let best = &response["results"][0];
        let members: Vec<&str> = best.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["chunks", "content", "createdAt", "id", "similarity", "title", "type", "url"]);
        let id = best["id"].as_str().unwrap();
        assert!(ids.iter().any(|added| added == id));
        assert_eq!((&best["title"], &best["type"]), (&json!("Zebras"), &json!("note")));
        assert_eq!(best["url"], format!("{}/v1/memories/{id}", world.url));
        assert_eq!(best["content"], ZEBRA);
        assert_eq!(best["similarity"], best["chunks"][0]["similarity"]);
        assert!(best["chunks"][0]["content"].as_str().unwrap().contains("stripes"));
        // The results contain no word of these queries.
        for (query, title) in [("freighters at sea", "Ships"), ("baking a loaf", "Bread"), ("striped creature", "Zebras")] {
            assert_eq!(world.found(&key, json!({ "query": query, "limit": 1 })).await, [title], "{query}");
        }
    }
}

on_sqlite! {
    async fn faults_of_a_search_are_issues_with_json_paths(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        for (body, path, message) in [
            (json!({ "query": "x", "limit": "ten" }), "limit", "must be a number, and is a string"),
            (json!({ "query": 5 }), "query", "must be a string, and is a number"),
            (json!({ "query": "x", "spaces": {} }), "spaces", "must be an array, and is an object"),
            (json!("x"), "", "must be an object, and is a string"),
            (json!(["x"]), "", "must be an object, and is an array"),
        ] {
            let refused = world.search(&key, body).await.refused(400, "invalid_request");
            assert_eq!(refused["issues"], json!([{ "path": path, "message": message }]));
        }
    }
}

on_each_database! {
    async fn order_number_and_threshold_agree(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        world.notes(&key, &[ZEBRA, BREAD, SHIPS]).await;
        let all = world.search(&key, json!({ "query": "animal with stripes" })).await.expect(200)["results"].clone();
        let similarities: Vec<f64> = all.as_array().unwrap().iter().map(|result| result["similarity"].as_f64().unwrap()).collect();
        assert!(similarities.len() > 1 && similarities.is_sorted_by(|a, b| a >= b), "{similarities:?}");
        for similarity in &similarities {
            assert!((0.0..=1.0).contains(similarity) && ((similarity * 1e4).round() / 1e4 - similarity).abs() < 1e-12);
        }
        let kept = async |threshold: f64| world.found(&key, json!({ "query": "animal with stripes", "threshold": threshold })).await.len();
        assert_eq!(kept(similarities[0]).await, 1, "the threshold itself is kept");
        assert_eq!(kept(1.0).await, 0);
        assert_eq!(kept(0.0).await, similarities.len());
        assert_eq!(world.found(&key, json!({ "query": "animal with stripes", "limit": 2.0 })).await.len(), 2);
    }
}

on_sqlite! {
    async fn limits_of_a_search_are_enforced(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let wrong = [
            (json!({}), "query"),
            (json!({ "query": "  " }), "query"),
            (json!({ "query": "x".repeat(4097) }), "query"),
            (json!({ "query": null }), "query"),
            (json!({ "query": "x", "limit": 0 }), "limit"),
            (json!({ "query": "x", "limit": 51 }), "limit"),
            (json!({ "query": "x", "limit": 1.5 }), "limit"),
            (json!({ "query": "x", "limit": -1 }), "limit"),
            (json!({ "query": "x", "threshold": -0.1 }), "threshold"),
            (json!({ "query": "x", "threshold": 1.1 }), "threshold"),
            (json!({ "query": 5 }), "query"),
            (json!({ "query": "x", "limit": "5" }), "limit"),
            (json!({ "query": "x", "spaces": "all" }), "spaces"),
        ];
        for (body, path) in wrong {
            let response = world.search(&key, body).await.refused(400, "invalid_request");
            assert_eq!(response["issues"][0]["path"], path, "{response}");
        }
        for body in [
            json!({ "query": "x".repeat(4096) }),
            json!({ "query": "x", "limit": 50, "threshold": 1, "spaces": null }),
            json!({ "query": "\"quoted\" OR (NOT a* NEAR/5) -b :c \u{0} 💥", "limit": null, "threshold": null, "spaces": [] }),
        ] {
            assert_eq!(world.search(&key, body).await.expect(200), json!({ "results": [] }));
        }
    }
}

on_each_database! {
    async fn a_long_note_does_not_displace_other_results(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let part = |nth: usize| format!("## Part {nth}\n\n{}", "Zubrowka is poured, and more zubrowka. ".repeat(13));
        let long = |name: &str| format!("# {name}\n\n{}", (0..55).map(part).collect::<Vec<_>>().join("\n\n"));
        let short = |name: &str, of: &str| format!("{name}\n\nOnce upon a time {of}, and nobody spoke of zubrowka again.");
        let first = short("First", "a merchant came to town with bread, salt, cloth and wine");
        let last = short("Last", "a ship went down with everything that a king had asked for");
        world.notes(&key, &[&first, &long("Long"), &long("Longer"), &last]).await;
        let everything = async |world: &World| {
            let mut found = world.found(&key, json!({ "query": "zubrowka" })).await;
            found.sort();
            assert_eq!(found, ["First", "Last", "Long", "Longer"]);
        };
        everything(&world).await;
        // Full-text search finds the same.
        let world = world.restart_with(|settings| settings.knowledge.embedding.provider = EmbeddingProvider::None).await;
        everything(&world).await;
    }

    async fn a_search_never_finds_memories_of_another_account(world: World) {
        let (_, ada) = world.librarian("ada@example.com").await;
        let (_, bob) = world.librarian("bob@example.com").await;
        world.notes(&ada, &[ZEBRA]).await;
        world.notes(&bob, &[ZEBRA, SHIPS]).await;
        assert_eq!(world.found(&ada, json!({ "query": "ships and zebras" })).await, ["Zebras"]);
    }

    async fn a_search_result_has_its_best_chunks_first(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let filler = "Clouds drift over the hills while the river flows on. ".repeat(15);
        let long: Vec<String> = (0..12).map(|nth| format!("## Part {nth}\n\nThe otter number {nth} swims. {filler}")).collect();
        world.notes(&key, &[&long.join("\n\n")]).await;
        let response = world.search(&key, json!({ "query": "otter number 7" })).await.expect(200);
        let chunks = response["results"][0]["chunks"].as_array().unwrap();
        let similarities: Vec<f64> = chunks.iter().map(|chunk| chunk["similarity"].as_f64().unwrap()).collect();
        assert_eq!(chunks.len(), 5);
        assert!(similarities.is_sorted_by(|a, b| a >= b), "{similarities:?}");
        assert!(chunks[0]["content"].as_str().unwrap().contains("otter number 7"), "{}", chunks[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_keywords_match_and_vectors_are_added_later() {
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    world.notes(&key, &[ZEBRA, SHIPS]).await;
    assert_eq!(world.found(&key, json!({ "query": "zebra" })).await, ["Zebras"]);
    assert_eq!(world.found(&key, json!({ "query": "freighters" })).await, [""; 0]);
    let world = world.restart_with(|settings| settings.knowledge.embedding.provider = EmbeddingProvider::Bundled).await;
    eventually("chunks got their vectors", async || {
        (world.found(&key, json!({ "query": "freighters", "limit": 1 })).await == ["Ships"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_embedding_endpoint_leaves_keyword_search() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let world = World::with(|settings| {
        closed_network(settings);
        let embedding = &mut settings.knowledge.embedding;
        embedding.provider = EmbeddingProvider::Http;
        embedding.http.base_url = Some(format!("http://{gone}"));
        embedding.http.model = Some("some-model".into());
        embedding.http.dimensions = 3;
        embedding.http.deadline = std::time::Duration::from_millis(200);
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let messages = world.add(&key, json!({ "contents": [{ "content": ZEBRA }] })).await.whole().await;
    assert_eq!(messages[1]["type"], "success");
    let found: Vec<Value> = vec![json!("Zebras")];
    assert_eq!(json!(world.found(&key, json!({ "query": "zebra" })).await), json!(found));
}

/// Vectors that one server had in memory are found after the server restarts with pgvector.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_memories_are_found_at_once_with_pgvector() {
    let Some(world) = World::on_pgvector().await else { return };
    let (_, key) = world.librarian("ada@example.com").await;
    let (_, strange) = world.librarian("bob@example.com").await;
    let world = world.restart_with(|settings| settings.knowledge.search.index.pgvector = Pgvector::Off).await;
    world.notes(&key, &[ZEBRA, BREAD]).await;
    let world = world.restart_with(|settings| settings.knowledge.search.index.pgvector = Pgvector::Required).await;
    let space = world.space(&key, "Sea", true).await;
    let messages =
        world.add(&key, json!({ "contents": [{ "content": SHIPS }], "spaces": [space] })).await.whole().await;
    for (query, title) in [("freighters at sea", "Ships"), ("baking a loaf", "Bread"), ("striped creature", "Zebras")] {
        assert_eq!(world.found(&key, json!({ "query": query, "limit": 1 })).await, [title], "{query}");
        assert!(world.found(&strange, json!({ "query": query })).await.is_empty(), "{query}");
        let there = json!({ "query": query, "spaces": [space], "threshold": 0.1 });
        let expected: &[&str] = if title == "Ships" { &["Ships"] } else { &[] };
        assert_eq!(world.found(&strange, there).await, expected, "{query}");
    }
    let ships = format!("/v1/memories/{}", messages[1]["id"].as_str().unwrap());
    world.delete(&ships, &key).await.expect(200);
    assert!(!world.found(&key, json!({ "query": "freighters at sea" })).await.contains(&"Ships".to_owned()));
}
