//! `attache profile` and `attache key`: stored credentials, their file permissions, and the servers that get them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::account::adas;
use blackbox::flow;
use blackbox::process::Home;

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_listed_shown_and_removed_without_their_secrets() {
    let home = Home::new();
    let server = home.serve().await;
    assert!(home.run(&["profile", "list"]).said().contains("no profiles"));
    assert_eq!(home.run(&["profile", "list", "--json"]).json(), json!([]));
    let machine = adas(&home, &server).await;
    home.run(&["machine", "register", "--profile", "other", "--url", &server.url]).said();

    let profile = flow::profile(&home);
    let secret = |name: &str| profile["agent"][name].as_str().unwrap().to_owned();
    let secrets = [machine.secret.clone(), secret("claim_token"), secret("access_token"), secret("identity_assertion")];
    for arguments in
        [&["profile", "list"][..], &["profile", "list", "--json"], &["profile", "show"], &["profile", "show", "--json"]]
    {
        let output = home.run(arguments);
        assert!(output.said().contains(&machine.uuid) && output.said().contains(&server.url), "{output:?}");
        assert!(secrets.iter().all(|secret| !output.stdout.contains(secret)), "{output:?}");
    }
    let listed = home.run(&["profile", "list", "--json"]).json();
    assert_eq!((&listed[0]["profile"], &listed[1]["profile"]), (&json!("default"), &json!("other")));
    let value = home.run(&["profile", "show", "other", "--json"]).json();
    assert_eq!((&value["agent"], &value["api_key"]), (&json!(null), &json!(false)));

    home.run(&["profile", "remove", "other"]).refused(1, &["--yes"]);
    assert_eq!(home.run(&["profile", "remove", "other", "--yes", "--json"]).json(), json!({ "removed": "other" }));
    for command in [&["show", "other"][..], &["remove", "other", "--yes"], &["move", "other", "--url", "http://a"]] {
        home.run(&[&["profile"], command].concat()).refused(4, &["no profile \"other\""]);
    }
    for name in ["../default", ".hidden", "a b", ""] {
        home.run(&["usage", "--profile", name]).refused(1, &["invalid profile name"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_file_readable_by_others_is_not_used() {
    let home = Home::new();
    let server = home.serve().await;
    home.run(&["machine", "register", "--url", &server.url]).said();
    let (folder, file) = (flow::profile_folder(&home), flow::profile_folder(&home).join("profile.toml"));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    for command in [&["usage"][..], &["attach"], &["agent", "show"], &["profile", "show"]] {
        home.run(command).refused(1, &["other users can read it: run `chmod 600"]);
    }
    assert!(home.run(&["profile", "list"]).said().contains("chmod 600"), "the list shows the others");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    home.run(&["usage"]).said();

    fs::write(&file, "machine = \"no table\"").unwrap();
    home.run(&["usage"]).refused(1, &["profile.toml cannot be read"]);
    home.run(&["profile", "remove", "default", "--yes"]).said();
    let elsewhere = home.dir.path().join("elsewhere");
    let moved =
        home.command(&["machine", "register", "--url", &server.url]).env("XDG_CONFIG_HOME", &elsewhere).output();
    assert!(moved.unwrap().status.success());
    assert!(elsewhere.join("attache/default/profile.toml").exists() && !folder.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_one_server_are_never_sent_to_another() {
    let home = Home::new();
    let server = home.serve().await;
    adas(&home, &server).await;
    let other = MockServer::start().await;
    Mock::given(matchers::any()).respond_with(ResponseTemplate::new(500)).mount(&other).await;
    for command in [
        &["usage"][..],
        &["usage", "--as", "agent"],
        &["attach"],
        &["agent", "token"],
        &["agent", "revoke"],
        &["consent", "set", "off"],
        &["verify", "019b76da-a800-7274-8acf-2e56e162ebd9"],
    ] {
        home.run(&[command, &["--url", &other.uri()]].concat())
            .refused(1, &["holds credentials of", &server.url, "attache profile move"]);
    }
    assert_eq!(other.received_requests().await.unwrap().len(), 0);
    // The same server with and without a trailing slash, and one that has moved.
    home.run(&["usage", "--url", &format!("{}/", server.url)]).said();
    let localhost = server.url.replace("127.0.0.1", "localhost");
    home.run(&["usage", "--url", &localhost]).refused(1, &["attache profile move"]);
    assert!(home.run(&["profile", "move", "--url", &localhost]).said().ends_with("now"));
    home.run(&["usage"]).said();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_read_from_standard_input_judged_by_the_server_and_never_shown() {
    let home = Home::new();
    let server = home.serve().await;
    flow::session(&home, "ada@example.com");
    let make = |arguments: &[&str]| {
        let create = ["admin", "api-key", "create", "--email", "ada@example.com", "--name", "laptop"];
        home.run(&[&create, arguments].concat()).said().to_owned()
    };
    let (key, narrow) = (make(&[]), make(&["--scope", "write"]));
    let set = |key: &str| home.run_with_input(&["key", "set", "--url", &server.url], key.as_bytes());
    let unknown = format!("ak_{}", "A".repeat(43));
    set(&unknown).refused(5, &["does not accept this API key"]);
    for wrong in ["", "hunter2\n", &key[..20]] {
        set(wrong).refused(1, &["malformed API key"]);
    }
    assert!(!flow::profile_folder(&home).join("profile.toml").exists(), "nothing was kept");
    for key in [&narrow, &key] {
        let output = set(&format!("{key}\n"));
        assert!(output.said().contains("the API key is stored") && !output.stdout.contains(key.as_str()), "{output:?}");
        assert_eq!(flow::profile(&home)["api_key"].as_str(), Some(key.as_str()));
    }
    assert!(!home.run(&["profile", "show"]).said().contains(&key));
    assert_eq!(home.run(&["profile", "show", "--json"]).json()["api_key"], true);
    // A knowledge API at another place is another server.
    let elsewhere = ["key", "set", "--rag-url", "http://127.0.0.1:1"];
    home.run_with_input(&elsewhere, key.as_bytes()).refused(1, &["attache profile move"]);
    assert_eq!(home.run(&["key", "forget", "--json"]).json(), json!({ "forgotten": true }));
    assert!(home.run(&["key", "forget"]).said().contains("deleted from the profile"));
    assert!(flow::profile(&home).get("api_key").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_remembered_by_the_first_success_alone() {
    let home = Home::new();
    let server = home.serve().await;
    for command in [&["machine", "register"][..], &["agent", "register"]] {
        home.run(&[command, &["--url", "http://127.0.0.1:9"]].concat())
            .refused(7, &["127.0.0.1:9", "cannot be reached"]);
    }
    assert_eq!(home.run(&["profile", "list", "--json"]).json(), json!([]));
    home.run(&["machine", "register", "--url", &server.url]).said();
    assert_eq!(home.run(&["profile", "show", "--json"]).json()["url"], server.url.as_str());
    home.run(&["usage", "--profile", "new", "--url", "ftp://localhost:8080"])
        .refused(1, &["is no address of a server"]);
    let key = format!("ak_{}", "A".repeat(43));
    let asked =
        [&["search", "x", "--rag-url", "http://127.0.0.1:9", "--profile", "new", "--url"][..], &[&server.url]].concat();
    let mut command = home.command(&asked);
    let output = command.env("ATTACHE_API_KEY", key).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the server at http://127.0.0.1:9 cannot be reached"), "{said}");
}
