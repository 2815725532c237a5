//! Transactions that lock the same rows in another order, on PostgreSQL: a deadlock would end one of them.

use std::time::Duration;

use domain::Rng;
use domain::confirm::ConfirmedVia;
use domain::consent::ConsentLevel;
use domain::mail::OutgoingMail;
use store::account::Provision;
use store::device::{Agreed, Approver, AttachedDevice};
use store::mail::QueuedMail;
use store::pool::{query, scalar};

use crate::held_beside::{give_up, stranger};
use crate::world::{World, at, email, now};

/// Waits until a transaction waits for a lock. Panics if `beside` ends before.
async fn waits_for_a_lock<T>(world: &World, beside: &tokio::task::JoinHandle<T>) {
    const WAITING: &str = "SELECT COUNT(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        assert!(!beside.is_finished(), "it waited for nothing");
        let waiting: i64 = scalar(WAITING).fetch_one(world.store.pool()).await.unwrap();
        if waiting > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_takes_over_an_account_waits_for_its_levels_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let person = world.store.person_sign_in(&email("ada@example.com"), false, now(), &world.rng).await.unwrap();
    let code = crate::devices::code_of_new_computer(&world).await;
    let provision = world.store.account_provision(Some(&code.identity), None, None, now(), &world.rng).await.unwrap();
    let Provision::Created(account) = provision else { panic!("{provision:?}") };
    let change = stranger(&world, "UPDATE accounts SET plan = plan WHERE user_account_id = $1", account.as_str()).await;
    let store = world.store.clone();
    let approval = tokio::spawn(async move {
        let notice = |attached: &AttachedDevice| {
            let mail = OutgoingMail { to: attached.owner.clone(), subject: "attached".into(), text: "attached".into() };
            QueuedMail { id: Rng::system().uuid_v7(at(1)).into(), mail }
        };
        let by = Approver { person: person.id, via: ConfirmedVia::Session };
        let agreed = Agreed { consent: Some(ConsentLevel::Off), ..Agreed::default() };
        store.device_approve(&code, &by, agreed, notice, at(1), &Rng::system()).await.unwrap()
    });
    waits_for_a_lock(&world, &approval).await;
    give_up(change).await;
    assert_eq!(approval.await.unwrap(), Ok(account));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_an_account_waits_for_its_agents_before_it_locks_the_person_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let (agent, claim) = world.claimed("ada@example.com").await;
    let mut approval =
        stranger(&world, "UPDATE registrations SET id = id WHERE id = CAST($1 AS uuid)", &agent.to_string()).await;
    let (store, closed) = (world.store.clone(), claim.account.clone());
    let closing = tokio::spawn(async move { store.account_close(&closed, None, at(1)).await.unwrap() });
    waits_for_a_lock(&world, &closing).await;
    let person = query("UPDATE persons SET id = id WHERE account_id = $1").bind(claim.account.as_str());
    let updated = person.execute(&mut approval.connection().unwrap()).await.unwrap();
    assert_eq!(updated, 1, "the person is not locked yet");
    give_up(approval).await;
    assert!(closing.await.unwrap());
}
