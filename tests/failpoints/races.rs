//! Races between two operations: a failpoint delays one operation until the other runs.

use std::sync::Arc;

use harness::upstream::{Reply, Script, TOKEN, Upstream};

use blackbox::client::Client;
use blackbox::flow;
use blackbox::process::Home;
use harness::event::Chain;

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_while_its_event_is_being_held_settles_the_held_entry() {
    let upstream = Arc::new(Upstream::start().await);
    let home = Home::new().set("upstream.url", &upstream.url()).set("upstream.token", TOKEN);
    let server = home.serve_failing("hold.before=1*sleep(500)").await;
    let client = Client::new();
    let machine = client.machine(&server.url, "tz4a98xxat96iws9zmbrgj3a", &flow::uuid()).await;
    let event = Chain::new(&machine).next();
    let id = flow::text(&event, "event_id");
    upstream.for_event(id.as_str(), Script::reply(Reply::new(400)));
    let body = bytes::Bytes::from(event.to_string());
    let first = {
        let (client, url, machine, body) = (client.clone(), server.url.clone(), machine.clone(), body.clone());
        tokio::spawn(async move { client.event(&url, &machine, body).await })
    };
    // The service has refused and the entry is being written: no event of this computer is held yet when the resend arrives.
    upstream.wait_for_requests(1).await;
    let second = client.event(&server.url, &machine, body.clone()).await.unwrap();
    assert!(first.await.unwrap().unwrap().warning().starts_with("upstream_refused: "));
    let receipt = second.receipt();
    assert_eq!(upstream.taken()[&id].receipt_id, receipt);
    assert_eq!(home.run(&["admin", "held", "list"]).said(), "(none)", "it was forwarded");
}
