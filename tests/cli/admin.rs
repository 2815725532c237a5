//! `attache admin account|session|machine|agent`, while the server runs.

use serde_json::json;

use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::Home;
use harness::event::{Chain, Machine};

#[test]
fn accounts_are_created_once_per_person_and_once_per_identity() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    let create = |arguments: &[&str]| home.run(&[&["admin", "account", "create"], arguments].concat());
    let made =
        create(&["--email", "ada@example.com", "--user-cuid", "tz4a98xxat96iws9zmbrgj3a", "--name", "Ada", "--json"])
            .json();
    let id = flow::text(&made, "user_account_id");
    create(&["--email", "ADA@example.com "]).refused(1, &["the person already has an account"]);
    create(&["--user-cuid", "tz4a98xxat96iws9zmbrgj3a"]).refused(1, &["the identity is already linked to an account"]);
    create(&["--email", "not an address"]).refused(2, &["--email"]);
    create(&["--user-cuid", "NOT-A-CUID"]).refused(2, &["--user-cuid"]);
    let done = create(&[]);
    assert!(done.said().starts_with("account ") && done.said().ends_with(" is created"), "{done:?}");

    let listed = home.run(&["admin", "account", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let ada = listed.as_array().unwrap().iter().find(|account| account["user_account_id"] == id).unwrap();
    assert_eq!((&ada["name"], &ada["plan"], &ada["balance_cents"]), (&json!("Ada"), &json!("FREE"), &json!(0)));
    assert_eq!(ada["email"], "ada@example.com");
    let table = home.run(&["admin", "account", "list"]);
    assert_eq!(table.said().lines().count(), 3);
    assert!(table.said().contains(&id) && table.said().contains("ada@example.com"));
    let of_ada = home.run(&["admin", "account", "list", "--email", "ada@example.com", "--json"]).json();
    assert_eq!((of_ada.as_array().unwrap().len(), &of_ada[0]["user_account_id"]), (1, &json!(id)));
    let persons = home.run(&["admin", "person", "list", "--json"]).json();
    assert_eq!((persons.as_array().unwrap().len(), &persons[0]["user_account_id"]), (1, &json!(id)));
    assert!(home.run(&["admin", "person", "list", "--account", &id]).said().contains("ada@example.com"));
    home.run(&["admin", "person", "list", "--email", "eve@example.com"]).refused(4, &["the account does not exist"]);
    assert_eq!(home.run(&["admin", "account", "list", "--limit", "1", "--json"]).json().as_array().unwrap().len(), 1);
    // The first sign-in of the person finds the prepared account.
    let session = home.run(&["admin", "session", "create", "--email", "ada@example.com", "--json"]).json();
    assert_eq!(session["user_account_id"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_limited_to_one_account() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = crate::account::adas(&home, &server).await;
    home.run(&["admin", "session", "create", "--email", "bob@example.com"]).said();
    flow::machine(&server).await;
    flow::identity(&server, &json!({ "type": "anonymous" })).await;
    for email in ["ada@example.com", "bob@example.com"] {
        home.run(&["admin", "api-key", "create", "--email", email, "--name", email]).said();
    }
    let list = |what: &str, email: &str| home.run(&["admin", what, "list", "--email", email, "--json"]).json();
    for what in ["machine", "agent", "api-key"] {
        let all = home.run(&["admin", what, "list", "--json"]).json();
        assert_eq!(all.as_array().unwrap().len(), 2, "{what}: {all}");
        assert_eq!(list(what, "ada@example.com").as_array().unwrap().len(), 1, "{what}");
        home.run(&["admin", what, "list", "--email", "eve@example.com"]).refused(4, &["the account does not exist"]);
        let both = ["admin", what, "list", "--email", "a@example.com", "--account", "tz4a98xxat96iws9zmbrgj3a"];
        home.run(&both).refused(2, &["--account"]);
    }
    assert_eq!(list("machine", "ada@example.com")[0]["machine_uuid"], machine.uuid);
    assert_eq!(list("agent", "ada@example.com")[0]["status"], "claimed");
    assert_eq!(list("api-key", "bob@example.com")[0]["name"], "bob@example.com");
    assert_eq!((list("machine", "bob@example.com"), list("agent", "bob@example.com")), (json!([]), json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_at_once_on_the_living_server() {
    let home = Home::new();
    let server = home.serve().await;
    let activity = format!("{}/api/v1/activity", server.url);
    let output = home.run(&["admin", "session", "create", "--email", "ada@example.com"]);
    let cookie = output.said();
    assert!(cookie.starts_with("attache.session_token=ses_") && cookie.lines().count() == 1, "{cookie}");
    Client::new().get(&activity, Credential::Cookie(cookie.to_owned())).await.expect(200);

    let second = home.run(&["admin", "session", "create", "--email", "ada@example.com", "--json"]).json();
    let cookie = format!("{}={}", flow::text(&second, "name"), flow::text(&second, "value"));
    Client::new().get(&activity, Credential::Cookie(cookie)).await.expect(200);
    assert_eq!(
        home.run(&["admin", "account", "list", "--json"]).json()[0]["user_account_id"],
        second["user_account_id"]
    );
    Client::new()
        .get(&activity, Credential::Cookie("attache.session_token=ses_x".into()))
        .await
        .refused(401, "unauthorized");
}

#[test]
fn over_https_the_cookie_is_a_secure_one() {
    let home = Home::new().set("http.base_url", "https://attache.example.com");
    home.run(&["migrate"]).said();
    let output = home.run(&["admin", "session", "create", "--email", "ada@example.com"]);
    assert!(output.said().starts_with("__Secure-attache.session_token=ses_"), "{output:?}");
}

#[test]
fn a_session_without_account_creation_has_no_account() {
    let home = Home::new().set("signin.create_account", "false");
    home.run(&["migrate"]).said();
    let made = home.run(&["admin", "session", "create", "--email", "ada@example.com", "--json"]).json();
    assert_eq!(made["user_account_id"], json!(null));
    assert_eq!(home.run(&["admin", "account", "list"]).said(), "(none)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_added_attached_listed_and_removed() {
    let home = Home::new().set("machines.registration", "off");
    let server = home.serve().await;
    let (cuid, uuid) = ("tz4a98xxat96iws9zmbrgj3a", flow::uuid());
    let add = |arguments: &[&str]| home.run(&[&["admin", "machine", "add", "--user-cuid", cuid], arguments].concat());
    let made = add(&["--machine-uuid", &uuid, "--name", "Ada's laptop", "--json"]).json();
    let machine = Machine { user_cuid: cuid.into(), uuid: uuid.clone(), secret: flow::text(&made, "machine_secret") };
    assert_eq!((&made["machine_uuid"], &made["user_cuid"]), (&json!(uuid), &json!(cuid)));
    add(&["--machine-uuid", &uuid]).refused(1, &["already registered"]);
    add(&["--machine-uuid", "019b76da-a800-4a67-8a14-94a3f41b0634"]).refused(2, &["--machine-uuid"]);
    let mut chain = Chain::new(&machine);
    flow::event(&server, &machine, &chain.next()).await.receipt();

    let account = flow::text(
        &home.run(&["admin", "account", "create", "--email", "ada@example.com", "--json"]).json(),
        "user_account_id",
    );
    let attach = |uuid: &str, account: &str| {
        home.run(&["admin", "machine", "attach", "--machine-uuid", uuid, "--account", account])
    };
    assert_eq!(attach(&uuid, &account).said(), format!("{uuid} is attached to {account}"));
    attach(&uuid, &account).said();
    let other = flow::text(&home.run(&["admin", "account", "create", "--json"]).json(), "user_account_id");
    attach(&uuid, &other).refused(1, &["attached to another account"]);
    attach(&flow::uuid(), &account).refused(4, &["no computer with this id"]);
    let second = flow::uuid();
    add(&["--machine-uuid", &second]).said();
    attach(&second, &other).refused(1, &["the computer's identity is linked to another account"]);
    attach(&second, "tz4a98xxat96iws9zmbrgj3b").refused(1, &["attache: "]);
    // The person sees what their computer did.
    let page = Client::new()
        .get(&format!("{}/api/v1/activity", server.url), flow::session(&home, "ada@example.com"))
        .await
        .expect(200);
    assert_eq!(page["events"].as_array().unwrap().len(), 1);

    let listed = home.run(&["admin", "machine", "list", "--json"]).json();
    let first = listed.as_array().unwrap().iter().find(|listed| listed["machine_uuid"] == uuid).unwrap();
    assert_eq!((&first["name"], &first["user_account_id"]), (&json!("Ada's laptop"), &json!(account)));
    let table = home.run(&["admin", "machine", "list"]);
    assert!(table.said().contains(&uuid) && !table.said().contains("msk_"));

    assert_eq!(home.run(&["admin", "machine", "remove", &uuid]).said(), format!("{uuid} is removed"));
    home.run(&["admin", "machine", "remove", &uuid]).refused(4, &["no computer with this id"]);
    flow::event(&server, &machine, &chain.next()).await.refused(401, "machine_unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_listed_and_revoked_permanently() {
    let home = Home::new();
    let server = home.serve().await;
    let person = flow::session(&home, "ada@example.com");
    let (id, tokens) = flow::agent(&server, &person).await;
    let unclaimed = flow::identity(&server, &json!({ "type": "anonymous" })).await;
    let token = Credential::Bearer(flow::text(&tokens, "access_token"));
    let activity = format!("{}/api/v1/activity", server.url);
    Client::new().get(&activity, token.clone()).await.expect(200);

    let status = |id: &str| {
        let listed = home.run(&["admin", "agent", "list", "--json"]).json();
        let agent = listed.as_array().unwrap().iter().find(|agent| agent["id"] == id).cloned();
        flow::text(&agent.unwrap(), "status")
    };
    assert_eq!(status(&id), "claimed");
    assert_eq!(status(&flow::text(&unclaimed, "registration_id")), "unclaimed");
    assert!(home.run(&["admin", "agent", "list"]).said().contains(&id));

    assert_eq!(home.run(&["admin", "agent", "revoke", &id, "--json"]).json(), json!({ "revoked": id }));
    assert_eq!(status(&id), "revoked");
    Client::new().get(&activity, token).await.refused(401, "unauthorized");
    let assertion = flow::text(&tokens, "identity_assertion");
    // The ceremony in the running server sees it within about a second.
    eventually("its assertion is refused", async || {
        let response = flow::token_by_assertion(&server, &assertion).await;
        (response.status == 400 && response.json()["error"] == "invalid_grant").then_some(())
    })
    .await;
    home.run(&["admin", "agent", "revoke", &id]).refused(1, &["the agent does not exist or is already revoked"]);
    home.run(&["admin", "agent", "revoke", &flow::uuid()]).refused(1, &["the agent does not exist"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_plan_and_balance_are_visible_at_once() {
    let home = Home::new();
    let server = home.serve().await;
    let person = flow::session(&home, "ada@example.com");
    let account = flow::text(&home.run(&["admin", "account", "list", "--json"]).json()[0], "user_account_id");
    let bar = async || Client::new().get(&format!("{}/api/v1/usage/bar", server.url), person.clone()).await.expect(200);
    assert_eq!((&bar().await["plan"], &bar().await["balance_cents"]), (&json!("FREE"), &json!(0)));

    let set = |arguments: &[&str]| home.run(&[&["admin", "plan", "set"], arguments].concat());
    assert_eq!(
        set(&["--email", "Ada@example.com", "--plan", "PLUS", "--json"]).json(),
        json!({ "user_account_id": account, "plan": "PLUS" })
    );
    assert_eq!(set(&["--account", &account, "--plan", "PRO"]).said(), format!("{account} has the plan PRO now"));
    set(&["--email", "nobody@example.com", "--plan", "PRO"]).refused(4, &["the account does not exist"]);
    set(&["--account", "tz4a98xxat96iws9zmbrgj3a", "--plan", "PRO"]).refused(4, &["the account does not exist"]);
    set(&["--account", &account, "--plan", "GOLD"]).refused(2, &["expected one of FREE, PLUS, PRO, MAX"]);
    set(&["--plan", "PRO"]).refused(2, &["--account"]);
    set(&["--account", &account, "--email", "ada@example.com", "--plan", "PRO"]).refused(2, &["cannot be used with"]);

    let add = |arguments: &[&str]| home.run(&[&["admin", "balance", "add"], arguments].concat());
    let added = add(&["--email", "ada@example.com", "--cents", "500", "--reason", "bought", "--json"]).json();
    assert_eq!(added, json!({ "user_account_id": account, "cents": 500, "balance_cents": 500 }));
    let taken = add(&["--account", &account, "--cents", "-120", "--reason", " paid back "]);
    assert_eq!(taken.said(), format!("the balance of {account} is 380 cents now"));
    add(&["--account", &account, "--cents", "5", "--reason", " "]).refused(2, &["--reason"]);
    add(&["--account", &account, "--cents", "5.5", "--reason", "x"]).refused(2, &["--cents"]);
    add(&["--account", &account, "--cents", "9223372036854775807", "--reason", "x"]).refused(1, &["out of range"]);
    add(&["--account", "tz4a98xxat96iws9zmbrgj3a", "--cents", "5", "--reason", "x"])
        .refused(4, &["the account does not exist"]);
    assert_eq!((&bar().await["plan"], &bar().await["balance_cents"]), (&json!("PRO"), &json!(380)));

    let list = |arguments: &[&str]| home.run(&[&["admin", "balance", "list"], arguments].concat());
    let listed = list(&["--account", &account, "--json"]).json();
    let seen: Vec<_> = listed.as_array().unwrap().iter().map(|entry| (&entry["cents"], &entry["reason"])).collect();
    assert_eq!(seen, [(&json!(-120), &json!("paid back")), (&json!(500), &json!("bought"))]);
    assert_eq!(list(&["--email", "ada@example.com", "--limit", "1"]).said().lines().count(), 2);
    list(&["--account", "tz4a98xxat96iws9zmbrgj3a"]).refused(4, &["the account does not exist"]);
    list(&["--email", "nobody@example.com"]).refused(4, &["the account does not exist"]);
}

#[test]
fn a_key_for_a_space_that_the_account_may_not_read_is_refused() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    let unknown = "019b76da-a800-7a67-8a14-94a3f41b0634";
    let create = ["admin", "api-key", "create", "--email", "ada@example.com"];
    home.run(&[&create[..], &["--space", unknown]].concat()).refused(1, &["cannot read the space", unknown]);
    assert_eq!(home.run(&["admin", "api-key", "list", "--json"]).json(), json!([]));
    assert!(home.run(&create).said().starts_with("ak_"));
}

#[test]
fn an_account_is_closed_once_and_its_address_may_sign_up_again() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    let made = home.run(&["admin", "account", "create", "--email", "ada@example.com", "--json"]).json();
    let account = flow::text(&made, "user_account_id");
    let output = home.run(&["admin", "account", "close", "--email", "ada@example.com", "--dry-run"]);
    assert!(output.said().contains("would be closed: 0 computers, 0 agents and 0 API keys"), "{output:?}");
    let state = || home.run(&["admin", "account", "list", "--account", &account, "--json"]).json()[0]["state"].clone();
    assert_eq!(state(), "open", "nothing is closed yet");
    let closed = home.run(&["admin", "account", "close", "--email", "ada@example.com"]);
    assert_eq!(closed.said(), format!("account {account} is closed"));
    assert_eq!(state(), "closed");
    assert!(home.run(&["admin", "account", "list"]).said().contains("closed"));
    let again = home.run(&["admin", "account", "close", "--account", &account]);
    again.refused(1, &["the account does not exist, or is closed already"]);
    let other = home.run(&["admin", "account", "create", "--email", "ada@example.com", "--json"]).json();
    assert_ne!(flow::text(&other, "user_account_id"), account);
}
