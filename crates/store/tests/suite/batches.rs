//! Batches of the knowledge API.

use std::collections::HashMap;

use domain::Digest;
use domain::batch::{BatchEnd, BatchKind, Item, ItemOutcome};
use domain::ids::{BatchId, UserAccountId};
use domain::item::Fault;
use domain::memory::MemoryType;
use store::Store;
use store::batch::{BatchAccess, BatchCreate, IdempotencyKey, Lease, NewBatch};
use tokio::task::JoinSet;

use crate::world::{World, at, now};
use harness::on_each_database;

fn items() -> Vec<Item> {
    vec![
        Item::Url("https://example.com/a".into()),
        Item::Url("https://example.com/b".into()),
        Item::Note { content: "with a \0 inside".into(), title: Some("T".into()), kind: MemoryType::Note },
    ]
}

async fn batch(world: &World, account: &UserAccountId) -> BatchId {
    let id = world.rng.uuid_v7(now()).into();
    let spaces = [world.rng.uuid_v7(now()).into()];
    let new = NewBatch {
        id,
        kind: BatchKind::Batch,
        account,
        spaces: &spaces,
        key_spaces: None,
        items: &items(),
        key: None,
        request: None,
    };
    assert_eq!(world.store.batch_create(&new, 4, now()).await.unwrap(), BatchCreate::Created);
    id
}

const HELD: Lease = Lease::Held { is_cancelled: false };

fn failed(index: usize) -> ItemOutcome {
    ItemOutcome::error(&items()[index], Fault::Timeout, "slow")
}

on_each_database! {
    async fn a_batch_is_read_as_it_was_taken_in(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let id = batch(world, &ada).await;
        let read = store.batch_by_id(id, Some(&ada)).await.unwrap().unwrap();
        let urls: Vec<_> = read.pending.iter().map(|(index, url)| (*index, url.as_deref())).collect();
        assert_eq!(urls, [(0, Some("https://example.com/a")), (1, Some("https://example.com/b")), (2, None)]);
        assert_eq!((read.journal.total(), read.journal.processed(), read.journal.has_ended()), (3, 0, false));
        for (index, item) in items().into_iter().enumerate() {
            assert_eq!(store.batch_item(id, index).await.unwrap(), Some(item));
        }
        assert_eq!(store.batch_item(id, 3).await.unwrap(), None);
        assert_eq!(store.batch_titles(id).await.unwrap(), HashMap::from([(2, "T".to_owned())]));
        assert_eq!(store.batch_by_id(id, Some(&bob)).await.unwrap(), None);
        assert!(store.batch_by_id(id, None).await.unwrap().is_some());
        let access = store.batch_access(id, &ada).await.unwrap().unwrap();
        assert_eq!((access.id, access.is_running, &access.spaces), (id, true, &read.spaces));
        assert_eq!(store.batch_access(id, &bob).await.unwrap(), None);
    }

    async fn an_item_ends_once(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let id = batch(world, &ada).await;
        assert!(store.batch_item_finish(id, &(1, 1, &failed(1))).await.unwrap());
        assert!(!store.batch_item_finish(id, &(1, 2, &failed(1))).await.unwrap());
        // A place belongs to one item.
        assert!(store.batch_item_finish(id, &(0, 1, &failed(0))).await.is_err());
        assert_eq!(store.batch_item(id, 1).await.unwrap(), None);
        let outcome = failed(0);
        let other = failed(2);
        // The rest is written completely or not at all.
        assert!(!store.batch_finish(id, &[(0, 2, &outcome), (1, 3, &other)], &BatchEnd::Complete, at(1)).await.unwrap());
        assert_eq!(store.batch_by_id(id, None).await.unwrap().unwrap().journal.processed(), 1);
        assert!(store.batch_finish(id, &[(0, 2, &outcome), (2, 3, &other)], &BatchEnd::Complete, at(1)).await.unwrap());
        assert!(!store.batch_finish(id, &[], &BatchEnd::Failed("twice".into()), at(1)).await.unwrap());
        let read = store.batch_by_id(id, None).await.unwrap().unwrap();
        let messages: Vec<String> = (0..9).map_while(|seq| read.journal.message(seq)).map(|message| message.data()).collect();
        assert_eq!(messages.len(), 8);
        assert!(messages[1].contains(r#""index":1"#) && messages[3].contains(r#""index":0"#) && messages[7].contains("complete"));
        assert_eq!(read.pending, []);
    }

    async fn a_batch_is_worked_on_by_one_runner_at_a_time(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let id = batch(world, &ada).await;
        assert_eq!(store.batches_adrift(now(), 10).await.unwrap(), [id]);
        assert_eq!(store.batch_lease(id, "one", at(10), now()).await.unwrap(), HELD);
        assert_eq!(store.batch_lease(id, "two", at(11), at(1)).await.unwrap(), Lease::Refused);
        assert_eq!(store.batch_lease(id, "one", at(12), at(2)).await.unwrap(), HELD);
        assert_eq!(store.batches_adrift(at(12), 10).await.unwrap(), []);
        assert_eq!(store.batches_adrift(at(13), 10).await.unwrap(), [id]);
        assert_eq!(store.batch_lease(id, "two", at(23), at(13)).await.unwrap(), HELD);
        assert!(store.batch_finish(id, &[], &BatchEnd::Failed("gone".into()), at(14)).await.unwrap());
        assert_eq!(store.batch_lease(id, "two", at(30), at(14)).await.unwrap(), Lease::Refused);
        assert_eq!(store.batches_adrift(at(99), 10).await.unwrap(), []);
    }

    async fn a_runner_gives_its_own_lease_back_and_no_other(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let id = batch(world, &ada).await;
        assert_eq!(store.batch_lease(id, "one", at(10), now()).await.unwrap(), HELD);
        store.batch_lease_end(id, "two").await.unwrap();
        assert_eq!(store.batch_lease(id, "two", at(11), at(1)).await.unwrap(), Lease::Refused);
        store.batch_lease_end(id, "one").await.unwrap();
        assert_eq!(store.batches_adrift(at(1), 10).await.unwrap(), [id]);
        assert_eq!(store.batch_lease(id, "two", at(11), at(1)).await.unwrap(), HELD);
    }

    async fn a_running_batch_is_cancelled_by_its_owner(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let id = batch(world, &ada).await;
        assert!(!store.batch_cancel(id, Some(&bob), at(1)).await.unwrap());
        assert!(store.batch_cancel(id, Some(&ada), at(1)).await.unwrap());
        assert!(store.batch_cancel(id, Some(&ada), at(2)).await.unwrap());
        assert_eq!(store.batch_by_id(id, None).await.unwrap().unwrap().cancelled_at, Some(at(1)));
        assert_eq!(store.batch_lease(id, "one", at(9), at(2)).await.unwrap(), Lease::Held { is_cancelled: true });
        assert!(store.batch_access(id, &ada).await.unwrap().unwrap().is_running, "until it has ended");
        store.batch_finish(id, &[], &BatchEnd::Complete, at(3)).await.unwrap();
        assert!(!store.batch_access(id, &ada).await.unwrap().unwrap().is_running);
        assert!(!store.batch_cancel(id, Some(&ada), at(4)).await.unwrap());
    }

    async fn a_running_batch_is_listed_for_operators_and_cancelled(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (first, second) = (batch(world, &ada).await, batch(world, &bob).await);
        store.batch_lease(first, "one", at(9), at(1)).await.unwrap();
        let running = store.batches_running(None, 10).await.unwrap();
        let leases: Vec<_> = running.iter().map(|found| (found.id, found.lease.clone())).collect();
        assert_eq!(leases, [(first, Some(("one".to_owned(), at(9)))), (second, None)]);
        assert_eq!((&running[1].account, running[1].processed), (&bob, 0));
        assert_eq!(store.batches_running(Some(first), 10).await.unwrap().len(), 1);
        assert!(store.batch_cancel(first, None, at(2)).await.unwrap());
        assert_eq!(store.batches_running(None, 1).await.unwrap()[0].cancelled_at, Some(at(2)));
        store.batch_finish(first, &[], &BatchEnd::Complete, at(3)).await.unwrap();
        assert_eq!(store.batches_running(None, 10).await.unwrap()[0].id, second);
        assert!(!store.batch_cancel(first, None, at(4)).await.unwrap());
    }

    async fn an_account_runs_batches_up_to_its_limit(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let mut making = JoinSet::new();
        for _ in 0..8 {
            let (store, ada, id) = (store.clone(), ada.clone(), world.rng.uuid_v7(now()).into());
            making.spawn(async move {
                let new = NewBatch { id, kind: BatchKind::Batch, account: &ada, spaces: &[], key_spaces: None, items: &items(), key: None, request: None };
                store.batch_create(&new, 3, now()).await.unwrap()
            });
        }
        let made = making.join_all().await.into_iter().filter(|made| *made == BatchCreate::Created).count();
        assert_eq!(made, 3);
        let listed = store.batches_of_account(&ada, 10).await.unwrap();
        assert_eq!(listed.iter().filter(|batch| batch.is_running && batch.total == 3 && batch.processed == 0).count(), 3);
        store.batch_item_finish(listed[0].id, &(0, 1, &failed(0))).await.unwrap();
        store.batch_finish(listed[0].id, &[], &BatchEnd::Complete, at(1)).await.unwrap();
        let listed = store.batches_of_account(&ada, 10).await.unwrap();
        assert_eq!((listed[0].is_running, listed[0].processed), (false, 1));
        batch(world, &ada).await;
    }

    async fn a_repeated_request_finds_the_batch_of_its_key(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (body, other) = (Digest::of(b"body"), Digest::of(b"other"));
        let spaces = [world.rng.uuid_v7(now()).into()];
        let create = async |store: &Store, account: &UserAccountId, body: &Digest, seconds: i64| {
            let id: BatchId = world.rng.uuid_v7(at(seconds)).into();
            let key = Some(IdempotencyKey { key: Some("k"), body, since: at(seconds - 60) });
            let new = NewBatch { id, kind: BatchKind::Batch, account, spaces: &spaces, key_spaces: None, items: &items(), key, request: None };
            (id, store.batch_create(&new, 1, at(seconds)).await.unwrap())
        };
        // Of concurrent requests on two servers, one creates the batch.
        let second = world.second().await;
        let made = futures_util::future::join_all((0..6).map(|round| {
            create(if round % 2 == 0 { store } else { &second }, &ada, &body, 0)
        })).await;
        let (first, _) = *made.iter().find(|(_, made)| *made == BatchCreate::Created).unwrap();
        let existing = BatchAccess { id: first, is_running: true, spaces: spaces.to_vec() };
        assert_eq!(made.iter().filter(|(_, made)| *made == BatchCreate::Known(existing.clone())).count(), 5);
        assert_eq!(create(store, &ada, &other, 30).await.1, BatchCreate::KeyReused);
        let (_, of_bob) = create(store, &bob, &other, 30).await;
        assert_eq!(of_bob, BatchCreate::Created, "a key belongs to its account");
        // A known batch needs no free place; a new one does.
        assert_eq!(create(store, &ada, &body, 60).await.1, BatchCreate::Known(existing));
        assert_eq!(create(store, &ada, &body, 61).await.1, BatchCreate::TooMany);
        store.batch_finish(first, &[], &BatchEnd::Failed("x".into()), at(61)).await.unwrap();
        assert_eq!(create(store, &ada, &other, 61).await.1, BatchCreate::Created, "an expired key is free");
        assert_eq!(create(store, &ada, &body, 62).await.1, BatchCreate::KeyReused);
    }

    async fn the_same_lines_join_their_import_while_it_runs(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let lines = [Item::Faulty { error: Fault::InvalidRequest, message: "no memory \0".into() }];
        let create = async |body: &Digest| {
            let id: BatchId = world.rng.uuid_v7(now()).into();
            let key = Some(IdempotencyKey { key: None, body, since: now() });
            let new = NewBatch { id, kind: BatchKind::Import, account: &ada, spaces: &[], key_spaces: None, items: &lines, key, request: None };
            (id, store.batch_create(&new, 1, now()).await.unwrap())
        };
        let (body, other) = (Digest::of(b"body"), Digest::of(b"other"));
        let (id, created) = create(&body).await;
        assert_eq!(created, BatchCreate::Created);
        assert_eq!(store.batch_item(id, 0).await.unwrap().unwrap(), lines[0]);
        assert_eq!(create(&body).await.1, BatchCreate::Known(BatchAccess { id, is_running: true, spaces: Vec::new() }));
        assert_eq!(create(&other).await.1, BatchCreate::TooMany);
        // Batches have a separate limit, and lists contain only batches.
        let batch = batch(world, &ada).await;
        assert_eq!(store.batches_of_account(&ada, 10).await.unwrap().iter().map(|listed| listed.id).collect::<Vec<_>>(), [batch]);
        assert!(store.batch_finish(id, &[(0, 1, &failed(0))], &BatchEnd::Complete, now()).await.unwrap());
        assert_eq!(create(&body).await.1, BatchCreate::Created, "it is imported again");
    }
}
