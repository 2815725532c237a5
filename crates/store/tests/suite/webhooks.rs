//! Endpoints of accounts, and the outbox of notifications.

use std::time::Duration;

use domain::Timestamp;
use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::ids::{UserAccountId, WebhookId};
use domain::webhook::{DisabledWhy, NotificationKind, SigningSecret, Webhook};
use harness::on_each_database;
use serde_json::Value;
use store::Store;
use store::janitor::PurgeSettings;
use store::notice::NoticeLimits;
use store::webhook::{AfterTry, NewWebhook, TryResult, UpdateResult, WebhookUpdate};
use uuid::Uuid;

use crate::nodes::{beat, traits};
use crate::world::{World, at, now};

fn endpoint(world: &World, account: &UserAccountId, kinds: &[NotificationKind]) -> NewWebhook {
    let webhook = Webhook {
        id: world.rng.uuid_v7(now()).into(),
        account: account.clone(),
        url: "https://pager.example.com/hook".parse().unwrap(),
        description: "the pager".parse().unwrap(),
        kinds: kinds.to_vec(),
        created_at: now(),
        disabled: None,
        failing_since: None,
        dropped: None,
        old_secret_until: None,
    };
    NewWebhook { webhook, secret: SigningSecret::mint(&world.rng) }
}

/// A store that writes notifications, with at most this number waiting per endpoint and kind.
fn writing(world: &World, waiting_max: u32) -> Store {
    world.store.clone().with_notices(NoticeLimits { webhook_waiting_max: Some(waiting_max), ..NoticeLimits::default() })
}

pub async fn added(world: &World, account: &UserAccountId, kinds: &[NotificationKind]) -> NewWebhook {
    let new = endpoint(world, account, kinds);
    assert!(world.store.webhook_create(&new, 10).await.unwrap());
    new
}

async fn test(world: &World, id: WebhookId, account: &UserAccountId, second: i64) -> Uuid {
    let notification = world.rng.uuid_v7(now());
    assert!(world.store.webhook_test(id, account, notification, at(second), 100).await.unwrap());
    notification
}

/// Leases all due endpoints.
async fn leased(store: &Store, lease: Uuid, now: Timestamp, until: Timestamp) -> Vec<WebhookId> {
    let mut leased = Vec::new();
    for (id, _) in store.webhooks_due(now, 10).await.unwrap() {
        if store.webhook_lease(id, lease, now, until).await.unwrap() {
            leased.push(id);
        }
    }
    leased
}

/// Kinds and data of waiting or sent notifications, oldest first.
async fn written(store: &Store, id: WebhookId, account: &UserAccountId) -> Vec<String> {
    let mut kinds: Vec<String> =
        store.webhook_deliveries(id, account, 100).await.unwrap().into_iter().map(|delivery| delivery.kind).collect();
    kinds.reverse();
    kinds
}

on_each_database! {
    async fn an_endpoint_is_stored_changed_and_deleted_by_its_account_alone(world: &World) {
        let store = &world.store;
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let new = added(world, &account, NotificationKind::ALL).await;
        let id = new.webhook.id;
        assert_eq!(store.webhooks_of_account(&account, 10).await.unwrap(), std::slice::from_ref(&new.webhook));
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap(), Some(new.webhook.clone()));
        assert_eq!(store.webhook_of_account(id, &other).await.unwrap(), None);
        assert!(!store.webhook_create(&endpoint(world, &account, &[]), 1).await.unwrap());
        let change = WebhookUpdate {
            url: Some("https://other.example.com/".to_owned()),
            kinds: Some(vec![NotificationKind::BatchDone]),
            enabled: Some(false),
            ..WebhookUpdate::default()
        };
        assert_eq!(store.webhook_change(id, &other, &change, at(1)).await.unwrap(), UpdateResult::Unknown);
        assert_eq!(store.webhook_change(id, &account, &change, at(1)).await.unwrap(), UpdateResult::Updated);
        let webhook = store.webhook_of_account(id, &account).await.unwrap().unwrap();
        assert_eq!((webhook.url.as_str(), webhook.description.as_str()), ("https://other.example.com/", "the pager"));
        assert_eq!((webhook.kinds, webhook.disabled), (vec![NotificationKind::BatchDone], Some((at(1), DisabledWhy::Owner))));
        assert!(!store.webhook_test(id, &account, world.rng.uuid_v7(now()), at(2), 10).await.unwrap(), "it is disabled");
        let enable = WebhookUpdate { enabled: Some(true), ..WebhookUpdate::default() };
        assert_eq!(store.webhook_change(id, &account, &enable, at(3)).await.unwrap(), UpdateResult::Updated);
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap().unwrap().disabled, None);
        let secret = SigningSecret::mint(&world.rng);
        assert!(!store.webhook_rotate(id, &other, &secret, at(100)).await.unwrap());
        assert!(store.webhook_rotate(id, &account, &secret, at(100)).await.unwrap());
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap().unwrap().old_secret_until, Some(at(100)));
        test(world, id, &account, 4).await;
        assert!(store.webhook_deliveries(id, &other, 10).await.unwrap().is_empty());
        assert!(!store.webhook_delete(id, &other).await.unwrap());
        assert!(store.webhook_delete(id, &account).await.unwrap());
        assert!(store.webhook_deliveries(id, &account, 10).await.unwrap().is_empty());
    }

    async fn a_fact_is_written_with_its_notifications_for_those_who_ask_for_its_kind(world: &World) {
        let store = writing(world, 2);
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let all = added(world, &account, NotificationKind::ALL).await.webhook.id;
        let some = added(world, &account, &[NotificationKind::ComputerDetached]).await.webhook.id;
        let foreign = added(world, &other, NotificationKind::ALL).await.webhook.id;
        let (machine, cuid, _) = world.attached(&account).await;
        let rule = |level| ConsentRule { machine: None, lane: None, level, set_by: Author::Person };
        let set = async |store: &Store, level, second| {
            store.consent_set(std::slice::from_ref(&cuid), &rule(level), Some("a reason"), at(second), &world.rng).await.unwrap()
        };
        set(&store, ConsentLevel::Off, 1).await;
        // The level is unchanged, so no notification is written.
        set(&store, ConsentLevel::Off, 2).await;
        assert!(store.machine_detach(machine, &account, at(3)).await.unwrap());
        assert!(!store.machine_detach(machine, &account, at(4)).await.unwrap());
        assert_eq!(written(&store, all, &account).await, ["consent.changed", "computer.detached"]);
        assert_eq!(written(&store, some, &account).await, ["computer.detached"]);
        // Two notifications of this kind are permitted.
        set(&store, ConsentLevel::Full, 5).await;
        set(&store, ConsentLevel::MetadataOnly, 6).await;
        assert_eq!(written(&store, all, &account).await.len(), 3);
        // A notification beyond the limit is counted, and the next delivery contains the count.
        assert_eq!(store.webhook_of_account(all, &account).await.unwrap().unwrap().dropped, Some((1, at(6))));
        assert_eq!(store.webhook_of_account(some, &account).await.unwrap().unwrap().dropped, None);
        // A store of a server without webhooks writes none.
        set(&world.store, ConsentLevel::Off, 7).await;
        assert_eq!(written(&store, some, &account).await.len(), 1);
        assert!(written(&store, foreign, &other).await.is_empty());
        let lease = world.rng.uuid_v7(now());
        assert_eq!(leased(&store, lease, at(10), at(40)).await.len(), 2);
        let due = store.webhook_try_begin(all, lease, at(10), at(40)).await.unwrap().unwrap();
        let body: Value = serde_json::from_str(&due.body).unwrap();
        assert_eq!((&body["type"], &body["data"]["level"]), (&"consent.changed".into(), &"off".into()));
        assert!(body["data"].get("reason").is_none(), "{body}");
        assert_eq!(body["dropped"], 1, "{body}");
    }

    async fn an_endpoint_is_leased_once_and_gets_one_delivery_at_a_time(world: &World) {
        let (store, second) = (&world.store, world.second().await);
        let account = world.account("ada@example.com").await;
        let new = added(world, &account, NotificationKind::ALL).await;
        let id = new.webhook.id;
        let (first, next) = (test(world, id, &account, 0).await, test(world, id, &account, 1).await);
        let leases = [world.rng.uuid_v7(now()), world.rng.uuid_v7(now())];
        let (one, two) = tokio::join!(
            leased(store, leases[0], at(2), at(30)),
            leased(&second, leases[1], at(2), at(30)),
        );
        assert_eq!([one.len(), two.len()].iter().sum::<usize>(), 1);
        let (lease, wrong) = if one.is_empty() { (leases[1], leases[0]) } else { (leases[0], leases[1]) };
        assert!(store.webhook_try_begin(id, wrong, at(2), at(30)).await.unwrap().is_none());
        let due = store.webhook_try_begin(id, lease, at(2), at(30)).await.unwrap().unwrap();
        assert_eq!((due.notification, due.tries, due.secrets.len()), (first, 1, 1));
        assert_eq!(due.secrets[0].as_bytes(), new.secret.as_bytes());
        let failed = TryResult { status: Some(500), error: Some("it answered with status 500".to_owned()) };
        assert!(store.webhook_try_end(&due, lease, failed, AfterTry::Again(at(60)), at(3)).await.unwrap());
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap().unwrap().failing_since, Some(at(3)));
        // The next delivery, since the first is not due yet.
        let due = store.webhook_try_begin(id, lease, at(4), at(30)).await.unwrap().unwrap();
        assert_eq!((due.notification, due.failing_since), (next, Some(at(3))));
        let sent = TryResult { status: Some(204), error: None };
        assert!(store.webhook_try_end(&due, lease, sent.clone(), AfterTry::Delivered, at(5)).await.unwrap());
        assert!(!store.webhook_try_end(&due, lease, sent, AfterTry::Delivered, at(5)).await.unwrap(), "it was settled");
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap().unwrap().failing_since, None);
        assert!(store.webhook_try_begin(id, lease, at(6), at(30)).await.unwrap().is_none());
        store.webhook_lease_end(id, lease, at(6)).await.unwrap();
        assert!(leased(&second, leases[1], at(7), at(90)).await.is_empty());
        assert_eq!(leased(&second, wrong, at(61), at(90)).await, [id]);
        // A lease that was not released expires, and the same notification is tried again.
        assert!(leased(store, lease, at(62), at(99)).await.is_empty());
        assert_eq!(leased(store, lease, at(91), at(120)).await, [id]);
        let due = store.webhook_try_begin(id, lease, at(91), at(120)).await.unwrap().unwrap();
        assert_eq!((due.notification, due.tries), (first, 2));
        let deliveries = store.webhook_deliveries(id, &account, 10).await.unwrap();
        assert_eq!(deliveries.iter().map(|one| (one.is_delivered, one.status)).collect::<Vec<_>>(), [(true, Some(204)), (false, Some(500))]);
    }

    async fn an_endpoint_of_a_node_that_ended_is_leased_again_at_once(world: &World) {
        let (dead, own) = (traits(world, "dead"), traits(world, "own"));
        let (theirs, store) = (world.store.clone().with_holder(dead.id), world.store.clone().with_holder(own.id));
        let account = world.account("ada@example.com").await;
        let id = added(world, &account, NotificationKind::ALL).await.webhook.id;
        let first = test(world, id, &account, 0).await;
        theirs.node_beat(&beat(&dead), now()).await.unwrap();
        let leases = [world.rng.uuid_v7(now()), world.rng.uuid_v7(now())];
        assert!(theirs.webhook_lease(id, leases[0], at(2), at(30)).await.unwrap());
        assert!(theirs.webhook_try_begin(id, leases[0], at(2), at(30)).await.unwrap().is_some());
        assert_eq!(store.leases_take_over(at(3)).await.unwrap(), 0);
        assert!(!store.webhook_lease(id, leases[1], at(3), at(30)).await.unwrap());
        // Its successor deletes the row of an earlier process.
        store.node_remove(dead.id).await.unwrap();
        assert_eq!(store.leases_take_over(at(3)).await.unwrap(), 1);
        assert!(store.webhook_lease(id, leases[1], at(3), at(30)).await.unwrap());
        let due = store.webhook_try_begin(id, leases[1], at(3), at(30)).await.unwrap().unwrap();
        assert_eq!(due.notification, first);
        assert!(theirs.webhook_try_begin(id, leases[0], at(3), at(30)).await.unwrap().is_none(), "the lease is lost");
    }

    async fn the_endpoints_of_one_account_are_due_after_the_first_of_each(world: &World) {
        let (store, many, few) = (&world.store, world.account("ada@example.com").await, world.account("bob@example.com").await);
        let mut of_many = Vec::new();
        for _ in 0..4 {
            of_many.push(added(world, &many, NotificationKind::ALL).await.webhook.id);
        }
        let of_few = added(world, &few, NotificationKind::ALL).await.webhook.id;
        for id in &of_many {
            test(world, *id, &many, 0).await;
        }
        test(world, of_few, &few, 0).await;
        let accounts = async |now| -> Vec<UserAccountId> { store.webhooks_due(now, 10).await.unwrap().into_iter().map(|(_, account)| account).collect() };
        let all = |others: usize| [vec![many.clone(), few.clone()], vec![many.clone(); others]].concat();
        assert_eq!(accounts(at(1)).await, all(3));
        // The endpoint with the newest last lease is the last of its account.
        let lease = world.rng.uuid_v7(now());
        assert!(store.webhook_lease(of_many[0], lease, at(1), at(30)).await.unwrap());
        assert!(!store.webhook_lease(of_many[0], world.rng.uuid_v7(now()), at(1), at(30)).await.unwrap());
        assert_eq!(accounts(at(2)).await, all(2));
        store.webhook_lease_end(of_many[0], lease, at(3)).await.unwrap();
        assert_eq!(store.webhooks_due(at(4), 10).await.unwrap().last(), Some(&(of_many[0], many.clone())));
        assert_eq!(store.webhooks_due(at(4), 2).await.unwrap().len(), 2);
    }

    async fn a_disabled_endpoint_ends_what_waits_and_settled_rows_are_deleted_in_time(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let id = added(world, &account, NotificationKind::ALL).await.webhook.id;
        for second in 0..3 {
            test(world, id, &account, second).await;
        }
        let lease = world.rng.uuid_v7(now());
        leased(store, lease, at(5), at(30)).await;
        let due = store.webhook_try_begin(id, lease, at(5), at(30)).await.unwrap().unwrap();
        let gone = TryResult { status: Some(410), error: Some("it answered with status 410".to_owned()) };
        assert!(store.webhook_try_end(&due, lease, gone, AfterTry::Disabled(DisabledWhy::Gone), at(6)).await.unwrap());
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap().unwrap().disabled, Some((at(6), DisabledWhy::Gone)));
        let deliveries = store.webhook_deliveries(id, &account, 10).await.unwrap();
        assert!(deliveries.iter().all(|one| one.next_try_at.is_none() && !one.is_delivered && one.error.is_some()));
        assert!(store.webhook_try_begin(id, lease, at(7), at(30)).await.unwrap().is_none());
        assert!(leased(store, lease, at(40), at(60)).await.is_empty());
        let settings = PurgeSettings { webhook_deliveries_kept: Duration::from_mins(1), ..PurgeSettings::default() };
        assert_eq!(store.purge(at(60), &settings).await.unwrap().webhook_deliveries, 0);
        assert_eq!(store.purge(at(67), &settings).await.unwrap().webhook_deliveries, 3);
        assert!(store.webhook_deliveries(id, &account, 10).await.unwrap().is_empty());
    }

    async fn an_operator_disables_an_endpoint_which_only_an_operator_enables(world: &World) {
        let store = &writing(world, 100);
        let account = world.account("ada@example.com").await;
        let new = added(world, &account, NotificationKind::ALL).await;
        let id = new.webhook.id;
        let (machine, ..) = world.attached(&account).await;
        let (old, recent) = (test(world, id, &account, 1).await, test(world, id, &account, 20).await);
        let lease = world.rng.uuid_v7(now());
        assert!(store.webhook_lease(id, lease, at(20), at(50)).await.unwrap());
        let due = store.webhook_try_begin(id, lease, at(20), at(50)).await.unwrap().unwrap();
        assert!(store.webhook_disable(id, at(21)).await.unwrap());
        assert!(!store.webhook_disable(id, at(22)).await.unwrap(), "it is disabled already");
        // The request in progress ends, and no other follows.
        let failed = TryResult { status: Some(500), error: Some("it answered with status 500".to_owned()) };
        assert!(store.webhook_try_end(&due, lease, failed, AfterTry::Again(at(25)), at(23)).await.unwrap());
        assert!(store.webhook_try_begin(id, lease, at(26), at(50)).await.unwrap().is_none());
        store.webhook_lease_end(id, lease, at(26)).await.unwrap();
        assert!(leased(store, lease, at(26), at(50)).await.is_empty());
        assert!(!store.webhook_lease(id, lease, at(26), at(50)).await.unwrap());
        assert!(!store.webhook_test(id, &account, world.rng.uuid_v7(now()), at(27), 10).await.unwrap());
        // Further facts wait too.
        assert!(store.machine_detach(machine, &account, at(28)).await.unwrap());

        let of_account = async || store.webhook_of_account(id, &account).await.unwrap().unwrap().disabled;
        let listed = async || store.webhooks_overview(None, 10).await.unwrap().remove(0);
        let overview = listed().await;
        assert_eq!((overview.id, &overview.account, overview.url.as_str()), (id, &account, new.webhook.url.as_str()));
        assert_eq!((overview.disabled, of_account().await), (Some((at(21), DisabledWhy::Operator)), overview.disabled));
        assert_eq!((overview.failures, overview.last_failure_at, overview.last_success_at), (1, Some(at(23)), None));
        assert_eq!((overview.waiting, overview.oldest_waiting_at), (3, Some(at(1))));
        let enable = WebhookUpdate { enabled: Some(true), description: Some("mine".parse().unwrap()), ..WebhookUpdate::default() };
        assert_eq!(store.webhook_change(id, &account, &enable, at(30)).await.unwrap(), UpdateResult::DisabledByOperator);
        assert_eq!(store.webhook_of_account(id, &account).await.unwrap().unwrap().description.as_str(), "the pager");

        // The oldest has waited too long.
        assert!(store.webhook_enable(id, at(10), at(31)).await.unwrap());
        assert!(!store.webhook_enable(id, at(10), at(31)).await.unwrap(), "it is enabled");
        let overview = listed().await;
        assert_eq!((overview.disabled, overview.failures, overview.waiting), (None, 0, 2));
        let deliveries = store.webhook_deliveries(id, &account, 10).await.unwrap();
        assert_eq!((deliveries[2].notification, deliveries[2].next_try_at), (old, None));
        assert_eq!(leased(store, lease, at(32), at(50)).await, [id]);
        let due = store.webhook_try_begin(id, lease, at(32), at(50)).await.unwrap().unwrap();
        assert_eq!(due.notification, recent);
        assert!(store.webhook_try_end(&due, lease, TryResult::default(), AfterTry::Delivered, at(33)).await.unwrap());
        assert_eq!(listed().await.last_success_at, Some(at(33)));

        // An endpoint that its owner disabled too stays disabled, unlike one that the server disabled.
        let disable = WebhookUpdate { enabled: Some(false), ..WebhookUpdate::default() };
        assert!(store.webhook_disable(id, at(40)).await.unwrap());
        assert_eq!(store.webhook_change(id, &account, &disable, at(41)).await.unwrap(), UpdateResult::Updated);
        assert!(store.webhook_enable(id, at(10), at(42)).await.unwrap());
        assert_eq!(of_account().await, Some((at(41), DisabledWhy::Owner)));
        assert!(!store.webhook_enable(id, at(10), at(43)).await.unwrap());
        assert_eq!(store.webhook_change(id, &account, &enable, at(44)).await.unwrap(), UpdateResult::Updated);
        test(world, id, &account, 45).await;
        assert_eq!(leased(store, lease, at(51), at(60)).await, [id]);
        let due = store.webhook_try_begin(id, lease, at(51), at(60)).await.unwrap().unwrap();
        assert!(store.webhook_try_end(&due, lease, TryResult::default(), AfterTry::Disabled(DisabledWhy::Gone), at(52)).await.unwrap());
        assert_eq!(of_account().await, Some((at(52), DisabledWhy::Gone)));
        assert!(store.webhook_enable(id, at(10), at(53)).await.unwrap());
        assert_eq!(of_account().await, None);
        let second = added(world, &account, NotificationKind::ALL).await.webhook.id;
        let (first, last) = (id.min(second), id.max(second));
        assert_eq!(store.webhooks_overview(None, 1).await.unwrap()[0].id, first);
        assert_eq!(store.webhooks_overview(Some(first), 10).await.unwrap().iter().map(|one| one.id).collect::<Vec<_>>(), [last]);
    }

    async fn a_closed_account_is_notified_no_more(world: &World) {
        let store = writing(world, 100);
        let account = world.account("ada@example.com").await;
        let id = added(world, &account, NotificationKind::ALL).await.webhook.id;
        world.attached(&account).await;
        test(world, id, &account, 0).await;
        assert!(store.account_close(&account, None, at(1)).await.unwrap());
        let lease = world.rng.uuid_v7(now());
        assert!(leased(&store, lease, at(2), at(30)).await.is_empty());
        store.closed_accounts_empty(at(2), &PurgeSettings::default()).await.unwrap();
        assert!(store.webhooks_of_account(&account, 10).await.unwrap().is_empty());
    }
}
