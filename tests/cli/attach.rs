//! `attache attach` and `attache machine`: from registration to an attached computer, with each way in which it fails.

use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use blackbox::flow;
use blackbox::process::{Home, Process, Server};
use harness::event::Machine;

/// `attach`, waiting for a person: it has shown its link and this code.
async fn attaching(home: &Home, server: &Server) -> (Process, String) {
    let process = home.start(&["attach", "--url", &server.url]);
    // The code is between two empty lines, followed by its expiry.
    assert!(process.stdout.reach(9).await, "{}{}", process.stdout.text(), process.stderr.text());
    let shown = process.stdout.text();
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    let (link, code) = (lines[2], lines[6].to_owned());
    assert_eq!(link, format!("{}/device?user_code={code}", server.url), "{shown}");
    (process, code)
}

fn computer(home: &Home) -> Machine {
    let profile = flow::profile(home);
    let text = |name: &str| profile["machine"][name].as_str().unwrap().to_owned();
    Machine { user_cuid: text("user_cuid"), uuid: text("machine_uuid"), secret: text("secret") }
}

fn no_wait(home: &Home, server: &Server) -> Value {
    let output = home.run(&["attach", "--url", &server.url, "--no-wait", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_attached_once_its_person_approves_the_code_that_it_shows() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::person(&home, &server, "ada@example.com");
    let (mut attach, code) = attaching(&home, &server).await;
    ada.device_approve(&code).await.unwrap();
    assert_eq!(attach.exit().await.code(), Some(0), "{}", attach.stderr.text());
    let (said, complained) = (attach.stdout.text(), attach.stderr.text());
    let summary = ada.account_summary().await.unwrap();
    let account = summary.sections.account.unwrap().id;
    assert!(
        said.contains("attached to the account of ada@example.com") && said.contains("undo: detach it at"),
        "{said}"
    );
    assert!(said.contains("recorded is no content: what was done"), "{said}");
    assert!(!said.contains('\u{1b}') && complained.is_empty(), "no terminal, no colours and no spinner: {complained}");
    let computers = ada.account_computers().await.unwrap().computers;
    assert_eq!(computers[0].machine_uuid.to_string(), computer(&home).uuid);

    let known = json!({
        "machine_uuid": computer(&home).uuid,
        "user_cuid": computer(&home).user_cuid,
        "user_account_id": account,
    });
    let mut again = known.clone();
    again["email"] = "ada@example.com".into();
    assert_eq!(home.run(&["attach", "--json"]).json(), again, "once is enough");
    assert!(home.run(&["attach"]).said().contains("already attached to the account of ada@example.com"));
    assert_eq!(home.run(&["machine", "show", "--json"]).json(), known);
    assert!(home.run(&["machine", "show"]).said().contains(account.as_str()));

    // A computer that its owner detached is reported with the next step; the identity stays, the computer is a new one.
    ada.machine_detach(computers[0].machine_uuid).await.unwrap();
    home.run(&["attach"]).refused(5, &["machine_unknown", "attache machine register --again"]);
    let before = computer(&home);
    let registered = home.run(&["machine", "register", "--again", "--json"]).json();
    assert_eq!(registered["user_cuid"], before.user_cuid);
    assert_ne!(registered["machine_uuid"], before.uuid);
    assert_eq!(no_wait(&home, &server)["status"], "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_computer_is_reported_and_may_request_another_code() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::person(&home, &server, "ada@example.com");
    let (mut attach, code) = attaching(&home, &server).await;
    ada.device_deny(&code).await.unwrap();
    assert_eq!(attach.exit().await.code(), Some(1));
    assert!(attach.stderr.text().contains("the computer was denied"), "{}", attach.stderr.text());
    assert!(!flow::profile_folder(&home).join("attach.json").exists());
    assert_ne!(no_wait(&home, &server)["user_code"], code);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_device_code_is_reported() {
    let home = Home::new();
    let server = home.serve().await;
    let (mut attach, code) = attaching(&home, &server).await;
    // Another program of this computer requests a code too, which supersedes the first.
    let (_, newer) = flow::device_code(&server, &computer(&home)).await;
    assert_ne!(newer, code);
    assert_eq!(attach.exit().await.code(), Some(1));
    assert!(attach.stderr.text().contains("the code has expired"), "{}", attach.stderr.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_device_code_without_approval_is_reported() {
    let (home, _) = flow::at_fixed_address();
    let mut server = home.serve().await;
    let (mut attach, code) = attaching(&home, &server).await;
    server.process.kill();
    flow::expire_rows(&home, "device_codes", "expires_at").await;
    let server = home.serve().await;
    assert_eq!(attach.exit().await.code(), Some(1));
    assert!(attach.stderr.text().contains("the code has expired"), "{}", attach.stderr.text());
    assert!(!flow::profile_folder(&home).join("attach.json").exists());
    assert_ne!(no_wait(&home, &server)["user_code"], code);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_attach_is_resumed_with_its_device_code() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::person(&home, &server, "ada@example.com");
    let (mut attach, code) = attaching(&home, &server).await;
    attach.signal("INT");
    assert_eq!(attach.exit().await.code(), Some(1));
    assert!(attach.stderr.text().contains("the link still works"), "{}", attach.stderr.text());
    assert_eq!(no_wait(&home, &server)["user_code"], code);

    ada.device_approve(&code).await.unwrap();
    let output = home.run(&["attach"]);
    assert!(output.said().contains("attached to the account of ada@example.com"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_json_the_link_goes_beside_the_value() {
    let home = Home::new();
    let server = home.serve().await;
    let output = home.run(&["attach", "--url", &server.url, "--no-wait", "--json"]);
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    for member in ["status", "machine_uuid", "user_code", "verification_uri", "verification_uri_complete", "until"] {
        assert!(value[member].is_string(), "{member} in {value}");
    }
    assert!(output.stderr.contains(value["verification_uri_complete"].as_str().unwrap()), "{output:?}");

    let picture = |when: &str| home.run(&["attach", "--no-wait", "--qr", when]).said().contains("▄▄▄▄▄");
    assert_eq!(["always", "auto", "never"].map(picture), [true, false, false], "a pipe is no terminal");
    home.run(&["attach", "--qr", "sometimes"]).refused(2, &["--qr"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_registers_once_and_its_secret_is_not_printed() {
    let home = Home::new();
    let server = home.serve().await;
    let output = home.run(&["machine", "register", "--url", &server.url, "--name", "Ada's laptop"]);
    let computer = computer(&home);
    assert!(output.said().contains(&computer.uuid) && output.said().contains("attache attach"), "{output:?}");
    assert!(!output.said().contains(&computer.secret));
    home.run(&["machine", "register"]).refused(1, &[&computer.uuid, "--again"]);
    let operators = home.run(&["admin", "machine", "list", "--json"]).json();
    assert_eq!((&operators[0]["machine_uuid"], &operators[0]["name"]), (&json!(computer.uuid), &json!("Ada's laptop")));
    let shown = home.run(&["machine", "show", "--json"]);
    assert!(shown.json()["user_account_id"].is_null() && !shown.stdout.contains(&computer.secret));

    let long = "x".repeat(101);
    home.run(&["machine", "register", "--again", "--name", &long]).refused(1, &["invalid_request", "name"]);
    assert_eq!(flow::profile(&home)["machine"]["machine_uuid"].as_str(), Some(computer.uuid.as_str()));
    Home::new().run(&["machine", "show"]).refused(5, &["attache machine register"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_not_everybody_may_register_a_key_or_an_operator_is_needed() {
    let home = Home::new().set("machines.registration", "key").set("machines.enrolment_key", "open sesame please");
    let server = home.serve().await;
    home.run(&["attach", "--url", &server.url, "--no-wait"]).refused(5, &["unauthorized"]);
    let wrong = ["machine", "register", "--url", &server.url, "--enrolment-key", "open barley"];
    home.run(&wrong).refused(5, &["unauthorized"]);
    home.run(&["attach", "--url", &server.url, "--no-wait", "--enrolment-key", "open sesame please"]).said();

    let closed = Home::new().set("machines.registration", "off");
    let server = closed.serve().await;
    closed
        .run(&["machine", "register", "--url", &server.url])
        .refused(5, &["registration_closed", "admin machine add"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_or_none_of_ours_is_named() {
    let home = Home::new();
    // The first port has no listener.
    let away = home.run(&["attach", "--url", "http://127.0.0.1:1"]);
    away.refused(7, &["http://127.0.0.1:1 cannot be reached", "check that the server is running"]);
    home.run(&["attach", "--url", "ftp://nonsense"]).refused(1, &["ftp://nonsense is no address of a server"]);

    let other = MockServer::start().await;
    let greeting = ResponseTemplate::new(200).set_body_string("<h1>It works!</h1>");
    Mock::given(matchers::any()).respond_with(greeting).mount(&other).await;
    home.run(&["attach", "--url", &other.uri()])
        .refused(1, &["not valid for attache", "check that --url is the URL of an attache server"]);
    let nothing = MockServer::start().await;
    home.run(&["attach", "--url", &nothing.uri()])
        .refused(1, &["http_404", "check that --url is the URL of an attache server"]);
    assert_eq!(home.run(&["profile", "list", "--json"]).json(), json!([]), "nothing was registered");
}
