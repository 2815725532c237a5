//! Settings that operators change on all nodes while events arrive.

use std::time::{Duration, Instant};

use blackbox::eventually;
use reqwest::Method;
use serde_json::json;

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
        let before = world.nodes[0].home.setting(path).await["value"].clone();
        let reason = ["--reason", "a test under load"];
        world.nodes[0].home.run(&[&["config", "set", path, value, "--for", "4s"], &reason[..]].concat()).said();
        let set = Instant::now();
        for node in &world.nodes {
            eventually("it is in force", async || {
                let setting = node.home.setting(path).await;
                (setting["source"] == "override").then(|| assert_eq!(setting["value"], value, "{path}"))
            })
            .await;
        }
        longest = longest.max(set.elapsed());
        world.traffic(world.scale.calm).await;
        for node in &world.nodes {
            eventually("it has ended by itself", async || {
                (node.home.setting(path).await["value"] == before).then_some(())
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
        let setting = world.nodes[2].home.setting(path).await;
        (setting["value"] == value).then_some(())
    })
    .await;
    world.recovers(2).await;

    // A broken file changes nothing.
    let file = world.nodes[1].home.dir.path().join("config.toml");
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = -1\n").unwrap();
    let before = world.nodes[1].home.setting("limits.link_reads_per_minute").await;
    let broken = json!({ "reason": "a broken file" });
    let reload = world.nodes[1].home.operate(Method::POST, "/ops/v1/config/reload", Some(&broken)).await;
    assert_eq!((reload.0, &reload.1["error"]), (422, &json!("configuration_invalid")), "{}", reload.1);
    assert_eq!(world.nodes[1].home.setting("limits.link_reads_per_minute").await, before);
    std::fs::remove_file(&file).unwrap();

    for (number, node) in world.nodes.iter().enumerate() {
        let (_, tree) = node.home.operate(Method::GET, "/actors", None).await;
        assert_eq!((number, &tree["restarts"]), (number, &json!(0)), "{tree:#}");
    }
    world.end_with_acts("settings that changed").await;
}
