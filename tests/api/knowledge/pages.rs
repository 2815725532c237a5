//! Pages: of every kind and with every fault, single ones and two hundred concurrent ones.

use std::path::{Path, PathBuf};

use knowledge::embed::EmbeddingProvider;
use knowledge::fetch::RobotsRule;
use serde_json::{Value, json};

use super::closed_network;
use blackbox::site::Site;
use blackbox::world::World;

async fn world_of(port: u16, more: impl FnOnce(&mut app::config::Settings)) -> World {
    World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![port, 80];
        settings.knowledge.fetch.body_bytes_max = 2 * 1024 * 1024;
        settings.knowledge.fetch.stall_timeout = std::time::Duration::from_secs(2);
        more(settings);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_page_has_its_outcome() {
    let (site, address) = Site::start().await;
    let world = world_of(address.port(), |_| {}).await;
    let (_, key) = world.librarian("ada@example.com").await;
    site.put("article", "<title>Alpine plants</title><article><h1>Alpine plants</h1><p>Edelweiss grows on limestone above the tree line.</p></article>");
    let cases = [
        ("article", "success"),
        ("moved", "success"),
        ("soon", "success"),
        ("latin", "success"),
        ("mislabelled", "success"),
        ("text", "success"),
        ("pdf", "success"),
        ("forbidden/page", "robots_disallowed"),
        ("loop", "too_many_redirects"),
        ("away", "blocked_address"),
        ("missing", "http_404"),
        ("broken", "http_500"),
        ("busy", "rate_limited_by_host"),
        ("silent", "timeout"),
        ("huge", "too_large"),
        ("bomb", "too_large"),
        ("image", "unsupported_type"),
        ("empty", "empty_content"),
        ("not-a-pdf", "extract_failed"),
    ];
    let urls: Vec<String> = cases.iter().map(|(path, _)| format!("http://{address}/{path}")).collect();
    let messages = world.add(&key, json!({ "urls": urls })).await.whole().await;
    for ((path, expected), url) in cases.iter().zip(&urls) {
        let outcome = messages
            .iter()
            .find(|message| message["url"] == *url.as_str())
            .unwrap_or_else(|| panic!("{path}: {messages:?}"));
        let said = match outcome["type"].as_str().unwrap() {
            "success" => &outcome["type"],
            "skipped" => &outcome["reason"],
            _ => &outcome["error"],
        };
        assert_eq!(said, expected, "{path}: {outcome}");
    }
    for (query, title) in
        [("edelweiss", "Alpine plants"), ("Müller", "Café"), ("Gebäude", "Größe"), ("time_limit", "Soon")]
    {
        assert_eq!(world.found(&key, json!({ "query": query, "limit": 1 })).await, [title], "{query}");
    }
    let response = world.search(&key, json!({ "query": "glaciers", "limit": 1 })).await.expect(200);
    assert_eq!(
        (&response["results"][0]["type"], &response["results"][0]["url"]),
        (&json!("document"), &json!(format!("http://{address}/pdf")))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_changed_is_the_same_memory_with_its_new_text() {
    let (site, address) = Site::start().await;
    let world = world_of(address.port(), |_| {}).await;
    let (_, key) = world.librarian("ada@example.com").await;
    let add = async |url: String| world.add(&key, json!({ "urls": [url] })).await.whole().await[1]["id"].clone();
    site.put("news", "<title>News</title><p>Yesterday the harbour froze over completely.</p>");
    let first = add(format!("http://{address}/news?utm_source=mail#top")).await;
    site.put("news", "<title>News</title><p>Today the ice on the lagoon broke with thunder.</p>");
    let second = add(format!("http://{address}/news")).await;
    assert!(first.is_string());
    assert_eq!(first, second);
    assert_eq!(world.found(&key, json!({ "query": "lagoon thunder", "threshold": 0.3 })).await, ["News"]);
    let memory = world.get(&format!("/v1/memories/{}", first.as_str().unwrap()), &key).await.expect(200);
    assert!(!memory["content"].as_str().unwrap().contains("Yesterday"));
    assert_eq!(memory["url"], format!("http://{address}/news"));
}

/// Stored pages of the web and the documentation of this machine, and generated ones if these are too few.
fn real_pages() -> Vec<(String, Vec<u8>)> {
    let data = std::env::var_os("ATTACHE_TEST_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let mut files: Vec<PathBuf> = std::fs::read_dir(data.join("readability"))
        .map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path().join("source.html")).collect())
        .unwrap_or_default();
    files.sort();
    html_under(Path::new("/usr/share/doc"), &mut files);
    let mut pages: Vec<(String, Vec<u8>)> = files
        .iter()
        .filter_map(|file| std::fs::read(file).ok().filter(|page| page.len() < 300_000))
        .take(220)
        .enumerate()
        .map(|(nth, page)| (format!("page/{nth}"), page))
        .collect();
    if pages.len() < 220 {
        eprintln!("only {} real pages are here: the rest is generated", pages.len());
    }
    for nth in pages.len()..220 {
        let page = format!(
            "<title>Page {nth}</title><p>{}</p>",
            format!("Sentence {nth} about topic {}. ", nth % 17).repeat(20)
        );
        pages.push((format!("page/{nth}"), page.into_bytes()));
    }
    pages
}

fn html_under(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if files.len() > 400 {
            return;
        }
        if path.is_dir() {
            html_under(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "html" || extension == "htm") {
            files.push(path);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_real_pages_are_added_despite_some_errors() {
    let (site, address) = Site::start().await;
    // Keywords only: this test is about many pages, and other tests cover the model.
    let world = world_of(address.port(), |settings| {
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
        settings.knowledge.fetch.robots = RobotsRule::Ignore;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let pages = real_pages();
    let mut urls: Vec<String> = Vec::new();
    for (nth, (path, page)) in pages.iter().enumerate() {
        site.put(path, page.clone());
        urls.push(format!("http://{address}/{path}"));
        if nth % 20 == 0 {
            urls.extend(["missing", "loop", "bomb", "image"].map(|fault| format!("http://{address}/{fault}?{nth}")));
        }
    }
    let total = urls.len();
    let messages = world.add(&key, json!({ "urls": urls })).await.whole().await;
    let count = |kind: &str| messages.iter().filter(|message| message["type"] == kind).count();
    assert_eq!(count("success") + count("error") + count("skipped"), total);
    let unexpected: Vec<&Value> = messages
        .iter()
        .filter(|message| message["type"] == "error" && message["url"].as_str().unwrap().contains("/page/"))
        .filter(|message| message["error"] != "empty_content")
        .collect();
    assert_eq!(unexpected, [&Value::Null; 0]);
    assert!(count("success") >= 200, "{} of {}", count("success"), pages.len());
    let kept =
        world.get("/v1/export", &key).await.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(kept, count("success"));
}
