//! Access tokens and keys.

use chrono::TimeDelta;
use domain::token::{KeyState, TokenScope};

use crate::world::{World, at, now};
use harness::on_each_database;

on_each_database! {
    async fn a_scope_is_issued_only_to_whom_it_belongs(world: &World) {
        let store = &world.store;
        let unclaimed = world.registration().await;
        let (claimed, claim) = world.claimed("ada@example.com").await;
        let issue = async |id, scope| {
            let token = world.secret();
            store.token_issue(&token, id, scope, at(5), at(100)).await.unwrap().then_some(token)
        };
        assert_eq!(issue(unclaimed, TokenScope::Account).await, None);
        assert_eq!(issue(claimed, TokenScope::Events).await, None);
        assert_eq!(issue(world.new_registration().id, TokenScope::Events).await, None);

        let token = issue(unclaimed, TokenScope::Events).await.unwrap();
        let facts = store.token_by_hash(&token, at(99)).await.unwrap().unwrap();
        assert_eq!((facts.registration, facts.scope), (unclaimed, TokenScope::Events));
        assert_eq!((facts.account, facts.person, facts.expires_at), (None, None, at(100)));
        assert_eq!(store.registration_by_id(unclaimed).await.unwrap().unwrap().0.last_token_at, None);

        let token = issue(claimed, TokenScope::Account).await.unwrap();
        let facts = store.token_by_hash(&token, at(99)).await.unwrap().unwrap();
        assert_eq!((facts.registration, facts.scope), (claimed, TokenScope::Account));
        assert_eq!(facts.account, Some(claim.account));
        assert_eq!(facts.person, Some((claim.person, claim.email)));
        assert_eq!(store.registration_by_id(claimed).await.unwrap().unwrap().0.last_token_at, Some(at(5)));

        for id in [unclaimed, claimed] {
            store.registration_revoke(id, None, at(6)).await.unwrap();
            assert_eq!(issue(id, TokenScope::Events).await, None);
            assert_eq!(issue(id, TokenScope::Account).await, None);
        }
    }

    async fn a_token_holds_until_it_ends(world: &World) {
        let store = &world.store;
        let (claimed, _) = world.claimed("ada@example.com").await;
        let (kept, revoked) = (world.secret(), world.secret());
        for token in [&kept, &revoked] {
            assert!(store.token_issue(token, claimed, TokenScope::Account, now(), at(100)).await.unwrap());
        }
        assert!(store.token_revoke(&revoked, at(1)).await.unwrap());
        assert!(!store.token_revoke(&revoked, at(2)).await.unwrap());
        assert!(!store.token_revoke(&world.secret(), at(2)).await.unwrap());
        assert_eq!(store.token_by_hash(&revoked, at(2)).await.unwrap(), None);
        assert!(store.token_by_hash(&kept, at(99)).await.unwrap().is_some());
        assert_eq!(store.token_by_hash(&kept, at(100)).await.unwrap(), None);
        assert_eq!(store.token_by_hash(&world.secret(), at(2)).await.unwrap(), None);
    }

    /// Two transactions may overtake each other; the result must be right in every order.
    async fn a_token_issued_in_the_moment_of_the_claim_ends_with_it(world: &World) {
        let (claimed, _) = world.claimed("ada@example.com").await;
        let token = world.secret();
        assert!(world.store.token_issue(&token, claimed, TokenScope::Account, now(), at(100)).await.unwrap());
        world.tamper("UPDATE access_tokens SET scope = 'svc.events', account_id = NULL").await;
        assert_eq!(world.store.token_by_hash(&token, now()).await.unwrap(), None);
    }

    async fn one_key_signs_and_one_is_announced(world: &World) {
        let second = world.second().await;
        let kept = TimeDelta::days(30);
        assert_eq!(world.store.assertion_keys_rotate(now(), &world.rng).await.unwrap(), None);
        let mut starting = tokio::task::JoinSet::new();
        for round in 0..6 {
            let (store, rng) = (if round % 2 == 0 { &world.store } else { &second }.clone(), world.rng.clone());
            starting.spawn(async move { store.assertion_keys_ensure(now(), &rng).await.unwrap() });
        }
        starting.join_all().await;
        let keys = world.store.assertion_keys(now(), kept).await.unwrap();
        assert_eq!(keys.len(), 2);
        let of = |keys: &[domain::token::AssertionKey], state| {
            keys.iter().find(|key| key.state == state).map(|key| (key.kid.clone(), key.seed)).unwrap()
        };
        let (active, next) = (of(&keys, KeyState::Active), of(&keys, KeyState::Next));
        assert_ne!(active.1, next.1);

        let signs = world.store.assertion_keys_rotate(at(10), &world.rng).await.unwrap();
        assert_eq!(signs.as_ref(), Some(&next.0));
        let keys = world.store.assertion_keys(at(10), kept).await.unwrap();
        assert_eq!((keys.len(), of(&keys, KeyState::Active)), (3, next));
        assert_eq!(of(&keys, KeyState::Retired), active);
        let retired = keys.iter().find(|key| key.state == KeyState::Retired).unwrap();
        assert_eq!((retired.created_at, retired.activated_at, retired.retired_at), (now(), Some(now()), Some(at(10))));
        assert_eq!(world.store.assertion_keys(at(10) + kept, kept).await.unwrap().len(), 2, "forgotten in the end");
    }

    async fn rotations_at_once_leave_one_key_that_signs(world: &World) {
        let second = world.second().await;
        world.store.assertion_keys_ensure(now(), &world.rng).await.unwrap();
        let (one, two) = tokio::join!(
            world.store.assertion_keys_rotate(at(1), &world.rng),
            second.assertion_keys_rotate(at(1), &world.rng),
        );
        assert!(one.unwrap().is_some() | two.unwrap().is_some());
        let keys = world.store.assertion_keys(at(1), TimeDelta::days(30)).await.unwrap();
        for state in [KeyState::Active, KeyState::Next] {
            assert_eq!(keys.iter().filter(|key| key.state == state).count(), 1);
        }
    }

    async fn there_is_one_key_of_short_codes(world: &World) {
        let second = world.second().await;
        let (one, two) = tokio::join!(world.store.code_key(&world.rng), second.code_key(&world.rng));
        let sealed = one.unwrap().seal(b"context", "123456");
        assert!(two.unwrap().opens(b"context", "123456", &sealed));
        let again = world.store.code_key(&world.rng).await.unwrap();
        assert!(again.opens(b"context", "123456", &sealed));
    }
}
