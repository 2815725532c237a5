//! Keyed actors: one for each key, activated on demand, passivated without loss, quarantined per key.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use supervision::directory::KeyControl as _;
use supervision::{ActorSettings, AskError, RestartSettings, TreeExit, Unavailable};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::crowd::{Bank, Change, NEVER_STARTED, UNSTARTABLE, crash_quietly};
use crate::world::{World, eventually, settings};

const SECOND: Duration = Duration::from_secs(1);

const CRASHED: AskError<&str> = AskError::Unavailable(Unavailable::Crashed);
const TIMED_OUT: AskError<&str> = AskError::Unavailable(Unavailable::TimedOut);

#[tokio::test(start_paused = true)]
async fn concurrent_activations_of_one_key_yield_one_actor() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    let mut asks = JoinSet::new();
    for _ in 0..100 {
        let bank = bank.clone();
        asks.spawn(async move { bank.ask(0, Change::Add).await.unwrap() });
    }
    let mut answers = asks.join_all().await;
    answers.sort_unstable();
    assert_eq!(answers, (1..=100).collect::<Vec<_>>());
    assert_eq!((bank.starts(), bank.conflicts(), bank.tellers.live()), (1, 0, 1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_spawns_nothing() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(7, Change::Add).await, Err(AskError::Unknown));
    let broken = bank.tellers.ask(&0, || async { Err("no such table") }, Change::Add, SECOND).await;
    assert_eq!(broken, Err(AskError::Load("no such table")));
    assert_eq!((bank.starts(), bank.tellers.live()), (0, 0));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_living_actor_is_asked_without_loading() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    for count in 1..=10 {
        assert_eq!(bank.ask(0, Change::Add).await, Ok(count));
    }
    assert_eq!(bank.loads(), 1);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_hint_reaches_running_actors_and_starts_none() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    assert!(!bank.tellers.hint(&0, Change::Add));
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    assert!(bank.tellers.hint(&0, Change::Add));
    assert_eq!(bank.ask(0, Change::Add).await, Ok(3));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_announcement_reaches_every_living_actor_once_and_wakes_no_other() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..3, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.tellers.announce(|| Change::Reminded), 0);
    for key in 0..2 {
        assert_eq!(bank.ask(key, Change::Add).await, Ok(1));
    }
    assert_eq!(bank.tellers.announce(|| Change::Reminded), 2);
    for (key, count) in [(0, 3), (1, 3), (2, 1)] {
        assert_eq!(bank.ask(key, Change::Add).await, Ok(count));
    }
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_sent_message_activates_its_actor() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    bank.tellers.send(&0, || bank.ledger.load(0), Change::Add, SECOND).await.unwrap();
    eventually("it was added", || bank.ledger.total() == 1).await;
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_nothing_is_answered_in_the_turn_of_its_sender() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    assert_eq!(bank.ask(0, Change::Count).now_or_never(), Some(Ok(1)));
    let (added, counted) = tokio::join!(bank.ask(0, Change::Add), bank.ask(0, Change::Count));
    assert_eq!((added, counted), (Ok(2), Ok(2)), "a busy actor is waited for");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_goes_away_cancels_nothing() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Count).await, Ok(0));
    let late = |reply| Change::AddLate(10 * SECOND, reply);
    assert_eq!(bank.ask(0, late).now_or_never(), None, "it is at work when its sender goes away");
    assert_eq!(bank.ask(0, Change::Add).now_or_never(), None, "and this one waits in the inbox");
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!((bank.ledger.total(), bank.starts()), (2, 1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_takes_along_what_waited_behind_it() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    let start = Instant::now();
    let late = |reply| Change::PanicLate(SECOND, reply);
    let answers = tokio::join!(bank.ask(0, late), bank.ask(0, Change::Add), bank.ask(0, Change::Add));
    assert_eq!(answers, (Err(CRASHED), Err(CRASHED), Err(CRASHED)));
    assert_eq!(start.elapsed(), SECOND, "at once");
    assert_eq!(bank.ask(0, Change::Add).await, Ok(2));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_actor_sends_itself_reaches_it_and_no_successor() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &ActorSettings { idle_after: 60 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, |reply| Change::Remind(10 * SECOND, reply)).await, Ok(0));
    assert_eq!(bank.ask(0, Change::Count).await, Ok(1));
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(bank.ask(0, Change::Count).await, Ok(2));
    assert_eq!(bank.ask(0, |reply| Change::Remind(200 * SECOND, reply)).await, Ok(2));
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(bank.tellers.live(), 0, "passivated before the second reminder");
    assert_eq!(bank.ask(0, Change::Count).await, Ok(3));
    tokio::time::sleep(101 * SECOND).await;
    assert_eq!((bank.ledger.total(), bank.starts()), (3, 2));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_crashed_actor_is_activated_afresh_by_the_next_message() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(1, Change::Add).await, Ok(1));
    let start = Instant::now();
    assert_eq!(bank.ask(0, Change::Panic).await, Err(CRASHED));
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    assert!(start.elapsed() < Duration::from_millis(50));
    assert_eq!(bank.ask(1, Change::Add).await, Ok(2));
    assert_eq!(bank.starts(), 3, "the sibling lives on");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_poison_key_is_quarantined_alone_and_released_after_its_time() {
    let world = World::new();
    let quarantine = ActorSettings { quarantine_after: 3, quarantine_for: 90 * SECOND, ..settings() };
    let (bank, child) = Bank::new(&world, 0..2, &quarantine);
    let root = world.root(vec![child]).await;
    for _ in 0..3 {
        assert_eq!(bank.ask(0, Change::Panic).await, Err(CRASHED));
    }
    // The family sees the last crash shortly after the caller.
    eventually("the actor is gone", || bank.tellers.live() == 0).await;
    let loads = bank.loads();
    let start = Instant::now();
    let Err(AskError::Unavailable(Unavailable::Quarantined { retry_after })) = bank.ask(0, Change::Add).await else {
        panic!("not quarantined");
    };
    assert!(retry_after > 89 * SECOND && retry_after <= 90 * SECOND, "{retry_after:?}");
    assert_eq!((start.elapsed(), bank.loads()), (Duration::ZERO, loads), "refused at once, nothing loaded");
    assert_eq!(bank.ask(1, Change::Add).await, Ok(1), "the sibling is served");
    let tree = root.tree(SECOND).await.unwrap();
    assert_eq!((tree.restarts, tree.live, tree.quarantined), (0, 1, 1));
    tokio::time::sleep(retry_after).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1), "released");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_handles_its_inbox_and_starts_no_actor_until_its_time_or_the_next_order() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &settings());
    let root = world.root(vec![child]).await;
    let until = Instant::now() + 90 * SECOND;
    let late = |reply| Change::AddLate(2 * SECOND, reply);
    let accepted = tokio::spawn({
        let bank = bank.clone();
        async move { bank.ask_within(0, late, 5 * SECOND).await }
    });
    assert_eq!(bank.ask(1, Change::Add).await, Ok(1));
    bank.tellers.refuse([("account 0".to_owned(), until)].into());
    assert_eq!(accepted.await.unwrap(), Ok(1), "an accepted message is handled");
    let refused = async || match bank.ask(0, Change::Add).await {
        Err(AskError::Unavailable(Unavailable::Quarantined { retry_after })) => retry_after,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused().await, Duration::from_mins(1), "it may end early");
    assert_eq!(bank.ask(1, Change::Add).await, Ok(2), "the sibling keeps its actor");
    assert_eq!(root.tree(SECOND).await.unwrap().quarantined, 1);
    assert_eq!(bank.tellers.crashed_keys(), []);
    assert!(!bank.tellers.release("account 0"), "no crash led to it");
    tokio::time::sleep_until(until).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(2), "its time is over");
    bank.tellers.refuse([("account 0".to_owned(), until + 90 * SECOND)].into());
    tokio::time::sleep(SECOND).await;
    refused().await;
    bank.tellers.refuse(HashMap::new());
    assert_eq!(bank.ask(0, Change::Add).await, Ok(3));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn the_tree_names_the_busiest_keys_and_how_long_messages_waited_and_took() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..3, &settings());
    let root = world.root(vec![child]).await;
    let late = |account| {
        let bank = bank.clone();
        tokio::spawn(async move { bank.ask_within(account, |reply| Change::AddLate(SECOND, reply), 9 * SECOND).await })
    };
    let asks: Vec<_> = [0, 0, 0, 1].map(late).into();
    assert_eq!(bank.ask(2, Change::Add).await, Ok(1));
    let tree = root.tree(SECOND).await.unwrap();
    let busiest: Vec<_> = tree.children[0].busiest.iter().map(|busy| (busy.key.as_str(), busy.queued)).collect();
    assert_eq!(busiest, [("account 0", 3), ("account 1", 1)]);
    for ask in asks {
        ask.await.unwrap().unwrap();
    }
    let node = &root.tree(SECOND).await.unwrap().children[0];
    assert_eq!((node.busiest.len(), node.pass), (0, None));
    let times = node.times.unwrap();
    // Rounded up to a power of two: the last message of the first account waited for two of a second each.
    assert_eq!((times.wait_p50_us, times.wait_p99_us, times.handler_p99_us), (0, 1 << 21, 1 << 20), "{times:?}");
    assert_eq!(times.deepest_queue, 3);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_key_handles_its_inbox_and_its_next_message_starts_another_actor() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &settings());
    let root = world.root(vec![child]).await;
    assert!(!bank.tellers.restart("account 0"), "it has no actor");
    let late = |reply| Change::AddLate(2 * SECOND, reply);
    assert_eq!((bank.ask(0, Change::Add).await, bank.ask(1, Change::Add).await), (Ok(1), Ok(1)));
    let accepted = tokio::spawn({
        let bank = bank.clone();
        async move { bank.ask_within(0, late, 5 * SECOND).await }
    });
    tokio::task::yield_now().await;
    assert!(bank.tellers.restart("account 0"));
    assert_eq!(accepted.await.unwrap(), Ok(2));
    assert_eq!((bank.ask(0, Change::Add).await, bank.ask(1, Change::Add).await), (Ok(3), Ok(2)));
    assert_eq!((bank.starts(), bank.conflicts()), (3, 0));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_cannot_be_started_counts_as_crashed() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 660..670, &ActorSettings { quarantine_after: 2, ..settings() });
    let root = world.root(vec![child]).await;
    for account in [UNSTARTABLE, NEVER_STARTED] {
        let start = Instant::now();
        let (first, sibling) = tokio::join!(bank.ask(account, Change::Add), bank.ask(660, Change::Add));
        assert_eq!(first, Err(CRASHED));
        assert!(sibling.is_ok() && start.elapsed() <= SECOND, "{sibling:?} after {:?}", start.elapsed());
        assert_eq!(bank.ask(account, Change::Add).await, Err(CRASHED));
        let third = bank.ask(account, Change::Add).await;
        assert!(matches!(third, Err(AskError::Unavailable(Unavailable::Quarantined { .. }))), "{third:?}");
    }
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn crashing_keys_never_spend_the_family_s_own_budget() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..100, &settings());
    let root = world.root(vec![child]).await;
    for account in 0..100 {
        assert_eq!(bank.ask(account, Change::Panic).await, Err(CRASHED));
    }
    assert_eq!(root.tree(SECOND).await.unwrap().restarts, 0);
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_key_is_killed_and_replaced_without_its_siblings_noticing() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &ActorSettings { stuck_after: 30 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(1, Change::Add).await, Ok(1));
    assert_eq!(bank.ask_within(0, Change::Hang, 30 * SECOND).await, Err(TIMED_OUT));
    assert_eq!(bank.ask_within(0, Change::Add, SECOND).await, Ok(1));
    assert_eq!(bank.ask(1, Change::Add).await, Ok(2));
    assert_eq!(bank.starts(), 3);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn past_the_limit_of_living_actors_new_keys_are_refused_at_once_and_old_ones_served() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..3, &ActorSettings { live_max: 2, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    assert_eq!(bank.ask(1, Change::Add).await, Ok(1));
    assert_eq!(bank.ask(2, Change::Add).await, Err(AskError::Unavailable(Unavailable::Overloaded)));
    assert_eq!(bank.loads(), 2, "the refused key was not even loaded");
    assert_eq!(bank.ask(0, Change::AddAndLeave).await, Ok(2));
    eventually("a place is free", || bank.tellers.live() == 1).await;
    assert_eq!(bank.ask(2, Change::Add).await, Ok(1));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_one_key_refuses_that_key_alone() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &ActorSettings { queue_max: 1, ..settings() });
    let root = world.root(vec![child]).await;
    let late = |reply| Change::AddLate(10 * SECOND, reply);
    let (first, second, sibling) = tokio::join!(bank.ask(0, late), bank.ask(0, Change::Add), bank.ask(1, Change::Add));
    assert_eq!((first, second, sibling), (Ok(1), Err(AskError::Unavailable(Unavailable::Overloaded)), Ok(1)));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_actor_is_passivated_and_a_busy_one_is_not() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &ActorSettings { idle_after: 60 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    for count in 1..=12 {
        assert_eq!(bank.ask(1, Change::Add).await, Ok(count));
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(bank.tellers.live(), 2, "after {count} times 5 s");
    }
    let late = |reply| Change::AddLate(300 * SECOND, reply);
    let (added, ()) = tokio::join!(bank.ask(1, late), async {
        tokio::time::sleep(290 * SECOND).await;
        assert_eq!(bank.tellers.live(), 1, "only the one at work");
    });
    assert_eq!(added, Ok(13));
    tokio::time::sleep(65 * SECOND).await;
    assert_eq!(bank.tellers.live(), 0);
    assert_eq!(bank.ask(0, Change::Add).await, Ok(2), "its memory came back from the ledger");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_meets_a_leaving_actor_goes_to_a_fresh_one_that_knows_everything() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..1, &settings());
    let root = world.root(vec![child]).await;
    for round in 0..100 {
        let (leaving, late) = tokio::join!(bank.ask(0, Change::AddAndLeave), async {
            tokio::task::yield_now().await;
            bank.ask(0, Change::Add).await
        });
        let mut counts = [leaving.unwrap(), late.unwrap()];
        counts.sort_unstable();
        assert_eq!(counts, [2 * round + 1, 2 * round + 2]);
    }
    assert_eq!(bank.conflicts(), 0);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_closed_its_door_but_never_leaves_is_killed_in_the_end() {
    let world = World::new();
    let limits = ActorSettings { stuck_after: 30 * SECOND, idle_after: 60 * SECOND, ..settings() };
    let (bank, child) = Bank::new(&world, 0..1, &limits);
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::LeaveAndHang).await, Err(CRASHED), "the reply was dropped");
    assert_eq!(bank.ask_within(0, Change::Add, 85 * SECOND).await, Err(TIMED_OUT));
    assert_eq!(bank.ask_within(0, Change::Add, 10 * SECOND).await, Ok(1));
    assert_eq!(bank.starts(), 2);
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_keep_coming_do_not_spare_an_actor_that_hangs_while_it_leaves() {
    const STUCK_AFTER: Duration = Duration::from_secs(30);
    const ASK_DEADLINE: Duration = Duration::from_secs(5);
    // With the sweeps of the family, and with only its senders to detect it.
    for idle_after in [60 * SECOND, Duration::ZERO] {
        let world = World::new();
        let (bank, child) =
            Bank::new(&world, 0..1, &ActorSettings { stuck_after: STUCK_AFTER, idle_after, ..settings() });
        let root = world.root(vec![child]).await;
        assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
        // The earlier idle time, which exceeds `stuck_after`, does not count.
        tokio::time::sleep(STUCK_AFTER + SECOND).await;
        let start = Instant::now();
        assert_eq!(bank.ask(0, Change::LeaveAndHang).await, Err(CRASHED), "the reply was dropped");
        let mut refused = 0;
        let added = loop {
            match bank.ask_within(0, Change::Add, ASK_DEADLINE).await {
                Err(TIMED_OUT) => refused += 1,
                added => break added,
            }
            assert!(start.elapsed() <= STUCK_AFTER, "still not killed after {:?}", start.elapsed());
        };
        assert_eq!((added, refused, start.elapsed()), (Ok(2), 6, STUCK_AFTER));
        assert_eq!((bank.starts(), bank.conflicts()), (2, 0));
        world.end(root).await;
    }
}

#[tokio::test(start_paused = true)]
async fn for_a_leaving_actor_no_more_senders_wait_than_its_queue_takes() {
    let world = World::new();
    let (bank, child) =
        Bank::new(&world, 0..1, &ActorSettings { queue_max: 2, stuck_after: 30 * SECOND, ..settings() });
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::LeaveAndHang).await, Err(CRASHED), "the reply was dropped");
    let start = Instant::now();
    for _ in 0..3 {
        let ask = || bank.ask_within(0, Change::Add, SECOND);
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        let overloaded = Err(AskError::Unavailable(Unavailable::Overloaded));
        // Senders that timed out free their places.
        assert_eq!((first, second, third), (Err(TIMED_OUT), Err(TIMED_OUT), overloaded));
    }
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert_eq!(bank.loads(), 1);
    let waits = bank.ask(0, Change::Add);
    let (added, refused) = tokio::join!(waits, async {
        tokio::time::sleep(30 * SECOND).await;
        bank.ask_within(0, Change::Add, SECOND).await
    });
    assert!(added.is_ok() && refused.is_ok(), "{added:?} {refused:?}");
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn a_family_that_crashes_is_restarted_and_its_keys_are_activated_afresh() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..11, &settings());
    let root = world.root(vec![child]).await;
    for account in 0..10 {
        assert_eq!(bank.ask(account, Change::Add).await, Ok(1));
    }
    bank.broken.store(true, Ordering::SeqCst);
    assert_eq!(bank.ask(10, Change::Add).await, Err(CRASHED), "the family panicked on the way");
    bank.broken.store(false, Ordering::SeqCst);
    eventually("its actors died with it", || world.alive() == 0).await;
    let refused = bank.ask(0, Change::Add).await;
    assert!(matches!(refused, Err(AskError::Unavailable(Unavailable::NotRunning { .. }))), "{refused:?}");
    tokio::time::sleep(settings().restart.backoff_min * 2).await;
    for account in 0..10 {
        assert_eq!(bank.ask(account, Change::Add).await, Ok(2));
    }
    assert_eq!((bank.conflicts(), bank.tellers.live()), (0, 10));
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn draining_lets_every_key_finish_and_refuses_new_messages() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..20, &settings());
    let root = world.root(vec![child]).await;
    let mut asks = JoinSet::new();
    for account in 0..20 {
        let bank = bank.clone();
        asks.spawn(async move { bank.ask(account, |reply| Change::AddLate(2 * SECOND, reply)).await });
    }
    tokio::time::sleep(SECOND).await;
    let start = Instant::now();
    let (outcome, refused) = tokio::join!(root.drain(10 * SECOND), async {
        tokio::time::sleep(SECOND / 2).await;
        bank.ask(0, Change::Add).await
    });
    assert_eq!(outcome, TreeExit::Drained);
    assert_eq!(refused, Err(AskError::Unavailable(Unavailable::Draining)));
    assert_eq!(start.elapsed(), SECOND);
    assert!(asks.join_all().await.into_iter().all(|answer| answer == Ok(1)));
    world.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn draining_kills_keys_that_do_not_finish_by_the_deadline() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &settings());
    let root = world.root(vec![child]).await;
    let start = Instant::now();
    let (hung, outcome) = tokio::join!(bank.ask(0, Change::Hang), async {
        tokio::time::sleep(SECOND).await;
        root.drain(10 * SECOND).await
    });
    assert_eq!((hung, outcome), (Err(AskError::Unavailable(Unavailable::Draining)), TreeExit::DeadlineHit));
    assert_eq!(start.elapsed(), 11 * SECOND);
    world.deserted().await;
}

/// Tellers leave, are passivated and crash continuously, on two threads; no answered addition may be lost or counted twice, and no teller
/// may work from outdated memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passivation_and_crashes_lose_nothing_under_a_hammer() {
    const ACCOUNTS: u64 = 16;
    const CLIENTS: u64 = 16;
    const ASKS: u64 = 2_000;
    crash_quietly();
    let world = World::new();
    let hammered = ActorSettings {
        idle_after: Duration::from_millis(1),
        quarantine_after: 1_000_000,
        restart: RestartSettings::default(),
        ..ActorSettings::default()
    };
    let (bank, child) = Bank::new(&world, 0..ACCOUNTS, &hammered);
    let root = world.root(vec![child]).await;
    let crashed = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (bank, crashed) = (bank.clone(), Arc::clone(&crashed));
        clients.spawn(async move {
            let rng = domain::Rng::seeded(client);
            for _ in 0..ASKS {
                let account = rng.below(ACCOUNTS);
                let answer = match rng.below(20) {
                    0 => bank.ask(account, Change::Panic).await,
                    1..8 => bank.ask(account, Change::AddAndLeave).await,
                    8 => {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        bank.ask(account, Change::Add).await
                    }
                    _ => bank.ask(account, Change::Add).await,
                };
                match answer {
                    Ok(_) => {}
                    Err(AskError::Unavailable(Unavailable::Crashed)) => {
                        crashed.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    clients.join_all().await;
    let crashed = crashed.load(Ordering::SeqCst);
    assert_eq!(bank.ledger.total() + crashed, CLIENTS * ASKS, "every ask was counted once or crashed");
    assert!(bank.starts() > 100 && crashed > 100, "{} starts, {crashed} crashes: no hammer", bank.starts());
    assert_eq!(bank.conflicts(), 0, "a teller worked from an outdated memory");
    world.end(root).await;
}

/// A message may reach a mailbox at the moment in which its actor crashes; it is never read, and its sender must be notified at once.
/// More threads than cores, so that some are interrupted between the two halves of sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_message_that_a_crash_left_unread_is_not_waited_for() {
    const ACCOUNTS: u64 = 4;
    const CLIENTS: u64 = 32;
    const ASKS: u64 = 5_000;
    crash_quietly();
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..ACCOUNTS, &ActorSettings { quarantine_after: 1_000_000, ..settings() });
    let root = world.root(vec![child]).await;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let bank = bank.clone();
        clients.spawn(async move {
            for ask in 0..ASKS {
                let send = if (ask + client).is_multiple_of(3) { Change::Panic } else { Change::Add };
                let answer = bank.ask_within(ask % ACCOUNTS, send, 30 * SECOND).await;
                assert!(answer.is_ok() || answer == Err(CRASHED), "{answer:?}");
            }
        });
    }
    clients.join_all().await;
    world.end(root).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_the_state_of_an_idle_actor_and_takes_nothing_from_it() {
    let world = World::new();
    let (bank, child) = Bank::new(&world, 0..2, &settings());
    let root = world.root(vec![child]).await;
    assert_eq!(bank.ask(0, Change::Add).await, Ok(1));
    let state = || bank.tellers.state("account 0").unwrap();
    assert_eq!((state().queued, state().facts), (0, Some(vec![("count", "1".to_owned())])));
    assert_eq!(bank.tellers.state("account 1"), None, "no actor is started");
    let work = bank.ask(0, |reply| Change::AddLate(5 * SECOND, reply));
    let look = async {
        tokio::time::sleep(SECOND).await;
        assert_eq!((state().queued, state().facts), (1, None), "it is busy");
    };
    assert_eq!(tokio::join!(work, look).0, Ok(2));
    assert_eq!(bank.ask(0, Change::Add).await, Ok(3));
    world.end(root).await;
}
