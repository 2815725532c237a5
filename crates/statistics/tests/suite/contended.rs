//! Chains that other processes use at the same moment, on PostgreSQL.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::Clock;
use domain::ids::ReceiptId;
use harness::statements::Relay;
use serde_json::Value;
use statistics::log::{Append, AppendOutcome, AppendReply, ContendedEvents, Log, LogError};
use store::pool::Transaction;
use store::{DatabaseSettings, Pool, pool::query};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::world::{Chain, ORIGIN, World};

/// Longer than any pause or lock of the log, on a slow machine too.
const TIME_LIMIT: Duration = Duration::from_secs(20);

type Answer = (usize, Result<AppendOutcome, Arc<LogError>>);

/// Submits events, like the actor in front of the log. Each answer arrives with the index of its event.
async fn submit(log: &Log, events: Vec<Append>) -> (Option<ContendedEvents>, UnboundedReceiver<Answer>) {
    let (sender, answers) = unbounded_channel();
    let with_answer = |(place, event): (usize, Append)| {
        let sender = sender.clone();
        let answer: AppendReply = Box::new(move |outcome| drop(sender.send((place, outcome))));
        (event, answer)
    };
    let contended = log.submit(events.into_iter().enumerate().map(with_answer).collect()).await;
    (contended, answers)
}

async fn answer(answers: &mut UnboundedReceiver<Answer>) -> (usize, AppendOutcome) {
    let (place, outcome) = tokio::time::timeout(TIME_LIMIT, answers.recv()).await.unwrap().unwrap();
    (place, outcome.unwrap())
}

fn receipt(outcome: &AppendOutcome) -> ReceiptId {
    let AppendOutcome::Receipt(receipt) = outcome else { panic!("{outcome:?}") };
    *receipt
}

fn receipted(outcome: &AppendOutcome) {
    receipt(outcome);
}

/// The open transaction of a stopped process.
async fn stranger(pool: &Pool, sql: &'static str, chain: &Chain) -> Transaction {
    let mut transaction = pool.begin().await.unwrap();
    let machine: uuid::Uuid = chain.recorder().machine.as_uuid();
    let mut tx = transaction.connection().unwrap();
    query("SET LOCAL idle_in_transaction_session_timeout TO 0").execute(&mut tx).await.unwrap();
    query(sql).bind(machine).execute(&mut tx).await.unwrap();
    transaction
}

const LOCK: &str = "SELECT 1 FROM chain_heads WHERE machine_id = $1 FOR UPDATE";

/// Inserts the head of a chain; all events of these tests have this agent.
const BEGIN: &str = "INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
    VALUES ($1, 'svc-cli', 0, 0, '', $1, 1)";

async fn give_up(transaction: Transaction) {
    let refused: Result<(), sqlx::Error> = Err(sqlx::Error::WorkerCrashed);
    transaction.settle(refused, |()| false).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_chain_leaves_its_group_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let (mut locked, mut free, mut new) = (Chain::new(&world), Chain::new(&world), Chain::new(&world));
    for chain in [&mut locked, &mut free] {
        receipt(&world.take(&chain.next()).await);
    }
    let lock = stranger(&world.pool().await, LOCK, &locked).await;
    let waiting = locked.next();
    let events = [&waiting, &free.next(), &new.next()].map(|event| world.append(event));
    let (contended, mut answers) = submit(&world.log, events.to_vec()).await;
    let contended = contended.expect("the locked chain is not settled");
    for place in [1, 2] {
        let (answered, outcome) = answer(&mut answers).await;
        assert_eq!(answered, place);
        receipt(&outcome);
    }
    answers.try_recv().unwrap_err();

    // The next group does not wait, and no event of the chain overtakes the waiting one.
    let events = [&locked.clone().next(), &free.next()].map(|event| world.append(event));
    let (further, mut others) = submit(&world.log, events.to_vec()).await;
    assert!(further.is_none());
    assert_eq!(answer(&mut others).await, (0, AppendOutcome::Busy));
    receipt(&answer(&mut others).await.1);

    // The lock outlasts the time limit of the log and is then released.
    contended.settle().await;
    assert_eq!(answer(&mut answers).await, (0, AppendOutcome::Busy));
    assert_eq!(world.take(&waiting).await, AppendOutcome::Busy);
    give_up(lock).await;
    receipt(&world.take(&waiting).await);
    receipt(&world.take(&locked.next()).await);
    let audited = world.log.audit().await.unwrap();
    assert_eq!((audited.events, audited.chains), (7, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_ends_soon_costs_no_refusal_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let mut chain = Chain::new(&world);
    receipt(&world.take(&chain.next()).await);
    let lock = stranger(&world.pool().await, LOCK, &chain).await;
    let (contended, mut answers) = submit(&world.log, vec![world.append(&chain.next())]).await;
    let contended = contended.unwrap();
    give_up(lock).await;
    contended.settle().await;
    receipt(&answer(&mut answers).await.1);
    receipt(&world.take(&chain.next()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_that_a_stranger_begins_keeps_only_itself_waiting_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let (mut begun, mut free, mut new) = (Chain::new(&world), Chain::new(&world), Chain::new(&world));
    receipt(&world.take(&free.next()).await);
    let first = begun.next();
    let insertion = stranger(&world.pool().await, BEGIN, &begun).await;
    let events = [&first, &free.next(), &new.next()].map(|event| world.append(event));
    let (contended, mut answers) = submit(&world.log, events.to_vec()).await;
    contended.unwrap().settle().await;
    let mut outcomes = [answer(&mut answers).await, answer(&mut answers).await, answer(&mut answers).await];
    outcomes.sort_by_key(|(place, _)| *place);
    assert_eq!(outcomes[0].1, AppendOutcome::Busy);
    receipt(&outcomes[1].1);
    receipt(&outcomes[2].1);
    give_up(insertion).await;
    receipt(&world.take(&first).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_id_in_two_chains_of_a_group_is_one_event_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let (mut one, mut two) = (Chain::new(&world), Chain::new(&world));
    let first = one.next();
    let id = first["event_id"].clone();
    let same = two.clone().next_with(|event| event["event_id"] = id);
    let group = [&first, &same, &one.next()].map(|event| world.append(event));
    let outcomes = world.log.append(&group).await.unwrap();
    receipt(&outcomes[0]);
    assert_eq!(outcomes[1], AppendOutcome::EventIdConflict);
    receipt(&outcomes[2]);
    receipt(&world.take(&two.next()).await);
    // The heads are in memory now, and the ids are not.
    let taken = two.next_with(|event| event["event_id"] = first["event_id"].clone());
    assert_eq!(world.take(&taken).await, AppendOutcome::EventIdConflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_in_memory_that_are_not_those_of_the_database_are_not_believed_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let mut chain = Chain::new(&world);
    receipt(&world.take(&chain.next()).await);
    // A restored database may have another head with the same number of moves.
    let pool = world.pool().await;
    query("UPDATE chain_heads SET self = $1").bind(vec![7_u8; 32]).execute(pool.writer()).await.unwrap();
    let AppendOutcome::Refused { refusal, .. } = world.take(&chain.next()).await else { panic!() };
    assert!(matches!(refusal, domain::chain::ChainRefusal::Broken { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_one_statement_and_two_for_a_process_that_has_just_begun_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let mut chains: Vec<Chain> = (0..5).map(|_| Chain::new(&world)).collect();
    let mut group = || -> Vec<Append> {
        let twice: Vec<Value> = chains.iter_mut().flat_map(|chain| [chain.next(), chain.next()]).collect();
        twice.iter().map(|event| world.append(event)).collect()
    };
    world.log.append(&group()).await.unwrap().iter().for_each(receipted);
    let relay = Relay::to(world.url()).await;
    let log = world.another_at(&relay.url).await;
    log.standing().await.unwrap();
    assert!(!relay.take().is_empty(), "the relay sees how the log is opened");
    for (statements, what) in [(2, "heads and sources that are in the database"), (1, "known"), (1, "known")] {
        log.append(&group()).await.unwrap().iter().for_each(receipted);
        let executed = relay.take();
        assert_eq!(executed.len(), statements, "{what}: {executed:?}");
    }
    // New computers cost one more statement.
    let mut new: Vec<Chain> = (0..5).map(|_| Chain::new(&world)).collect();
    for statements in [3, 1] {
        let events: Vec<Append> = new.iter_mut().map(|chain| world.append(&chain.next())).collect();
        log.append(&events).await.unwrap().iter().for_each(receipted);
        let executed = relay.take();
        assert_eq!(executed.len(), statements, "{executed:?}");
    }
    // A resent event is looked up.
    let last = world.append(&chains[0].clone().next());
    for statements in [1, 1] {
        receipt(&log.append(std::slice::from_ref(&last)).await.unwrap()[0]);
        assert_eq!(relay.take().len(), statements);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_append_to_the_same_chains_lose_nothing_on_postgres() {
    const CHAINS: usize = 4;
    const EVENTS: usize = 25;
    let Some(world) = World::on_postgres().await else { return };
    let chains: Vec<Vec<Value>> = (0..CHAINS)
        .map(|_| {
            let mut chain = Chain::new(&world);
            (0..EVENTS).map(|_| chain.next()).collect()
        })
        .collect();
    let logs = [world.another(ORIGIN).await.unwrap(), world.another(ORIGIN).await.unwrap()];
    let senders = logs.iter().enumerate().map(|(number, log)| {
        let chains = &chains;
        let world = &world;
        async move {
            let mut next = [0; CHAINS];
            let mut receipts = vec![Vec::new(); CHAINS];
            while next.iter().any(|next| *next < EVENTS) {
                // Two events of each chain, in another order in each process; an event is sent again until it gets a receipt.
                let mut group = Vec::new();
                for place in 0..CHAINS {
                    let chain = (place + number) % CHAINS;
                    let events = chains[chain].iter().skip(next[chain]).take(2);
                    group.extend(events.map(|event| (chain, world.append(event))));
                }
                let (of, events): (Vec<usize>, Vec<Append>) = group.into_iter().unzip();
                for (chain, outcome) in of.into_iter().zip(log.append(&events).await.unwrap()) {
                    match outcome {
                        AppendOutcome::Receipt(receipt) => {
                            next[chain] += 1;
                            receipts[chain].push(receipt);
                        }
                        AppendOutcome::Busy => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
            receipts
        }
    });
    let all = futures_util::future::join_all(senders).await;
    assert_eq!(all[0], all[1], "one event, one receipt");
    while world.log.sequence(1000).await.unwrap().added > 0 {}
    let audited = world.log.audit().await.unwrap();
    let count = (CHAINS * EVENTS) as u64;
    assert_eq!((audited.events, audited.chains, audited.checkpoint.size), (count, CHAINS as u64, count));
}

/// For an array argument of `unnest` the planner sees the length, and plans short arrays again at each call, which is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_with_arrays_are_not_planned_again_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    // One connection, so that all plans belong to it.
    let settings = DatabaseSettings { url: Some(world.url().to_owned()), connections_max: 1, ..Default::default() };
    let pool = Pool::open(&settings, Path::new(""), Some("statistics")).await.unwrap();
    let log = Log::open(pool.clone(), ORIGIN, &Clock::system(), &world.rng).await.unwrap();
    let mut chains: Vec<Chain> = (0..3).map(|_| Chain::new(&world)).collect();
    for round in 0..30 {
        let some = chains.iter_mut().take(1 + round % 3);
        let mut events: Vec<Append> = some.map(|chain| world.append(&chain.next())).collect();
        if round % 4 == 3 {
            // The first event of a computer is read and adds a source.
            events.push(world.append(&Chain::new(&world).next()));
        }
        chains.rotate_left(1);
        log.append(&events).await.unwrap().iter().for_each(receipted);
        log.sequence(100).await.unwrap();
    }
    let sql = "SELECT left(statement, 60), generic_plans, custom_plans FROM pg_prepared_statements
        WHERE statement LIKE '%unnest(%' AND statement NOT LIKE '%pg_prepared%'";
    let plans: Vec<(String, i64, i64)> = query(sql).fetch_all(&pool).await.unwrap();
    assert_eq!(plans.len(), 5, "{plans:?}");
    for (statement, generic, custom) in &plans {
        // A server tries five custom plans before it keeps a generic one.
        assert!(*generic > 0 && *custom <= 5, "{statement}: {generic} calls with the kept plan, {custom} with others");
    }
}
