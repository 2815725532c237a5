//! Computers register and are detached (`docs/decisions/0002-accounts-and-computers.md`).

use app::config::MachineRegistration;
use serde_json::{Value, json};

use blackbox::client::Credential;
use blackbox::world::{Person, World};
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

const UUID: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

on_each_database! {
    async fn a_computer_registers_once_and_is_shown_its_secret_once(world: World) {
        let body = json!({ "user_cuid": "tz4a98xxat96iws9zmbrgj3a", "machine_uuid": UUID, "name": " Ada's laptop " });
        let made = world.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
        assert_eq!((&made["machine_uuid"], &made["user_cuid"]), (&body["machine_uuid"], &body["user_cuid"]));
        assert!(made["machine_secret"].as_str().unwrap().starts_with("msk_"));
        assert!(made["first_seen_at"].as_str().unwrap().parse::<domain::Timestamp>().is_ok());
        world.post("/api/v1/machines", &Credential::None, &body).await.refused(409, "machine_already_registered");
        let machines = world.server.app.store.machines(10).await.unwrap();
        assert_eq!(machines[0].name.as_deref(), Some("Ada's laptop"));
    }

    async fn detaching_a_computer_ends_its_secret(world: World) {
        let person = world.person("ada@example.com").await;
        let stranger = world.person("bob@example.com").await;
        let machine = world.attached_machine(&person).await;
        let path = format!("/api/v1/machines/{}", machine.uuid);
        world.delete(&path, &stranger.cookie).await.refused(404, "not_found");
        world.event(&machine, &Chain::new(&machine).next()).await.receipt();
        assert_eq!(world.delete(&path, &person.cookie).await.expect(200), json!({ "ok": true }));
        world.activity(&machine, "").await.refused(401, "machine_unknown");
        // It registers again as another computer, as the guide describes.
        let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        world.post("/api/v1/machines", &Credential::None, &body).await.refused(409, "machine_already_registered");
        let guide = String::from_utf8(world.get("/auth.md", &Credential::None).await.body.to_vec()).unwrap();
        let row = guide.lines().find(|line| line.contains("`machine_unknown`")).unwrap();
        assert!(row.contains("under a new `machine_uuid`"), "{row}");
        world.machine_of(&machine.user_cuid).await;
        world.delete(&path, &person.cookie).await.refused(404, "not_found");
        world.delete("/api/v1/machines/nonsense", &person.cookie).await.refused(404, "not_found");
    }
}

on_sqlite! {
    async fn a_computer_that_only_claims_an_identity_records_nothing_for_its_owner(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        world.event(&machine, &Chain::new(&machine).next()).await.receipt();
        world.delete(&format!("/api/v1/machines/{}", machine.uuid), &person.cookie).await.expect(200);
        let rows = owners_view(&world, &person).await;

        // Every client that knows the identity can register under it, for example the detached computer.
        let back = world.machine_of(&machine.user_cuid).await;
        let event = Chain::new(&back).next();
        let warning = world.event(&back, &event).await.held("identity_mismatch");
        assert!(warning.contains("/scope/user_id") && warning.contains("not attached to"), "{warning}");
        assert_eq!(owners_view(&world, &person).await, rows);
        // It sees only its own events, and changes no data of the owner.
        let own = world.activity(&back, "").await.expect(200);
        assert_eq!((&own["events"], own["unclassified"].as_array().unwrap().len()), (&json!([]), 1));
        let bar = world.get("/api/v1/usage/bar", &Credential::from(&back)).await.expect(200);
        assert_eq!((&bar["plan"], &bar["memory"]["percent_left"]), (&json!("FREE"), &json!(100.0)));
        let level = json!({ "level": "full" });
        world.post("/api/v1/consent", &Credential::from(&back), &level).await.refused(403, "machine_not_owned");
        for level in ["off", "full"] {
            world.post("/api/v1/consent", &person.cookie, &json!({ "level": level })).await.expect(200);
            let seen = world.get("/api/v1/consent", &Credential::from(&back)).await.expect(200);
            assert_eq!(seen, json!({ "level": "metadata-only" }), "the owner's level is not its to know");
        }

        // After a person approves it, its held events are forwarded.
        let code = world.device_code(&back).await.expect(200);
        world.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
        world.event(&back, &event).await.receipt();
        world.included(person.cookie.clone(), event["event_id"].as_str().unwrap()).await;
        assert_eq!(world.activity(person.cookie.clone(), "").await.expect(200)["unclassified"], json!([]));
        world.post("/api/v1/consent", &Credential::from(&back), &level).await.expect(200);
    }
}

/// Activity and usage as an owner sees them.
async fn owners_view(world: &World, person: &Person) -> [Value; 3] {
    let activity = world.activity(person.cookie.clone(), "").await.expect(200);
    let bar = world.get("/api/v1/usage/bar", &person.cookie).await.expect(200);
    let ids = activity["events"].as_array().unwrap().iter().map(|event| event["event_id"].clone()).collect();
    [ids, activity["unclassified"].clone(), bar]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_registration_of_a_computer_is_refused_with_its_issues() {
    let world = World::on_sqlite().await;
    let bad = [
        (json!({}), "is required"),
        (json!({ "user_cuid": "NOT", "machine_uuid": UUID }), "CUID2"),
        (json!({ "user_cuid": "abc", "machine_uuid": UUID.to_uppercase() }), "UUIDv7"),
        (json!({ "user_cuid": "abc", "machine_uuid": UUID, "name": "x".repeat(101) }), "100 characters"),
    ];
    for (body, hint) in bad {
        let refused = world.post("/api/v1/machines", &Credential::None, &body).await.refused(400, "invalid_request");
        assert!(refused["issues"][0]["message"].as_str().unwrap().contains(hint), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_of_computers_can_be_closed_or_need_a_key() {
    let body = json!({ "user_cuid": "abc", "machine_uuid": UUID });
    let world = World::with(|settings| settings.machines.registration = MachineRegistration::Off).await;
    world.post("/api/v1/machines", &Credential::None, &body).await.refused(403, "registration_closed");

    let world = World::with(|settings| {
        settings.machines.registration = MachineRegistration::Key;
        settings.machines.enrolment_key = Some("the-key".into());
    })
    .await;
    world.post("/api/v1/machines", &Credential::None, &body).await.refused(401, "unauthorized");
    world.post("/api/v1/machines", &Credential::Bearer("another".into()), &body).await.refused(401, "unauthorized");
    let key = Credential::Bearer("the-key".into());
    let two = world.request(reqwest::Method::POST, "/api/v1/machines", &key).header("authorization", "Bearer another");
    world.send(two.json(&body)).await.refused(401, "unauthorized");
    world.post("/api/v1/machines", &key, &body).await.expect(201);
}
