//! The usage bar: the rest of a plan (`docs/protocol/account.md`).

use std::time::Duration;

use domain::log_part::LogPart;
use domain::usage::{Allowance, Plan, RETROSPECTIVE};
use harness::upstream::Upstream;
use serde_json::{Value, json};

use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::world::World;
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

const BAR: &str = "/api/v1/usage/bar";

/// The same world with plans that a few events use up.
async fn small(world: World) -> World {
    world.restart_with(|settings| small_plans(&mut settings.plans)).await
}

fn small_plans(plans: &mut app::config::PlanSettings) {
    let (free, plus) = (plans.of(Plan::Free), plans.of(Plan::Plus));
    *plans.of_mut(Plan::Free) = Allowance { memory_events: 6, retrospectives: 3, window_days: 2, ..free };
    *plans.of_mut(Plan::Plus) = Allowance { memory_events: 60, retrospectives: 0, window_days: 7, ..plus };
}

async fn bar(world: &World, credential: impl Into<Credential>) -> Response {
    world.get(BAR, &credential.into()).await
}

/// The rest of both quotas, in percent.
async fn left(world: &World, credential: impl Into<Credential>) -> (f64, f64) {
    let bar = bar(world, credential).await.expect(200);
    let percent = |name: &str| bar[name]["percent_left"].as_f64().unwrap();
    (percent("memory"), percent("retrospective"))
}

fn retrospective(chain: &mut Chain) -> Value {
    chain.next_with(|event| {
        event["lane"] = json!("rsi");
        event["event_type"] = json!(RETROSPECTIVE);
        event["payload"] = json!({ "findings": 1 });
    })
}

/// The first moment of a day, as answers write it.
fn midnight(world: &World, days_from_today: i64) -> String {
    let day = domain::usage::Day::of(world.clock().now()).number() + days_from_today;
    domain::clock::date_time(domain::usage::Day::from(day).begin())
}

/// Waits until the meter has counted every event that has a place.
async fn counted(world: &World, leaves: u64) {
    let store = &world.server.app.store;
    eventually("the meter has counted", async || {
        let further = store.log_parts().await.unwrap();
        let further: u64 = further.iter().map(|part| part.counted).sum();
        (store.usage_counted(LogPart::FIRST).await.unwrap() + further == leaves).then_some(())
    })
    .await;
}

on_each_database! {
    async fn a_usage_bar_counts_each_event_once_and_at_once(world: World) {
        let world = small(world).await;
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        // Rounded down to one decimal.
        let steps = [83.3, 66.6, 50.0, 33.3];
        let mut sent = Vec::new();
        for step in steps {
            let event = chain.next();
            world.event(&machine, &event).await.receipt();
            assert_eq!(left(&world, &machine).await, (step, 100.0));
            sent.push(event);
        }
        let event = retrospective(&mut chain);
        world.event(&machine, &event).await.receipt();
        sent.push(event);
        // Every credential of the account sees the same, and no other.
        for credential in [Credential::from(&machine), agent.token.clone(), person.cookie.clone()] {
            assert_eq!(left(&world, credential).await, (33.3, 66.6));
        }
        let other = world.person("bob@example.com").await;
        assert_eq!(left(&world, other.cookie.clone()).await, (100.0, 100.0));
        assert_eq!(left(&world, &world.machine().await).await, (100.0, 100.0));

        counted(&world, 5).await;
        assert_eq!(left(&world, &machine).await, (33.3, 66.6));
        // A resend is the same event.
        for event in &sent {
            world.event(&machine, event).await.receipt();
        }
        let world = world.restart().await;
        assert_eq!(left(&world, &machine).await, (33.3, 66.6));
        // Other lanes do not count, and an excess leaves 0, not a negative number.
        let llm = chain.next_with(|event| {
            event["lane"] = json!("llm");
            event["event_type"] = json!("llm.completed");
            event["payload"] = json!({ "model": "m", "input_tokens": 1 });
        });
        world.event(&machine, &llm).await.receipt();
        assert_eq!(left(&world, &machine).await, (33.3, 66.6));
        for step in [16.6, 0.0, 0.0] {
            world.event(&machine, &chain.next()).await.receipt();
            assert_eq!(left(&world, &machine).await, (step, 66.6));
        }
    }
}

on_sqlite! {
    async fn a_usage_bar_has_the_specified_members(world: World) {
        let world = small(world).await;
        let person = world.person("ada@example.com").await;
        let made = bar(&world, person.cookie.clone()).await.expect(200);
        let measure = json!({ "percent_left": 100.0, "reset_at": midnight(&world, 2) });
        assert_eq!(made, json!({
            "plan": "FREE",
            "memory": measure,
            "retrospective": measure,
            "balance_cents": 0,
            "top_up_url": format!("{}/account", world.url),
            "limits": {
                "event_bytes": { "used": 0, "limit": 256 << 20, "reset_at": midnight(&world, 1) },
                "memory_bytes": { "used": 0, "limit": 256 << 20 },
            },
        }));
        let app = &world.server.app;
        app.store.account_plan_set(&person.account, Plan::Plus, world.clock().now()).await.unwrap();
        app.store.balance_add(&person.account, 250, "bought", world.clock().now(), &app.rng).await.unwrap();
        let paid = bar(&world, person.cookie.clone()).await.expect(200);
        assert_eq!((&paid["plan"], &paid["balance_cents"]), (&json!("PLUS"), &json!(250)));
        assert_eq!(paid["memory"]["reset_at"], midnight(&world, 7));

        let world = world.restart_with(|settings| settings.account.top_up_url = Some("https://shop.example.com".into())).await;
        let bar = bar(&world, person.cookie.clone()).await.expect(200);
        assert_eq!(bar["top_up_url"], "https://shop.example.com");
    }

    async fn a_usage_window_resets_at_its_end(world: World) {
        let world = small(world).await;
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        world.event(&machine, &chain.next()).await.receipt();
        assert_eq!(left(&world, &machine).await, (83.3, 100.0));
        world.advance(Duration::from_hours(48));
        let next = bar(&world, person.cookie.clone()).await;
        // The session outlives two days; the window does not.
        assert_eq!(next.expect(200)["memory"], json!({ "percent_left": 100.0, "reset_at": midnight(&world, 2) }));
        world.event(&machine, &chain.next()).await.receipt();
        assert_eq!(left(&world, &machine).await, (83.3, 100.0));
    }

    async fn an_unattached_computer_has_a_free_usage_bar_of_its_own(world: World) {
        let world = small(world).await;
        let machine = world.machine().await;
        let second = world.machine_of(&machine.user_cuid).await;
        world.event(&machine, &Chain::new(&machine).next()).await.receipt();
        world.event(&second, &Chain::new(&second).next()).await.receipt();
        world.event(&second, &retrospective(&mut Chain::of_agent(&second, "codex"))).await.receipt();
        assert_eq!(left(&world, &machine).await, (83.3, 100.0));
        assert_eq!(left(&world, &second).await, (83.3, 66.6));
        let response = bar(&world, &second).await.expect(200);
        assert_eq!((&response["plan"], &response["balance_cents"]), (&json!("FREE"), &json!(0)));
        // On attachment the computer's usage moves to the account; usage of others with the same identity does not.
        let person = world.person("ada@example.com").await;
        world.server.app.store
            .machine_attach(machine.uuid.parse().unwrap(), &person.account, world.clock().now(), world.rng()).await.unwrap().unwrap();
        assert_eq!(left(&world, person.cookie.clone()).await, (83.3, 100.0));
    }

    async fn a_held_event_does_not_count_as_usage(world: World) {
        let world = small(world).await;
        let machine = world.machine().await;
        let event = Chain::new(&machine).next_with(|event| event["event_type"] = json!("memory.dreamt"));
        world.event(&machine, &event).await.held("unknown_event_type");
        assert_eq!(left(&world, &machine).await, (100.0, 100.0));
    }

    async fn a_person_without_an_account_has_no_usage_bar(world: World) {
        let visitor = world.visitor("ada@example.com").await;
        bar(&world, visitor).await.refused(401, "unauthorized");
        bar(&world, Credential::Bearer(format!("msk_{}", "A".repeat(43)))).await.refused(401, "machine_unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_an_external_service_are_counted_and_survive_a_restart() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |settings| {
        small_plans(&mut settings.plans);
    })
    .await;
    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    for step in [83.3, 66.6] {
        let event = chain.next();
        let receipt = world.event(&machine, &event).await.receipt();
        assert_eq!(world.event(&machine, &event).await.receipt(), receipt);
        assert_eq!(left(&world, &machine).await, (step, 100.0));
    }
    // Counts in memory are written before a server stops.
    let world = world.restart().await;
    assert_eq!(left(&world, &machine).await, (66.6, 100.0));
    world.event(&machine, &retrospective(&mut chain)).await.receipt();
    assert_eq!(left(&world, &machine).await, (66.6, 66.6));
    upstream.assert_no_surprises();
}
