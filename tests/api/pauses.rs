//! Parts of the service that an operator has paused (`docs/decisions/0041-pauses.md`).

use std::time::Duration;

use app::acts::Acting;
use app::pauses::{self, NewPause};
use domain::act::{ActAuthor, ActDoor, ActKind, OperatorAct};
use domain::actor_key::{ActorKey, KeyedKind};
use domain::ids::EventId;
use domain::service_pause::{PausedFor, ServicePart};
use serde_json::{Value, json};

use super::knowledge::closed_network;
use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::receiver::{Receiver, permit};
use blackbox::site::Site;
use blackbox::world::World;
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

fn acting(world: &World, kind: ActKind) -> Acting {
    let app = &world.server.app;
    let act = OperatorAct::new(kind, ActAuthor::at(ActDoor::Shell), "here");
    Acting::new(&app.store, (&app.clock, &app.rng), act)
}

/// Pauses a part for this long, and waits until the node follows.
async fn pause_for(world: &World, part: ServicePart, scope: &str, lasts: Duration) -> EventId {
    let app = &world.server.app;
    let (scope, reason) = (scope.parse().unwrap(), "a test".parse().unwrap());
    let new = NewPause { part, scope, reason, lasts, replaces: false };
    let acting = acting(world, ActKind::PauseBegin);
    let begun = pauses::begin(&acting, new, lasts, app.clock.now()).await.unwrap();
    let is_in_force = async || app.pauses.in_force().contains(&begun).then_some(());
    eventually("the pause is in force", is_in_force).await;
    begun.id
}

async fn pause(world: &World, part: ServicePart, scope: &str) -> EventId {
    pause_for(world, part, scope, Duration::from_hours(1)).await
}

async fn resume(world: &World, id: EventId) {
    let app = &world.server.app;
    pauses::end(&acting(world, ActKind::PauseEnd), id, app.clock.now()).await.unwrap();
    let has_ended = async || app.pauses.in_force().iter().all(|pause| pause.id != id).then_some(());
    eventually("the pause has ended", has_ended).await;
}

#[track_caller]
fn paused(response: &Response) -> Value {
    let body = response.refused(424, "temporarily_unavailable");
    assert_eq!((&body["reason"], &body["retryable"]), (&json!("paused"), &json!(true)), "{body}");
    assert!(body["paused_until"].as_str().unwrap().ends_with('Z'), "{body}");
    body
}

on_each_database! {
    async fn a_paused_intake_refuses_events_of_its_scope_and_changes_no_chain(world: World) {
        let person = world.person("ada@example.com").await;
        let (attached, other) = (world.attached_machine(&person).await, world.machine().await);
        let (mut chain, mut other_chain) = (Chain::new(&attached), Chain::new(&other));
        world.event(&attached, &chain.next()).await.receipt();
        let next = chain.next();

        let all = pause(&world, ServicePart::Intake, "all").await;
        let refused = world.event(&attached, &next).await;
        paused(&refused);
        assert_eq!(refused.header("retry-after"), Some("60"), "a pause may end early");
        paused(&world.event(&other, &other_chain.peek_with(|_| {})).await);
        // An event that cannot be read is refused too, and not held.
        paused(&world.event_bytes(&other, "{").await);
        resume(&world, all).await;
        world.event(&attached, &next).await.receipt();

        for scope in [PausedFor::Account(person.account.clone()), PausedFor::Machine(attached.uuid.parse().unwrap())] {
            let next = chain.next();
            let id = pause(&world, ServicePart::Intake, &scope.to_string()).await;
            paused(&world.event(&attached, &next).await);
            world.event(&other, &other_chain.next()).await.receipt();
            resume(&world, id).await;
            world.event(&attached, &next).await.receipt();
        }
        let by_person = async |chain: &Chain| world.event(person.cookie.clone(), &chain.peek_with(|_| {})).await;
        pause(&world, ServicePart::Intake, &PausedFor::Account(person.account.clone()).to_string()).await;
        paused(&by_person(&chain).await);

        pause(&world, ServicePart::Intake, "lane:memory").await;
        paused(&world.event(&other, &other_chain.peek_with(|_| {})).await);
        let in_lane = other_chain.next_with(|event| {
            event["lane"] = json!("security");
            event["event_type"] = json!("memory.dreamt");
        });
        world.event(&other, &in_lane).await.warning();
    }

    async fn a_pause_ends_by_itself_and_holds_after_a_restart(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        pause_for(&world, ServicePart::Intake, "all", Duration::from_mins(30)).await;
        let world = world.restart().await;
        let next = chain.next();
        paused(&world.event(&machine, &next).await);
        world.advance(Duration::from_mins(30) - Duration::from_secs(20));
        let refused = world.event(&machine, &next).await;
        paused(&refused);
        let retry_after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(retry_after <= 20, "{retry_after}");
        world.advance(Duration::from_secs(21));
        world.event(&machine, &next).await.receipt();
    }

    async fn registrations_and_sign_ins_are_paused_and_sessions_continue(world: World) {
        let person = world.person("ada@example.com").await;
        let registration = pause(&world, ServicePart::Registration, "all").await;
        paused(&world.identity(json!({ "type": "anonymous" })).await);
        let uuid = world.rng().uuid_v7(world.clock().now()).to_string();
        let body = json!({ "user_cuid": world.rng().cuid2(), "machine_uuid": uuid });
        paused(&world.post("/api/v1/machines", &Credential::None, &body).await);
        resume(&world, registration).await;
        world.identity(json!({ "type": "anonymous" })).await.expect(200);

        for part in [ServicePart::SignIn, ServicePart::Mail] {
            let id = pause(&world, part, "all").await;
            let browser = Browser::new(&world);
            let response = browser.submit("/signin", &[("email", "bob@example.com")]).await;
            let page = response.page(424);
            assert!(page.contains("The operator has paused this until ") && page.contains(" UTC."), "{page}");
            world.get("/api/v1/account/summary", &person.cookie).await.expect(200);
            resume(&world, id).await;
            browser.submit("/signin", &[("email", "bob@example.com")]).await.goes_to("/signin/code");
        }
    }
}

on_sqlite! {
    async fn notices_and_notifications_wait_for_the_end_of_a_pause(world: World) {
        let world = world.restart_with(permit).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let body = json!({ "url": format!("http://{address}/hers"), "kinds": ["agent.revoked"] });
        world.post("/api/v1/webhooks", &person.cookie, &body).await.expect(201);
        let scope = PausedFor::Account(person.account.clone()).to_string();
        let webhooks = pause(&world, ServicePart::Webhooks, &scope).await;
        let mail = pause(&world, ServicePart::Mail, "all").await;
        let mails = world.mails_to("ada@example.com").len();
        let agent = world.agent_of(&person).await;
        world.delete(&format!("/api/v1/agents/{}", agent.id), &person.cookie).await.expect(200);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((receiver.at("hers").len(), world.mails_to("ada@example.com").len()), (0, mails));
        resume(&world, webhooks).await;
        receiver.wait("hers", 1).await;
        assert_eq!(world.mails_to("ada@example.com").len(), mails);
        resume(&world, mail).await;
        world.mail_to("ada@example.com", mails).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_batch_stops_between_two_items_and_continues() {
    let (site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.batch.items_at_once = 1;
    })
    .await;
    let (person, key) = world.librarian("ada@example.com").await;
    let body = json!({
        "urls": [format!("http://{address}/gated")],
        "contents": [{ "content": "The first note" }, { "content": "The second note" }],
    });
    let mut watching = world.add(&key, body).await;
    while watching.next().await.unwrap()["type"] != "progress" {}
    let scope = PausedFor::Account(person.account.clone()).to_string();
    let id = pause(&world, ServicePart::Batches, &scope).await;
    paused_batch(&world.add_refused(&key, json!({ "contents": [{ "content": "More" }] })).await);
    let (_, stranger) = world.librarian("bob@example.com").await;
    world.add(&stranger, json!({ "contents": [{ "content": "His" }] })).await.whole().await;

    site.open_gate();
    let item = watching.next().await.unwrap();
    assert_eq!((&item["type"], &item["index"]), (&json!("success"), &json!(0)), "what was in preparation is finished");
    assert_eq!(watching.next().await.unwrap()["processed"], 1);
    let more = tokio::time::timeout(Duration::from_secs(3), watching.next()).await;
    assert!(more.is_err(), "{more:?}");
    resume(&world, id).await;
    let rest = watching.rest().await;
    assert_eq!(rest.iter().filter(|message| message["type"] == "success").count(), 2, "{rest:?}");
}

/// Orders about a batch in the store, as each node reads them.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_restarted_and_quarantined_is_continued_by_another_actor() {
    let (site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
    })
    .await;
    let app = &world.server.app;
    let (_, key) = world.librarian("ada@example.com").await;
    let body = json!({ "urls": [format!("http://{address}/gated")], "contents": [{ "content": "A note" }] });
    let mut watching = world.add(&key, body).await;
    while watching.next().await.unwrap()["type"] != "progress" {}
    let batch = ActorKey { kind: KeyedKind::Batches, id: watching.batch.parse().unwrap() };
    // Without a reader only the server starts another actor.
    drop(watching);
    let order = async |kind| {
        let act = OperatorAct::new(kind, ActAuthor::at(ActDoor::Shell), "here").on("batches", batch.id);
        let acting = Acting::new(&app.store, (&app.clock, &app.rng), act.clone());
        app.order_all(&acting, act, None).await.unwrap();
    };
    let requests = site.requests("gated");
    order(ActKind::KeyRestart).await;
    eventually("another actor prepares the item again", async || (site.requests("gated") > requests).then_some(()))
        .await;

    let scope = PausedFor::Key(batch).to_string();
    pause(&world, ServicePart::Actor, &scope).await;
    eventually("the actor has ended", async || (app.ingestion.batches().live() == 0).then_some(())).await;
    site.open_gate();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(app.ingestion.batches().live(), 0, "no actor takes it up");
    let kept = app.keys(Some(KeyedKind::Batches)).await.unwrap();
    assert_eq!((kept.len(), kept[0].node.as_deref()), (1, None), "{kept:?}");
    let act = OperatorAct::new(ActKind::KeyRelease, ActAuthor::at(ActDoor::Shell), "here").on("batches", batch.id);
    let acting = Acting::new(&app.store, (&app.clock, &app.rng), act.clone());
    app.release_key(&acting, act, batch).await.unwrap();
    eventually("the batch is complete", async || {
        // A request that was given up may have used the last opening.
        site.open_gate();
        let found = app.store.batch_by_id(batch.id.into(), None).await.unwrap().unwrap();
        found.journal.has_ended().then(|| assert_eq!(found.journal.processed(), 2, "{found:?}"))
    })
    .await;
}

/// The knowledge API answers 503 instead of 424.
#[track_caller]
fn paused_batch(response: &Response) {
    let body = response.refused(503, "temporarily_unavailable");
    assert_eq!(body["reason"], "paused", "{body}");
}
