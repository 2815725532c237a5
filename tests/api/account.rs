//! Specification, *Account summary* and *`AccountComputers`*.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::on_each_database;

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

async fn last_seen(world: &World, person: &Credential, machine: &Machine) -> String {
    let listed = world.get(COMPUTERS, person).await.expect(200);
    let computer = listed["computers"].as_array().unwrap().iter().find(|found| found["machine_uuid"] == machine.uuid);
    computer.unwrap()["last_seen_at"].as_str().unwrap().to_owned()
}

on_each_database! {
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
        // Requested alone, the same failure is the error of that endpoint.
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
            let seen = last_seen(&world, &person.cookie, &machine).await;
            (seen != first).then_some(seen)
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
