//! The installation, and the remembered checkpoint of its log.

use domain::ids::InstallationId;
use domain::log_part::LogPart;
use store::installation::RememberedLog;
use store::usage::UsageDay;

use crate::world::{World, now};
use harness::on_each_database;

fn log(vkey: &str, size: u64) -> RememberedLog {
    RememberedLog { vkey: vkey.to_owned(), checkpoint: format!("attache/log\n{size}\n"), size }
}

on_each_database! {
    async fn the_first_process_gives_the_installation_its_id(world: &World) {
        let store = &world.store;
        assert!(!store.pool().is_empty().await.unwrap());
        assert_eq!(store.installation().await.unwrap(), None);
        let (one, two): (InstallationId, InstallationId) =
            (world.rng.uuid_v7(now()).into(), world.rng.uuid_v7(now()).into());
        assert_eq!(store.installation_begin(one).await.unwrap().id, one);
        let installation = store.installation_begin(two).await.unwrap();
        assert_eq!((installation.id, installation.log.as_ref()), (one, None));
        assert_eq!(store.installation().await.unwrap(), Some(installation));
    }

    async fn only_a_larger_checkpoint_of_the_same_key_is_remembered(world: &World) {
        let store = &world.store;
        let now = now();
        assert!(!store.log_remember(LogPart::FIRST, &log("a", 1), now).await.unwrap(), "there is no installation yet");
        store.installation_begin(world.rng.uuid_v7(now).into()).await.unwrap();
        for (vkey, size, is_taken) in
            [("a", 0, true), ("a", 7, true), ("a", 7, false), ("a", 3, false), ("b", 9, false), ("a", 8, true)]
        {
            assert_eq!(store.log_remember(LogPart::FIRST, &log(vkey, size), now).await.unwrap(), is_taken, "{vkey} {size}");
        }
        assert_eq!(store.installation().await.unwrap().unwrap().log, Some(log("a", 8)));
    }

    async fn a_new_log_replaces_the_remembered_one_and_usage_is_not_counted_beyond_it(world: &World) {
        let store = &world.store;
        let now = now();
        store.installation_begin(world.rng.uuid_v7(now).into()).await.unwrap();
        store.log_remember(LogPart::FIRST, &log("a", 9), now).await.unwrap();
        let counted = store.usage_counted(LogPart::FIRST).await.unwrap();
        let days: [UsageDay; 0] = [];
        assert!(store.usage_count(LogPart::FIRST, counted, 9, &days).await.unwrap());
        store.log_begin_epoch(LogPart::FIRST, &log("b", 4), now).await.unwrap();
        assert_eq!(store.installation().await.unwrap().unwrap().log, Some(log("b", 4)));
        assert_eq!(store.usage_counted(LogPart::FIRST).await.unwrap(), 4);
        store.log_begin_epoch(LogPart::FIRST, &log("c", 6), now).await.unwrap();
        assert_eq!(store.usage_counted(LogPart::FIRST).await.unwrap(), 4);
    }

    async fn a_database_that_is_set_aside_leaves_its_place_empty(world: &World) {
        world.without_log().await;
        let name = world.store.pool().clone().set_aside("public", "20260101T000000Z").await.unwrap();
        assert!(name.contains("20260101"), "{name}");
        if world.store.pool().is_postgres() {
            assert!(world.second().await.pool().is_empty().await.unwrap());
        } else {
            assert!(!world.path().exists());
            let aside = world.folder.path().join("attache-20260101T000000Z.db");
            assert_eq!(name, aside.display().to_string());
            let copy = store::Store::open_copy(&aside).await.unwrap();
            assert!(!copy.pool().is_empty().await.unwrap(), "it is whole");
        }
    }
}
