//! Settings that operators change on all nodes while events arrive.

use std::path::Path;
use std::time::{Duration, Instant};

use blackbox::eventually;
use blackbox::process::Home;
use serde_json::{Value, json};

use crate::world::{Differences, NODES, World};

/// Settings with another value, as `attache config set` takes it and as the API shows it.
const CHANGES: [(&str, &str); 6] = [
    ("actors.ordered.queue_max", "5000"),
    ("actors.stuck_after", "20s"),
    ("log.checkpoint_every", "300ms"),
    ("log.remember_every", "1s"),
    ("limits.link_reads_per_minute", "7"),
    ("telemetry.log", "warn"),
];

#[tokio::test(flavor = "multi_thread")]
async fn soak_settings_that_change_under_load_lose_nothing_and_restart_no_actor() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    let mut longest = Duration::ZERO;
    for (path, value) in CHANGES {
        world.traffic(world.scale.calm).await;
        let before = shown(&world.nodes[0].home, path).await["value"].clone();
        let reason = ["--reason", "a test under load"];
        world.nodes[0].home.run(&[&["config", "set", path, value, "--for", "4s"], &reason[..]].concat()).said();
        let set = Instant::now();
        for node in &world.nodes {
            eventually("it is in force", async || {
                let setting = shown(&node.home, path).await;
                (setting["source"] == "override").then(|| assert_eq!(text(&setting["value"]), value, "{path}"))
            })
            .await;
        }
        longest = longest.max(set.elapsed());
        world.traffic(world.scale.calm).await;
        for node in &world.nodes {
            eventually("it has ended by itself", async || {
                (shown(&node.home, path).await["value"] == before).then_some(())
            })
            .await;
        }
    }
    eprintln!("an override was in force on {NODES} nodes {longest:.1?} after the command, at most");

    // A node that was down has it when it is back.
    let (path, value) = CHANGES[0];
    world.nodes[2].touch();
    world.nodes[2].terminate().await;
    let set = ["config", "set", path, value, "--until-unset", "--reason", "a node is down"];
    world.nodes[0].home.run(&set).said();
    world.traffic(world.scale.calm).await;
    world.nodes[2].start().await;
    eventually("it has the override", async || {
        let setting = shown(&world.nodes[2].home, path).await;
        (text(&setting["value"]) == value).then_some(())
    })
    .await;
    world.recovers(2).await;

    // A broken file changes nothing.
    let file = world.nodes[1].home.dir.path().join("config.toml");
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = -1\n").unwrap();
    let before = shown(&world.nodes[1].home, "limits.link_reads_per_minute").await;
    let reload = post(&world.nodes[1].home, "/ops/v1/config/reload", &json!({ "reason": "a broken file" })).await;
    assert_eq!((reload.0, &reload.1["error"]), (422, &json!("configuration_invalid")), "{}", reload.1);
    assert_eq!(shown(&world.nodes[1].home, "limits.link_reads_per_minute").await, before);
    std::fs::remove_file(&file).unwrap();

    for (number, node) in world.nodes.iter().enumerate() {
        let tree = get(&node.home, "/actors").await;
        assert_eq!((number, &tree["restarts"]), (number, &json!(0)), "{tree:#}");
    }
    world.end_with_acts("settings that changed").await;
}

/// A setting as its node shows it.
async fn shown(home: &Home, path: &str) -> Value {
    get(home, &format!("/ops/v1/config?path={path}")).await["settings"][0].clone()
}

/// A value without the quotes of a text.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn get(home: &Home, route: &str) -> Value {
    let response = client(&home.data()).get(format!("http://localhost{route}")).send().await.unwrap();
    assert!(response.status().is_success(), "{route}: {}", response.status());
    response.json().await.unwrap()
}

async fn post(home: &Home, route: &str, body: &Value) -> (u16, Value) {
    let response = client(&home.data()).post(format!("http://localhost{route}")).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn client(data: &Path) -> reqwest::Client {
    http_client::builder().no_proxy().unix_socket(data.join("operator.sock")).build().unwrap()
}
