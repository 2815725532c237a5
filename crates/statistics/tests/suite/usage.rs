//! Continuous counting of usage.

use domain::Clock;
use domain::recorder::Recorder;
use domain::usage::{Day, QuotaUsed, UsageWindow};
use serde_json::{Value, json};

use crate::world::{Chain, World};
use harness::on_each_database;

fn used(memory: u64, retrospectives: u64) -> QuotaUsed {
    QuotaUsed { memory, retrospectives }
}

/// A retrospective at the next place of the chain.
fn retrospective(chain: &mut Chain) -> Value {
    chain.next_with(|event| {
        event["lane"] = json!("rsi");
        event["event_type"] = json!(domain::usage::RETROSPECTIVE);
    })
}

on_each_database! {
    async fn every_leaf_is_counted_once_and_the_rest_is_seen_beyond(world: World) {
        let (mut one, mut two) = (Chain::new(&world), Chain::new(&world));
        let (ada, bob) = (one.recorder(), two.recorder());
        let today = Day::of(Clock::system().now());
        // The window includes all events of a test that runs over midnight.
        let window = UsageWindow { first: today, end: Day::from(today.number() + 2) };
        assert_eq!(world.log.usage_from(0, 100).await.unwrap(), (0, Vec::new()));
        for round in 0..5 {
            world.take(&one.next()).await;
            if round % 2 == 0 {
                world.take(&retrospective(&mut two)).await;
            }
        }
        let llm = one.next_with(|event| {
            event["lane"] = json!("llm");
            event["event_type"] = json!("llm.called");
        });
        world.take(&llm).await;
        let beyond = async |counted, computer: &Recorder, window| {
            world.log.usage_beyond(counted, std::slice::from_ref(computer), window, 100).await.unwrap()
        };
        // No event has a place yet, but all are counted.
        assert_eq!(world.log.usage_from(0, 100).await.unwrap(), (0, Vec::new()));
        assert_eq!((beyond(0, &ada, window).await, beyond(0, &bob, window).await), (used(5, 0), used(0, 3)));
        let past = UsageWindow { first: Day::from(0), end: today };
        assert_eq!(beyond(0, &ada, past).await, used(0, 0));

        assert_eq!(world.log.sequence(6).await.unwrap().tree_size, 6);
        world.take(&one.next()).await;
        let (mut counted, mut sums, mut steps) = (0, [used(0, 0), used(0, 0)], 0);
        loop {
            for (sum, identity) in [&ada, &bob].into_iter().enumerate() {
                let mut whole = beyond(counted, identity, window).await;
                whole += sums[sum];
                assert_eq!(whole, [used(6, 0), used(0, 3)][sum], "beyond {counted}");
            }
            if counted == 6 {
                world.log.sequence(100).await.unwrap();
            }
            let (until, days) = world.log.usage_from(counted, 2).await.unwrap();
            if until == counted {
                break;
            }
            assert!(until - counted <= 2);
            counted = until;
            steps += 1;
            for day in days {
                assert!(window.holds(day.day));
                sums[usize::from(day.recorder == bob)] += day.used;
            }
        }
        assert_eq!((counted, steps, sums), (10, 5, [used(6, 0), used(0, 3)]));
    }

    async fn a_look_beyond_is_bounded(world: World) {
        let mut chain = Chain::new(&world);
        for _ in 0..5 {
            world.take(&chain.next()).await;
        }
        world.log.sequence(100).await.unwrap();
        let window = UsageWindow { first: Day::from(0), end: Day::from(1 << 20) };
        let usage = world.log.usage_beyond(1, &[chain.recorder()], window, 2).await.unwrap();
        assert_eq!(usage, used(2, 0));
    }
}
