//! Samples of events for operators, without their content.

use std::collections::BTreeMap;

use attache::admin::ops::PREFIX;
use blackbox::world::World;
use harness::event::Chain;
use harness::on_each_database;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::ops::{Door, acts, ask};

async fn tap(world: &World, query: &str) -> Response {
    let socket = world.server.app.settings.data.dir.join("operator.sock");
    let client = http_client::builder().unix_socket(socket).build().unwrap();
    client.get(format!("http://localhost{PREFIX}/tap?{query}")).send().await.unwrap()
}

/// The next events, until there are as many samples.
async fn samples(tap: &mut Response, number: usize) -> Vec<Value> {
    let mut text = String::new();
    while text.matches("event: sample\n").count() < number {
        text.push_str(str::from_utf8(&tap.chunk().await.unwrap().unwrap()).unwrap());
    }
    let pieces = text.split("\n\n").filter(|piece| piece.starts_with("event: sample"));
    pieces.map(|piece| serde_json::from_str(piece.split_once("data: ").unwrap().1).unwrap()).collect()
}

on_each_database! {
    async fn an_operator_sees_events_without_content_and_the_record_says_so(world: World) {
        let (machine, other) = (world.machine().await, world.machine().await);
        let mut of_one = tap(&world, &format!("reason=a%20look&for=60s&machine={}", machine.uuid)).await;
        let mut of_held = tap(&world, "reason=a%20look&outcome=held").await;
        let (mut chain, mut elsewhere) = (Chain::new(&machine), Chain::new(&other));
        world.event(&other, &elsewhere.next()).await.receipt();
        let event = chain.next();
        world.event(&machine, &event).await.receipt();
        let unknown = elsewhere.next_with(|event| event["event_type"] = json!("memory.dreamt"));
        world.event(&other, &unknown).await.held("unknown_event_type");

        let sample = samples(&mut of_one, 1).await.remove(0);
        for member in ["event_id", "event_type", "lane"] {
            assert_eq!(sample[member], event[member], "{sample:#}");
        }
        assert_eq!((&sample["outcome"], &sample["reason"], &sample["machine_id"]), (&json!("forwarded"), &Value::Null, &json!(machine.uuid)));
        assert!(sample["bytes"].as_u64().unwrap() > 300 && sample["took_ms"].as_f64().unwrap() > 0.0, "{sample:#}");
        let members: BTreeMap<String, Value> = serde_json::from_value(sample).unwrap();
        let expected = ["at", "bytes", "event_id", "event_type", "lane", "machine_id", "outcome", "payer", "reason", "skipped", "took_ms"];
        assert_eq!(members.keys().collect::<Vec<_>>(), expected, "metadata only");
        let held = samples(&mut of_held, 1).await.remove(0);
        assert_eq!((&held["outcome"], &held["reason"], &held["event_id"]), (&json!("held"), &json!("unknown_event_type"), &unknown["event_id"]));

        let recorded = acts(&world).await;
        let taps: Vec<_> = recorded.iter().filter(|act| act["act"] == "event_tap").collect();
        assert_eq!((taps.len(), &taps[0]["after"]["outcome"], &taps[1]["after"]["machine"]), (2, &json!("held"), &json!(machine.uuid)));

        for (query, error) in [("for=10s", "reason_missing"), ("reason=a&for=61s", "invalid_query"), ("reason=a&outcome=lost", "invalid_query")] {
            ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/tap?{query}"), None).await.refused(422, error);
        }
        // A tap ends by itself.
        let mut short = tap(&world, "reason=a%20look&for=1s").await;
        let mut text = String::new();
        while let Some(chunk) = short.chunk().await.unwrap() {
            text.push_str(str::from_utf8(&chunk).unwrap());
        }
        assert!(text.starts_with("event: begun\ndata: ") && text.ends_with("event: end\ndata: {}\n\n"), "{text}");
    }
}
