//! Holding events while transactions of other processes stay open, on PostgreSQL.

use domain::ids::MachineUuid;
use store::held::{ENTRY_BYTES_MIN, HeldOutcome, HeldQuotas, NewHeld, Sender};
use store::pool::{Transaction, query};

use crate::held::new_held;
use crate::world::{World, now};

/// The open transaction of a stopped process.
pub(crate) async fn stranger(world: &World, sql: &'static str, of: &str) -> Transaction {
    let mut transaction = world.second().await.pool().begin().await.unwrap();
    let mut tx = transaction.connection().unwrap();
    query("SET LOCAL idle_in_transaction_session_timeout TO 0").execute(&mut tx).await.unwrap();
    assert!(query(sql).bind(of).execute(&mut tx).await.unwrap() > 0);
    transaction
}

pub(crate) async fn give_up(transaction: Transaction) {
    let refused: Result<(), sqlx::Error> = Err(sqlx::Error::WorkerCrashed);
    transaction.settle(refused, |()| false).await.unwrap_err();
}

fn machine(world: &World) -> Sender {
    Sender::Machine(MachineUuid::from(world.rng.uuid_v7(now())))
}

fn is_held(outcome: &HeldOutcome) -> bool {
    matches!(outcome, HeldOutcome::Held(_))
}

async fn hold(world: &World, new: &[NewHeld]) -> Vec<HeldOutcome> {
    world.store.held_insert(new, &HeldQuotas::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_held_while_the_totals_are_locked_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let sender = machine(&world);
    let first = new_held(&world, sender.clone(), "1", now());
    assert!(is_held(&hold(&world, std::slice::from_ref(&first)).await[0]));
    let lock = stranger(&world, "SELECT 1 FROM held_totals WHERE $1 <> '' FOR UPDATE", "all").await;
    assert!(is_held(&hold(&world, &[new_held(&world, sender.clone(), "2", now())]).await[0]));
    assert!(world.store.held_discard(first.id, now()).await.unwrap());
    assert!(is_held(&hold(&world, &[new_held(&world, machine(&world), "3", now())]).await[0]));
    assert_eq!(world.store.held_bytes().await.unwrap(), 2 * ENTRY_BYTES_MIN);
    give_up(lock).await;
    // Every row counts against the limit.
    let full = HeldQuotas { total_bytes: 3 * ENTRY_BYTES_MIN, sender_percent: 100, ..HeldQuotas::default() };
    let two = [new_held(&world, sender.clone(), "4", now()), new_held(&world, sender, "5", now())];
    let outcomes = world.store.held_insert(&two, &full).await.unwrap();
    assert!(is_held(&outcomes[0]) && matches!(outcomes[1], HeldOutcome::QuotaExceeded { .. }), "{outcomes:?}");
    assert_eq!(world.store.held_bytes().await.unwrap(), 3 * ENTRY_BYTES_MIN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_sender_leaves_its_group_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let (locked, free) = (machine(&world), machine(&world));
    assert!(is_held(&hold(&world, &[new_held(&world, locked.clone(), "1", now())]).await[0]));
    let lock = stranger(&world, "SELECT 1 FROM held_senders WHERE sender = $1 FOR UPDATE", &locked.to_string()).await;
    let group = [
        new_held(&world, locked.clone(), "2", now()),
        new_held(&world, free.clone(), "3", now()),
        new_held(&world, locked, "4", now()),
        new_held(&world, free, "5", now()),
    ];
    let outcomes = hold(&world, &group).await;
    assert_eq!((outcomes[0], outcomes[2]), (HeldOutcome::Busy, HeldOutcome::Busy));
    assert!(is_held(&outcomes[1]) && is_held(&outcomes[3]), "{outcomes:?}");
    assert_eq!(world.store.held_bytes().await.unwrap(), 3 * ENTRY_BYTES_MIN);
    give_up(lock).await;
    let again = hold(&world, &group).await;
    assert!(is_held(&again[0]) && is_held(&again[2]), "{again:?}");
    assert_eq!((again[1], again[3]), (HeldOutcome::AlreadyHeld(group[1].id), HeldOutcome::AlreadyHeld(group[3].id)));
    assert_eq!(world.store.held_bytes().await.unwrap(), 5 * ENTRY_BYTES_MIN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_group_keeps_only_its_own_senders_waiting_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let frozen: Vec<Sender> = (0..12).map(|_| machine(&world)).collect();
    let of_each = |senders: &[Sender], body: &str| -> Vec<NewHeld> {
        senders.iter().map(|sender| new_held(&world, sender.clone(), body, now())).collect()
    };
    assert!(hold(&world, &of_each(&frozen, "1")).await.iter().all(is_held));
    let lock = stranger(&world, "SELECT 1 FROM held_senders WHERE $1 <> '' FOR UPDATE", "all").await;
    let free: Vec<Sender> = (0..6).map(|_| machine(&world)).collect();
    let mut group = of_each(&frozen, "2");
    group.extend(of_each(&free, "2"));
    let outcomes = hold(&world, &group).await;
    let (of_frozen, of_free) = outcomes.split_at(frozen.len());
    assert!(of_frozen.iter().all(|outcome| *outcome == HeldOutcome::Busy), "{outcomes:?}");
    assert!(of_free.iter().all(is_held), "{outcomes:?}");
    give_up(lock).await;
    assert!(hold(&world, &of_each(&frozen, "2")).await.iter().all(is_held));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_a_stranger_begins_keeps_only_itself_waiting_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let (begun, free) = (machine(&world), machine(&world));
    let insertion =
        stranger(&world, "INSERT INTO held_senders (sender, bytes) VALUES ($1, 0)", &begun.to_string()).await;
    let group = [new_held(&world, begun, "1", now()), new_held(&world, free, "2", now())];
    let outcomes = hold(&world, &group).await;
    assert!(outcomes[0] == HeldOutcome::Busy && is_held(&outcomes[1]), "{outcomes:?}");
    give_up(insertion).await;
    assert!(is_held(&hold(&world, &group).await[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_claim_does_not_end_keeps_only_itself_waiting_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let agent = world.registration().await;
    let claim = stranger(
        &world,
        "UPDATE registrations SET changed_at = created_at WHERE CAST(id AS TEXT) = $1",
        &agent.to_string(),
    )
    .await;
    let group =
        [new_held(&world, Sender::Registration(agent), "1", now()), new_held(&world, machine(&world), "2", now())];
    let outcomes = hold(&world, &group).await;
    assert!(outcomes[0] == HeldOutcome::Busy && is_held(&outcomes[1]), "{outcomes:?}");
    give_up(claim).await;
    assert!(is_held(&hold(&world, &group).await[0]));
}
