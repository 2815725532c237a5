//! `attache admin webhook` and `attache admin session` with a running server.

use serde_json::{Value, json};

use blackbox::client::{Client, Credential};
use blackbox::flow;
use blackbox::process::Home;

fn list(home: &Home, command: &[&str]) -> Vec<Value> {
    home.run(&[&["admin"], command, &["--json"]].concat()).json().as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_disables_and_enables_a_webhook() {
    let home = Home::new().set("webhooks.enabled", "true");
    let server = home.serve().await;
    let cookie = home.run(&["admin", "session", "create", "--email", "ada@example.com"]).said().to_owned();
    let cookie = Credential::Cookie(cookie);
    let (client, url) = (Client::new(), format!("{}/api/v1/webhooks", server.url));
    let body = json!({ "url": "https://pager.example.com:8443/T0/secret?key=secret", "kinds": ["event.held"] });
    let id = flow::text(&client.post(&url, cookie.clone(), &body).await.expect(201), "id");

    let listed = list(&home, &["webhook", "list"]);
    assert_eq!((listed.len(), &listed[0]["id"], &listed[0]["host"]), (1, &json!(id), &json!("pager.example.com:8443")));
    assert!(!json!(listed).to_string().contains("secret"), "{listed:?}");
    home.run(&["admin", "webhook", "enable", &id]).refused(4, &["one that its owner disabled is enabled by its owner"]);
    let disabled = home.run(&["admin", "webhook", "disable", &id, "--reason", "a test", "--json"]).json();
    assert_eq!(disabled["target"], format!("webhook:{id}"));
    let act = home.run(&["admin", "act", "show", &flow::text(&disabled, "act_id"), "--json"]).json();
    assert_eq!((&act["act"], &act["reason"]), (&json!("webhook_disable"), &json!("a test")), "{act}");
    home.run(&["admin", "webhook", "disable", &id]).refused(4, &["an operator has disabled it already"]);
    let text = home.run(&["admin", "webhook", "list"]).said().to_owned();
    assert!(text.contains("operator") && text.contains("pager.example.com"), "{text}");
    let shown = client.get(&url, cookie.clone()).await.expect(200)["webhooks"][0].clone();
    assert_eq!(shown["disabled_reason"], "operator");
    assert!(home.run(&["admin", "webhook", "enable", &id]).said().contains("is enabled"));
    assert_eq!(client.get(&url, cookie).await.expect(200)["webhooks"][0]["enabled"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_session_of_a_running_server() {
    let home = Home::new();
    let server = home.serve().await;
    let create = |email: &str| {
        let created = home.run(&["admin", "session", "create", "--email", email, "--json"]).json();
        let cookie = format!("{}={}", flow::text(&created, "name"), flow::text(&created, "value"));
        (flow::text(&created, "person_id"), Credential::Cookie(cookie))
    };
    let ((ada, hers), (_, his)) = (create("ada@example.com"), create("bob@example.com"));
    let (client, url) = (Client::new(), format!("{}/api/v1/sessions", server.url));
    // The server remembers the session.
    for _ in 0..3 {
        client.get(&url, hers.clone()).await.expect(200);
    }
    assert_eq!(list(&home, &["session", "list"]).len(), 2);
    let listed = list(&home, &["session", "list", "--person", &ada]);
    assert_eq!(listed, list(&home, &["session", "list", "--email", "ada@example.com"]));
    assert_eq!((listed.len(), &listed[0]["by_operator"]), (1, &json!(true)));
    assert!(!json!(listed).to_string().contains("example.com"), "{listed:?}");
    let id = flow::text(&listed[0], "id");
    let ended = home.run(&["admin", "session", "end", &id, "--reason", "a lost laptop"]).said().to_owned();
    assert_eq!(ended, format!("{id} is ended"));
    client.get(&url, hers).await.refused(401, "unauthorized");
    client.get(&url, his).await.expect(200);
    home.run(&["admin", "session", "end", &id]).refused(4, &["no session with this id is valid"]);
    assert_eq!(list(&home, &["session", "list"]).len(), 1);
}
