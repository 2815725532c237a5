//! Links that show a session or a lane to others.

use domain::audit_link::{AuditLink, AuditSubject};
use domain::ids::UserAccountId;
use domain::lane::Lane;
use domain::usage::Day;
use harness::on_each_database;
use store::janitor::PurgeSettings;

use crate::world::{World, at, now};

fn link(world: &World, account: &UserAccountId, subject: AuditSubject, seconds: i64) -> AuditLink {
    AuditLink {
        id: world.rng.uuid_v7(at(seconds)).into(),
        account: account.clone(),
        name: "Review".parse().unwrap(),
        subject,
        with_content: seconds % 2 == 0,
        created_at: at(seconds),
        expires_at: at(seconds + 100),
        last_used_at: None,
    }
}

on_each_database! {
    async fn a_link_is_found_until_it_ends(world: &World) {
        let store = &world.store;
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let session = link(world, &account, AuditSubject::Session(world.rng.uuid_v7(now())), 0);
        let lane = link(world, &account, AuditSubject::Lane { lane: Lane::Llm, first: Day::of(now()) }, 1);
        let [token, second] = [world.secret(), world.secret()];
        assert!(store.audit_link_create(&session, &token, 2).await.unwrap());
        assert!(store.audit_link_create(&lane, &second, 2).await.unwrap());
        assert_eq!(store.audit_links_of_account(&account, at(2)).await.unwrap(), [lane.clone(), session.clone()]);
        assert!(store.audit_links_of_account(&other, at(2)).await.unwrap().is_empty());
        assert_eq!(store.audit_link_by_hash(&second, at(2)).await.unwrap(), Some(lane.clone()));
        assert_eq!(store.audit_link_by_hash(&world.secret(), at(2)).await.unwrap(), None);
        assert_eq!(store.audit_link_by_hash(&token, at(100)).await.unwrap(), None, "it ends by itself");

        // The number is limited to links that have not ended.
        let third = link(world, &account, session.subject, 3);
        assert!(!store.audit_link_create(&third, &world.secret(), 2).await.unwrap());
        assert!(store.audit_link_create(&link(world, &other, session.subject, 3), &world.secret(), 2).await.unwrap());
        assert!(store.audit_link_create(&link(world, &account, session.subject, 100), &world.secret(), 2).await.unwrap());

        // A use is written once within a time.
        assert!(store.audit_link_used(session.id, at(-60), at(1)).await.unwrap());
        assert!(!store.audit_link_used(session.id, at(0), at(2)).await.unwrap());
        assert!(store.audit_link_used(session.id, at(1), at(3)).await.unwrap());
        let used = AuditLink { last_used_at: Some(at(3)), ..session.clone() };
        assert_eq!(store.audit_link_by_hash(&token, at(4)).await.unwrap(), Some(used));

        assert!(!store.audit_link_delete(lane.id, &other).await.unwrap());
        assert!(store.audit_link_delete(lane.id, &account).await.unwrap());
        assert!(!store.audit_link_delete(lane.id, &account).await.unwrap());
        assert_eq!(store.audit_link_by_hash(&second, at(2)).await.unwrap(), None);
    }

    async fn ended_links_are_deleted_and_closing_ends_all(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let subject = AuditSubject::Lane { lane: Lane::Skill, first: Day::of(now()) };
        let [old, new] = [world.secret(), world.secret()];
        assert!(store.audit_link_create(&link(world, &account, subject, 0), &old, 9).await.unwrap());
        assert!(store.audit_link_create(&link(world, &account, subject, 50), &new, 9).await.unwrap());
        let settings = PurgeSettings { batch_rows: 1, ..PurgeSettings::default() };
        store.purge(at(101), &settings).await.unwrap();
        assert_eq!(store.audit_link_by_hash(&old, at(0)).await.unwrap(), None);
        assert!(store.audit_link_by_hash(&new, at(101)).await.unwrap().is_some());
        assert!(store.account_close(&account, None, at(102)).await.unwrap());
        assert_eq!(store.audit_link_by_hash(&new, at(103)).await.unwrap(), None);
    }
}
