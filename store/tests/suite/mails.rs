//! Letters that wait to be sent.

use chrono::TimeDelta;
use domain::confirm::ConfirmedVia;
use store::mail::MailFailure;

use crate::world::{World, at, now};
use harness::on_each_database;

on_each_database! {
    async fn a_mail_is_taken_once_and_again_without_a_report(world: &World) {
        let store = &world.store;
        let mail = world.new_mail("ada@example.com");
        store.mail_write(&mail, now()).await.unwrap();
        assert!(store.mail_write(&mail, now()).await.unwrap_err().is_unique_violation());
        assert_eq!(store.mails_claim_due(at(-1), at(60), 10).await.unwrap(), []);
        let due = store.mails_claim_due(now(), at(60), 10).await.unwrap();
        assert_eq!(due.len(), 1);
        assert_eq!((&due[0].mail, due[0].created_at, due[0].tries), (&mail, now(), 1));
        assert_eq!(store.mails_claim_due(at(59), at(120), 10).await.unwrap(), []);
        assert_eq!(store.mails_claim_due(at(60), at(120), 10).await.unwrap()[0].tries, 2);
        assert!(store.mail_sent(mail.id, at(61)).await.unwrap());
        assert!(!store.mail_sent(mail.id, at(61)).await.unwrap());
        assert!(!store.mail_failed(mail.id, MailFailure::GivenUp, at(61)).await.unwrap());
        assert_eq!(store.mails_claim_due(at(1000), at(2000), 10).await.unwrap(), []);
    }

    async fn a_failure_puts_a_letter_off_or_ends_it(world: &World) {
        let store = &world.store;
        let mail = world.new_mail("ada@example.com");
        store.mail_write(&mail, now()).await.unwrap();
        store.mails_claim_due(now(), at(60), 10).await.unwrap();
        assert!(store.mail_failed(mail.id, MailFailure::TryAgainAt(at(10)), at(1)).await.unwrap());
        assert_eq!(store.mails_claim_due(at(9), at(60), 10).await.unwrap(), []);
        assert_eq!(store.mails_claim_due(at(10), at(60), 10).await.unwrap().len(), 1);
        assert!(store.mail_failed(mail.id, MailFailure::GivenUp, at(11)).await.unwrap());
        assert!(!store.mail_sent(mail.id, at(12)).await.unwrap());
        assert_eq!(store.mails_claim_due(at(1000), at(2000), 10).await.unwrap(), []);
    }

    async fn two_nodes_never_take_one_letter(world: &World) {
        let second = world.second().await;
        for _ in 0..20 {
            world.store.mail_write(&world.new_mail("ada@example.com"), now()).await.unwrap();
        }
        let mut taking = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            taking.spawn(async move { store.mails_claim_due(now(), at(60), 5).await.unwrap() });
        }
        let mut taken: Vec<_> = taking.join_all().await.into_iter().flatten().map(|due| due.mail.id).collect();
        let count = taken.len();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), count);
        assert!(count >= 5, "{count}");
    }

    async fn a_notice_is_taken_down_with_its_claim_or_not_at_all(world: &World) {
        let store = &world.store;
        let registration = world.registration().await;
        let attempt = world.new_attempt(registration, now());
        store.attempt_start(&attempt, 10, TimeDelta::hours(1), now()).await.unwrap();
        let claim = world.claim_of("ada@example.com").await;
        let (lost, told) = (world.new_mail("ada@example.com"), world.new_mail("ada@example.com"));
        assert!(!store.attempt_complete(&world.secret(), &claim, ConfirmedVia::Session, Some(&lost), now()).await.unwrap());
        assert!(store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, Some(&told), now()).await.unwrap());
        assert!(!store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, Some(&lost), now()).await.unwrap());
        let due = store.mails_claim_due(now(), at(60), 10).await.unwrap();
        assert_eq!(due.into_iter().map(|due| due.mail).collect::<Vec<_>>(), [told]);
    }
}
