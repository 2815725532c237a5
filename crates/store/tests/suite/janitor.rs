//! Retention.

use chrono::TimeDelta;
use domain::batch::{BatchEnd, BatchKind, Item};
use domain::filter::{FilterVerdict, VerdictBy};
use domain::ids::BatchId;
use domain::token::TokenScope;
use store::batch::NewBatch;
use store::held::{HeldFilter, HeldQuotas, Sender};
use store::janitor::{PurgeSettings, Purged};
use store::signin::{CodeLimits, TicketRequest};

use crate::held::new_held;
use crate::world::{World, at, now};
use harness::on_each_database;

const DAY: i64 = 24 * 60 * 60;

on_each_database! {
    async fn long_finished_records_are_deleted_and_nothing_else(world: &World) {
        let store = &world.store;
        let settings = PurgeSettings::default();
        let person = world.person("ada@example.com").await;
        world.session(person.id, now(), at(DAY)).await;
        let ticket = world.new_ticket("ada@example.com", now());
        let limits = CodeLimits { per_network: 10, total: 10, window: TimeDelta::hours(1) };
        store.signin_start(&ticket, &TicketRequest { network: "here", instead_of: None }, &limits, now()).await.unwrap();
        let (sent, waiting) = (world.new_mail("ada@example.com"), world.new_mail("ada@example.com"));
        store.mail_write(&sent, now()).await.unwrap();
        store.mail_write(&waiting, now()).await.unwrap();
        store.mail_sent(sent.id, at(1)).await.unwrap();
        let abandoned = world.registration().await;
        let (claimed, _) = world.claimed("ada@example.com").await;
        let token = world.secret();
        store.token_issue(&token, claimed, TokenScope::Account, now(), at(3600)).await.unwrap();
        let held = [
            new_held(world, Sender::Account(person.account.clone().unwrap()), "1", now()),
            new_held(world, Sender::Account(person.account.unwrap()), "2", now()),
        ];
        store.held_insert(&held, &HeldQuotas::default()).await.unwrap();
        store.held_discard(held[0].id, now()).await.unwrap();

        assert_eq!(store.purge(at(DAY), &settings).await.unwrap(), Purged::default());
        let purged = store.purge(at(10 * DAY), &settings).await.unwrap();
        assert_eq!(purged, Purged { sessions: 1, tokens: 1, attempts: 1, registrations: 1, signin_codes: 1, mails: 1, ..Purged::default() });
        assert!(store.registration_by_id(claimed).await.unwrap().is_some());
        assert_eq!(store.signin_ticket(&ticket.token).await.unwrap(), None);
        let due = store.mails_claim_due(at(10 * DAY), at(11 * DAY), 10).await.unwrap();
        assert_eq!(due.iter().map(|due| due.mail.id).collect::<Vec<_>>(), [waiting.id], "what is to be sent stays");
        assert!(store.registration_by_id(abandoned).await.unwrap().is_none());
        let purged = store.purge(at(40 * DAY), &settings).await.unwrap();
        assert_eq!(purged, Purged { held: 1, ..Purged::default() });
        let left = store.held_list(&HeldFilter::default(), 10).await.unwrap();
        assert_eq!(left.iter().map(|entry| entry.id).collect::<Vec<_>>(), [held[1].id]);
        assert!(store.purge_deleted(&settings).await.unwrap(), "nothing reads the write-ahead log");
        assert!(store.pool().truncate_log().await.unwrap());
    }

    async fn an_agent_can_ask_for_the_end_of_its_claim_as_long_as_its_token_is_good(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let attempt = world.new_attempt(id, now());
        store.attempt_start(&attempt, 10, TimeDelta::hours(1), now()).await.unwrap();
        let hasty = PurgeSettings { attempts_kept: std::time::Duration::ZERO, ..PurgeSettings::default() };
        assert_eq!(store.purge(at(DAY - 1), &hasty).await.unwrap().attempts, 0);
        assert_eq!(store.purge(at(DAY + 1), &hasty).await.unwrap().attempts, 1);
    }

    async fn a_registration_that_can_still_be_claimed_stays(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let attempt = world.new_attempt(id, at(DAY - 1));
        store.attempt_start(&attempt, 10, TimeDelta::hours(1), at(DAY - 1)).await.unwrap();
        let hasty = PurgeSettings { unclaimed_kept: std::time::Duration::ZERO, ..PurgeSettings::default() };
        assert_eq!(store.purge(at(DAY + 1), &hasty).await.unwrap().registrations, 0);
        assert!(store.attempt_owner(&attempt.token).await.unwrap().is_some());
        assert_eq!(store.purge(at(2 * DAY), &hasty).await.unwrap().registrations, 1);
    }

    async fn batches_can_be_joined_for_a_day_and_verdicts_be_read_for_a_month(world: &World) {
        let (store, settings) = (&world.store, PurgeSettings::default());
        let ada = world.account("ada@example.com").await;
        let items = [Item::Url("https://example.com/".into())];
        let [ended, running] = [0, 1].map(|_| BatchId::from(world.rng.uuid_v7(now())));
        for id in [ended, running] {
            store.batch_create(&NewBatch { id, kind: BatchKind::Batch, account: &ada, spaces: &[], key_spaces: None, items: &items, key: None, request: None }, 4, now()).await.unwrap();
        }
        let verdict = FilterVerdict { keep: false, categories: vec![], reason: "off topic".into(), by: VerdictBy::Rules };
        store.verdict_add(world.rng.uuid_v7(now()), &ada, (ended, 0), "a page", &verdict, now()).await.unwrap();
        store.batch_finish(ended, &[], &BatchEnd::Complete, at(60)).await.unwrap();
        assert_eq!(store.purge(at(DAY + 59), &settings).await.unwrap(), Purged::default());
        assert_eq!(store.purge(at(DAY + 61), &settings).await.unwrap(), Purged { batches: 1, ..Purged::default() });
        assert!(store.batch_by_id(ended, None).await.unwrap().is_none());
        assert!(store.batch_by_id(running, None).await.unwrap().is_some());
        let purged = store.purge(at(31 * DAY), &settings).await.unwrap();
        assert_eq!((purged.verdicts, purged.batches), (1, 0));
    }

    async fn an_agent_of_whom_something_is_held_stays(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let held = new_held(world, Sender::Registration(id), "1", now());
        store.held_insert(std::slice::from_ref(&held), &HeldQuotas::default()).await.unwrap();
        let settings = PurgeSettings::default();
        assert_eq!(store.purge(at(100 * DAY), &settings).await.unwrap(), Purged::default());
        store.held_discard(held.id, at(100 * DAY)).await.unwrap();
        assert_eq!(store.purge(at(100 * DAY), &settings).await.unwrap().registrations, 1);
    }

    async fn batches_are_small_and_bounded(world: &World) {
        let store = &world.store;
        let person = world.person("ada@example.com").await;
        for _ in 0..10 {
            world.session(person.id, now(), at(1)).await;
        }
        let settings = PurgeSettings { batch_rows: 3, batches_max: 2, ..PurgeSettings::default() };
        let mut purged = vec![];
        for _ in 0..3 {
            purged.push(store.purge(at(30 * DAY), &settings).await.unwrap().sessions);
        }
        assert_eq!(purged, [6, 4, 0]);
    }
}
