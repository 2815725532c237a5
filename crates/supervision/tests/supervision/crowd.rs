//! One teller per account, over a ledger that plays the store: an account's row changes only by guarded writes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use supervision::{ActorError, ActorSettings, AskError, ChildSpec, Directory, Facts, KeyedActor, Reply, SelfRef};

use crate::world::{Alive, Census, TIME_LIMIT, TestKind, World};

pub type Account = u64;

/// Its teller panics when it is started.
pub const UNSTARTABLE: Account = 666;

/// The start of its teller hangs.
pub const NEVER_STARTED: Account = 667;

const TOLD_TO_PANIC: &str = "told to panic";

/// Suppresses the output of intended panics: a stress test has thousands, each with a backtrace.
pub fn crash_quietly() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload_as_str().is_some_and(|message| message.starts_with(TOLD_TO_PANIC)) {
            loud(panic);
        }
    }));
}

#[derive(Clone, Default)]
pub struct Ledger {
    rows: Arc<Mutex<HashMap<Account, u64>>>,
    pub loads: Arc<AtomicUsize>,
    /// Writes refused because the writer's memory was out of date.
    pub conflicts: Arc<AtomicUsize>,
}

impl Ledger {
    /// With these accounts, at 0.
    pub fn of(accounts: std::ops::Range<Account>) -> Self {
        let ledger = Self::default();
        ledger.rows.lock().unwrap().extend(accounts.map(|account| (account, 0)));
        ledger
    }

    pub async fn load(&self, account: Account) -> Result<Option<(Account, u64)>, &'static str> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let row = self.rows.lock().unwrap().get(&account).map(|&count| (account, count));
        // The row may be stale by the time it arrives.
        tokio::task::yield_now().await;
        Ok(row)
    }

    pub fn total(&self) -> u64 {
        self.rows.lock().unwrap().values().sum()
    }

    fn write(&self, account: Account, from: u64) -> u64 {
        let mut rows = self.rows.lock().unwrap();
        let row = rows.get_mut(&account).unwrap();
        if *row != from {
            self.conflicts.fetch_add(1, Ordering::SeqCst);
        }
        *row += 1;
        *row
    }
}

/// Caches one account's count.
pub struct Teller {
    census: Census,
    ledger: Ledger,
    starts: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
}

/// Every teller is a clone that the family makes: a broken one takes the family down.
impl Clone for Teller {
    fn clone(&self) -> Self {
        assert!(!self.broken.load(Ordering::SeqCst), "told to break");
        let (census, ledger) = (self.census.clone(), self.ledger.clone());
        Self { census, ledger, starts: Arc::clone(&self.starts), broken: Arc::clone(&self.broken) }
    }
}

pub enum Change {
    /// Adds one and returns the new count.
    Add(Reply<u64>),
    /// Like `Add`, and leaves.
    AddAndLeave(Reply<u64>),
    Panic(Reply<u64>),
    Hang(Reply<u64>),
    /// Refuses messages without a reply, but never leaves.
    LeaveAndHang(Reply<u64>),
    /// Adds one after this long.
    AddLate(Duration, Reply<u64>),
    /// Panics after this long.
    PanicLate(Duration, Reply<u64>),
    /// Returns the count without a wait.
    Count(Reply<u64>),
    /// Replies at once, and sends itself `Reminded` twice, the second time after this long.
    Remind(Duration, Reply<u64>),
    /// Sent by the teller to itself: adds one.
    Reminded,
}

pub struct TellerState {
    account: Account,
    count: u64,
    _alive: Alive,
}

impl KeyedActor for Teller {
    type Key = Account;
    type Subject = String;
    type Message = Change;
    type Arguments = (Account, u64);
    type State = TellerState;

    fn subject((account, _): &(Account, u64)) -> String {
        format!("account {account}")
    }

    fn facts(state: &TellerState) -> Facts {
        vec![("count", state.count.to_string())]
    }

    async fn start(
        &self,
        _myself: &SelfRef<Self>,
        (account, count): (Account, u64),
    ) -> Result<TellerState, ActorError> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        match account {
            UNSTARTABLE => panic!("told to panic at its start"),
            NEVER_STARTED => std::future::pending().await,
            _ => {}
        }
        Ok(TellerState { account, count, _alive: self.census.born() })
    }

    async fn handle(&self, myself: &SelfRef<Self>, message: Change, state: &mut TellerState) -> Result<(), ActorError> {
        match message {
            Change::Add(reply) => {
                reply.send(self.add(state).await);
            }
            Change::AddAndLeave(reply) => {
                // Leaves before it writes, so that refused messages are early.
                myself.leave();
                reply.send(self.add(state).await);
            }
            Change::Panic(reply) => panic!("{TOLD_TO_PANIC}, with {reply:?} in its hands"),
            Change::Hang(reply) => {
                std::future::pending::<()>().await;
                reply.send(0);
            }
            Change::LeaveAndHang(reply) => {
                drop(reply);
                myself.leave();
                std::future::pending::<()>().await;
            }
            Change::AddLate(time, reply) => {
                tokio::time::sleep(time).await;
                reply.send(self.add(state).await);
            }
            Change::PanicLate(time, reply) => {
                tokio::time::sleep(time).await;
                panic!("{TOLD_TO_PANIC}, with {reply:?} in its hands");
            }
            Change::Count(reply) => {
                reply.send(state.count);
            }
            Change::Remind(time, reply) => {
                myself.send(Change::Reminded);
                myself.send_after(time, || Change::Reminded);
                reply.send(state.count);
            }
            Change::Reminded => {
                self.add(state).await;
            }
        }
        Ok(())
    }
}

impl Teller {
    async fn add(&self, state: &mut TellerState) -> u64 {
        tokio::task::yield_now().await;
        state.count = self.ledger.write(state.account, state.count);
        state.count
    }
}

/// All tellers of a ledger.
#[derive(Clone)]
pub struct Bank {
    pub tellers: Directory<Teller>,
    pub ledger: Ledger,
    starts: Arc<AtomicUsize>,
    /// While set, every start of a teller crashes the family.
    pub broken: Arc<AtomicBool>,
}

impl Bank {
    pub fn new(world: &World, accounts: std::ops::Range<Account>, settings: &ActorSettings) -> (Self, ChildSpec) {
        let tellers = Directory::new(TestKind("teller"), settings);
        let (ledger, starts, broken) = (Ledger::of(accounts), Arc::default(), Arc::default());
        let (its_starts, its_broken) = (Arc::clone(&starts), Arc::clone(&broken));
        let teller = Teller { census: world.census(), ledger: ledger.clone(), starts: its_starts, broken: its_broken };
        let child = tellers.child(teller);
        (Self { tellers, ledger, starts, broken }, child)
    }

    pub async fn ask(
        &self,
        account: Account,
        make: impl FnOnce(Reply<u64>) -> Change,
    ) -> Result<u64, AskError<&'static str>> {
        self.ask_within(account, make, TIME_LIMIT).await
    }

    pub async fn ask_within(
        &self,
        account: Account,
        make: impl FnOnce(Reply<u64>) -> Change,
        deadline: Duration,
    ) -> Result<u64, AskError<&'static str>> {
        self.tellers.ask(&account, || self.ledger.load(account), make, deadline).await
    }

    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    pub fn loads(&self) -> usize {
        self.ledger.loads.load(Ordering::SeqCst)
    }

    pub fn conflicts(&self) -> usize {
        self.ledger.conflicts.load(Ordering::SeqCst)
    }
}
