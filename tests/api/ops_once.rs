//! A change that an operator sends again, and changes of one object at the same time.

use attache::admin::ops::PREFIX;
use domain::operator::OperatorRole;
use reqwest::Method;
use serde_json::{Value, json};

use super::ops::{Door, acts, ask, token, with_token};
use blackbox::world::World;
use harness::on_each_database;

/// Sends a change with a key; returns the status and the body.
async fn send(world: &World, role: OperatorRole, key: &str, path: &str, body: &Value) -> (u16, Value) {
    let client = http_client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("http://{}{PREFIX}{path}", world.server.admin_address));
    let request = request.bearer_auth(token(role)).header("idempotency-key", key);
    let response = request.json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn operated(world: World) -> World {
    world
        .restart_with(|settings| {
            settings.admin.changes = true;
            settings.admin.operator = [OperatorRole::Operate, OperatorRole::Admin].map(with_token).to_vec();
            settings.limits.operator_failures_per_minute = 0;
        })
        .await
}

on_each_database! {
    async fn a_repeated_request_changes_nothing_and_has_the_first_answer(world: World) {
        let world = operated(world).await;
        let (desk, chief) = (OperatorRole::Operate, OperatorRole::Admin);
        let pause = json!({ "part": "backfill", "reason": "a test" });
        let first = send(&world, desk, "1", "/pauses", &pause).await;
        assert_eq!(first.0, 200, "{:#}", first.1);
        assert_eq!(send(&world, desk, "1", "/pauses", &pause).await, first);
        // Also on another process, and after a refusal that would be lasting.
        let world = world.restart().await;
        assert_eq!(send(&world, desk, "1", "/pauses", &pause).await, first);
        let invalid = json!({ "part": "nothing", "reason": "a test" });
        let refused = send(&world, desk, "2", "/pauses", &invalid).await;
        assert_eq!((refused.0, send(&world, desk, "2", "/pauses", &invalid).await), (422, refused));
        assert_eq!(acts(&world).await.len(), 2, "a repeated request is no further act");

        let (status, other) = send(&world, desk, "1", "/pauses", &invalid).await;
        assert_eq!((status, &other["error"]), (422, &json!("idempotency_key_reused")));
        let (status, malformed) = send(&world, desk, &"k".repeat(256), "/pauses", &pause).await;
        assert_eq!((status, &malformed["error"]), (422, &json!("invalid_request")));
        // The key of another operator is another one, and a conflict may be over at the next attempt.
        for _ in 0..2 {
            let (status, conflict) = send(&world, chief, "1", "/pauses", &pause).await;
            assert_eq!((status, &conflict["error"]), (409, &json!("already_paused")));
        }
        let end = format!("{PREFIX}/pauses/{}?reason=done", first.1["id"].as_str().unwrap());
        ask(&world, &Door::Token(token(desk)), &Method::DELETE, &end, None).await.expect();
        assert_eq!(send(&world, chief, "1", "/pauses", &pause).await.0, 200);
    }

    async fn acts_on_one_object_are_done_one_at_a_time_and_each_is_on_record(world: World) {
        let path = format!("{PREFIX}/nodes/{}/actors/mail/restart", app::host_name());
        let why = json!({ "reason": "a test" });
        let answers = futures_util::future::join_all(
            (0..8).map(|_| ask(&world, &Door::Socket, &Method::POST, &path, Some(&why))),
        ).await;
        let mut outcomes = Vec::new();
        for answer in answers {
            if answer.status == 200 {
                outcomes.push("applied");
            } else {
                assert_eq!(answer.status, 409, "{:#}", answer.body);
                let error = answer.body["error"].as_str().unwrap();
                assert!(["act_in_progress", "actor_not_running"].contains(&error), "{:#}", answer.body);
                outcomes.push("refused");
            }
        }
        assert!(outcomes.contains(&"applied"));
        let recorded = blackbox::eventually("each is recorded", async || {
            let recorded = acts(&world).await;
            (recorded.len() == outcomes.len()).then_some(recorded)
        }).await;
        let mut recorded: Vec<&str> = recorded.iter().map(|act| act["outcome"].as_str().unwrap()).collect();
        recorded.sort_unstable();
        outcomes.sort_unstable();
        assert_eq!(recorded, outcomes);
    }
}
