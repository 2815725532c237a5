//! `attache account`, `usage` and `consent`, as a computer and as an agent.

use serde_json::{Value, json};

use blackbox::client::{Client, Credential, attempt_of};
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};

/// A computer and an agent of Ada's, both in the profile.
pub async fn adas(home: &Home, server: &Server) -> Machine {
    let machine = flow::machine(server).await;
    let ada = flow::person(home, server, "ada@example.com");
    let (_, code) = flow::device_code(server, &machine).await;
    ada.device_approve(&code).await.unwrap();
    flow::keep_profile(home, &server.url, Some(&machine), None);
    home.run(&["agent", "register"]).said();
    let output = home.run(&["agent", "claim", "--no-wait", "--json"]);
    let claim = serde_json::from_str::<Value>(&output.stdout).unwrap()["claim"].clone();
    let person = flow::session(home, "ada@example.com");
    flow::complete(server, &person, &attempt_of(&claim), &flow::text(&claim, "user_code")).await.expect(200);
    home.run(&["agent", "claim"]).said();
    machine
}

async fn asked(server: &Server, path: &str, credential: impl Into<Credential>) -> Value {
    Client::new().get(&format!("{}{path}", server.url), credential).await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_is_shown_at_a_glance_and_whole_as_json() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let output = home.run(&["account"]);
    for shown in [
        "ada@example.com",
        &machine.uuid[28..],
        "last seen now",
        "FREE",
        "computers  1",
        "agents     1",
        "balance $0.00",
    ] {
        assert!(output.said().contains(shown), "{shown}: {output:?}");
    }
    let account = home.run(&["account", "--json"]).json();
    assert_eq!(account["version"], 1);
    assert_eq!(account["sections"]["account"]["email"], "ada@example.com");
    assert_eq!(account["sections"]["computers"]["computers"][0]["machine_uuid"], machine.uuid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_begun_shown_and_ended() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    assert!(home.run(&["pause", "--for", "2h"]).said().contains("recording of this computer is paused until"));
    let own = asked(&server, "/api/v1/consent", &machine).await;
    assert_eq!(own["level"], "off");
    assert!(home.run(&["consent", "get"]).said().contains("paused until"));
    // Without a key for the memory, `status` fails and shows everything.
    assert!(home.run(&["status"]).stdout.contains("recording  paused until"));
    assert_eq!(home.run(&["pause", "--end", "--json"]).json(), json!({ "paused_until": null }));
    assert_eq!(asked(&server, "/api/v1/consent", &machine).await, json!({ "level": "metadata-only" }));
    assert!(home.run(&["pause", "--as", "agent"]).said().contains("all computers of the account"));
    assert_eq!(asked(&server, "/api/v1/consent", &machine).await["level"], "off");
    home.run(&["pause", "--end", "--as", "agent"]).refused(5, &["a person ends it"]);
    home.run(&["pause", "--for", "60d"]).refused(1, &["seconds"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_a_bar_for_people_and_the_servers_answer_as_json() {
    let home = Home::new().set("plans.free.memory_events", "4");
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    home.run(&["admin", "balance", "add", "--email", "ada@example.com", "--cents", "1234", "--reason", "test"]).said();
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    blackbox::eventually("the event is counted", async || {
        let bar = asked(&server, "/api/v1/usage/bar", &machine).await;
        (bar["memory"]["percent_left"] == 75.0 && bar["balance_cents"] == 1234).then_some(())
    })
    .await;
    let done = home.run(&["usage"]);
    let bar = format!("memory         {}{}    75 % left", "█".repeat(22), "░".repeat(8));
    for shown in ["plan           FREE", &bar, "100 % left", "$12.34", "resets 20"] {
        assert!(done.said().contains(shown), "{shown}: {done:?}");
    }
    let bar = asked(&server, "/api/v1/usage/bar", &machine).await;
    for whom in ["computer", "agent"] {
        assert_eq!(home.run(&["usage", "--as", whom, "--json"]).json(), bar);
    }
    home.run(&["usage", "--as", "somebody"]).refused(2, &["--as"]);

    let coloured = |no_color: &str| {
        let mut usage = home.command(&["usage"]);
        let usage = usage.env("CLICOLOR_FORCE", "1").env("NO_COLOR", no_color).output().unwrap();
        String::from_utf8(usage.stdout).unwrap().contains('\u{1b}')
    };
    assert!(coloured("") && !coloured("1"), "NO_COLOR has the last word");
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_is_set_for_the_named_computer_and_lane_and_read_back() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    assert_eq!(home.run(&["consent", "get", "--json"]).json(), json!({ "level": "metadata-only" }));
    assert!(home.run(&["consent", "get", "--as", "agent"]).said().contains("no levels set"));

    let set = home.run(&["consent", "set", "off", "--lane", "llm", "--reason", "not at work", "--json"]);
    assert_eq!(set.json(), json!({ "level": "off", "written": 1 }));
    assert!(home.run(&["consent", "set", "off", "--lane", "llm"]).said().contains("was already off"));
    assert!(home.run(&["consent", "set", "full", "--as", "agent"]).said().contains("is full now"));
    assert!(home.run(&["consent", "get", "--lane", "llm"]).said().ends_with("in the lane llm: off"));
    let of_machine = ["consent", "get", "--as", "agent", "--machine", &machine.uuid];
    assert!(home.run(&of_machine).said().ends_with("in the lane memory: full"));

    let levels = home.run(&["consent", "get", "--as", "agent", "--json"]).json();
    let mut levels: Vec<_> = levels["levels"].as_array().unwrap().iter().map(|row| row["level"].clone()).collect();
    levels.sort_by_key(ToString::to_string);
    assert_eq!(levels, ["full", "off"]);
    let table = home.run(&["consent", "get", "--as", "agent"]);
    let lines: Vec<Vec<&str>> = table.said().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["identity", "computer", "lane", "level", "set", "by"]);
    assert!(lines.contains(&vec![&machine.user_cuid, "all", "all", "full", "agent"]), "{lines:?}");
    assert!(lines.contains(&vec![&machine.user_cuid, &machine.uuid, "llm", "off", "computer"]), "{lines:?}");
    // The computer cannot exceed its person's level, and the output reports that.
    assert!(home.run(&["consent", "set", "metadata-only", "--as", "agent"]).said().contains("is metadata-only now"));
    assert!(home.run(&["consent", "set", "full"]).said().contains("metadata-only is effective"));
    assert!(home.run(&["consent", "get"]).said().ends_with("in the lane memory: metadata-only"));
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_without_permission_is_refused() {
    let home = Home::new();
    let server = home.serve().await;
    adas(&home, &server).await;
    let stranger = flow::uuid();
    home.run(&["consent", "get", "--machine", &stranger]).refused(1, &["machine_uuid_mismatch"]);
    home.run(&["consent", "set", "off", "--machine", &stranger, "--as", "agent"]).refused(5, &["machine_not_owned"]);
    let long = "x".repeat(257);
    home.run(&["consent", "set", "off", "--reason", &long]).refused(1, &["invalid_request", "reason"]);
    for wrong in
        [&["set", "everything"][..], &["set", "off", "--lane", "sideways"], &["get", "--machine", "1"], &["set"]]
    {
        home.run(&[&["consent"], wrong].concat()).refused(2, &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_level_is_set_while_its_audit_event_is_delayed() {
    // The first port has no listener.
    let home =
        Home::new().set("upstream.url", "http://127.0.0.1:1").set("upstream.token", "upstream-token-of-the-test");
    let server = home.serve().await;
    home.run(&["machine", "register", "--url", &server.url]).said();
    home.run(&["consent", "set", "off"]).refused(1, &["off is set (1 changed)", "continues to try"]);
    assert_eq!(home.run(&["consent", "get", "--json"]).json(), json!({ "level": "off" }));
    home.run(&["activity"]).refused(75, &["temporarily_unavailable"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_environment_goes_before_the_profile() {
    let home = Home::new();
    let server = home.serve().await;
    adas(&home, &server).await;
    let with = |token: &str, arguments: &[&str]| home.command(arguments).env("ATTACHE_TOKEN", token).output().unwrap();
    let token = home.run(&["agent", "token"]).said().to_owned();
    let levels = with(&token, &["consent", "get", "--json", "--profile", "other", "--url", &server.url]);
    let levels: Value = serde_json::from_slice(&levels.stdout).unwrap();
    assert_eq!(levels, json!({ "levels": [] }), "as the account, not as the computer");
    let refused = with("at_nonsense", &["usage"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("unauthorized"));
}

#[test]
fn without_computer_and_agent_every_command_names_the_next_step() {
    let home = Home::new();
    for command in [&["usage"][..], &["activity"], &["consent", "get"], &["consent", "set", "off"]] {
        home.run(command).refused(5, &["attache attach", "attache agent claim"]);
    }
    home.run(&["account"]).refused(5, &["attache login"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_computer_is_reported_by_every_command() {
    let home = Home::new();
    let server = home.serve().await;
    home.run(&["machine", "register", "--url", &server.url]).said();
    let nobody = format!("msk_{}", "A".repeat(43));
    flow::edit_profile(&home, |profile| profile["machine"]["secret"] = nobody.into());
    for command in [&["usage"][..], &["activity"], &["consent", "get"], &["consent", "set", "off"], &["attach"]] {
        home.run(command).refused(5, &["machine_unknown", "attache machine register --again"]);
    }
}
