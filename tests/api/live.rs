//! Live settings: a reload puts them in force, and leaves the others.

use std::time::Duration;

use actors::ActorKind;
use app::Reloaded;
use app::config::Settings;
use domain::usage::Plan;
use serde_json::json;
use store::setting::{OverrideSet, SettingOverride};
use supervision::root::Node;

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::raw::send;
use blackbox::world::World;
use harness::event::Chain;

pub(super) async fn child(world: &World, kind: ActorKind) -> Node {
    let tree = world.server.app.root.tree(Duration::from_secs(5)).await.unwrap();
    tree.children.into_iter().find(|child| child.name == kind.name()).unwrap()
}

pub(super) async fn reload(world: &World, change: impl FnOnce(&mut Settings)) -> Reloaded {
    reload_with(world, &world.server.app.live.get(), change).await
}

async fn reload_with(world: &World, settings: &Settings, change: impl FnOnce(&mut Settings)) -> Reloaded {
    let mut settings = settings.clone();
    change(&mut settings);
    world.server.app.apply(settings.into()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_live_settings_of_running_actors_and_leaves_the_others() {
    let world = World::with(|_| {}).await;
    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    let before = world.server.app.nodes.traits();
    assert_eq!(reload(&world, |_| {}).await, Reloaded::default());
    let budget = |node: Node| node.budget.unwrap().restarts_left;
    assert_eq!(budget(child(&world, ActorKind::Hold).await), 10);

    let reloaded = reload(&world, |settings| {
        settings.actors = serde_json::from_value(json!({ "restart": { "restarts_max": 3 } })).unwrap();
        settings.limits.link_reads_per_minute = 1;
        settings.http.auth_name = "another".into();
    })
    .await;
    assert_eq!(reloaded.restart_needed, ["http.auth_name"]);
    let applied = |path: &str| reloaded.applied.iter().find(|change| change.path == path).unwrap();
    let change = applied("actors.restart.restarts_max");
    assert_eq!((&change.before, &change.after), (&json!(10), &json!(3)));
    applied("actors.ordered.restart.restarts_max");
    for kind in [ActorKind::Hold, ActorKind::Ordered, ActorKind::Janitor] {
        let node = child(&world, kind).await;
        assert_eq!((node.restarts, budget(node)), (0, 3), "{kind}");
    }
    // Passes follow their settings too.
    let next = async |kind| child(&world, kind).await.pass.unwrap().next_in_ms;
    let hour = Duration::from_hours(1);
    assert!(next(ActorKind::Outbox).await < 60_000);
    reload(&world, |settings| settings.consent.outbox_every = hour).await;
    eventually("its next pass is in an hour", async || (next(ActorKind::Outbox).await > 3_000_000).then_some(())).await;
    let in_force = world.server.app.live.get();
    assert_eq!((in_force.limits.link_reads_per_minute, in_force.http.auth_name.as_str()), (1, "attache"));
    assert_ne!(world.server.app.nodes.traits().configuration, before.configuration);
    world.get("/feeds/unknown", &Credential::None).await.refused(404, "not_found");
    assert_eq!(world.get("/feeds/unknown", &Credential::None).await.status, 424);
    world.event(&machine, &chain.next()).await.receipt();

    // A setting that waits for a restart is named again, the settings in force are not.
    let again = reload(&world, |settings| settings.http.auth_name = "another".into()).await;
    assert_eq!(again, Reloaded { restart_needed: vec!["http.auth_name".into()], ..Reloaded::default() });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_gets_shorter_refuses_and_one_that_gets_longer_takes_again() {
    let world = World::with(|settings| settings.log.checkpoint_every = Duration::from_millis(50)).await;
    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    world.event(&machine, &chain.next()).await.receipt();
    reload(&world, |settings| {
        settings.actors =
            serde_json::from_value(json!({ "ordered": { "queue_max": 1 }, "intake": { "queue_max": 1 } })).unwrap();
    })
    .await;
    // One message finds room, so a sender that waits for each answer is never refused.
    world.event(&machine, &chain.next()).await.receipt();
    let reloaded = reload(&world, |settings| settings.actors = Settings::default().actors).await;
    assert_eq!(reloaded.applied.len(), 2, "{reloaded:?}");
    world.event(&machine, &chain.next()).await.receipt();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_reaches_all_nodes_and_a_reload_does_not_remove_it() {
    let Some(world) = World::on_postgres().await else { return };
    let other = world.beside_with(world.clock().clone(), |settings| settings.database.notify = false).await;
    let app = &world.server.app;
    let new = SettingOverride {
        path: "limits.link_reads_per_minute".into(),
        node: None,
        value: json!(1),
        until: None,
        set_by: "shell:0".into(),
    };
    assert_eq!(app.store.setting_override(&new, false, app.clock.now()).await.unwrap(), OverrideSet::Set);
    for node in [&world, &other] {
        let limit = || node.server.app.live.get().limits.link_reads_per_minute;
        eventually("the override is in force", async || (limit() == 1).then_some(())).await;
        let reloaded =
            reload_with(node, &node.server.app.settings, |settings| settings.limits.link_reads_per_minute = 9).await;
        let shadowed: Vec<_> = reloaded.shadowed.iter().map(|change| (&*change.path, &change.after)).collect();
        assert_eq!((reloaded.applied.len(), shadowed), (0, vec![(&*new.path, &json!(9))]));
        assert_eq!(limit(), 1);
    }
    assert!(app.store.setting_override_end(&new.path, None, app.clock.now()).await.unwrap());
    for node in [&world, &other] {
        let limit = || node.server.app.live.get().limits.link_reads_per_minute;
        eventually("the value of the file is in force", async || (limit() == 9).then_some(())).await;
    }
}

fn wanted(path: &str, value: serde_json::Value) -> SettingOverride {
    SettingOverride { path: path.into(), node: None, value, until: None, set_by: "shell:0".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_of_a_common_setting_holds_for_the_kinds_that_share_it() {
    let world = World::with(|settings| {
        settings.actors = serde_json::from_value(json!({ "mail": { "restart": { "restarts_max": 4 } } })).unwrap();
    })
    .await;
    let app = &world.server.app;
    let left = async |kind| child(&world, kind).await.budget.unwrap().restarts_left;
    app.override_settings(vec![
        wanted("actors.restart.restarts_max", json!(3)),
        wanted("actors.hold.restart.restarts_max", json!(7)),
        wanted("actors.restart.jitter", json!(9)),
        wanted("http.auth_name", json!("other")),
        wanted("no.setting", json!(1)),
    ])
    .await
    .unwrap();
    assert_eq!((left(ActorKind::Ordered).await, left(ActorKind::Janitor).await), (3, 3));
    assert_eq!((left(ActorKind::Hold).await, left(ActorKind::Mail).await), (7, 4));
    let found = app.live.overrides();
    assert_eq!((found.in_force.len(), found.left_out.len()), (2, 3), "{found:?}");
    app.override_settings(vec![]).await.unwrap();
    assert_eq!((left(ActorKind::Ordered).await, left(ActorKind::Hold).await), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_and_limits_of_connections_change_without_a_restart() {
    let world = World::with(|_| {}).await;
    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    world.event(&machine, &chain.next()).await.receipt();
    reload(&world, |settings| settings.events.unattached.events_per_day = 1).await;
    let next = chain.next();
    let spent = world.event(&machine, &next).await.refused(424, "temporarily_unavailable");
    assert_eq!(spent["reason"], "quota_exceeded");
    reload(&world, |settings| settings.events.unattached.events_per_day = 2).await;
    world.event(&machine, &next).await.receipt();

    let (person, key) = world.librarian("ada@example.com").await;
    let added = async |letter: &str| {
        let note = json!({ "contents": [{ "content": letter.repeat(600), "title": "T" }] });
        let messages = world.add(&key, note).await.whole().await;
        messages.into_iter().find(|message| message["type"] != "progress").unwrap()
    };
    let limit = async || {
        let bar = world.get("/api/v1/usage/bar", &person.cookie).await.expect(200);
        bar["limits"]["memory_bytes"]["limit"].as_u64().unwrap()
    };
    assert_eq!(added("a").await["type"], "success");
    reload(&world, |settings| settings.plans.of_mut(Plan::Free).memory_bytes = 1000).await;
    assert_eq!((&added("b").await["error"], limit().await), (&json!("quota_exceeded"), 1000));
    reload(&world, |settings| settings.plans.of_mut(Plan::Free).memory_bytes = 2000).await;
    assert_eq!((&added("b").await["type"], limit().await), (&json!("success"), 2000));

    let head = format!("GET /nothing HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(10_000));
    for listener in [world.server.address, world.server.admin_address] {
        assert_eq!(send([127, 0, 0, 1], listener, &head).await.0, 404);
    }
    reload(&world, |settings| settings.http.head_bytes_max = 8192).await;
    for listener in [world.server.address, world.server.admin_address] {
        assert_eq!(send([127, 0, 0, 1], listener, &head).await.0, 431, "a connection has the limits of its begin");
    }
}
