//! Feeds of accounts, and their entries.

use std::time::Duration;

use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::feed::Feed;
use domain::ids::{UserAccountId, UserCuid};
use domain::live::Live;
use domain::secret::SecretHash;
use domain::webhook::NotificationKind;
use harness::on_each_database;
use store::Store;
use store::held::{HeldOutcome, HeldQuotas, NewHeld, Sender};
use store::janitor::PurgeSettings;
use store::notice::NoticeLimits;
use store::pool::query;
use store::webhook::{AfterTry, TryResult};

use crate::held::new_held;
use crate::world::{World, at, now};

fn feed(account: &UserAccountId, kinds: &[NotificationKind]) -> Feed {
    Feed { account: account.clone(), kinds: kinds.to_vec(), created_at: now() }
}

async fn added(world: &World, account: &UserAccountId, kinds: &[NotificationKind]) -> SecretHash {
    let token = world.secret();
    assert!(world.store.feed_create(&feed(account, kinds), &token).await.unwrap());
    token
}

/// A store that writes at most this number of entries for an account.
fn writing(world: &World, entries_max: u32) -> Store {
    world.store.clone().with_notices(NoticeLimits { feed_entries_max: Some(entries_max), ..NoticeLimits::default() })
}

/// Changes the level of an identity in each second.
async fn change(store: &Store, world: &World, cuid: &UserCuid, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let level = if second % 2 == 0 { ConsentLevel::Off } else { ConsentLevel::Full };
        let rule = ConsentRule { machine: None, lane: None, level, set_by: Author::Person };
        store.consent_set(std::slice::from_ref(cuid), &rule, None, at(second), &world.rng).await.unwrap();
    }
}

/// The kinds of the entries, oldest first.
async fn written(store: &Store, account: &UserAccountId) -> Vec<String> {
    let entries = store.feed_entries(account, 100).await.unwrap();
    entries.iter().rev().map(|entry| entry.kind.as_str().to_owned()).collect()
}

on_each_database! {
    async fn a_feed_is_stored_changed_and_deleted_by_its_account_alone(world: &World) {
        let store = &world.store;
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let first = feed(&account, NotificationKind::ALL);
        let token = added(world, &account, NotificationKind::ALL).await;
        assert_eq!(store.feed_of_account(&account).await.unwrap(), Some(first.clone()));
        assert_eq!(store.feed_by_hash(&token).await.unwrap(), Some(first.clone()));
        assert_eq!(store.feed_of_account(&other).await.unwrap(), None);
        assert!(!store.feed_create(&first, &world.secret()).await.unwrap(), "an account has one feed");
        assert_eq!(store.feed_by_hash(&token).await.unwrap(), Some(first.clone()));
        assert_eq!(store.feed_by_hash(&world.secret()).await.unwrap(), None);
        let kinds = [NotificationKind::BatchDone];
        assert!(!store.feed_change(&other, &kinds).await.unwrap());
        assert!(store.feed_change(&account, &kinds).await.unwrap());
        assert_eq!(store.feed_by_hash(&token).await.unwrap(), Some(feed(&account, &kinds)));
        let next = world.secret();
        assert!(!store.feed_relink(&other, &next).await.unwrap());
        assert!(store.feed_relink(&account, &next).await.unwrap());
        assert_eq!(store.feed_by_hash(&token).await.unwrap(), None);
        assert_eq!(store.feed_by_hash(&next).await.unwrap(), Some(feed(&account, &kinds)));
        assert!(!store.feed_delete(&other).await.unwrap());
        assert!(store.feed_delete(&account).await.unwrap());
        assert!(!store.feed_delete(&account).await.unwrap());
        assert_eq!(store.feed_by_hash(&next).await.unwrap(), None);
    }

    async fn a_fact_is_written_once_for_the_feed_that_asks_for_its_kind(world: &World) {
        let store = writing(world, 100);
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let third = world.account("eve@example.com").await;
        added(world, &account, NotificationKind::ALL).await;
        added(world, &other, NotificationKind::ALL).await;
        added(world, &third, &[NotificationKind::ComputerDetached]).await;
        let (machine, cuid, _) = world.attached(&account).await;
        let (_, others, _) = world.attached(&third).await;
        change(&store, world, &cuid, 1..3).await;
        // The level is unchanged, so no entry is written.
        change(&store, world, &cuid, 2..3).await;
        change(&store, world, &others, 3..4).await;
        assert!(store.machine_detach(machine, &account, at(4)).await.unwrap());
        assert!(!store.machine_detach(machine, &account, at(5)).await.unwrap());
        // A store of a server without feeds writes none.
        change(&world.store, world, &others, 6..7).await;
        let only_webhooks = NoticeLimits { webhook_waiting_max: Some(10), feed_entries_max: None };
        change(&world.store.clone().with_notices(only_webhooks), world, &cuid, 7..8).await;
        assert_eq!(written(&store, &account).await, ["consent.changed", "consent.changed", "computer.detached"]);
        assert!(written(&store, &other).await.is_empty());
        assert!(written(&store, &third).await.is_empty());
        let entries = store.feed_entries(&account, 2).await.unwrap();
        let reasons: Vec<_> = entries.iter().map(|entry| (entry.created_at, entry.data["reason"].as_str())).collect();
        assert_eq!(reasons, [(at(4), Some("owner")), (at(2), None)]);
        assert_eq!(entries[1].data["level"], "off");
        assert!(store.feed_delete(&account).await.unwrap());
        assert!(written(&store, &account).await.is_empty());
        change(&store, world, &cuid, 8..9).await;
        assert!(written(&store, &account).await.is_empty());
    }

    async fn entries_are_limited_in_number_and_time(world: &World) {
        let store = writing(world, 6);
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        added(world, &account, NotificationKind::ALL).await;
        added(world, &other, NotificationKind::ALL).await;
        let (_, cuid, _) = world.attached(&account).await;
        let (_, others, _) = world.attached(&other).await;
        change(&store, world, &cuid, 0..9).await;
        change(&store, world, &others, 0..2).await;
        assert_eq!(written(&store, &account).await.len(), 6, "no more than the maximum is written");
        let settings = PurgeSettings { batch_rows: 1, ..PurgeSettings::default() };
        let hour = Duration::from_hours(1);
        // Only the oldest entries of this account are deleted.
        assert_eq!(store.purge_feeds(at(10), hour, 4, &settings).await.unwrap(), 2);
        let times = async |account| {
            let entries = store.feed_entries(account, 100).await.unwrap();
            entries.iter().map(|entry| entry.created_at).collect::<Vec<_>>()
        };
        assert_eq!(times(&account).await, [at(5), at(4), at(3), at(2)]);
        assert_eq!(times(&other).await, [at(1), at(0)]);
        change(&store, world, &cuid, 9..10).await;
        assert_eq!(times(&account).await.len(), 5, "there is room again");
        assert_eq!(store.purge_feeds(at(3604), hour, 100, &settings).await.unwrap(), 4);
        assert_eq!(times(&account).await, [at(9), at(5), at(4)]);
        assert!(times(&other).await.is_empty());
        assert_eq!(store.purge_feeds(at(3604), hour, 100, &settings).await.unwrap(), 0);
    }

    async fn changed_limits_are_in_force_for_the_next_entry(world: &World) {
        let limits = Live::new(NoticeLimits::default());
        let store = world.store.clone().with_notices(limits.clone());
        let account = world.account("ada@example.com").await;
        added(world, &account, NotificationKind::ALL).await;
        let (_, cuid, _) = world.attached(&account).await;
        for (feed_entries_max, seconds, expected) in [(None, 0..2, 0), (Some(1), 2..6, 1), (Some(3), 6..12, 3)] {
            limits.set(NoticeLimits { feed_entries_max, ..NoticeLimits::default() });
            change(&store, world, &cuid, seconds).await;
            assert_eq!(written(&store, &account).await.len(), expected);
        }
    }

    async fn a_flood_of_held_events_leaves_room_for_other_kinds(world: &World) {
        let limits = NoticeLimits { feed_entries_max: Some(40), webhook_waiting_max: Some(40) };
        let store = world.store.clone().with_notices(limits);
        let account = world.account("ada@example.com").await;
        added(world, &account, NotificationKind::ALL).await;
        let webhook = crate::webhooks::added(world, &account, NotificationKind::ALL).await.webhook.id;
        let (machine, cuid, _) = world.attached(&account).await;
        let quotas = HeldQuotas { sender_percent: 100, ..HeldQuotas::default() };
        for group in 0..6 {
            let held = |nth: i64| new_held(world, Sender::Machine(machine), &format!("{group} {nth}"), at(group));
            let outcomes = store.held_insert(&(0..20).map(held).collect::<Vec<_>>(), &quotas).await.unwrap();
            assert!(outcomes.iter().all(|outcome| matches!(outcome, HeldOutcome::Held(_))), "{outcomes:?}");
        }
        change(&store, world, &cuid, 7..8).await;
        assert!(store.machine_detach(machine, &account, at(8)).await.unwrap());
        let entries = store.feed_entries(&account, 100).await.unwrap();
        let kinds: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
        assert_eq!(kinds[..2], ["computer.detached", "consent.changed"]);
        let facts: i64 = entries[2..].iter().map(|entry| 1 + entry.data["more"].as_i64().unwrap_or(0)).sum();
        assert_eq!((kinds.len(), facts), (12, 120), "{entries:?}");
        // A day later held events have separate entries again.
        let later = new_held(world, Sender::Machine(machine), "later", at(100_000));
        let again = world.attached(&account).await.0;
        let later = NewHeld { sender: Sender::Machine(again), ..later };
        store.held_insert(&[later], &quotas).await.unwrap();
        assert_eq!(store.feed_entries(&account, 1).await.unwrap()[0].data.get("more"), None);

        let lease = world.rng.uuid_v7(now());
        assert!(store.webhook_lease(webhook, lease, at(9), at(90)).await.unwrap());
        let (mut sent, mut facts) = (Vec::new(), 0);
        while let Some(due) = store.webhook_try_begin(webhook, lease, at(10), at(90)).await.unwrap() {
            let body: serde_json::Value = serde_json::from_str(&due.body).unwrap();
            facts += 1 + body["data"]["more"].as_i64().unwrap_or(0);
            sent.push(body["type"].as_str().unwrap().to_owned());
            store.webhook_try_end(&due, lease, TryResult::default(), AfterTry::Delivered, at(10)).await.unwrap();
        }
        assert_eq!((sent.len(), facts), (42, 122));
        assert_eq!(sent[40..], ["consent.changed", "computer.detached"]);
    }

    async fn a_closed_account_has_no_feed(world: &World) {
        let store = writing(world, 100);
        let account = world.account("ada@example.com").await;
        let token = added(world, &account, NotificationKind::ALL).await;
        let (_, cuid, _) = world.attached(&account).await;
        change(&store, world, &cuid, 0..2).await;
        assert!(store.account_close(&account, None, at(3)).await.unwrap());
        assert_eq!(store.feed_by_hash(&token).await.unwrap(), None, "the link ends at once");
        store.closed_accounts_empty(at(4), &PurgeSettings::default()).await.unwrap();
        assert!(written(&store, &account).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_held_events_reads_a_row_of_an_outlet_a_few_times_on_postgres() {
    const GROUPS: i64 = 40;
    const COUNTS: &str = "SELECT n_tup_ins, COALESCE(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables
        WHERE relname = 'webhook_deliveries'";
    let Some(world) = World::on_postgres().await else { return };
    let limits = NoticeLimits { webhook_waiting_max: Some(1_000), ..NoticeLimits::default() };
    let store = world.store.clone().with_notices(limits);
    let account = world.account("ada@example.com").await;
    crate::webhooks::added(&world, &account, NotificationKind::ALL).await;
    let (machine, ..) = world.attached(&account).await;
    let quotas = HeldQuotas { sender_percent: 100, ..HeldQuotas::default() };
    for group in 0..GROUPS {
        let held = |nth: i64| new_held(&world, Sender::Machine(machine), &format!("{group} {nth}"), at(group));
        store.held_insert(&(0..20).map(held).collect::<Vec<_>>(), &quotas).await.unwrap();
    }
    // PostgreSQL adds the counts of a connection within a second after its transaction.
    let (mut written, mut read) = (0_i64, 0_i64);
    while written < 100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (written, read) = query(COUNTS).fetch_one(world.store.pool()).await.unwrap();
    }
    assert_eq!(written, 100, "a row for each of the first held events");
    // Each event counts the rows before it. Each group looks for the last row once, not once for each row.
    assert!(read < GROUPS * 20 * 100 * 3, "{read} rows read");
}
