//! An identity is not secret: a client that knows it gets no access, and does not reduce the owner's access.

use domain::ids::MachineUuid;
use domain::recorder::{Recorder, Recorders};
use harness::upstream::{Reply, Script, Upstream};
use serde_json::{Value, json};
use statistics::contract::{ActivityQuery, RecordScope};
use store::account::Provision;

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::world::{Person, World};
use harness::event::{Chain, Machine};
use harness::on_sqlite;

/// The user code of a computer that asks to be attached.
async fn asking(world: &World, machine: &Machine) -> String {
    world.device_code(machine).await.expect(200)["user_code"].as_str().unwrap().to_owned()
}

async fn approve(world: &World, who: &Credential, machine: &Machine) -> Response {
    let code = asking(world, machine).await;
    world.device_approve(who, &code).await
}

/// Sends one event, which is recorded; returns its id.
async fn record(world: &World, machine: &Machine) -> String {
    let event = Chain::of_agent(machine, "svc-cli").next();
    world.event(machine, &event).await.receipt();
    event["event_id"].as_str().unwrap().to_owned()
}

/// The ids of all events visible to a credential, the newest first.
async fn shown(world: &World, who: impl Into<Credential>) -> Vec<String> {
    let page = world.activity(who, "?limit=500").await.expect(200);
    page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap().to_owned()).collect()
}

async fn memory_left(world: &World, who: &Credential) -> Value {
    world.get("/api/v1/usage/bar", who).await.expect(200)["memory"]["percent_left"].clone()
}

fn uuid_of(machine: &Machine) -> MachineUuid {
    machine.uuid.parse().unwrap()
}

fn cookie_browser<'w>(world: &'w World, person: &Person) -> Browser<'w> {
    let Credential::Cookie(pair) = &person.cookie else { unreachable!() };
    let browser = Browser::new(world);
    browser.put("attache.session_token", pair.split_once('=').unwrap().1);
    browser
}

on_sqlite! {
    async fn knowing_an_identity_gives_no_permission_to_bind_or_read_it(world: World) {
        let (ada, mallory) = (world.person("ada@example.com").await, world.person("mallory@example.com").await);
        let own = world.machine().await;
        let secret = record(&world, &own).await;

        let copy = world.machine_of(&own.user_cuid).await;
        let refused = approve(&world, &mallory.cookie, &copy).await.refused(409, "cuid_already_claimed");
        let details = refused["details"].as_str().unwrap();
        for told in ["before it", "Attach that computer first", "attache admin machine attach", "30days"] {
            assert!(details.contains(told), "{told}: {details}");
        }
        assert_eq!(shown(&world, &copy).await, Vec::<String>::new());
        assert_eq!(shown(&world, mallory.cookie.clone()).await, Vec::<String>::new());
        for stranger in [mallory.cookie.clone(), Credential::from(&copy)] {
            world.proof(stranger, &secret).await.refused(404, "event_not_found");
        }
        world.get("/api/v1/consent", &mallory.cookie).await.refused(409, "no_linked_cuid");

        // The owner keeps full access, and reads the events that the computer recorded before it was attached.
        approve(&world, &ada.cookie, &own).await.expect(200);
        assert_eq!(shown(&world, ada.cookie.clone()).await, std::slice::from_ref(&secret));
        world.proof(ada.cookie.clone(), &secret).await.expect(200);
        // From now on the identity of the copy belongs to another account, and only its owner can approve the copy.
        approve(&world, &mallory.cookie, &copy).await.refused(409, "cuid_already_claimed");
        approve(&world, &ada.cookie, &copy).await.expect(200);
    }

    async fn events_of_foreign_computers_of_an_identity_are_not_its_owners(world: World) {
        let world = world.restart_with(|settings| {
            settings.plans.of_mut(domain::usage::Plan::Free).memory_events = 10;
        }).await;
        let ada = world.person("ada@example.com").await;
        let own = world.machine().await;
        let stranger = world.machine_of(&own.user_cuid).await;
        let planted = record(&world, &stranger).await;
        world.event_bytes(&stranger, "{\"held\": 1}").await.held("malformed_envelope");
        let level = json!({ "level": "off", "reason": "planted" });
        world.post("/api/v1/consent", &Credential::from(&stranger), &level).await.expect(200);
        let level = json!({ "level": "full", "reason": "my own" });
        world.post("/api/v1/consent", &Credential::from(&own), &level).await.expect(200);
        let recorded = record(&world, &own).await;
        // Usage of a computer without an account counts for the computer, not for its identity.
        assert_eq!(memory_left(&world, &Credential::from(&own)).await, 90.0);

        approve(&world, &ada.cookie, &own).await.expect(200);
        let activity = world.activity(ada.cookie.clone(), "").await.expect(200);
        let events = activity["events"].as_array().unwrap();
        assert_eq!(activity["unclassified"], json!([]));
        assert_eq!(memory_left(&world, &ada.cookie).await, 90.0);
        // The computer's event, and the service's report about it.
        let seen: Vec<&Value> = events.iter().map(|event| &event["event_type"]).collect();
        assert_eq!(seen, ["memory.stored", "consent.changed"], "{activity}");
        assert_eq!(events[0]["event_id"], recorded.as_str());
        world.proof(ada.cookie.clone(), &planted).await.refused(404, "event_not_found");
        let levels = world.get("/api/v1/consent", &ada.cookie).await.expect(200);
        assert_eq!(levels["levels"].as_array().unwrap().len(), 1, "{levels}");
        assert_eq!(levels["levels"][0]["machine_uuid"], own.uuid.as_str());

        // The report about the stranger's computer is in the log, and no proof of it is given either.
        let report = report_about(&world, &ada, &stranger).await;
        world.proof(ada.cookie.clone(), &report).await.refused(404, "event_not_found");
        let own_report = events[1]["event_id"].as_str().unwrap();
        world.proof(ada.cookie.clone(), own_report).await.expect(200);
        // The stranger still sees its own events, and can record no more.
        assert_eq!(shown(&world, &stranger).await, [planted]);
        world.event(&stranger, &Chain::of_agent(&stranger, "codex").next()).await.held("identity_mismatch");
        assert_eq!(shown(&world, ada.cookie.clone()).await.len(), 2);
        // The page shows the same.
        let page = cookie_browser(&world, &ada).get("/account/activity").await.page(200).to_owned();
        assert_eq!(page.matches("<span>Stored a memory</span></a>").count(), 1, "{page}");
    }

    async fn a_detached_computers_records_stay_its_owners(world: World) {
        let ada = world.person("ada@example.com").await;
        let own = world.attached_machine(&ada).await;
        let recorded = record(&world, &own).await;
        world.delete(&format!("/api/v1/machines/{}", own.uuid), &ada.cookie).await.expect(200);
        assert_eq!(shown(&world, ada.cookie.clone()).await, std::slice::from_ref(&recorded));
        world.proof(ada.cookie.clone(), &recorded).await.expect(200);

        // An operator removes it, and a stranger registers in its place.
        let store = &world.server.app.store;
        assert!(store.machine_remove(uuid_of(&own), world.clock().now()).await.unwrap());
        let again = async |user_cuid: &str| {
            let body = json!({ "user_cuid": user_cuid, "machine_uuid": own.uuid });
            let response = world.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
            Machine { user_cuid: user_cuid.into(), uuid: own.uuid.clone(), secret: response["machine_secret"].as_str().unwrap().into() }
        };
        let stranger = again(&own.user_cuid).await;
        assert_eq!(shown(&world, &stranger).await, Vec::<String>::new());
        world.proof(&stranger, &recorded).await.refused(404, "event_not_found");
        store.machine_remove(uuid_of(&own), world.clock().now()).await.unwrap();
        let stranger = again(&world.rng().cuid2()).await;
        assert_eq!(shown(&world, &stranger).await, Vec::<String>::new());
        world.proof(&stranger, &recorded).await.refused(404, "event_not_found");
        assert_eq!(shown(&world, ada.cookie.clone()).await, [recorded]);
    }

    async fn the_approval_page_shows_the_number_of_other_computers_of_the_identity(world: World) {
        let ada = world.person("ada@example.com").await;
        let browser = cookie_browser(&world, &ada);
        let own = world.machine().await;
        let asks = async |machine: &Machine| {
            let code = asking(&world, machine).await;
            browser.get(&format!("/device?user_code={code}")).await.page(200).to_owned()
        };
        assert!(!asks(&own).await.contains("Also named by"));
        let others = [world.machine_of(&own.user_cuid).await, world.machine_of(&own.user_cuid).await];
        assert!(asks(&own).await.contains("2 other computers not attached to your account"));
        // A computer other than the first is refused there too, and the page shows the reason.
        let code = asking(&world, &others[0]).await;
        let form = [("user_code", code.as_str()), ("decision", "approve")];
        let refused = browser.submit("/device", &form).await.page(409).to_owned();
        assert!(refused.contains("registered under the same identity before this one"), "{refused}");

        approve(&world, &ada.cookie, &own).await.expect(200);
        approve(&world, &ada.cookie, &others[0]).await.expect(200);
        // Computers of the person's own account are not counted.
        assert!(asks(&own).await.contains("1 other computer not attached to your account"));
    }

    async fn an_operator_attaches_a_computer_of_an_unowned_identity(world: World) {
        let (ada, store) = (world.person("ada@example.com").await, &world.server.app.store);
        let first = world.machine().await;
        let second = world.machine_of(&first.user_cuid).await;
        let (planted, recorded) = (record(&world, &first).await, record(&world, &second).await);
        let attached = store.machine_attach(uuid_of(&second), &ada.account, world.clock().now(), world.rng()).await.unwrap();
        assert_eq!(attached, Ok(()));
        assert_eq!(shown(&world, ada.cookie.clone()).await, [recorded]);
        world.proof(ada.cookie.clone(), &planted).await.refused(404, "event_not_found");
    }

    async fn a_prepared_account_is_bound_by_its_first_computer(world: World) {
        let visitor = world.visitor("ada@example.com").await;
        let (first, app) = (world.machine().await, &world.server.app);
        let identity = first.user_cuid.parse().unwrap();
        let made = app.store.account_provision(Some(&identity), None, None, world.clock().now(), &app.rng).await;
        assert!(matches!(made.unwrap(), Provision::Created(_)));
        let second = world.machine_of(&first.user_cuid).await;
        approve(&world, &visitor, &second).await.refused(409, "cuid_already_claimed");
        approve(&world, &visitor, &first).await.expect(200);
        approve(&world, &visitor, &second).await.expect(200);
    }
}

/// The event in which the service reports a change of this computer's consent.
async fn report_about(world: &World, person: &Person, machine: &Machine) -> String {
    let (store, upstream) = (&world.server.app.store, &world.server.app.upstream);
    let service = store.recorders_of_account(&person.account).await.unwrap().service;
    let identity = machine.user_cuid.parse().unwrap();
    let computers = vec![Recorder { machine: uuid_of(machine), identity }];
    let scope =
        RecordScope { shown: Recorders { computers, service, ..Recorders::default() }, ..RecordScope::default() };
    let page = upstream.activity(&scope, &ActivityQuery::default()).await.unwrap();
    let page: Value = serde_json::from_slice(&page.body).unwrap();
    let reports = page["events"].as_array().unwrap().iter().filter(|event| event["event_type"] == "consent.changed");
    let ids: Vec<&str> = reports.map(|event| event["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{page}");
    ids[0].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_of_foreign_computers_is_filtered_from_upstream_responses() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let ada = world.person("ada@example.com").await;
    let own = world.attached_machine(&ada).await;
    let copy = world.machine_of(&own.user_cuid).await;
    let entry = |machine: &Machine, n| json!({ "machine_uuid": machine.uuid, "n": n });
    let page = json!({ "events": [entry(&own, 1), entry(&copy, 2), { "n": 3 }], "next_cursor": "c" });
    upstream.next(Script::reply(Reply::json(200, &page)));
    let told = world.activity(ada.cookie.clone(), "?cursor=b").await.expect(200);
    assert_eq!(told, json!({ "events": [entry(&own, 1), { "n": 3 }], "next_cursor": "c" }));

    let event_id = "019b76da-a800-7a67-8a14-94a3f41b0634";
    for (machine, status) in [(&own, 200), (&copy, 404)] {
        upstream.next(Script::reply(Reply::json(200, &json!({ "chain": { "machine_id": machine.uuid } }))));
        world.proof(ada.cookie.clone(), event_id).await.expect(status);
    }
    upstream.assert_no_surprises();
}
