//! `attache demo`: the complete tour, with `--auto` and with a person.

use std::collections::BTreeSet;

use serde_json::json;

use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::Home;
use blackbox::site::Site;

/// A page that no server may fetch, so that the tour is the same everywhere.
const PAGE: [&str; 2] = ["--page", "http://10.0.0.1/"];

fn profiles(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.dir.path().join(".config/attache")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_runs_on_its_own_and_a_second_run_leaves_nothing_more() {
    let home = Home::new();
    let server = home.serve().await;
    let mut exported = Vec::new();
    for _ in 0..2 {
        let output = home.run(&[&["demo", "--auto", "--url", &server.url][..], &PAGE].concat());
        let said = output.said();
        for nth in 1..=7 {
            assert!(said.contains(&format!("\n{nth}. ")), "{said}");
        }
        for words in [
            "claimed by demo@example.com",
            "attached to account",
            "the proof is valid",
            "✓ Bread is stored",
            "3 of 4 can be found",
            "Bees (",
            "the API key is revoked, the computer is detached, the agent is revoked",
            "signed in as demo@example.com",
            "the code is in the newest file of",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(said.matches("blocked_address").count(), 1, "{said}");
        assert!(!said.contains("/v1/memories/"), "an address that answers to an API key only: {said}");
        assert!(said.contains(&format!("{}/account/activity", server.url)), "{said}");
        assert_eq!(profiles(&home), Vec::<String>::new());
        exported.push(memories(&home, &server.url).await);
    }
    assert_eq!(exported[0].len(), 3);
    assert_eq!(exported[0], exported[1], "the same memories");
    let person = flow::person(&home, &server, "demo@example.com");
    let computers = person.account_computers().await.unwrap().computers;
    assert!(computers.is_empty(), "{computers:?}");
    let keys = person.keys().await.unwrap().keys;
    assert!(keys.iter().filter(|key| key.name.starts_with("demo of")).all(|key| key.revoked_at.is_some()), "{keys:?}");
    let agents = home.run(&["admin", "agent", "list", "--json"]).json();
    let states: Vec<_> = agents.as_array().unwrap().iter().map(|agent| agent["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["revoked", "revoked"]);
}

/// Ids of the memories of the demo's person.
async fn memories(home: &Home, url: &str) -> BTreeSet<String> {
    let key = home.run(&["admin", "api-key", "create", "--email", "demo@example.com"]).said().to_owned();
    let response = Client::new().get(&format!("{url}/v1/export"), Credential::Bearer(key)).await;
    let lines = String::from_utf8(response.body.to_vec()).unwrap();
    let ids = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string());
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_profile_of_the_demo_can_be_reused() {
    let home = Home::new();
    let server = home.serve().await;
    let arguments = ["demo", "--auto", "--email", "ada@example.com", "--keep", "--json", "--url", &server.url];
    let output = home.run(&[&arguments[..], &PAGE].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let value: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((value["events"].as_array().unwrap().len(), &value["proven"]), (3, &value["events"][2]["event_id"]));
    assert_eq!((&value["found"]["title"], &value["failed"][0]["error"]), (&json!("Bees"), &json!("blocked_address")));
    let [profile] = profiles(&home).try_into().unwrap();
    assert!(output.stderr.contains(&format!("attache event tail --profile {profile}")), "{output:?}");
    let tail = home.run(&["event", "tail", "--lines", "3", "--count", "3", "--profile", &profile]);
    assert!(tail.said().contains("demo · 120 → 7 tokens"), "{tail:?}");
    assert!(home.run(&["search", "tides", "--profile", &profile]).said().starts_with(" 1. Tides"));
    let sessions = eventually("the sessions of the month are listed", async || {
        let page = home.run(&["session", "list", "--json", "--profile", &profile]).json();
        (page["sessions"].as_array()?.len() > 10).then_some(page)
    })
    .await;
    assert_eq!(
        (&sessions["sessions"][0]["agent_id"], &sessions["sessions"][0]["failures"].is_u64()),
        (&json!("gemini-cli"), &true)
    );
    let sent = home.run(&["event", "send", "--type", "llm.failed", "--profile", &profile, "--json"]).json();
    assert_eq!(sent["seq"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_the_server_may_fetch_are_remembered_beside_the_notes() {
    let (site, address) = Site::start().await;
    let pages = [
        ("codes", "A device shows a short code, and a person types it on another screen."),
        ("canon", "Sort the keys, write numbers in one way, and the same object has the same bytes."),
        ("trees", "An auditor follows a few hashes from a leaf up to the signed root."),
    ];
    let pages = pages.map(|(name, text)| {
        site.put(name, format!("<title>{name}</title><p>{text}</p>"));
        format!("http://{address}/{name}")
    });
    let home = flow::beside(Home::new(), address);
    let server = home.serve().await;
    let asked = pages.iter().flat_map(|page| ["--page", page]);
    let arguments: Vec<&str> = ["demo", "--auto", "--keep", "--url", &server.url].into_iter().chain(asked).collect();
    let output = home.run(&arguments);
    assert!(output.said().contains("6 of 6 can be found now"), "{output:?}");
    let [profile] = profiles(&home).try_into().unwrap();
    let found =
        home.run(&["search", "the path to the root of the tree", "--limit", "1", "--json", "--profile", &profile]);
    assert_eq!(found.json()["results"][0]["url"], pages[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_person_it_waits_for_them() {
    let home = Home::new();
    let server = home.serve().await;
    let person = flow::session(&home, "ada@example.com");
    let key = home.run(&["admin", "api-key", "create", "--email", "ada@example.com"]).said().to_owned();
    let visitor = Home::new();
    let arguments = [&["demo", "--url", &server.url][..], &PAGE].concat();
    let reader = home.run(&["admin", "api-key", "create", "--email", "ada@example.com", "--scope", "search"]);
    let pasted = format!("{}\n{key}\n", reader.said());
    let mut tour = visitor.start_with_input(&arguments, pasted.as_bytes());
    let after = async |mark: &'static str| {
        eventually(mark, async || {
            let text = tour.stdout.text();
            let (_, rest) = text.split_once(mark)?;
            rest.contains('\n').then(|| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        })
        .await
    };
    after("type the code").await;
    let words = after("/claim?attempt=").await;
    flow::complete(&server, &person, &words[0], &words[1]).await.expect(200);
    let words = after("/device?user_code=").await;
    flow::device_approve(&server, &person, &words[0]).await.unwrap().expect(200);
    assert_eq!(tour.exit().await.code(), Some(0), "{}", tour.stderr.text());
    let said = tour.stdout.text();
    for words in ["claimed by ada@example.com", "paste it here", "it needs the scope write", "Bees ("] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(profiles(&visitor), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_installation_is_reported() {
    let (home, url) = flow::at_fixed_address();
    let demo = |home: &Home| home.run(&[&["demo", "--auto", "--url", &url][..], &PAGE].concat());
    demo(&home).refused(7, &["cannot be reached", "check that the server is running"]);
    let _server = home.serve().await;
    // Signed in by a person who is not the operator of this server.
    let stranger = Home::new();
    demo(&stranger)
        .refused(1, &["is not the server of this configuration", "--auto works with the configuration of that server"]);
    assert_eq!(profiles(&stranger), Vec::<String>::new());
    home.run(&["demo", "--email", "ada@example.com"]).refused(2, &["--auto"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_the_demo_starts_one_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = Home::new().environment("ATTACHE_HTTP__BIND", &unused.to_string());
    let home = home.environment("TMPDIR", temporary.path().to_str().unwrap());
    let output = home.run(&[&["demo", "--auto", "--json"][..], &PAGE].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains(&format!("No server runs at http://{unused}: this tour starts one")), "{output:?}");
    assert!(output.stderr.contains("The server of the tour has ended, with its data. To keep one:"), "{output:?}");
    assert!(!output.stderr.contains("Worth a look now"), "its pages are gone: {output:?}");
    let value: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(value["found"]["title"], "Bees");
    assert_eq!((std::fs::read_dir(temporary.path()).unwrap().count(), profiles(&home).len()), (0, 0));
    assert!(!home.dir.path().join("data").exists(), "the tour's data are elsewhere");
    // Kept data need a server that stays.
    let kept = home.run(&["demo", "--auto", "--keep"]);
    assert_eq!((kept.code, kept.stderr.contains("starts one")), (Some(7), false), "{kept:?}");
}
