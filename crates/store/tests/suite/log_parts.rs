//! Further parts of the log, as the main database remembers them.

use domain::log_part::LogPart;
use store::installation::RememberedLog;
use store::machine::{NewMachine, Register};
use store::pool::{query, scalar};
use store::usage::UsageDay;

use crate::world::{World, now};
use harness::on_each_database;

const FURTHER: LogPart = LogPart::new(3);

fn log(vkey: &str, size: u64) -> RememberedLog {
    RememberedLog { vkey: vkey.to_owned(), checkpoint: format!("attache/log/p3\n{size}\n"), size }
}

on_each_database! {
    async fn a_further_part_has_its_own_checkpoint_and_cursor(world: &World) {
        let store = &world.store;
        store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
        assert!(!store.log_remember(FURTHER, &log("a", 1), now()).await.unwrap(), "it is not open yet");
        for _ in 0..2 {
            store.log_part_open(FURTHER, "attache/log/p3", now()).await.unwrap();
        }
        for (size, is_taken) in [(4, true), (4, false), (3, false), (9, true)] {
            assert_eq!(store.log_remember(FURTHER, &log("a", size), now()).await.unwrap(), is_taken, "{size}");
        }
        assert!(!store.log_remember(FURTHER, &log("b", 20), now()).await.unwrap(), "another key");
        assert_eq!(store.log_remembered(FURTHER).await.unwrap(), Some(log("a", 9)));
        assert_eq!(store.log_remembered(LogPart::FIRST).await.unwrap(), None);

        let days: [UsageDay; 0] = [];
        assert!(store.usage_count(FURTHER, 0, 7, &days).await.unwrap());
        assert!(!store.usage_count(FURTHER, 0, 8, &days).await.unwrap(), "another process has counted");
        let counted = [store.usage_counted(FURTHER).await.unwrap(), store.usage_counted(LogPart::FIRST).await.unwrap()];
        assert_eq!(counted, [7, 0]);
        store.log_begin_epoch(FURTHER, &log("c", 5), now()).await.unwrap();
        assert_eq!(store.usage_counted(FURTHER).await.unwrap(), 5, "the new log has fewer leaves");
        let parts = store.log_parts().await.unwrap();
        let found: Vec<_> = parts.iter().map(|part| (part.part, part.origin.as_str(), part.log.clone())).collect();
        assert_eq!(found, [(FURTHER, "attache/log/p3", Some(log("c", 5)))]);
    }

    async fn rules_read_a_smaller_log_of_another_epoch_from_its_end_on(world: &World) {
        const PLACES: &str = "SELECT c.place, p.rule_place FROM rule_cursor c, log_parts p WHERE p.log_part = 3";
        let store = &world.store;
        store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
        store.log_part_open(FURTHER, "attache/log/p3", now()).await.unwrap();
        for sql in ["UPDATE rule_cursor SET place = 9", "UPDATE log_parts SET rule_place = 8"] {
            query(sql).execute(store.pool().writer()).await.unwrap();
        }
        let places = async || -> (i64, i64) { query(PLACES).fetch_optional(store.pool()).await.unwrap().unwrap() };
        store.log_begin_epoch(FURTHER, &log("c", 5), now()).await.unwrap();
        assert_eq!(places().await, (9, 5));
        store.log_begin_epoch(LogPart::FIRST, &log("d", 7), now()).await.unwrap();
        assert_eq!(places().await, (7, 5));
        store.log_begin_epoch(LogPart::FIRST, &log("e", 20), now()).await.unwrap();
        assert_eq!(places().await, (7, 5), "a larger log is read where the reader stopped");
    }

    async fn servers_without_parts_may_use_the_tables_until_a_part_is_open(world: &World) {
        const NAME: &str = "SELECT description FROM _sqlx_migrations WHERE version = 2";
        let name = async || -> String { scalar(NAME).fetch_one(world.store.pool()).await.unwrap() };
        assert_eq!(name().await, "log parts for servers from 0001");
        world.store.log_part_open(FURTHER, "attache/log/p3", now()).await.unwrap();
        assert_eq!(name().await, "log parts");
        world.store.migrate().await.unwrap();
    }

    async fn a_computer_keeps_its_part_when_it_is_removed_and_registers_again(world: &World) {
        let store = &world.store;
        let (machine_uuid, user_cuid) = (world.rng.uuid_v7(now()).into(), world.cuid());
        let register = async |part| {
            let secret = world.secret();
            let new = NewMachine { machine_uuid, user_cuid: &user_cuid, name: None, secret, part };
            assert_eq!(store.machine_register(&new, now()).await.unwrap(), Register::Registered);
            store.machine_by_secret(&secret).await.unwrap().unwrap().facts.part
        };
        assert_eq!(register(FURTHER).await, FURTHER);
        let ada = world.account("ada@example.com").await;
        store.machine_attach(machine_uuid, &ada, now(), &world.rng).await.unwrap().unwrap();
        assert_eq!(store.recorders_of_account(&ada).await.unwrap().parts, [FURTHER].into());
        assert!(store.machine_remove(machine_uuid, now()).await.unwrap());
        assert_eq!(store.recorders_of_account(&ada).await.unwrap().parts, [FURTHER].into());
        assert_eq!(register(LogPart::FIRST).await, FURTHER, "its earlier events are there");
    }
}
