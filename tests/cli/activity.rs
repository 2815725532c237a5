//! `attache activity`: pages, lanes, and held events.

use serde_json::json;

use crate::account::adas;
use blackbox::flow;
use blackbox::process::Home;
use harness::event::Chain;

#[tokio::test(flavor = "multi_thread")]
async fn activity_is_a_table_newest_first_page_by_page_or_all_of_it() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let nothing = "no events recorded by this computer yet; `attache activity --account` shows the account's";
    assert_eq!(home.run(&["activity"]).said(), nothing);
    assert_eq!(home.run(&["activity", "--account"]).said(), "no events recorded in this account");
    let mut chain = Chain::new(&machine);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let event = chain.next();
        flow::event(&server, &machine, &event).await.receipt();
        ids.insert(0, flow::text(&event, "event_id"));
    }
    let first = home.run(&["activity", "--limit", "2"]);
    let lines: Vec<&str> = first.said().lines().collect();
    assert!(lines[0].starts_with("received") && lines[0].ends_with("event"), "{lines:?}");
    let end = |id: &String| format!("…{}", &id[id.len() - 8..]);
    assert!(lines[1].ends_with(&end(&ids[0])) && lines[2].ends_with(&end(&ids[1])), "{lines:?}");
    assert!(lines[1].starts_with("now ") && lines[1].contains("Stored a memory"), "{lines:?}");
    let account = home.run(&["activity", "--limit", "2", "--account"]);
    assert!(account.said().lines().nth(1).unwrap().contains("this computer"), "{account:?}");
    assert!(lines[..3].iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    let wide = home.run(&["activity", "--limit", "2", "--wide"]);
    assert!(wide.said().contains(&ids[0]) && wide.said().contains(&machine.uuid), "{wide:?}");
    let cursor = lines[4].strip_prefix("next page: --cursor ").unwrap_or_else(|| panic!("{lines:?}"));
    let second = home.run(&["activity", "--limit", "2", "--cursor", cursor]);
    assert!(second.said().ends_with(&end(&ids[2])), "{second:?}");

    let all = home.run(&["activity", "--all", "--json", "--as", "agent"]).json();
    let events: Vec<String> =
        all["events"].as_array().unwrap().iter().map(|event| flow::text(event, "event_id")).collect();
    assert_eq!((events, &all["next_cursor"]), (ids, &json!(null)));
    assert_eq!(home.run(&["activity", "--lane", "squad"]).said(), "no recorded events match");
    assert_eq!(home.run(&["activity", "--since", "2999-01-01T00:00:00Z"]).said(), "no recorded events match");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_is_more_than_the_largest_page() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let mut chain = Chain::new(&machine);
    for _ in 0..501 {
        flow::event(&server, &machine, &chain.next()).await.receipt();
    }
    let all = home.run(&["activity", "--all", "--json"]).json();
    let places: Vec<u64> =
        all["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(places.into_iter().eq((0..501).rev()));
}

#[tokio::test(flavor = "multi_thread")]
async fn held_events_are_listed_apart_with_their_reason() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let unknown = Chain::new(&machine).next_with(|event| event["event_type"] = "memory.dreamt".into());
    flow::event(&server, &machine, &unknown).await.warning();
    let output = home.run(&["activity"]);
    let id = flow::text(&unknown, "event_id");
    let end = format!("…{}", &id[id.len() - 8..]);
    let held = output.said().lines().find(|line| line.ends_with(&end)).unwrap_or_else(|| panic!("{output:?}"));
    assert!(held.contains("unknown_event_type") && held.contains("memory.dreamt"), "{held}");
    assert!(
        output.said().starts_with("no events recorded by this computer yet") && output.said().contains("\n\nheld: "),
        "{output:?}"
    );
    assert!(home.run(&["activity", "--wide"]).said().contains(&id));
    assert_eq!(home.run(&["activity", "--json"]).json()["unclassified"][0]["event_id"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_search_arguments_are_refused() {
    let home = Home::new();
    let server = home.serve().await;
    home.run(&["machine", "register", "--url", &server.url]).said();
    for wrong in [&["--limit", "0"][..], &["--limit", "501"], &["--lane", "sideways"], &["--all", "--limit", "3"]] {
        home.run(&[&["activity"], wrong].concat()).refused(2, &[wrong[0]]);
    }
    home.run(&["activity", "--cursor", &"x".repeat(1025)]).refused(1, &["cursor_too_long"]);
    home.run(&["activity", "--since", "yesterday"]).refused(1, &["the server said"]);
}
