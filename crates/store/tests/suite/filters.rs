//! Filter settings, and rejected content.

use domain::filter::{FilterSettings, FilterVerdict, VerdictBy};
use tokio::task::JoinSet;

use crate::world::{World, at, now};
use harness::on_each_database;

on_each_database! {
    async fn settings_are_replaced_as_a_whole_and_belong_to_one_account(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        assert_eq!(store.filter_settings(&ada).await.unwrap(), FilterSettings::default());
        let first = FilterSettings { categories: vec!["Rust".into()], should_llm_filter: true, ..FilterSettings::default() };
        let second = FilterSettings { include_items: vec!["actors".into()], ..FilterSettings::default() };
        store.filter_settings_set(&ada, &first, now()).await.unwrap();
        assert_eq!(store.filter_settings(&ada).await.unwrap(), first);
        store.filter_settings_set(&ada, &second, at(1)).await.unwrap();
        assert_eq!(store.filter_settings(&ada).await.unwrap(), second);
        assert_eq!(store.filter_settings(&bob).await.unwrap(), FilterSettings::default());
    }

    async fn changes_at_once_are_all_kept_and_a_refused_one_changes_nothing(world: &World) {
        let ada = world.account("ada@example.com").await;
        let second = world.second().await;
        let mut changing = JoinSet::new();
        for round in 0..8 {
            let (store, ada) = (if round % 2 == 0 { &world.store } else { &second }.clone(), ada.clone());
            changing.spawn(async move {
                let add = |mut known: FilterSettings| {
                    known.categories.push(format!("category {round}"));
                    Ok::<_, ()>(known)
                };
                store.filter_settings_change(&ada, add, at(round)).await.unwrap().unwrap()
            });
        }
        changing.join_all().await;
        assert_eq!(world.store.filter_settings(&ada).await.unwrap().categories.len(), 8);
        let refused = world.store.filter_settings_change(&ada, |_| Err("no"), at(9)).await.unwrap();
        assert_eq!(refused, Err("no"));
        assert_eq!(world.store.filter_settings(&ada).await.unwrap().categories.len(), 8);
    }

    async fn verdicts_are_listed_newest_first_for_their_account(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let verdict = FilterVerdict { keep: false, categories: vec![], reason: "off topic".into(), by: VerdictBy::Rules };
        let batch = world.rng.uuid_v7(now()).into();
        // A process that died before it finished the last item decided about it already.
        for (second, item, subject) in [(0, 0, "https://example.com/"), (1, 1, "A \0 note"), (2, 1, "Decided again")] {
            let id = world.rng.uuid_v7(at(second));
            store.verdict_add(id, &ada, (batch, item), subject, &verdict, at(second)).await.unwrap();
        }
        let filed = store.verdicts_of_account(&ada, 10).await.unwrap();
        assert_eq!(filed.len(), 2);
        assert!(filed[0].subject.starts_with("A ") && filed[0].created_at == at(1) && filed[0].verdict == verdict);
        assert_eq!(store.verdicts_of_account(&ada, 1).await.unwrap().len(), 1);
        assert_eq!(store.verdicts_of_account(&bob, 10).await.unwrap(), []);
    }
}
