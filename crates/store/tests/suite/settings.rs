//! Overrides of live settings.

use serde_json::json;
use store::setting::{OverrideSet, SettingOverride};

use crate::world::{World, at, now};
use harness::on_each_database;

fn wanted(path: &str, node: Option<&str>, value: i64, until: Option<i64>) -> SettingOverride {
    SettingOverride {
        path: path.into(),
        node: node.map(Into::into),
        value: json!(value),
        until: until.map(at),
        set_by: "shell:1000".into(),
    }
}

on_each_database! {
    async fn an_override_is_in_force_until_it_ends_and_is_replaced_on_request_only(world: &World) {
        let store = &world.store;
        let (first, second) = (wanted("a.b", None, 1, Some(60)), wanted("a.b", None, 2, None));
        assert_eq!(store.setting_override(&first, false, now()).await.unwrap(), OverrideSet::Set);
        assert_eq!(store.setting_override(&second, false, at(59)).await.unwrap(), OverrideSet::Taken(first.clone()));
        // An override of one node is separate from the override of all nodes, and follows it in the list.
        let of_node = wanted("a.b", Some("node-2"), 3, Some(90));
        assert_eq!(store.setting_override(&of_node, false, now()).await.unwrap(), OverrideSet::Set);
        assert_eq!(store.setting_overrides(at(59)).await.unwrap(), [first, of_node.clone()]);
        assert_eq!(store.setting_overrides(at(60)).await.unwrap(), [of_node]);
        // An override that has ended is replaced.
        assert_eq!(store.setting_override(&second, false, at(60)).await.unwrap(), OverrideSet::Set);
        let third = wanted("a.b", None, 4, Some(200));
        assert_eq!(store.setting_override(&third, true, at(61)).await.unwrap(), OverrideSet::Set);
        assert_eq!(store.setting_overrides(at(100)).await.unwrap(), std::slice::from_ref(&third));
        assert!(!store.setting_override_end("a.b", Some("node-3"), at(100)).await.unwrap());
        assert!(store.setting_override_end("a.b", None, at(100)).await.unwrap());
        assert!(!store.setting_override_end("a.b", None, at(100)).await.unwrap());
        assert_eq!(store.setting_overrides(at(100)).await.unwrap(), []);
    }

    async fn of_operators_at_once_one_overrides(world: &World) {
        world.store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
        let second = world.second().await;
        let mut setting = tokio::task::JoinSet::new();
        for round in 0..6 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            setting.spawn(async move {
                store.setting_override(&wanted("a.b", None, round, None), false, now()).await.unwrap() == OverrideSet::Set
            });
        }
        assert_eq!(setting.join_all().await.into_iter().filter(|set| *set).count(), 1);
    }
}
