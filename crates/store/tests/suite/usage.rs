//! Usage is counted once.

use std::time::Duration;

use chrono::TimeDelta;
use domain::log_part::LogPart;
use domain::recorder::Recorder;
use domain::usage::{Day, QuotaUsed, UsageWindow};
use store::janitor::{PurgeSettings, Purged};
use store::usage::{EARLIER, UsageDay};

use crate::world::{World, now};
use harness::on_each_database;

fn used(memory: u64, retrospectives: u64) -> QuotaUsed {
    QuotaUsed { memory, retrospectives }
}

fn on(recorder: &Recorder, day: i64, used: QuotaUsed) -> UsageDay {
    UsageDay { recorder: recorder.clone(), day: Day::from(day), used }
}

/// A computer with a separate identity.
fn recorder(world: &World) -> Recorder {
    Recorder { machine: world.rng.uuid_v7(now()).into(), identity: world.cuid() }
}

fn window(first: i64, end: i64) -> UsageWindow {
    UsageWindow { first: Day::from(first), end: Day::from(end) }
}

on_each_database! {
    async fn usage_is_summed_over_the_computers_and_days_that_are_asked_for(world: &World) {
        let store = &world.store;
        let (one, two) = (recorder(world), recorder(world));
        // Another computer that names the same identity.
        let strange = Recorder { identity: one.identity.clone(), ..recorder(world) };
        let first = [on(&one, 10, used(1, 0)), on(&two, 11, used(2, 1)), on(&one, 10, used(4, 0)), on(&strange, 10, used(64, 64))];
        store.usage_add(&first).await.unwrap();
        store.usage_add(&[on(&one, 12, used(8, 0)), on(&one, 9, used(16, 2))]).await.unwrap();
        store.usage_add(&[]).await.unwrap();
        let both = [one.clone(), two.clone()];
        let sum = async |computers: &[Recorder], window| store.usage_of(computers, window).await.unwrap().used;
        assert_eq!(sum(&both, window(10, 12)).await, used(7, 1));
        assert_eq!(sum(&both, window(9, 13)).await, used(31, 3));
        assert_eq!(sum(&both[..1], window(12, 40)).await, used(8, 0));
        assert_eq!(sum(&both, window(13, 40)).await, used(0, 0));
        assert_eq!(sum(&[], window(0, 40)).await, used(0, 0));
    }

    async fn the_history_has_the_days_of_each_computer_the_newest_first(world: &World) {
        let store = &world.store;
        let (one, two, strange) = (recorder(world), recorder(world), recorder(world));
        let days = [on(&one, 10, used(1, 0)), on(&one, 12, used(2, 1)), on(&two, 11, used(4, 0)), on(&strange, 11, used(8, 0))];
        store.usage_add(&days).await.unwrap();
        let history = async |first, end, rows_max| {
            store.usage_history(&[one.clone(), two.clone()], window(first, end), rows_max).await.unwrap()
        };
        assert_eq!(history(0, 40, 100).await, [days[1].clone(), days[2].clone(), days[0].clone()]);
        assert_eq!(history(11, 12, 100).await, [days[2].clone()]);
        assert_eq!(history(0, 40, 1).await, [days[1].clone()]);
    }

    async fn what_two_count_at_once_is_counted_once(world: &World) {
        let second = world.second().await;
        let cuid = recorder(world);
        let mut counting = tokio::task::JoinSet::new();
        for round in 0..6 {
            let (store, day) = (if round % 2 == 0 { &world.store } else { &second }.clone(), on(&cuid, 1, used(5, 1)));
            counting.spawn(async move { store.usage_count(LogPart::FIRST, 0, 5, &[day]).await.unwrap() });
        }
        let won = counting.join_all().await.into_iter().filter(|won| *won).count();
        assert_eq!(won, 1);
        assert_eq!(world.store.usage_counted(LogPart::FIRST).await.unwrap(), 5);
        assert!(world.store.usage_count(LogPart::FIRST, 5, 8, &[on(&cuid, 2, used(3, 0))]).await.unwrap());
        assert!(!world.store.usage_count(LogPart::FIRST, 5, 9, &[on(&cuid, 2, used(4, 0))]).await.unwrap());
        let counted = world.store.usage_of(&[cuid], window(0, 9)).await.unwrap();
        assert_eq!((counted.leaves(LogPart::FIRST), counted.used), (8, used(8, 1)));
    }

    async fn old_days_become_one_row_and_windows_stay_exact(world: &World) {
        let store = &world.store;
        let (one, two) = (recorder(world), recorder(world));
        let today = Day::of(now()).number();
        // Two years of one computer, and an old day of another.
        let days: Vec<UsageDay> = (0..730).map(|ago| on(&one, today - ago, used(1, 1))).chain([on(&two, today - 500, used(7, 0))]).collect();
        store.usage_add(&days).await.unwrap();
        let sum = async |first, end| store.usage_of(std::slice::from_ref(&one), window(first, end)).await.unwrap().used;
        let settings = PurgeSettings { usage_days_kept: Duration::from_hours(24 * 400), batch_rows: 100, ..PurgeSettings::default() };
        let few = PurgeSettings { batches_max: 1, ..settings };
        let folded = store.purge(now(), &few).await.unwrap().usage_days;
        assert_eq!(folded, 100, "a round is bounded");
        // Two concurrent janitors, as on two nodes.
        let second = world.second().await;
        let (here, there) = tokio::join!(store.purge(now(), &settings), second.purge(now(), &settings));
        let folded = folded + here.unwrap().usage_days + there.unwrap().usage_days;
        assert_eq!(folded, 329 + 1);
        for (first, end, expected) in [(today - 399, today + 1, 400), (today - 30, today + 1, 31), (today - 400, today + 1, 401), (today, today + 1, 1)] {
            assert_eq!(sum(first, end).await, used(expected, expected), "{first} to {end}");
        }
        // The sum is unchanged: the row of the earlier days contains the rest.
        assert_eq!(sum(i64::MIN, today + 1).await, used(730, 730));
        assert_eq!(sum(EARLIER.number(), EARLIER.number() + 1).await, used(329, 329));
        assert_eq!(store.usage_of(std::slice::from_ref(&two), window(-1, 0)).await.unwrap().used, used(7, 0));
        // A day later, one more day is folded.
        assert_eq!(store.purge(now() + TimeDelta::days(1), &settings).await.unwrap().usage_days, 1);
        assert_eq!(sum(EARLIER.number(), EARLIER.number() + 1).await, used(330, 330));
        assert_eq!(store.purge(now() + TimeDelta::days(1), &settings).await.unwrap(), Purged::default());
    }

    async fn a_large_batch_is_counted_whole(world: &World) {
        let identities: Vec<Recorder> = (0..150).map(|_| recorder(world)).collect();
        let days: Vec<UsageDay> = identities.iter().map(|cuid| on(cuid, 1, used(1, 0))).collect();
        for round in 0..2 {
            assert!(world.store.usage_count(LogPart::FIRST, round, round + 1, &days).await.unwrap());
        }
        assert_eq!(world.store.usage_of(&identities, window(1, 2)).await.unwrap().used, used(300, 0));
    }
}
