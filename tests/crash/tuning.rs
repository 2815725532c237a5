//! Settings that an operator changes on SQLite while events arrive (`tests/cluster/tuning.rs` has three nodes on PostgreSQL).

use blackbox::eventually;
use blackbox::ledger::Witness;
use blackbox::process::Home;
use reqwest::Method;
use serde_json::json;

use crate::soak::Soak;

/// Settings with another value.
const CHANGES: [(&str, &str); 6] = [
    ("actors.ordered.queue_max", "5000"),
    ("actors.stuck_after", "20s"),
    ("log.checkpoint_every", "300ms"),
    ("log.remember_every", "1s"),
    ("limits.link_reads_per_minute", "7"),
    ("telemetry.log", "warn"),
];

async fn is_overridden(home: &Home, path: &str, value: &str) -> Option<()> {
    let setting = home.setting(path).await;
    (setting["source"] == "override").then(|| assert_eq!(setting["value"], value, "{path}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_settings_that_change_under_load_lose_nothing_and_restart_no_actor() {
    let mut soak = Soak::begin(Home::new(), None).await;
    let witness = Witness::pin(&soak.traffic.client, &soak.server.url).await;
    let home = std::sync::Arc::clone(&soak.home);
    for (path, value) in CHANGES {
        soak.traffic(100).await;
        let before = home.setting(path).await["value"].clone();
        home.run(&["config", "set", path, value, "--for", "3s", "--reason", "a test under load"]).said();
        eventually("it is in force", async || is_overridden(&home, path, value).await).await;
        soak.traffic(100).await;
        eventually("it has ended by itself", async || (home.setting(path).await["value"] == before).then_some(()))
            .await;
    }
    let file = home.dir.path().join("config.toml");
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = -1\n").unwrap();
    home.run(&["config", "reload", "--reason", "a broken file"]).refused(78, &["limits.link_reads_per_minute"]);
    std::fs::remove_file(&file).unwrap();
    let (_, tree) = home.operate(Method::GET, "/actors", None).await;
    assert_eq!(tree["restarts"], json!(0), "{tree:#}");

    // An override that is set before a crash is in force after it.
    let (path, value) = CHANGES[0];
    home.run(&["config", "set", path, value, "--until-unset", "--reason", "before a crash"]).said();
    soak.kill_and_restart().await;
    eventually("it is in force", async || is_overridden(&home, path, value).await).await;
    let (events, _) = soak.compare(witness).await;
    eprintln!("{events} events taken under changing settings");
}
