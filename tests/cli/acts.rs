//! Acts of operators are on record: `attache admin act`, the log and the mail to the person.

use serde_json::{Value, json};

use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::Chain;

fn acts(home: &Home, more: &[&str]) -> Vec<Value> {
    let listed = home.run(&[&["admin", "act", "list", "--json"], more].concat()).json();
    listed.as_array().unwrap().clone()
}

/// Each command that changes something, or shows content, with its act and its outcome.
async fn each_act(home: &Home, server: &Server) -> Vec<(&'static str, &'static str)> {
    let created = home.run(&["admin", "account", "create", "--email", "ada@example.com", "--json"]).json();
    let account = flow::text(&created, "user_account_id");
    home.run(&["admin", "account", "create", "--email", "ada@example.com"]).refused(1, &["already has an account"]);
    home.run(&["admin", "plan", "set", "--account", &account, "--plan", "PRO", "--reason", "a gift"]).said();
    home.run(&["admin", "plan", "set", "--account", "nobody", "--plan", "PRO"]).refused(4, &["does not exist"]);
    home.run(&["admin", "balance", "add", "--account", &account, "--cents", "5", "--reason", "bought"]).said();
    home.run(&["admin", "session", "create", "--email", "ada@example.com", "--reason", "a question of hers"]).said();
    let key = home.run(&["admin", "api-key", "create", "--email", "ada@example.com", "--json"]).json();
    home.run(&["admin", "api-key", "revoke", &flow::text(&key, "id")]).said();
    home.run(&["admin", "api-key", "revoke", &flow::text(&key, "id")]).refused(1, &["already revoked"]);
    let (cuid, uuid) = ("tz4a98xxat96iws9zmbrgj3a", flow::uuid());
    home.run(&["admin", "machine", "add", "--user-cuid", cuid, "--machine-uuid", &uuid]).said();
    home.run(&["admin", "machine", "attach", "--machine-uuid", &uuid, "--account", &account]).said();
    home.run(&["admin", "machine", "remove", &uuid]).said();
    let agent = flow::identity(server, &json!({ "type": "anonymous" })).await;
    home.run(&["admin", "agent", "revoke", &flow::text(&agent, "registration_id")]).said();
    home.run(&["keys", "rotate"]).said();
    let machine = flow::machine(server).await;
    for _ in 0..2 {
        let mut event = Chain::new(&machine).next();
        event["event_type"] = json!("memory.dreamt");
        flow::event(server, &machine, &event).await.held("unknown_event_type");
    }
    let held = home.run(&["admin", "held", "list", "--json"]).json();
    let held = flow::text(&held[0], "id");
    home.run(&["admin", "held", "show", &held]).said();
    home.run(&["admin", "held", "release", &held]).refused(1, &["still held"]);
    home.run(&["admin", "held", "discard", &held]).said();
    for list in ["batch", "mail", "webhook"] {
        assert_eq!(home.run(&["admin", list, "list", "--json"]).json(), json!([]));
    }
    home.run(&["admin", "batch", "cancel", &held]).refused(4, &["no running batch has this id"]);
    home.run(&["admin", "mail", "retry", &held]).refused(4, &["no mail with this id waits"]);
    home.run(&["admin", "mail", "give-up", &held]).refused(4, &["no mail with this id waits"]);
    home.run(&["admin", "webhook", "disable", &held]).refused(4, &["no webhook has this id"]);
    home.run(&["admin", "webhook", "enable", &held]).refused(4, &["no webhook with this id is disabled"]);
    let sessions = home.run(&["admin", "session", "list", "--account", &account, "--json"]).json();
    home.run(&["admin", "session", "end", &flow::text(&sessions[0], "id")]).said();
    home.run(&["backup", "create", "backup"]).said();
    home.run(&["admin", "log", "epoch", "--reason", "a drill"]).said();
    home.run(&["admin", "account", "close", "--account", &account, "--dry-run"]).said();
    home.run(&["admin", "account", "close", "--account", &account]).said();
    home.run(&["migrate"]).said();
    vec![
        ("account_create", "applied"),
        ("account_create", "refused"),
        ("plan_set", "applied"),
        ("plan_set", "refused"),
        ("balance_add", "applied"),
        ("session_create", "applied"),
        ("api_key_create", "applied"),
        ("api_key_revoke", "applied"),
        ("api_key_revoke", "refused"),
        ("machine_add", "applied"),
        ("machine_attach", "applied"),
        ("machine_remove", "applied"),
        ("agent_revoke", "applied"),
        ("keys_rotate", "applied"),
        ("held_show", "applied"),
        ("held_release", "begun"),
        ("held_discard", "applied"),
        ("batch_cancel", "refused"),
        ("mail_retry", "refused"),
        ("mail_give_up", "refused"),
        ("webhook_disable", "refused"),
        ("webhook_enable", "refused"),
        ("session_end", "applied"),
        ("backup_create", "begun"),
        ("log_epoch", "applied"),
        ("account_close", "applied"),
        ("migrate", "applied"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_act_is_recorded_once_and_proven() {
    let home = Home::new().set("consent.outbox_every", "200ms");
    let server = home.serve().await;
    let expected = each_act(&home, &server).await;
    let mut listed = acts(&home, &[]);
    listed.reverse();
    let found: Vec<_> =
        listed.iter().map(|act| (act["act"].as_str().unwrap(), act["outcome"].as_str().unwrap())).collect();
    assert_eq!(found, expected);
    let uid = std::fs::metadata("/proc/self").map(|about| std::os::unix::fs::MetadataExt::uid(&about)).unwrap();
    assert!(listed.iter().all(|act| act["by"].as_str().unwrap().starts_with(&format!("shell:{uid}"))), "{listed:?}");
    assert!(!json!(listed).to_string().contains("@example.com"), "acts name ids only");
    let plan = acts(&home, &["--act", "plan_set", "--limit", "2"]).pop().unwrap();
    assert_eq!((&plan["before"], &plan["after"]), (&json!({ "plan": "FREE" }), &json!({ "plan": "PRO" })));
    assert_eq!(plan["reason"], "a gift");
    let of_account = acts(&home, &["--target", plan["target"].as_str().unwrap()]);
    assert_eq!(of_account.len(), 3, "{of_account:?}");
    home.run(&["admin", "act", "list", "--act", "boredom"]).refused(2, &["expected one of", "session_create"]);

    flow::acts_sent(&home).await;
    let verified = home.run(&["admin", "act", "verify", "--json"]).json();
    assert_eq!(verified, json!({ "proven": expected.len(), "waiting": 0, "faults": [] }));
    assert!(home.run(&["doctor", "--deep"]).said().contains(&format!("{} are in the log, 0 wait", expected.len())));
    let shown = home.run(&["admin", "act", "show", &flow::text(&plan, "id"), "--json"]).json();
    assert_eq!(shown["event"]["event_type"], "operator.plan_set");
    assert!(home.run(&["admin", "act", "list"]).said().contains("a gift"));
    home.run(&["admin", "act", "show", &flow::uuid()]).refused(4, &["no act has this id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_between_table_and_log_is_found() {
    let home = Home::new().set("consent.outbox_every", "200ms");
    let mut server = home.serve().await;
    for plan in ["PRO", "MAX"] {
        home.run(&["admin", "session", "create", "--email", "ada@example.com", "--silent"]).said();
        home.run(&["admin", "plan", "set", "--email", "ada@example.com", "--plan", plan]).said();
    }
    flow::acts_sent(&home).await;
    server.process.signal("TERM");
    server.process.exit().await;
    let path = home.data().join("attache.db");
    assert_eq!(flow::change_tables(&path, "DELETE FROM operator_acts WHERE seq = 1").await, 1);
    let verified = home.run(&["admin", "act", "verify"]);
    verified.refused(1, &["table and log differ in 1 acts"]);
    assert!(home.run(&["doctor", "--deep"]).stdout.contains("the log contains the act"));
    let sql = "UPDATE operator_acts SET body = CAST(REPLACE(CAST(body AS TEXT), 'MAX', 'FREE') AS BLOB)";
    flow::change_tables(&path, sql).await;
    home.run(&["admin", "act", "verify"]).refused(1, &["differ in 2 acts"]);
    home.run(&["admin", "act", "list"]).refused(1, &["was changed in the table"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_by_an_operator_is_mailed_short_and_marked() {
    let home = Home::new();
    let server = home.serve().await;
    let mails = || {
        let files = std::fs::read_dir(home.data().join("outbox")).into_iter().flatten();
        let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default());
        texts.filter(|text| text.contains("An operator signed in as you")).collect::<Vec<_>>()
    };
    let create = |more: &[&str]| {
        home.run(&[&["admin", "session", "create", "--email", "ada@example.com"], more].concat()).said().to_owned()
    };
    create(&["--silent"]);
    let cookie = create(&["--reason", "ticket 7"]);
    let mail = eventually("a mail", async || mails().pop()).await;
    assert!(mail.contains("ticket 7") && mails().len() == 1, "{mail}");
    let acts = acts(&home, &["--act", "session_create"]);
    let silent: Vec<_> = acts.iter().map(|act| act["after"]["silent"].as_bool().unwrap()).collect();
    assert_eq!(silent, [false, true]);
    let until = |act: &Value| act["until"].as_str().unwrap().parse::<domain::Timestamp>().unwrap();
    let done = |act: &Value| act["done_at"].as_str().unwrap().parse::<domain::Timestamp>().unwrap();
    assert!(acts.iter().all(|act| until(act) - done(act) <= chrono::TimeDelta::seconds(3601)), "{acts:?}");
    let page = Client::new().get(&format!("{}/account/access", server.url), Credential::Cookie(cookie)).await;
    assert_eq!(page.status, 200);
    assert!(String::from_utf8_lossy(&page.body).contains("by the operator"));
}

#[test]
fn acts_without_a_server_wait_and_a_reason_has_a_limit() {
    let home = Home::new();
    home.run(&["migrate", "--reason", "a new version"]).said();
    let listed = acts(&home, &[]);
    assert_eq!((listed.len(), &listed[0]["sent_at"], &listed[0]["reason"]), (1, &json!(null), &json!("a new version")));
    assert_eq!(home.run(&["admin", "act", "verify", "--json"]).json()["waiting"], 1);
    for wrong in ["", "one\ntwo", &"x".repeat(501)] {
        home.run(&["migrate", "--reason", wrong]).refused(2, &["1 to 500 characters"]);
    }
    assert_eq!(acts(&home, &[]).len(), 1);
}
