//! Keys of the knowledge API.

use domain::api_key::{ApiKey, ApiKeyScope};
use domain::ids::UserAccountId;
use store::api_key::KeyCreate;
use store::janitor::PurgeSettings;

use crate::world::{World, at, now};
use harness::on_each_database;

fn key(world: &World, account: &UserAccountId, name: &str) -> ApiKey {
    ApiKey {
        id: world.rng.uuid_v7(now()).into(),
        account: account.clone(),
        name: name.parse().unwrap(),
        scopes: vec![ApiKeyScope::Search, ApiKeyScope::Settings],
        spaces: Some(vec![world.rng.uuid_v7(now()).into()]),
        created_at: now(),
        expires_at: Some(at(60)),
        last_used_at: None,
        revoked_at: None,
    }
}

on_each_database! {
    async fn a_key_is_kept_as_it_was_made_and_ended_by_its_owner_alone(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let first = key(world, &ada, "first");
        let second = ApiKey { spaces: None, expires_at: None, created_at: at(1), ..key(world, &ada, "second") };
        for made in [&first, &second] {
            assert_eq!(store.api_key_create(made, &world.secret(), 10).await.unwrap(), KeyCreate::Created);
            assert_eq!(store.api_key_create(made, &world.secret(), 10).await.unwrap(), KeyCreate::AlreadyMade);
        }
        assert_eq!(store.api_keys_of_account(&ada, 10).await.unwrap(), [second.clone(), first.clone()]);
        assert_eq!(store.api_keys(1).await.unwrap(), std::slice::from_ref(&second));
        assert_eq!(store.api_key_of_account(first.id, &ada).await.unwrap(), Some(first.clone()));
        assert_eq!(store.api_key_of_account(first.id, &bob).await.unwrap(), None);
        assert_eq!(store.api_keys_of_account(&bob, 10).await.unwrap(), []);
        assert!(!store.api_key_revoke(first.id, Some(&bob), at(2)).await.unwrap());
        assert!(store.api_key_revoke(first.id, Some(&ada), at(2)).await.unwrap());
        assert!(!store.api_key_revoke(first.id, None, at(3)).await.unwrap());
        assert_eq!(store.api_keys_of_account(&ada, 10).await.unwrap()[1].revoked_at, Some(at(2)));
        // Ended keys come last, regardless of age.
        assert!(store.api_key_revoke(second.id, None, at(3)).await.unwrap());
        let third = ApiKey { created_at: at(-1), ..key(world, &ada, "third") };
        assert_eq!(store.api_key_create(&third, &world.secret(), 10).await.unwrap(), KeyCreate::Created);
        let listed = store.api_keys_of_account(&ada, 10).await.unwrap();
        assert_eq!(listed.iter().map(|key| key.id).collect::<Vec<_>>(), [third.id, second.id, first.id]);
    }

    async fn a_key_is_forgotten_a_while_after_its_end(world: &World) {
        const DAY: i64 = 24 * 60 * 60;
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let expired = key(world, &ada, "expired");
        let endless = ApiKey { expires_at: None, ..key(world, &ada, "endless") };
        let revoked = ApiKey { expires_at: Some(at(1000 * DAY)), ..key(world, &ada, "revoked") };
        for made in [&expired, &endless, &revoked] {
            assert_eq!(store.api_key_create(made, &world.secret(), 10).await.unwrap(), KeyCreate::Created);
        }
        assert!(store.api_key_revoke(revoked.id, None, at(10 * DAY)).await.unwrap());
        let settings = PurgeSettings::default();
        assert_eq!(store.purge(at(90 * DAY), &settings).await.unwrap().api_keys, 0);
        assert_eq!(store.purge(at(91 * DAY), &settings).await.unwrap().api_keys, 1);
        assert_eq!(store.api_key_of_account(expired.id, &ada).await.unwrap(), None);
        assert!(store.api_key_of_account(revoked.id, &ada).await.unwrap().is_some());
        assert_eq!(store.purge(at(101 * DAY), &settings).await.unwrap().api_keys, 1);
        let left = store.api_keys_of_account(&ada, 10).await.unwrap();
        assert_eq!(left.iter().map(|key| key.id).collect::<Vec<_>>(), [endless.id]);
    }

    async fn a_secret_finds_its_key_while_it_is_good(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let (key, hash) = (key(world, &ada, "one"), world.secret());
        store.api_key_create(&key, &hash, 10).await.unwrap();
        assert_eq!(store.api_key_by_hash(&hash, now()).await.unwrap(), Some(key.clone()));
        assert_eq!(store.api_key_by_hash(&world.secret(), now()).await.unwrap(), None);
        assert_eq!(store.api_key_by_hash(&hash, at(60)).await.unwrap(), None);
        // Its use is stored at intervals.
        assert!(store.api_key_used(key.id, at(-60), now()).await.unwrap());
        assert!(!store.api_key_used(key.id, at(-1), at(59)).await.unwrap());
        assert!(store.api_key_used(key.id, at(5), at(65)).await.unwrap());
        assert_eq!(store.api_keys_of_account(&ada, 1).await.unwrap()[0].last_used_at, Some(at(65)));
        store.api_key_revoke(key.id, None, at(1)).await.unwrap();
        assert_eq!(store.api_key_by_hash(&hash, now()).await.unwrap(), None);
    }

    async fn an_account_has_valid_keys_up_to_its_limit(world: &World) {
        let ada = world.account("ada@example.com").await;
        let second = world.second().await;
        let mut making = tokio::task::JoinSet::new();
        for round in 0..12 {
            let (store, secret) = (if round % 2 == 0 { &world.store } else { &second }.clone(), world.secret());
            let key = key(world, &ada, "one of many");
            making.spawn(async move { store.api_key_create(&key, &secret, 5).await.unwrap() });
        }
        let made = making.join_all().await.into_iter().filter(|made| *made == KeyCreate::Created).count();
        assert_eq!(made, 5);
        // Ended keys do not count.
        let later = ApiKey { created_at: at(60), expires_at: None, ..key(world, &ada, "later") };
        assert_eq!(world.store.api_key_create(&later, &world.secret(), 5).await.unwrap(), KeyCreate::Created);
    }
}
