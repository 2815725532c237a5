//! Concurrent approve, approve, deny, expire, newer code and polls, on two nodes over one database: one end, one owner.
//!
//! Each round draws the parties' actions, nodes and delays in scheduler turns, runs them concurrently, and compares all
//! responses. `ATTACHE_SOAK=1` plays 100,000 rounds instead of as many as fit into some seconds.

use domain::confirm::ConfirmedVia;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use actors::device::{AnswerError, Extras, Poll};
use chrono::TimeDelta;
use domain::device::{CODE_SECONDS, DeviceState};
use domain::ids::UserAccountId;
use domain::{Clock, Rng};
use harness::postgres::TestDatabase;
use store::account::Person;
use store::device::Approver;
use store::{DatabaseSettings, Store};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::node::{Node, beginning, machine};

/// Concurrent rounds, each with its own nodes and people.
const LANES: u64 = 8;

const ROUNDS_MIN: usize = 200;
const ROUNDS_SOAK: usize = 100_000;
const LASTS: Duration = Duration::from_secs(6);

/// One database, of either kind.
struct Facts {
    settings: DatabaseSettings,
    folder: TempDir,
    _database: Option<TestDatabase>,
}

impl Facts {
    fn new(database: Option<TestDatabase>) -> Self {
        let url = database.as_ref().map(|database| database.url.clone());
        let settings = DatabaseSettings { url, connections_max: 4, ..DatabaseSettings::default() };
        Self { settings, folder: tempfile::tempdir().unwrap(), _database: database }
    }

    async fn open(&self) -> Store {
        Store::open(&self.settings, &self.folder.path().join("attache.db")).await.unwrap()
    }
}

/// Two nodes, a clock that can leap, and people.
struct Lane {
    number: u64,
    nodes: [Arc<Node>; 2],
    store: Store,
    rng: Rng,
    leapt: Arc<AtomicI64>,
    clock: Clock,
    people: Vec<Person>,
}

/// The responses that a party received.
#[derive(Debug)]
enum Told {
    Approved(UserAccountId),
    Denied,
    TooLate,
    /// In order, from one node.
    Polled(Vec<Poll>),
    Nothing,
}

/// The action of one party.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Approve { person: usize },
    Deny { person: usize },
    Poll { times: u64 },
    Expire,
    AskAgain,
}

impl Lane {
    async fn new(number: u64, stores: [Store; 2], seed: u64) -> Self {
        let rng = Rng::seeded(seed);
        let leapt = Arc::new(AtomicI64::new(0));
        let clock = {
            let leapt = Arc::clone(&leapt);
            Clock::from_fn(move || beginning() + TimeDelta::milliseconds(leapt.load(Ordering::SeqCst)))
        };
        let key = stores[0].code_key(&rng).await.unwrap();
        let mut people = Vec::new();
        for name in ["ada", "bob", "cyd", "dan"] {
            let address = format!("{name}{number}@example.com").parse().unwrap();
            people.push(stores[0].person_sign_in(&address, true, beginning(), &rng).await.unwrap());
        }
        let store = stores[0].clone();
        let [one, two] = stores;
        let nodes = [
            Arc::new(Node::start(one, clock.clone(), rng.clone(), key.clone()).await),
            Arc::new(Node::start(two, clock.clone(), rng.clone(), key).await),
        ];
        Self { number, nodes, store, rng, leapt, clock, people }
    }

    fn deeds(&self) -> Vec<Deed> {
        let below = |bound| usize::try_from(self.rng.below(bound)).unwrap();
        let person = || below(self.people.len() as u64);
        let mut deeds: Vec<_> = (0..2 + below(3)).map(|_| Deed::Approve { person: person() }).collect();
        deeds.extend((0..below(3)).map(|_| Deed::Deny { person: person() }));
        deeds.extend((0..2 + below(3)).map(|_| Deed::Poll { times: 1 + self.rng.below(4) }));
        deeds.extend((0..below(2)).map(|_| Deed::Expire));
        deeds.extend((0..below(4) / 3).map(|_| Deed::AskAgain));
        deeds
    }

    /// One round.
    async fn play(&self) {
        let machine = machine(&self.store, &self.rng, self.clock.now()).await;
        let started = Arc::new(self.nodes[0].code(&machine).await);
        let deeds = self.deeds();
        let mut doing = JoinSet::new();
        for deed in deeds.iter().copied() {
            let node = Arc::clone(&self.nodes[usize::try_from(self.rng.below(2)).unwrap()]);
            let (turns, started, machine) = (self.rng.below(12), Arc::clone(&started), machine.clone());
            let (leapt, people) = (Arc::clone(&self.leapt), self.people.clone());
            doing.spawn(async move {
                turns_pass(turns).await;
                let by = |person: usize| Approver { person: people[person].id, via: ConfirmedVia::Session };
                match deed {
                    Deed::Approve { person } => {
                        match node.devices.approve(&started.user_code, by(person), Extras::default()).await.unwrap() {
                            Ok(approved) => {
                                assert_eq!(Some(&approved.account), people[person].account.as_ref());
                                Told::Approved(approved.account)
                            }
                            Err(AnswerError::CodeConsumed) => Told::TooLate,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    Deed::Deny { person } => match node.devices.deny(&started.user_code, by(person)).await.unwrap() {
                        Ok(()) => Told::Denied,
                        Err(AnswerError::CodeConsumed) => Told::TooLate,
                        Err(other) => panic!("{other:?}"),
                    },
                    Deed::Poll { times } => {
                        let mut polls = Vec::new();
                        for _ in 0..times {
                            polls.push(node.devices.poll(&started.device_code).await.unwrap());
                            turns_pass(turns).await;
                        }
                        Told::Polled(polls)
                    }
                    Deed::Expire => {
                        leapt.fetch_add(CODE_SECONDS * 1000, Ordering::SeqCst);
                        Told::Nothing
                    }
                    Deed::AskAgain => {
                        node.code(&machine).await;
                        Told::Nothing
                    }
                }
            });
        }
        let told = doing.join_all().await;
        let words = format!("lane {}, {deeds:?} led to {told:?}", self.number);

        // As the change feed of each node does within a second.
        let code = started.device_code.hash();
        let mut last = Vec::new();
        for node in &self.nodes {
            node.devices.hint(code);
            last.push(node.devices.poll(&started.device_code).await.unwrap());
        }
        // The second node may have found first that the code has expired.
        let end = self.store.device_by_code(&code).await.unwrap().unwrap().state;
        let owner = self.store.machine_facts(machine.machine_uuid).await.unwrap().unwrap().facts.account;
        let linked = self.store.identity(&machine.user_cuid).await.unwrap().unwrap().account;
        let approved: Vec<_> = told
            .iter()
            .filter_map(|told| match told {
                Told::Approved(account) => Some(account.clone()),
                _ => None,
            })
            .collect();
        let denied = told.iter().filter(|told| matches!(told, Told::Denied)).count();

        // One end, one owner, one success, and every party receives the same result.
        let (poll, approvals, denials) = match &end {
            DeviceState::Claimed { account, .. } => (Some(Poll::Claimed(account.clone())), vec![account.clone()], 0),
            DeviceState::Denied => (Some(Poll::Denied), vec![], 1),
            DeviceState::Expired | DeviceState::Superseded => (Some(Poll::Expired), vec![], 0),
            DeviceState::Pending => (None, vec![], 0),
        };
        assert_eq!(approved, approvals, "{end:?}: {words}");
        assert_eq!(denied, denials, "{end:?}: {words}");
        assert_eq!(owner.as_ref(), approvals.first(), "{end:?}: {words}");
        assert_eq!(linked, owner, "{end:?}: {words}");
        let waits = |poll: &Poll| matches!(poll, Poll::Pending | Poll::SlowDown { .. });
        let right = |told: &Poll| poll.as_ref().map_or_else(|| waits(told), |end| told == end);
        assert!(last.iter().all(right), "{end:?}, {last:?}: {words}");
        for told in &told {
            let Told::Polled(polls) = told else { continue };
            let ends = polls.iter().skip_while(|poll| waits(poll));
            assert!(ends.clone().all(right), "{end:?}: {words}");
        }
    }

    async fn end(self) {
        for node in self.nodes {
            Arc::into_inner(node).unwrap().end().await;
        }
    }
}

async fn turns_pass(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Runs the rounds on the given databases.
async fn one_end_and_one_owner(databases: Vec<Facts>) {
    let soak = std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1");
    let played = Arc::new(AtomicUsize::new(0));
    let started_at = Instant::now();
    for facts in &databases {
        facts.open().await.migrate().await.unwrap();
    }
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        let facts = &databases[usize::try_from(number).unwrap() % databases.len()];
        let store = facts.open().await;
        // Nodes have separate connections. With database files that is slow, so there half of the lanes share one store.
        let apart = databases.len() == 1 || number % 2 == 0;
        let other = if apart { facts.open().await } else { store.clone() };
        let lane = Lane::new(number, [store, other], 1 + number).await;
        let played = Arc::clone(&played);
        lanes.spawn(async move {
            loop {
                let rounds = played.fetch_add(1, Ordering::SeqCst);
                let enough =
                    if soak { rounds >= ROUNDS_SOAK } else { rounds >= ROUNDS_MIN && started_at.elapsed() >= LASTS };
                if enough {
                    break;
                }
                lane.play().await;
            }
            lane.end().await;
        });
    }
    lanes.join_all().await;
    println!("{} rounds", played.load(Ordering::SeqCst) - usize::try_from(LANES).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    // A database file has one writer at a time, so each lane has its own file.
    one_end_and_one_owner((0..LANES).map(|_| Facts::new(None)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    let Some(database) = harness::postgres::database().await else { return };
    one_end_and_one_owner(vec![Facts::new(Some(database))]).await;
}
