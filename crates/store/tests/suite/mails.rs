//! The queue of outgoing mail.

use chrono::TimeDelta;
use domain::confirm::ConfirmedVia;
use domain::node::NodeTraits;
use store::mail::MailFailure;

use crate::nodes::{beat, traits};
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

    async fn a_mail_of_a_node_that_ended_is_taken_again_at_once(world: &World) {
        let (dead, living, own) = (traits(world, "dead"), traits(world, "living"), traits(world, "own"));
        let under = |node: &NodeTraits| world.store.clone().with_holder(node.id);
        under(&dead).node_beat(&beat(&dead), now()).await.unwrap();
        under(&living).node_beat(&beat(&living), now()).await.unwrap();
        let mut mails = Vec::new();
        for holder in [under(&dead), under(&living), under(&own), world.store.clone()] {
            let mail = world.new_mail("ada@example.com");
            holder.mail_write(&mail, now()).await.unwrap();
            assert_eq!(holder.mails_claim_due(now(), at(60), 10).await.unwrap().len(), 1);
            mails.push(mail);
        }
        let store = under(&own);
        assert_eq!(store.leases_take_over(at(1)).await.unwrap(), 0, "each node is in the table, or is this one");
        store.node_remove(dead.id).await.unwrap();
        assert_eq!(store.leases_take_over(at(2)).await.unwrap(), 1);
        let again = store.mails_claim_due(at(2), at(60), 10).await.unwrap();
        assert_eq!(again.iter().map(|due| (due.mail.id, due.tries)).collect::<Vec<_>>(), [(mails[0].id, 2)]);
        // A mail that was sent, or is scheduled for a later time, has no lease.
        assert!(under(&living).mail_sent(mails[1].id, at(3)).await.unwrap());
        assert!(store.mail_failed(mails[0].id, MailFailure::TryAgainAt(at(50)), at(3)).await.unwrap());
        let third = traits(world, "third");
        store.node_remove(living.id).await.unwrap();
        assert_eq!(under(&third).leases_take_over(at(4)).await.unwrap(), 1, "the one of the node without a row");
        assert_eq!(under(&third).mails_claim_due(at(4), at(60), 10).await.unwrap()[0].mail.id, mails[2].id);
    }

    async fn a_failure_puts_a_mail_off_or_ends_it(world: &World) {
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

    async fn an_operator_sends_a_mail_at_once_or_never(world: &World) {
        let (mail, later) = (world.new_mail("ada@example.com"), world.new_mail("bob@example.com"));
        let store = world.store.clone().with_holder(traits(world, "one").id);
        for mail in [&mail, &later] {
            store.mail_write(mail, at(100)).await.unwrap();
        }
        let unsent = store.mails_unsent(None, 10).await.unwrap();
        let found: Vec<_> = unsent.iter().map(|found| (found.to.as_str(), found.tries, found.given_up_at)).collect();
        assert_eq!(found, [("ada@example.com", 0, None), ("bob@example.com", 0, None)]);
        assert_eq!(store.mails_unsent(Some(mail.id), 10).await.unwrap().len(), 1);
        assert!(store.mail_steer(mail.id, true, at(1)).await.unwrap());
        assert_eq!(store.mails_unsent(None, 1).await.unwrap()[0].given_up_at, Some(at(1)));
        assert_eq!(store.mails_claim_due(at(99), at(200), 10).await.unwrap(), []);
        assert!(store.mail_steer(mail.id, false, at(2)).await.unwrap());
        let due = store.mails_claim_due(at(2), at(60), 10).await.unwrap();
        assert_eq!(due.iter().map(|due| due.mail.id).collect::<Vec<_>>(), [mail.id]);
        assert!(!store.mail_steer(mail.id, false, at(3)).await.unwrap(), "it is being sent");
        store.mail_sent(mail.id, at(4)).await.unwrap();
        assert!(!store.mail_steer(mail.id, false, at(5)).await.unwrap(), "it was sent");
        assert_eq!(store.mails_unsent(None, 10).await.unwrap().len(), 1);
    }

    async fn two_nodes_never_take_one_mail(world: &World) {
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
