//! An endpoint that a server notifies.

use std::net::SocketAddr;

use reqwest::RequestBuilder;
use serde_json::json;

use blackbox::client::Client;
use blackbox::flow;
use blackbox::process::{Home, Server};

/// A server with webhooks, which may send to this address.
pub fn home(receiver: SocketAddr) -> Home {
    Home::new()
        .set("webhooks.enabled", "true")
        .set("webhooks.allow_http", "true")
        .set("webhooks.allow_private", "[\"127.0.0.0/8\"]")
        .set("webhooks.ports", &format!("[{}]", receiver.port()))
        .set("webhooks.look_every", "50ms")
        .set("webhooks.timeout", "1s")
}

/// Adds the endpoint `/ok` for an account; the request that sends it a test.
pub async fn test(home: &Home, server: &Server, receiver: SocketAddr) -> RequestBuilder {
    let (client, person) = (Client::new(), flow::session(home, "ada@example.com"));
    let webhooks = format!("{}/api/v1/webhooks", server.url);
    let body = json!({ "url": format!("http://{receiver}/ok"), "kinds": ["event.held"] });
    let made = client.post(&webhooks, person.clone(), &body).await.expect(201);
    let test = format!("{webhooks}/{}/test", made["id"].as_str().unwrap());
    client.request(reqwest::Method::POST, &test, &person).json(&json!({}))
}
