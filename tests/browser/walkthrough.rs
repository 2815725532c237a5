//! From an alert to the mended batch, as `docs/operations.md` has it: each step is printed there word for word.

use app::config::OperatorSettings;
use blackbox::eventually;
use blackbox::world::World;
use domain::Digest;
use domain::fail;
use domain::operator::OperatorRole;
use serde_json::{Value, json};

use crate::browser::{Browser, pages};

const TOKEN: &str = "opr_on_call";

const STEPS: [&str; 5] = [
    "1. `AttacheActorUnhealthy` fires with `kind=\"batches\"`: `attache_actor_quarantined_total` has increased.",
    "2. Sign in at `/console/` of the operator's listener and follow *Keys*. A row has the id of the batch, its crashes and the error.",
    "3. Follow the id. *Error* says what crashed it, *State* has its row: the `X-Request-Id` of its submission, items in all, and items with an outcome.",
    "4. Mend the cause. Follow *Release…*, write the reason, and press *Release*.",
    "5. Follow *Flow*: when the batch has ended, *Running batches* says *No batch runs.* *Acts* has the release, with its proof in the signed log.",
];

async fn with_a_quick_quarantine() -> World {
    World::with(|settings| {
        settings.admin.changes = true;
        settings.admin.operator = vec![OperatorSettings {
            name: "on-call".to_owned(),
            role: OperatorRole::Operate,
            uid: None,
            token_sha256: Some(Digest::of(TOKEN.as_bytes())),
            oidc: None,
        }];
        settings.actors = serde_json::from_value(json!({ "quarantine_for": "1h" })).unwrap();
        settings.knowledge.batch.lease = std::time::Duration::from_secs(1);
    })
    .await
}

/// Value of the counter that the rule of the alert reads.
async fn quarantined(world: &World) -> u64 {
    let metrics = reqwest::get(format!("http://{}/metrics", world.server.admin_address)).await.unwrap();
    let text = metrics.text().await.unwrap();
    let line = text.lines().find(|line| line.starts_with("attache_actor_quarantined_total{kind=\"batches\""));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

pages! { in with_a_quick_quarantine;
    async fn a_batch_that_keeps_crashing_is_released_and_ends(world: World, browser: Browser) {
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        let document = read("docs/operations.md").split_whitespace().collect::<Vec<_>>().join(" ");
        for step in STEPS {
            assert!(document.contains(step), "docs/operations.md lacks: {step}");
        }
        assert!(read("docs/deploy/alerts.yml").contains("increase(attache_actor_quarantined_total[30m]) > 0"));

        let (_, key) = world.librarian("ada@example.com").await;
        let before = quarantined(world).await;
        fail::cfg("batches.ready", "3*panic->off").unwrap();
        let contents: Vec<Value> = (0..3).map(|nth| json!({ "content": format!("Note {nth} about roses") })).collect();
        let batch = world.add(&key, json!({ "contents": contents })).await.batch;
        eventually("the alert fires", async || (quarantined(world).await > before).then_some(())).await;

        browser.visit(&format!("http://{}/console/", world.server.admin_address)).await;
        browser.fill("Token", TOKEN).await;
        browser.press("Sign in").await;
        browser.follow("Keys").await;
        for text in [batch.as_str(), "batches", "failpoint batches.ready"] {
            browser.sees(text).await;
        }
        browser.look("keys").await;
        browser.follow(&batch).await;
        for text in ["Error", "failpoint batches.ready", "State", "request", "total", "processed"] {
            browser.sees(text).await;
        }
        browser.look("key").await;
        browser.follow("Release…").await;
        browser.fill("Reason", "the disk was full").await;
        browser.press("Release").await;
        browser.sees("recorded as act").await;
        browser.follow("Flow").await;
        // The page renews itself.
        browser.sees("No batch runs.").await;
        let notes = world.found(&key, json!({ "query": "a note about roses", "limit": 10 })).await;
        assert_eq!(notes.len(), 3, "{notes:?}");
        browser.look("flow").await;
        browser.follow("Acts").await;
        browser.follow("key_release").await;
        eventually("a signed tree has it", async || {
            browser.visit(&browser.address().await).await;
            browser.text().await.contains("holds: event").then_some(())
        })
        .await;
        browser.look("act").await;
    }
}
