//! Specification, *Account summary* and *`AccountComputers`*.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::on_sqlite;

const SUMMARY: &str = "/api/v1/account/summary";
const COMPUTERS: &str = "/api/v1/account/computers";

/// Runs a statement that no server would ever run.
async fn tamper(world: &World, sql: &'static str) {
    let pool = world.server.app.store.pool();
    store::pool::script(sql).execute(pool.writer()).await.unwrap();
}

fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Sends a form of a page of the server; returns the status of the response.
async fn submit(world: &World, person: &Credential, path: &str, form: &str) -> u16 {
    let request = world.request(Method::POST, path, person).header("origin", &world.url);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
    world.send(request).await.status
}

async fn last_seen(world: &World, person: &Credential, machine: &Machine) -> String {
    let listed = world.get(COMPUTERS, person).await.expect(200);
    let computer = listed["computers"].as_array().unwrap().iter().find(|found| found["machine_uuid"] == machine.uuid);
    computer.unwrap()["last_seen_at"].as_str().unwrap().to_owned()
}

on_sqlite! {
    async fn computers_are_listed_newest_first_with_the_specified_members(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        assert_eq!(world.get(COMPUTERS, &person.cookie).await.expect(200), json!({ "computers": [] }));
        let mut machines = Vec::new();
        for _ in 0..3 {
            machines.push(world.attached_machine(&person).await.uuid);
            world.advance(Duration::from_millis(5));
        }
        world.machine().await;
        machines.reverse();
        for credential in [&person.cookie, &agent.token] {
            let listed = world.get(COMPUTERS, credential).await.expect(200);
            let computers = listed["computers"].as_array().unwrap();
            let uuids: Vec<_> = computers.iter().map(|computer| computer["machine_uuid"].as_str().unwrap()).collect();
            assert_eq!(uuids, machines);
            assert_eq!(members(&computers[0]), ["first_seen_at", "last_seen_at", "machine_uuid", "via"]);
            assert_eq!((&computers[0]["via"], &computers[0]["first_seen_at"]), (&json!("attached"), &computers[0]["last_seen_at"]));
        }
    }

    async fn an_account_names_its_computers_and_agents(world: World) {
        let (person, stranger) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, agent) = (world.attached_machine(&person).await, world.agent_of(&person).await);
        let paths = [format!("{COMPUTERS}/{}", machine.uuid), format!("/api/v1/agents/{}", agent.id)];
        let name = async |path: &str, credential: &Credential, body: Value| {
            world.send(world.request(Method::PATCH, path, credential).json(&body)).await
        };
        for path in &paths {
            name(path, &stranger.cookie, json!({ "label": "Mine" })).await.refused(404, "not_found");
            name(path, &agent.token, json!({ "label": "Trustworthy" })).await.refused(401, "unauthorized");
            for wrong in [json!({}), json!({ "label": 1 }), json!({ "label": "a\nb" }), json!({ "label": "é".repeat(101) })] {
                name(path, &person.cookie, wrong).await.refused(400, "invalid_request");
            }
            assert_eq!(name(path, &person.cookie, json!({ "label": " Ada's " })).await.expect(200), json!({ "ok": true }));
        }
        name(&format!("{COMPUTERS}/nonsense"), &person.cookie, json!({ "label": "x" })).await.refused(404, "not_found");
        let sections = world.get(SUMMARY, &person.cookie).await.expect(200)["sections"].clone();
        assert_eq!(sections["computers"]["computers"][0]["label"], "Ada's");
        assert_eq!(sections["agents"]["agents"][0]["label"], "Ada's");
        for (path, empty) in paths.iter().zip([json!(null), json!("  ")]) {
            name(path, &person.cookie, json!({ "label": empty })).await.expect(200);
        }
        let sections = world.get(SUMMARY, &person.cookie).await.expect(200)["sections"].clone();
        assert_eq!(members(&sections["computers"]["computers"][0]), ["first_seen_at", "last_seen_at", "machine_uuid", "via"]);
        assert_eq!(sections["agents"]["agents"][0].get("label"), None);
    }

    async fn pages_change_nothing_of_another_account(world: World) {
        let (person, stranger) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, agent) = (world.attached_machine(&person).await, world.agent_of(&person).await);
        let post = async |path: &str, form: &str| submit(&world, &stranger.cookie, path, form).await;
        for path in [format!("/account/computers/{}", machine.uuid), format!("/account/agents/{}", agent.id)] {
            assert_eq!(post(&path, "label=Mine").await, 404);
            assert_eq!(world.get(&path, &stranger.cookie).await.status, 404);
        }
        assert_eq!(post("/account/consent", &format!("base=&{}.llm=off", machine.uuid)).await, 404);
        assert_eq!(world.get(&format!("/account/consent/{}", machine.uuid), &stranger.cookie).await.status, 404);
        assert_eq!(post("/account/close", "email=ada%40example.com").await, 400);
        let export = world.get("/account/data/export", &stranger.cookie).await;
        let lines = String::from_utf8_lossy(&export.body).into_owned();
        assert!(lines.contains("bob@example.com") && !lines.contains(&machine.uuid) && !lines.contains(&agent.id.to_string()), "{lines}");
        let sections = world.get(SUMMARY, &person.cookie).await.expect(200)["sections"].clone();
        assert_eq!(sections["agents"]["agents"][0].get("label"), None);
        assert_eq!(world.get("/api/v1/consent", &person.cookie).await.expect(200)["levels"], json!([]));
    }

    async fn an_export_has_everything_and_no_secret(world: World) {
        let person = world.person("ada@example.com").await;
        let (machine, agent) = (world.attached_machine(&person).await, world.agent_of(&person).await);
        let made = world.post("/api/v1/keys", &person.cookie, &json!({ "name": "The cook" })).await.expect(201);
        let mut chain = Chain::new(&machine);
        let event = chain.next();
        world.event(&machine, &event).await.receipt();
        world.post("/api/v1/consent", &person.cookie, &json!({ "level": "full" })).await.expect(200);
        // Usage is counted within a second.
        let export = eventually("usage is counted", async || {
            let export = world.get("/account/data/export", &person.cookie).await;
            String::from_utf8_lossy(&export.body).contains("\"usage\"").then_some(export)
        })
        .await;
        assert_eq!((export.status, export.header("content-type")), (200, Some("application/x-ndjson")));
        let text = String::from_utf8(export.body.to_vec()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for kind in ["account", "computer", "agent", "consent", "key", "session", "usage", "event"] {
            assert!(lines.iter().any(|line| line["kind"] == kind), "{kind} is missing: {text}");
        }
        assert!(lines.iter().any(|line| line["event"]["event_id"] == event["event_id"]));
        let Credential::Bearer(token) = &agent.token else { unreachable!() };
        for secret in [machine.secret.as_str(), token, made["key"].as_str().unwrap()] {
            assert!(!text.contains(secret));
        }
        // A sign-in of an hour ago does not do.
        world.advance(Duration::from_hours(1));
        assert_eq!(world.get("/account/data/export", &person.cookie).await.status, 303);
        assert_eq!(submit(&world, &person.cookie, "/account/close", "email=ada%40example.com").await, 303);
        assert_eq!(world.get(SUMMARY, &person.cookie).await.status, 200);
    }

    async fn a_summary_has_all_its_sections(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let machine = world.attached_machine(&person).await;
        let summary = world.get(SUMMARY, &agent.token).await.expect(200);
        assert_eq!(members(&summary), ["errors", "generated_at", "sections", "version"]);
        assert_eq!((&summary["version"], &summary["errors"]), (&json!(1), &json!({})));
        assert!(summary["generated_at"].as_str().unwrap().parse::<domain::Timestamp>().is_ok());
        let sections = &summary["sections"];
        assert_eq!(members(sections), ["account", "agents", "computers", "plan_and_usage"]);
        assert_eq!(sections["account"], json!({ "id": person.account, "email": "ada@example.com", "name": null }));
        assert_eq!(sections["computers"], world.get(COMPUTERS, &person.cookie).await.expect(200));
        assert_eq!(sections["computers"]["computers"][0]["machine_uuid"], machine.uuid);
        assert_eq!(sections["plan_and_usage"], world.get("/api/v1/usage/bar", &person.cookie).await.expect(200));
        let agents = sections["agents"]["agents"].as_array().unwrap();
        assert_eq!(agents.len(), 1);
        assert_eq!(members(&agents[0]), ["createdAt", "id", "ipAddress", "lastTokenAt", "revokedAt", "status", "type"]);
        assert_eq!(
            (&agents[0]["id"], &agents[0]["type"], &agents[0]["status"], &agents[0]["revokedAt"]),
            (&json!(agent.id), &json!("anonymous"), &json!("claimed"), &json!(null))
        );
        assert_eq!(agents[0]["ipAddress"], "127.0.0.1");
        assert!(agents[0]["lastTokenAt"].is_string() && agents[0]["createdAt"].is_string());

        // A revoked agent stays in the list with the time of its revocation.
        world.delete(&format!("/api/v1/agents/{}", agent.id), &person.cookie).await.expect(200);
        let summary = world.get(SUMMARY, &person.cookie).await.expect(200);
        let revoked = &summary["sections"]["agents"]["agents"][0];
        assert!(revoked["revokedAt"].is_string() && revoked["status"] == "claimed", "{revoked}");
        world.get(SUMMARY, &agent.token).await.refused(401, "unauthorized");
    }

    async fn a_summary_never_has_data_of_another_account(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        world.agent_of(&ada).await;
        let machine = world.attached_machine(&ada).await;
        world.event(&machine, &Chain::new(&machine).next()).await.receipt();
        assert_eq!(world.get(COMPUTERS, &bob.cookie).await.expect(200), json!({ "computers": [] }));
        let summary = world.get(SUMMARY, &bob.cookie).await.expect(200);
        let sections = &summary["sections"];
        assert_eq!(sections["account"]["email"], "bob@example.com");
        assert_eq!(sections["computers"], json!({ "computers": [] }));
        assert_eq!(sections["agents"], json!({ "agents": [] }));
        assert_eq!(sections["plan_and_usage"]["memory"]["percent_left"], 100.0);
    }

    async fn a_summary_without_an_account_is_user_not_found(world: World) {
        let visitor = world.visitor("ada@example.com").await;
        world.get(SUMMARY, &visitor).await.refused(404, "user_not_found");
        world.get(COMPUTERS, &visitor).await.refused(401, "unauthorized");
        let unknown = Credential::Bearer(format!("msk_{}", "A".repeat(43)));
        for path in [SUMMARY, COMPUTERS] {
            world.get(path, &Credential::None).await.refused(401, "unauthorized");
            world.get(path, &unknown).await.refused(401, "machine_unknown");
        }
    }

    async fn a_summary_section_that_fails_is_reported_in_errors(world: World) {
        let person = world.person("ada@example.com").await;
        world.attached_machine(&person).await;
        tamper(&world, "DROP TABLE usage_days").await;
        let summary = world.get(SUMMARY, &person.cookie).await.expect(200);
        assert_eq!(summary["errors"], json!({ "plan_and_usage": "temporarily_unavailable" }));
        assert_eq!(members(&summary["sections"]), ["account", "agents", "computers"]);
        assert_eq!(summary["sections"]["computers"]["computers"].as_array().unwrap().len(), 1);
        // The endpoint of the section returns the same failure as its error.
        world.get("/api/v1/usage/bar", &person.cookie).await.refused(424, "temporarily_unavailable");
    }

    async fn last_seen_moves_with_any_request_but_once_a_minute(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let silent = world.attached_machine(&person).await;
        let first = last_seen(&world, &person.cookie, &machine).await;
        let still = last_seen(&world, &person.cookie, &silent).await;
        world.advance(Duration::from_secs(30));
        world.activity(&machine, "").await.expect(200);
        world.server.app.presence.settle().await.unwrap();
        assert_eq!(last_seen(&world, &person.cookie, &machine).await, first);

        world.advance(Duration::from_secs(31));
        world.get("/api/v1/usage/bar", &Credential::from(&machine)).await.expect(200);
        let moved = eventually("it was seen", async || {
            let time = last_seen(&world, &person.cookie, &machine).await;
            (time != first).then_some(time)
        })
        .await;
        assert!(moved > first);
        world.activity(&machine, "").await.expect(200);
        world.server.app.presence.settle().await.unwrap();
        assert_eq!(last_seen(&world, &person.cookie, &machine).await, moved);
        assert_eq!(last_seen(&world, &person.cookie, &silent).await, still);

        // Pending times are written before a server stops.
        world.advance(Duration::from_mins(2));
        world.event(&machine, &Chain::new(&machine).next()).await.receipt();
        let world = world.restart().await;
        assert!(last_seen(&world, &person.cookie, &machine).await > moved);
    }
}

/// Readers of SQLite never wait, so only PostgreSQL can delay one.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_section_that_times_out_is_reported_in_errors() {
    let Some(world) = World::on_postgres().await else { return };
    let world = world.restart_with(|settings| settings.account.section_deadline = Duration::from_millis(500)).await;
    let person = world.person("ada@example.com").await;
    let url = world.server.app.settings.database.url.clone().unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut lock = connection.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE machines IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let summary = world.get(SUMMARY, &person.cookie).await.expect(200);
    assert_eq!(summary["errors"], json!({ "computers": "timed_out" }));
    assert_eq!(members(&summary["sections"]), ["account", "agents", "plan_and_usage"]);
    lock.rollback().await.unwrap();
}
