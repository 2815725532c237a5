//! Running batches, unsent mails, webhooks and sessions, as operators list and steer them.

use std::time::Duration;

use chrono::TimeDelta;
use domain::ids::HeldId;
use domain::mail::OutgoingMail;
use reqwest::Method;
use serde_json::{Value, json};
use store::mail::QueuedMail;

use super::knowledge::closed_network;
use super::ops::{Door, ask};
use blackbox::browser::Browser;
use blackbox::eventually;
use blackbox::receiver::{Receiver, permit};
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
    let batch = &listed["entries"][0];
    assert_eq!((&batch["id"], &batch["kind"]), (&json!(watching.batch), &json!("batch")), "{listed}");
    assert_eq!((&batch["total"], &batch["processed"], &batch["cancelled_at"]), (&json!(2), &json!(1), &Value::Null));
    assert_eq!((&batch["user_account_id"], batch["runner"].is_string()), (&json!(person.account), true));

    let (cancel, why) = (format!("/ops/v1/batches/{}/cancel", watching.batch), json!({ "reason": "the page hangs" }));
    let cancelled = ask(&world, &Door::Socket, &Method::POST, &cancel, Some(&why)).await.expect();
    assert_eq!(cancelled["target"], format!("batch:{}", watching.batch));
    let rest = watching.rest().await;
    assert!(rest.iter().any(|message| message["error"] == "cancelled"), "{rest:?}");
    eventually("no batch runs", async || list().await["entries"].as_array().unwrap().is_empty().then_some(())).await;
    ask(&world, &Door::Socket, &Method::POST, &cancel, Some(&why)).await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_an_operator_ends_at_one_node_ends_at_the_other() {
    let Some(world) = World::on_postgres().await else { return };
    let (second, ada) = (world.beside().await, world.person("ada@example.com").await);
    for node in [&world, &second] {
        node.get("/api/v1/sessions", &ada.cookie).await.expect(200);
    }
    let listed = ask(&second, &Door::Socket, &Method::GET, "/ops/v1/sessions", None).await.expect();
    let end = format!("/ops/v1/sessions/{}/end", listed["entries"][0]["id"].as_str().unwrap());
    ask(&second, &Door::Socket, &Method::POST, &end, Some(&json!({ "reason": "a test" }))).await.expect();
    for node in [&world, &second] {
        node.get("/api/v1/sessions", &ada.cookie).await.refused(401, "unauthorized");
    }
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
        let list = async || ask(&world, &Door::Socket, &Method::GET, "/ops/v1/mails", None).await.expect()["entries"].clone();
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

    async fn an_operator_disables_a_webhook_until_an_operator_enables_it(world: World) {
        let world = world.restart_with(permit).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let body = json!({ "url": format!("http://{address}/secret?token=secret"), "kinds": ["event.held", "consent.changed"] });
        let made = world.post("/api/v1/webhooks", &person.cookie, &body).await.expect(201);
        let id = made["id"].as_str().unwrap();
        let list = async || ask(&world, &Door::Socket, &Method::GET, "/ops/v1/webhooks", None).await.expect();
        let listed = list().await;
        let expected = json!({
            "id": id,
            "user_account_id": person.account,
            "host": address.to_string(),
            "enabled": true,
            "disabled_at": null,
            "disabled_reason": null,
            "failures": 0,
            "last_success_at": null,
            "last_failure_at": null,
            "waiting": 0,
            "oldest_waiting_at": null,
        });
        assert_eq!(listed, json!({ "entries": [expected], "next": null }), "the path and the query may be secrets");
        let why = json!({ "reason": "it floods the proxy" });
        let steer = async |act| {
            let path = format!("/ops/v1/webhooks/{id}/{act}");
            ask(&world, &Door::Socket, &Method::POST, &path, Some(&why)).await
        };
        steer("enable").await.refused(404, "not_found");
        assert_eq!(steer("disable").await.expect()["target"], format!("webhook:{id}"));
        steer("disable").await.refused(404, "not_found");
        let machine = world.attached_machine(&person).await;
        let unknown = Chain::new(&machine).next_with(|event| event["event_type"] = json!("memory.dreamt"));
        world.event(&machine, &unknown).await.held("unknown_event_type");
        let disabled = list().await["entries"][0].clone();
        assert_eq!((&disabled["enabled"], &disabled["disabled_reason"]), (&json!(false), &json!("operator")), "{disabled}");
        assert_eq!((&disabled["waiting"], disabled["oldest_waiting_at"].is_string()), (&json!(1), true), "{disabled}");

        // Its owner sees it, on the page and in the API, and cannot enable it.
        let path = format!("/api/v1/webhooks/{id}");
        let shown = world.get("/api/v1/webhooks", &person.cookie).await.expect(200)["webhooks"][0].clone();
        assert_eq!((&shown["enabled"], &shown["disabled_reason"]), (&json!(false), &json!("operator")));
        let patch = async |body: Value| world.send(world.request(Method::PATCH, &path, &person.cookie).json(&body)).await;
        patch(json!({ "enabled": true })).await.refused(409, "webhook_disabled");
        world.post(&format!("{path}/test"), &person.cookie, &json!({})).await.refused(409, "webhook_disabled");
        let page = format!("/account/webhooks/{id}");
        let browser = Browser::of(&world, &person);
        let seen = browser.get(&page).await;
        assert!(seen.page(200).contains("Disabled by the operator") && seen.page(200).contains("only the operator can enable it"));
        // The other settings can be changed, and what waits stays.
        let save = async |enabled: &str| {
            let form = [("url", body["url"].as_str().unwrap()), ("description", "mine"), ("kind.event.held", "1"), ("enabled", enabled)];
            browser.submit(&page, &form).await
        };
        save("keep").await.goes_to(&page);
        assert!(save("1").await.page(400).contains("you cannot enable it"));
        assert_eq!(world.get("/api/v1/webhooks", &person.cookie).await.expect(200)["webhooks"][0]["description"], "mine");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(receiver.at("secret").is_empty());

        steer("enable").await.expect();
        let sent = receiver.wait("secret", 1).await;
        assert_eq!(sent[0].json()["type"], "event.held");
        let enabled = eventually("the success is listed", async || {
            Some(list().await["entries"][0].clone()).filter(|one| one["last_success_at"].is_string())
        }).await;
        assert_eq!((&enabled["enabled"], &enabled["waiting"]), (&json!(true), &json!(0)), "{enabled}");
    }

    async fn an_operator_lists_sessions_and_ends_one(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let browser = Browser::new(&world);
        browser.sign_in("ada@example.com").await;
        let here = browser.credential();
        let list = async |query: &str| {
            let path = format!("/ops/v1/sessions{query}");
            ask(&world, &Door::Socket, &Method::GET, &path, None).await.expect()
        };
        let listed = list("").await;
        let kinds: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|one| (&one["kind"], &one["by_operator"])).collect();
        let (code, operator) = ((&json!("code"), &json!(false)), (&json!("operator"), &json!(true)));
        assert_eq!(kinds, [operator, operator, code], "{listed}");
        assert!(!listed.to_string().contains("example.com") && listed["next"].is_null(), "{listed}");
        let of_account = list(&format!("?account={}", bob.account)).await;
        assert_eq!((of_account["entries"].as_array().unwrap().len(), &of_account["entries"][0]), (1, &listed["entries"][1]));
        let first = &listed["entries"][0];
        assert_eq!(first["user_account_id"], json!(ada.account));
        let of_person = list(&format!("?person={}&after={}", first["person_id"].as_str().unwrap(), first["id"].as_str().unwrap())).await;
        assert_eq!(of_person["entries"], json!([listed["entries"][2]]));
        let nonsense = ask(&world, &Door::Socket, &Method::GET, "/ops/v1/sessions?person=ada", None).await;
        nonsense.refused(422, "invalid_query");

        // A use is written at most once an hour.
        world.advance(Duration::from_mins(59));
        world.get("/api/v1/sessions", &here).await.expect(200);
        let used = async || list("").await["entries"].as_array().unwrap().last().unwrap()["last_used_at"].clone();
        assert_eq!(used().await, listed["entries"][2]["created_at"]);
        world.advance(Duration::from_mins(2));
        world.get("/api/v1/sessions", &here).await.expect(200);
        assert_ne!(used().await, listed["entries"][2]["created_at"]);

        let id = listed["entries"][2]["id"].as_str().unwrap();
        let (end, why) = (format!("/ops/v1/sessions/{id}/end"), json!({ "reason": "a lost laptop" }));
        let ended = ask(&world, &Door::Socket, &Method::POST, &end, Some(&why)).await.expect();
        assert_eq!(ended["target"], format!("session:{id}"));
        world.get("/api/v1/sessions", &here).await.refused(401, "unauthorized");
        ask(&world, &Door::Socket, &Method::POST, &end, Some(&why)).await.refused(404, "not_found");
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
