//! `attache login`, `whoami`, `status` and `open`: one approval for events and memory, and its effects.

use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Client, Credential, Response};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Process, Server};
use harness::event::Chain;

/// `login`, waiting for a person: it has shown its link and this code.
async fn logging_in(home: &Home, arguments: &[&str]) -> (Process, String) {
    let process = home.start(&[&["login"], arguments].concat());
    assert!(process.stdout.reach(9).await, "{}{}", process.stdout.text(), process.stderr.text());
    let code = process.stdout.text().lines().nth(6).unwrap().trim().to_owned();
    (process, code)
}

/// The page as a signed-in person sees it after typing the code.
async fn page(server: &Server, person: &Credential, code: &str) -> String {
    let client = Client::new();
    let request = client.request(Method::GET, &format!("{}/device?user_code={code}", server.url), person);
    let response = client.try_send(request.header("sec-fetch-site", "same-origin")).await.unwrap();
    assert_eq!(response.status, 200);
    String::from_utf8(response.body.to_vec()).unwrap()
}

/// The person presses Approve; `with_key` ticks the boxes of the key.
async fn approve(server: &Server, person: &Credential, code: &str, with_key: bool) -> Response {
    let client = Client::new();
    let request = client.request(Method::POST, &format!("{}/device", server.url), person);
    let mut form = vec![("user_code", code), ("decision", "approve")];
    if with_key {
        form.extend([("with_key", "yes"), ("with_account", "yes")]);
    }
    let body = serde_urlencoded::to_string(form).unwrap();
    let request = request.header("origin", &server.url).header("sec-fetch-site", "same-origin");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
    client.try_send(request).await.unwrap()
}

async fn keys(server: &Server, person: &Credential) -> Vec<Value> {
    let keys = Client::new().get(&format!("{}/api/v1/keys", server.url), person.clone()).await.expect(200);
    keys["keys"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_approval_brings_the_attachment_and_a_key_that_ends_with_it() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    home.run(&["whoami"]).refused(5, &["attache login"]);
    let (mut login, code) = logging_in(&home, &[&server.url, "--name", "Ada's laptop"]).await;
    let page = page(&server, &ada, &code).await;
    let agreed = "it may search and read everything in it, and add to it and delete from it.";
    assert!(
        page.contains(agreed) && page.contains("name=\"with_key\"") && page.contains("name=\"with_account\""),
        "{page}"
    );
    assert!(keys(&server, &ada).await.is_empty(), "nothing is made before the person agreed");
    approve(&server, &ada, &code, true).await;
    assert_eq!(login.exit().await.code(), Some(0), "{}", login.stderr.text());
    let said = login.stdout.text();
    for part in ["attached to the account of ada@example.com", "a key for the memory: search, write", "undo: detach it"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!flow::profile_folder(&home).join("attach.json").exists());
    let secret = flow::profile(&home)["api_key"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("ak_") && !said.contains(&secret));

    // Recording and memory work immediately.
    std::fs::write(home.dir.path().join("bees.md"), "# Bees\n\nA honeybee steers by the sun.").unwrap();
    let added = home.run(&["add", "bees.md"]);
    assert!(added.said().contains(&format!("added    {}/knowledge/memories/", server.url)), "{added:?}");
    assert!(home.run(&["search", "bees"]).said().contains("/knowledge/memories/"));
    home.run(&["event", "send", "--type", "skill.invoked", "--payload", r#"{"skill":"x","succeeded":true}"#]).said();

    let whoami = home.run(&["whoami", "--json"]).json();
    assert_eq!((&whoami["email"], &whoami["attached"]), (&json!("ada@example.com"), &json!(true)));
    assert_eq!(whoami["api_key"]["scopes"], json!(["search", "write", "account"]));
    assert_eq!((&whoami["api_key"]["name"], &whoami["api_key"]["expires_at"]), (&json!("Ada's laptop"), &Value::Null));
    let output = home.run(&["whoami"]);
    assert!(output.said().contains("search, write, account; every space; does not expire"), "{output:?}");
    let status = home.run(&["status"]);
    for part in ["answers", "attached to the account of ada@example.com", "now, skill.invoked", "pending    none"] {
        assert!(status.said().contains(part), "{part}: {status:?}");
    }
    assert!(home.run(&["login"]).said().contains("already attached to the account of ada@example.com"));

    // Another approval takes the place of the first key.
    let (mut again, code) = logging_in(&home, &["--scope", "search", "--scope", "settings"]).await;
    approve(&server, &ada, &code, true).await;
    assert_eq!(again.exit().await.code(), Some(0), "{}", again.stderr.text());
    let both = keys(&server, &ada).await;
    assert_eq!(both.iter().filter(|key| key["revoked_at"].is_null()).count(), 1, "{both:?}");
    let old = Credential::Bearer(secret);
    Client::new().get(&format!("{}/v1/key", server.url), old).await.refused(401, "unauthorized");

    // The key ends with the attachment.
    let machine = flow::text(&whoami, "machine_uuid");
    flow::person(&home, &server, "ada@example.com").machine_detach(machine.parse().unwrap()).await.unwrap();
    assert!(keys(&server, &ada).await.iter().all(|key| !key["revoked_at"].is_null()));
    home.run(&["search", "bees"]).refused(5, &["unauthorized"]);
    let status = home.run(&["status"]);
    status.refused(5, &["attache login"]);
    assert!(status.stdout.contains("the server no longer has it") && status.stdout.contains("revoked or expired"));
    home.run(&["whoami"]).refused(5, &["attache login"]);
    // The next login registers a new computer.
    let (login, _) = logging_in(&home, &[]).await;
    assert_ne!(
        flow::profile(&home)["machine"]["machine_uuid"].as_str(),
        Some(machine.as_str()),
        "{}",
        login.stdout.text()
    );
}

/// The key of the approval reads the whole account, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_login_the_commands_show_the_account() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    let (mut login, code) = logging_in(&home, &["--url", &server.url]).await;
    approve(&server, &ada, &code, true).await;
    assert_eq!(login.exit().await.code(), Some(0), "{}", login.stderr.text());
    assert!(login.stdout.text().contains("it shows your account"), "{}", login.stdout.text());
    let other = flow::machine(&server).await;
    let (_, code) = flow::device_code(&server, &other).await;
    flow::device_approve(&server, &ada, &code).await.unwrap().expect(200);
    flow::event(&server, &other, &Chain::new(&other).next()).await.receipt();

    let account = home.run(&["account"]);
    for shown in ["ada@example.com", "computers  2", &other.uuid[28..]] {
        assert!(account.said().contains(shown), "{shown}: {account:?}");
    }
    let count = |arguments: &[&str]| {
        home.run(&[&["activity", "--json"], arguments].concat()).json()["events"].as_array().unwrap().len()
    };
    eventually("the event is in the account's list", async || (count(&[]) >= 1).then_some(())).await;
    assert_eq!(count(&["--as", "computer"]), 0);
    assert_eq!((count(&["--account"]), count(&["--as", "account"])), (count(&[]), count(&[])));
    assert!(home.run(&["activity", "--as", "computer"]).said().contains("`attache activity --account` shows"));
    home.run(&["usage", "--as", "account"]).said();
    home.run(&["usage", "--as", "agent"]).refused(5, &["attache agent register"]);
    // The person's level is the account's to set; the key reads it.
    home.run(&["consent", "get", "--as", "account"]).said();
    home.run(&["consent", "set", "off", "--as", "account"]).refused(5, &["unauthorized"]);
    home.run(&["pause", "--as", "account"]).refused(5, &["unauthorized"]);

    // Without the key the computer shows what it may.
    let key = keys(&server, &ada).await[0]["id"].as_str().unwrap().to_owned();
    flow::person(&home, &server, "ada@example.com").key_revoke(key.parse().unwrap()).await.unwrap();
    home.run(&["account"]).refused(5, &["revoked"]);
    assert_eq!(count(&[]), 0);
    home.run(&["usage"]).said();

    // A key without the scope shows nothing of the account.
    let (mut again, code) = logging_in(&home, &["--scope", "search"]).await;
    approve(&server, &ada, &code, true).await;
    assert_eq!(again.exit().await.code(), Some(0), "{}", again.stderr.text());
    assert!(!again.stdout.text().contains("it shows your account"), "{}", again.stdout.text());
    home.run(&["account"]).refused(5, &["attache login"]);
    assert_eq!(count(&[]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_made_only_where_the_person_agreed_to_it_on_the_page() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    let (mut login, code) = logging_in(&home, &[&server.url]).await;
    approve(&server, &ada, &code, false).await;
    assert_eq!(login.exit().await.code(), Some(5), "{}", login.stdout.text());
    assert!(login.stdout.text().contains("it has no key for the memory"), "{}", login.stdout.text());
    assert!(login.stderr.text().contains("it got no key"), "{}", login.stderr.text());
    assert!(flow::profile(&home).get("api_key").is_none());
    home.run(&["status"]).refused(5, &["no valid key for the memory"]);

    // The API has no page that names the key, whether a person or an agent approves.
    let (mut login, code) = logging_in(&home, &[]).await;
    flow::device_approve(&server, &ada, &code).await.unwrap().expect(200);
    assert_eq!(login.exit().await.code(), Some(5));
    let (_, tokens) = flow::agent(&server, &ada).await;
    let (mut login, code) = logging_in(&home, &[]).await;
    let agent = Credential::Bearer(flow::text(&tokens, "access_token"));
    flow::device_approve(&server, &agent, &code).await.unwrap().expect(200);
    assert_eq!(login.exit().await.code(), Some(5));
    assert!(keys(&server, &ada).await.is_empty());

    // The page offers no key to a computer that requested none, and a forged form creates none.
    let other = flow::machine(&server).await;
    let (_, code) = flow::device_code(&server, &other).await;
    assert!(!page(&server, &ada, &code).await.contains("with_key"));
    approve(&server, &ada, &code, true).await;
    assert!(keys(&server, &ada).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_beyond_the_accounts_maximum_attaches_nothing() {
    let home = Home::new().set("api_keys.per_account_max", "1");
    let server = home.serve().await;
    home.run(&["admin", "api-key", "create", "--email", "ada@example.com"]).said();
    let ada = flow::session(&home, "ada@example.com");
    let (mut login, code) = logging_in(&home, &[&server.url]).await;
    let refused = approve(&server, &ada, &code, true).await;
    assert_eq!(refused.status, 409);
    assert!(String::from_utf8_lossy(&refused.body).contains("as many keys as it may have"));
    let computers =
        Client::new().get(&format!("{}/api/v1/account/computers", server.url), ada.clone()).await.expect(200);
    assert_eq!(computers["computers"], json!([]));
    // Without the key the same code is still good.
    approve(&server, &ada, &code, false).await;
    assert_eq!(login.exit().await.code(), Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_and_a_key_know_themselves_alone() {
    let home = Home::new();
    let server = home.serve().await;
    let (machine, other) = (flow::machine(&server).await, flow::machine(&server).await);
    let about = |uuid: &str| format!("{}/api/v1/machines/{uuid}", server.url);
    let value = Client::new().get(&about(&machine.uuid), &machine).await.expect(200);
    assert_eq!(value, json!({ "machine_uuid": machine.uuid, "user_cuid": machine.user_cuid, "account": null }));
    Client::new().get(&about(&other.uuid), &machine).await.refused(404, "not_found");
    let ada = flow::session(&home, "ada@example.com");
    Client::new().get(&about(&machine.uuid), ada).await.refused(401, "unauthorized");

    let create = ["admin", "api-key", "create", "--email", "ada@example.com", "--scope", "write", "--name", "backup"];
    let key = Credential::Bearer(home.run(&create).said().to_owned());
    let value = Client::new().get(&format!("{}/v1/key", server.url), key).await.expect(200);
    assert_eq!(
        (&value["name"], &value["scopes"], &value["spaces"]),
        (&json!("backup"), &json!(["write"]), &Value::Null)
    );
    assert!(value.get("key").is_none());
    Client::new().get(&format!("{}/v1/key", server.url), &machine).await.refused(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_key_has_a_digest_and_known_scopes() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let ask = async |key: Value| {
        let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid, "api_key": key });
        Client::new().post(&format!("{}/api/v1/device/code", server.url), &machine, &body).await
    };
    let digest = "a".repeat(64);
    ask(json!({ "sha256": digest })).await.expect(200);
    ask(json!({ "sha256": digest, "scopes": ["search"] })).await.expect(200);
    ask(Value::Null).await.expect(200);
    for wrong in [json!({}), json!({ "sha256": "short" }), json!({ "sha256": digest, "scopes": ["all"] }), json!("x")] {
        ask(wrong).await.refused(400, "invalid_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_opened_by_the_browser_or_their_address_is_printed() {
    let home = Home::new();
    let url = "https://attache.example.com";
    let printed = home.run(&["open", "activity", "--url", url]);
    assert_eq!(printed.said(), "https://attache.example.com/account/activity", "there is no browser");
    let (browser, opened) = (home.dir.path().join("browser"), home.dir.path().join("opened"));
    let script = format!("#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n", opened.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let open = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("BROWSER", &browser).env("PATH", "/usr/bin:/bin").output().unwrap().stdout
    };
    let value: Value = serde_json::from_slice(&open(&["open", "knowledge", "--url", url, "--json"])).unwrap();
    assert_eq!(value, json!({ "url": "https://attache.example.com/knowledge", "opened": true }));
    let page = eventually("the browser has the page", async || std::fs::read_to_string(&opened).ok()).await;
    assert_eq!(page, "https://attache.example.com/knowledge");
    home.run(&["open", "everything"]).refused(2, &["activity"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_names_missing_credentials() {
    let home = Home::new();
    home.run(&["status", "--url", "http://127.0.0.1:1"]).refused(7, &["cannot be reached"]);
    let server = home.serve().await;
    let fresh = home.run(&["status", "--url", &server.url]);
    fresh.refused(5, &["attache login"]);
    assert!(fresh.stdout.contains("not registered") && fresh.stdout.contains("no key"), "{fresh:?}");
    home.run(&["machine", "register", "--url", &server.url]).said();
    let registered = home.run(&["status", "--json"]);
    assert_eq!(registered.code, Some(5));
    let value: Value = serde_json::from_str(&registered.stdout).unwrap();
    assert_eq!(
        (&value["registered"], &value["attached"], &value["api_key"]),
        (&json!(true), &json!(false), &Value::Null)
    );
    let failure: Value = serde_json::from_str(registered.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&failure["error"], &failure["exit_code"]), (&json!("unauthorized"), &json!(5)));
}
