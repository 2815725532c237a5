//! Running batches and unsent mails, as operators list and steer them.

use chrono::TimeDelta;
use domain::ids::HeldId;
use domain::mail::OutgoingMail;
use reqwest::Method;
use serde_json::{Value, json};
use store::mail::QueuedMail;

use super::knowledge::closed_network;
use super::ops::{Door, ask};
use blackbox::eventually;
use blackbox::site::Site;
use blackbox::world::World;
use harness::event::Chain;
use harness::on_each_database;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_running_batches_and_cancels_one() {
    let (_site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
    })
    .await;
    let (person, key) = world.librarian("ada@example.com").await;
    let body =
        json!({ "urls": [format!("http://{address}/silent")], "contents": [{ "content": "A note of a lighthouse" }] });
    let mut watching = world.add(&key, body).await;
    while watching.next().await.unwrap()["processed"] != 1 {}
    let list = async || ask(&world, &Door::Socket, &Method::GET, "/ops/v1/batches", None).await.expect();
    let listed = list().await;
    let batch = &listed["batches"][0];
    assert_eq!((&batch["id"], &batch["kind"]), (&json!(watching.batch), &json!("batch")), "{listed}");
    assert_eq!((&batch["total"], &batch["processed"], &batch["cancelled_at"]), (&json!(2), &json!(1), &Value::Null));
    assert_eq!((&batch["user_account_id"], batch["runner"].is_string()), (&json!(person.account), true));

    let (cancel, why) = (format!("/ops/v1/batches/{}/cancel", watching.batch), json!({ "reason": "the page hangs" }));
    let cancelled = ask(&world, &Door::Socket, &Method::POST, &cancel, Some(&why)).await.expect();
    assert_eq!(cancelled["target"], format!("batch:{}", watching.batch));
    let rest = watching.rest().await;
    assert!(rest.iter().any(|message| message["error"] == "cancelled"), "{rest:?}");
    eventually("no batch runs", async || list().await["batches"].as_array().unwrap().is_empty().then_some(())).await;
    ask(&world, &Door::Socket, &Method::POST, &cancel, Some(&why)).await.refused(404, "not_found");
}

on_each_database! {
    async fn an_operator_lists_unsent_mails_sends_one_at_once_and_gives_one_up(world: World) {
        let store = &world.server.app.store;
        let tomorrow = world.clock().now() + TimeDelta::days(1);
        let mut ids = Vec::new();
        for (subject, milliseconds) in [("The first", 0), ("The second", 1)] {
            let to = "ada@example.com".parse().unwrap();
            let mail = OutgoingMail { to, subject: subject.into(), text: "A notice".into() };
            let mail = QueuedMail { id: world.rng().uuid_v7(tomorrow + TimeDelta::milliseconds(milliseconds)).into(), mail };
            store.mail_write(&mail, tomorrow).await.unwrap();
            ids.push(mail.id);
        }
        let list = async || ask(&world, &Door::Socket, &Method::GET, "/ops/v1/mails", None).await.expect()["mails"].clone();
        let listed = list().await;
        assert_eq!((&listed[0]["id"], &listed[0]["subject"], &listed[0]["tries"]), (&json!(ids[0]), &json!("The first"), &json!(0)), "{listed}");
        let why = json!({ "reason": "the mail server is back" });
        let steer = async |id, act| {
            let path = format!("/ops/v1/mails/{id}/{act}");
            ask(&world, &Door::Socket, &Method::POST, &path, Some(&why)).await
        };
        steer(ids[1], "give_up").await.expect();
        let given_up = list().await[1].clone();
        assert!(given_up["given_up_at"].is_string() && given_up["next_try_at"].is_null(), "{given_up}");
        steer(ids[0], "retry").await.expect();
        eventually("the first is sent", async || (list().await.as_array().unwrap().len() == 1).then_some(())).await;
        assert_eq!(world.mails_to("ada@example.com").len(), 1);
        steer(ids[0], "retry").await.refused(404, "not_found");
        steer(ids[1], "retry").await.expect();
        eventually("a mail that was given up is sent too", async || list().await.as_array().unwrap().is_empty().then_some(())).await;
    }

    async fn held_events_are_released_in_the_order_of_their_chain_and_never_without_a_filter(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let account = person.account.to_string();
        for _ in 0..3 {
            let event = chain.next_with(|event| event["scope"]["user_account_id"] = json!(account));
            world.event(&machine, &event).await.held("identity_mismatch");
        }
        let uuid = machine.uuid.parse().unwrap();
        let app = &world.server.app;
        app.store.machine_attach(uuid, &person.account, world.clock().now(), world.rng()).await.unwrap().unwrap();
        let post = async |act: &str, body: Value| {
            let path = format!("/ops/v1/held:{act}");
            ask(&world, &Door::Socket, &Method::POST, &path, Some(&body)).await
        };
        let list = async |query: &str| {
            let path = format!("/ops/v1/held{query}");
            ask(&world, &Door::Socket, &Method::GET, &path, None).await.expect()
        };
        let first = list("?limit=2").await;
        let next = first["next"].as_str().unwrap();
        let last = list(&format!("?limit=2&before={next}&sender=machine:{}", machine.uuid)).await;
        assert_eq!((first["held"].as_array().unwrap().len(), last["held"].as_array().unwrap().len(), &last["next"]), (2, 1, &json!(null)));
        let id = |page: &Value, at: usize| page["held"][at]["id"].clone();

        let filter = json!({ "sender": format!("machine:{}", machine.uuid) });
        let why = "a test";
        let old: HeldId = world.rng().uuid_v7(world.clock().now() - TimeDelta::minutes(11)).into();
        let refusals = [
            (json!({ "filter": {}, "dry_run": true, "reason": why }), "filter_empty"),
            (json!({ "filter": filter, "reason": why }), "token_missing"),
            (json!({ "filter": filter, "token": old, "reason": why }), "token_expired"),
            (json!({ "filter": { "reason": "boredom" }, "dry_run": true, "reason": why }), "invalid_request"),
            (json!({ "ids": [], "reason": why }), "invalid_request"),
            (json!({ "reason": why }), "invalid_request"),
            (json!({ "ids": [id(&last, 0)] }), "reason_missing"),
        ];
        for (body, error) in refusals {
            post("release", body).await.refused(422, error);
        }
        let preview = post("discard", json!({ "filter": filter, "dry_run": true, "reason": why })).await.expect();
        assert_eq!((&preview["matches"], preview["token"].is_string(), &preview["act_id"]), (&json!(3), true, &Value::Null));

        // The newest first: each is refused until the one before it is released.
        let ids = [id(&first, 0), id(&first, 1), id(&last, 0), json!(old)];
        let released = post("release", json!({ "ids": ids, "reason": why })).await.expect();
        let outcomes: Vec<_> = released["ended"].as_array().unwrap().iter().map(|ended| &ended["outcome"]).collect();
        assert_eq!(json!(outcomes), json!(["released", "released", "released", "unknown"]), "{released}");
        let again = post("discard", json!({ "ids": [id(&last, 0)], "reason": why })).await.expect();
        assert_eq!(again["ended"][0]["outcome"], "unknown", "a released event is not discarded");
        assert_eq!(list("?state=released").await["held"].as_array().unwrap().len(), 3);
        world.event(&machine, &chain.next()).await.receipt();
    }
}
