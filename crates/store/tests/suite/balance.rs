//! Balances and their ledger.

use store::balance::BalanceAdd;

use crate::world::{World, at, email};
use harness::on_each_database;

on_each_database! {
    async fn a_balance_is_the_sum_of_its_entries(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let add = async |account, cents, second| {
            store.balance_add(account, cents, "bought\0", at(second), &world.rng).await.unwrap()
        };
        assert_eq!(add(&ada, 500, 0).await, BalanceAdd::Added(500));
        assert_eq!(add(&ada, -750, 1).await, BalanceAdd::Added(-250));
        assert_eq!(add(&bob, 1, 2).await, BalanceAdd::Added(1));
        for impossible in [i64::MAX, i64::MIN, (1 << 53) + 251] {
            assert_eq!(add(&ada, impossible, 3).await, BalanceAdd::OutOfRange);
        }
        assert_eq!(add(&"nobody".parse().unwrap(), 5, 4).await, BalanceAdd::NoAccount);
        assert_eq!(store.account_by_id(&ada).await.unwrap().unwrap().balance_cents, -250);
        let entries = store.balance_entries(&ada, 10).await.unwrap();
        let values: Vec<_> = entries.iter().map(|entry| (entry.cents, entry.created_at)).collect();
        assert_eq!(values, [(-750, at(1)), (500, at(0))]);
        assert!(entries.iter().all(|entry| entry.account == ada && entry.reason == "bought\u{fffd}"));
        assert_eq!(store.balance_entries(&ada, 1).await.unwrap(), entries[..1]);
    }

    async fn entries_that_come_at_once_are_all_in_the_balance(world: &World) {
        let ada = world.account("ada@example.com").await;
        let second = world.second().await;
        let mut adding = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let (ada, rng) = (ada.clone(), world.rng.clone());
            adding.spawn(async move { store.balance_add(&ada, 10, "gift", at(round), &rng).await.unwrap() });
        }
        adding.join_all().await;
        assert_eq!(world.store.account_by_id(&ada).await.unwrap().unwrap().balance_cents, 80);
        assert_eq!(world.store.balance_entries(&ada, 10).await.unwrap().len(), 8);
    }

    async fn an_account_is_found_by_its_owners_address(world: &World) {
        let ada = world.account("ada@example.com").await;
        world.store.person_sign_in(&email("bob@example.com"), false, at(0), &world.rng).await.unwrap();
        let found = async |address| world.store.account_by_email(&email(address)).await.unwrap();
        assert_eq!(found("Ada@example.com").await, Some(ada));
        assert_eq!(found("bob@example.com").await, None);
        assert_eq!(found("nobody@example.com").await, None);
    }
}
