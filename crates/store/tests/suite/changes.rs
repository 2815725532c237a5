//! Hints to other processes (PostgreSQL).

use std::time::Duration;

use chrono::TimeDelta;
use domain::secret::SecretHash;
use store::change::{Change, ChangeListener};
use store::{DatabaseSettings, Store};

use crate::world::{World, at, now};

/// The next hint; fails after half a minute.
async fn next(listener: &mut ChangeListener) -> Change {
    tokio::time::timeout(Duration::from_secs(30), listener.next()).await.unwrap().unwrap()
}

/// The claim token of the registration that changed last.
async fn claim_token(store: &Store) -> SecretHash {
    store.registrations_changed_since(now(), 10).await.unwrap().last().unwrap().0
}

#[tokio::test]
async fn a_change_is_announced_when_it_is_committed() {
    let Some(world) = World::on_postgres().await else { return };
    let other = world.second().await;
    let mut listener = other.changes_listen().await.unwrap().unwrap();
    listener.check().await.unwrap();
    let id = world.registration().await;
    let token = claim_token(&world.store).await;
    let attempt = world.new_attempt(id, now());
    world.store.attempt_start(&attempt, 10, TimeDelta::hours(1), now()).await.unwrap();
    assert_eq!(next(&mut listener).await, Change::Registration(token));
    world.store.attempt_wrong_code(&attempt.token, 5, now()).await.unwrap();
    assert_eq!(next(&mut listener).await, Change::Registration(token));
    // No try was counted, so no change is announced: the next hint is the revocation.
    assert_eq!(world.store.attempt_wrong_code(&world.secret(), 5, now()).await.unwrap(), None);
    assert!(world.store.registration_revoke(id, None, at(1)).await.unwrap());
    assert_eq!(next(&mut listener).await, Change::Others);
}

#[tokio::test]
async fn a_lost_connection_is_an_error_and_another_listens() {
    let Some(world) = World::on_postgres().await else { return };
    let mut listener = world.store.changes_listen().await.unwrap().unwrap();
    world
        .tamper("DO $$ BEGIN PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database(); END $$")
        .await;
    let lost = tokio::time::timeout(Duration::from_secs(30), listener.next()).await.unwrap();
    assert!(lost.is_err(), "{lost:?}");
    drop(listener);
    let mut listener = world.store.changes_listen().await.unwrap().unwrap();
    assert!(world.store.registration_revoke(world.registration().await, None, at(1)).await.unwrap());
    assert_eq!(next(&mut listener).await, Change::Others);
}

#[tokio::test]
async fn nothing_is_announced_where_nothing_can_listen() {
    assert!(World::on_sqlite().await.store.changes_listen().await.unwrap().is_none());
    let Some(world) = World::on_postgres().await else { return };
    let mut listener = world.store.changes_listen().await.unwrap().unwrap();
    let settings = DatabaseSettings { notify: false, ..world.settings.clone() };
    let silent = Store::open(&settings, &world.path()).await.unwrap();
    assert!(silent.changes_listen().await.unwrap().is_none());
    assert!(silent.registration_revoke(world.registration().await, None, at(1)).await.unwrap());
    let attempt = world.new_attempt(world.registration().await, now());
    world.store.attempt_start(&attempt, 10, TimeDelta::hours(1), now()).await.unwrap();
    assert!(matches!(next(&mut listener).await, Change::Registration(_)), "the hint of the other store alone");
    let single = DatabaseSettings { connections_max: 1, ..world.settings.clone() };
    let single = Store::open(&single, &world.path()).await.unwrap();
    assert!(single.changes_listen().await.unwrap().is_none(), "requests need its connection");
}
