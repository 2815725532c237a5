//! Copies of the database, and descriptions of it.

use chrono::TimeDelta;
use domain::Clock;
use store::inventory::Inventory;
use store::{Pool, Store, StoreError};

use crate::world::World;
use harness::on_each_database;

on_each_database! {
    async fn everything_is_counted(world: &World) {
        let store = &world.store;
        assert!(store.inventory().await.unwrap().counts().all(|(_, count)| count == 0));
        world.account("ada@example.com").await;
        world.account("bob@example.com").await;
        let Inventory { accounts, computers, memories, .. } = store.inventory().await.unwrap();
        assert_eq!((accounts, computers, memories), (2, 0, 0));
    }

    async fn a_copy_has_committed_rows_and_takes_nothing(world: &World) {
        let store = &world.store;
        world.account("ada@example.com").await;
        let path = world.folder.path().join("copy.db");
        if !store.pool().copy_to(&path).await.unwrap() {
            assert!(store.pool().is_postgres() && !path.exists(), "PostgreSQL has tools of its own");
            return;
        }
        world.account("bob@example.com").await;
        let copy = Store::open_copy(&path).await.unwrap();
        assert_eq!(copy.inventory().await.unwrap().accounts, 1, "what came later is not in it");
        assert_eq!(copy.pool().faults().await.unwrap(), [""; 0]);
        assert!(copy.writable().await.is_err());
        assert!(copy.pool().probe_write().await.is_err());
        copy.close().await;
        let beside = std::fs::read_dir(world.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(beside.filter(|name| name.to_string_lossy().starts_with("copy.db")).eq(["copy.db"]));
        assert!(store.pool().copy_to(&path).await.is_err(), "a copy replaces nothing");
        let nowhere = Store::open_copy(&world.folder.path().join("nowhere.db")).await;
        assert!(matches!(nowhere, Err(StoreError::Open { .. })), "{nowhere:?}");
    }

    async fn the_database_describes_itself(world: &World) {
        let pool = world.store.pool();
        let said = pool.describe().await.unwrap().join(", ");
        let safe = if pool.is_postgres() { "synchronous_commit on" } else { "synchronous full" };
        assert!(said.contains(safe), "{said}");
        assert_eq!(pool.faults().await.unwrap(), [""; 0]);
        let now = pool.now().await.unwrap();
        assert_eq!(now.is_some(), pool.is_postgres());
        let here = Clock::system().now();
        assert!(now.is_none_or(|now| (now - here).abs() < TimeDelta::minutes(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_faults_of_a_file_are_named() {
    let world = World::on_sqlite().await;
    let account = world.account("ada@example.com").await;
    let Pool::Sqlite { file, .. } = world.store.pool() else { unreachable!() };
    file.writer().unwrap().execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM accounts").unwrap();
    let faults = world.store.pool().faults().await.unwrap();
    assert!(faults.iter().any(|fault| fault.contains("rows refer to others")), "{account}: {faults:?}");
}
