//! Tasks that wait for places shared fairly by accounts (`docs/decisions/0034-fair-shares.md`). [`domain::fair`] decides who is next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::fair::{FairLimits, FairQueue, FairRefusal, FairTicket, SlowTurns, Speed};
use domain::ids::UserAccountId;
use domain::live::Live;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// Places that accounts share. Clones share them.
#[derive(Debug, Clone)]
pub struct FairPlaces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<Sharing>,
    /// Duration of a turn after which the next turns of its account are expected to be slow.
    slow_after: Duration,
    /// Duration after which a turn ends if others wait.
    turn: Live<Duration>,
    /// Whether a waiter lacks only a free place; set with the state locked.
    contended: watch::Sender<bool>,
}

#[derive(Debug)]
struct Sharing {
    queue: FairQueue<UserAccountId, oneshot::Sender<FairPlace>>,
    slow: SlowTurns<UserAccountId>,
}

/// An occupied place, free again when it is dropped.
#[derive(Debug)]
pub struct FairPlace {
    places: FairPlaces,
    account: UserAccountId,
    is_given_back: AtomicBool,
    speed: Speed,
    begun: Instant,
}

/// A waiter that leaves the queue when it is dropped.
struct Waiting<'a> {
    places: &'a FairPlaces,
    account: &'a UserAccountId,
    ticket: FairTicket,
}

impl FairPlaces {
    /// Places that are held until they are dropped.
    pub fn new(limits: FairLimits) -> Self {
        Self::timed(limits, Duration::MAX, Duration::MAX)
    }

    /// Places with a lane for accounts after a turn longer than `slow_after`, and with turns that are [overdue](FairPlace::overdue) after
    /// `turn`.
    pub fn timed(limits: FairLimits, slow_after: Duration, turn: Duration) -> Self {
        let state = Mutex::new(Sharing { queue: FairQueue::new(limits), slow: SlowTurns::default() });
        Self(Arc::new(Shared { state, slow_after, turn: turn.into(), contended: watch::Sender::new(false) }))
    }

    /// Replaces the limits and the time of turns that begin from now on. Turns and waiters beyond the limits stay.
    pub fn retune(&self, limits: FairLimits, turn: Duration) {
        self.0.turn.set(turn);
        self.lock().queue.set_limits(limits);
        self.hand_out();
    }

    /// Waits for a place. Dropping the future ends the wait.
    #[boxed]
    pub async fn acquire(&self, account: &UserAccountId) -> Result<FairPlace, FairRefusal> {
        let (sender, mut receiver) = oneshot::channel();
        let waiting = {
            let mut state = self.lock();
            let speed = state.slow.expected(account);
            let ticket = state.queue.enter(account, speed, sender)?;
            Waiting { places: self, account, ticket }
        };
        self.hand_out();
        if let Ok(place) = receiver.try_recv() {
            return Ok(place);
        }
        let place = receiver.await;
        drop(waiting);
        // The queue keeps every sender until it has a place for it.
        place.map_err(|_| FairRefusal::All)
    }

    /// Whether there are no turns and no waiters.
    pub fn is_idle(&self) -> bool {
        self.lock().queue.is_idle()
    }

    /// Assigns free places to waiters.
    fn hand_out(&self) {
        loop {
            let turn = {
                let mut state = self.lock();
                let turn = state.queue.next_turn();
                self.announce(&state);
                turn
            };
            let Some(turn) = turn else { return };
            let place = FairPlace {
                places: self.clone(),
                account: turn.party,
                is_given_back: AtomicBool::new(false),
                speed: turn.speed,
                begun: Instant::now(),
            };
            if let Err(unwanted) = turn.waiter.send(place) {
                // Released here: its drop would call this function recursively.
                unwanted.give_back(&mut self.lock());
            }
        }
    }

    fn announce(&self, state: &Sharing) {
        let contended = state.queue.is_contended();
        self.0.contended.send_if_modified(|current| std::mem::replace(current, contended) != contended);
    }

    fn lock(&self) -> MutexGuard<'_, Sharing> {
        // Every update leaves the queue consistent.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FairPlace {
    /// Returns when the turn ends: its time has passed, and a waiter lacks a place. Each waiter ends one of these turns. The waiter then
    /// gets the place, and the holder has to stop.
    #[boxed]
    pub async fn overdue(&self) {
        let Some(end) = self.begun.checked_add(**self.places.0.turn.get()) else { return std::future::pending().await };
        tokio::time::sleep_until(end).await;
        let mut contended = self.places.0.contended.subscribe();
        loop {
            // The sender lives as long as the place.
            let _ = contended.wait_for(|contended| *contended).await;
            let mut state = self.places.lock();
            if state.queue.is_contended() {
                self.give_back(&mut state);
                drop(state);
                return self.places.hand_out();
            }
        }
    }

    /// Frees the place, unless it was freed before.
    fn give_back(&self, state: &mut Sharing) {
        if self.is_given_back.swap(true, Ordering::Relaxed) {
            return;
        }
        state.queue.end_turn(&self.account, self.speed);
        let speed = if self.begun.elapsed() > self.places.0.slow_after { Speed::Slow } else { Speed::Quick };
        state.slow.record(&self.account, speed);
    }
}

impl Drop for FairPlace {
    fn drop(&mut self) {
        if !self.is_given_back.load(Ordering::Relaxed) {
            self.give_back(&mut self.places.lock());
            self.places.hand_out();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.queue.withdraw(self.account, self.ticket);
        self.places.announce(&state);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn account(name: &str) -> UserAccountId {
        name.parse().unwrap()
    }

    /// Spawns a caller and returns once it waits.
    async fn waits(places: &FairPlaces, name: &'static str, order: &Arc<Mutex<Vec<&'static str>>>) -> JoinHandle<()> {
        let (places, order) = (places.clone(), Arc::clone(order));
        let task = tokio::spawn(async move {
            let place = places.acquire(&account(name)).await.unwrap();
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
            drop(place);
        });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn tasks_get_places_by_account_and_leave_none_behind() {
        let (places, order) = (FairPlaces::new(FairLimits::new(1, 1)), Arc::new(Mutex::new(Vec::new())));
        let held = places.acquire(&account("many")).await.unwrap();
        let mut tasks = Vec::new();
        for name in [["many"; 20].as_slice(), &["few", "few", "one"]].concat() {
            tasks.push(waits(&places, name, &order).await);
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!((order.len(), &order[..6]), (23, &["many", "few", "one", "many", "few", "many"][..]));
        assert!(places.is_idle());
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_leaves_its_place_to_the_next() {
        let limits = FairLimits { waiting_max: 2, ..FairLimits::new(1, 1) };
        let (places, order) = (FairPlaces::new(limits), Arc::new(Mutex::new(Vec::new())));
        let held = places.acquire(&account("first")).await.unwrap();
        let gives_up = waits(&places, "gone", &order).await;
        let next = waits(&places, "next", &order).await;
        assert_eq!(places.acquire(&account("third")).await.unwrap_err(), FairRefusal::All);
        gives_up.abort();
        assert!(gives_up.await.unwrap_err().is_cancelled());
        let third = waits(&places, "third", &order).await;
        drop(held);
        next.await.unwrap();
        third.await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["next", "third"]);
        assert!(places.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn changed_limits_give_places_to_waiters_and_take_none_away() {
        let places = FairPlaces::timed(FairLimits::new(1, 1), Duration::MAX, Duration::MAX);
        let held = places.acquire(&account("one")).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let two = waits(&places, "two", &order).await;
        places.retune(FairLimits::new(2, 1), Duration::MAX);
        two.await.unwrap();
        let second = places.acquire(&account("two")).await.unwrap();
        places.retune(FairLimits::new(1, 1), SECOND);
        drop(second);
        let third = tokio::time::timeout(SECOND, places.acquire(&account("three"))).await;
        assert!(third.is_err(), "the turn that is left has the only place");
        drop(held);
        let place = places.acquire(&account("long")).await.unwrap();
        let next = waits(&places, "next", &order).await;
        tokio::time::timeout(2 * SECOND, place.overdue()).await.unwrap();
        drop(place);
        next.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_was_slow_leaves_places_to_others() {
        let limits = FairLimits { slow_max: 1, ..FairLimits::new(2, 2) };
        let places = FairPlaces::timed(limits, SECOND, Duration::MAX);
        let slow = account("slow");
        let first = places.acquire(&slow).await.unwrap();
        tokio::time::advance(2 * SECOND).await;
        drop(first);
        let _second = places.acquire(&slow).await.unwrap();
        let third = tokio::time::timeout(SECOND, places.acquire(&slow)).await;
        assert!(third.is_err(), "the lane of slow accounts has one place");
        drop(places.acquire(&account("quick")).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_overdue_turns_end_as_others_wait() {
        let places = FairPlaces::timed(FairLimits::new(2, 1), Duration::MAX, SECOND);
        let one = places.acquire(&account("one")).await.unwrap();
        let two = places.acquire(&account("two")).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let again = [waits(&places, "one", &order).await, waits(&places, "two", &order).await];
        tokio::time::advance(2 * SECOND).await;
        let both = async { tokio::join!(one.overdue(), two.overdue()) };
        assert!(tokio::time::timeout(SECOND, both).await.is_err(), "those wait for their own accounts");
        for waiter in again {
            waiter.abort();
            assert!(waiter.await.unwrap_err().is_cancelled());
        }
        let three = tokio::spawn({
            let places = places.clone();
            async move { places.acquire(&account("three")).await.unwrap() }
        });
        let other = tokio::select! {
            () = one.overdue() => &two,
            () = two.overdue() => &one,
        };
        let three = three.await.unwrap();
        assert!(tokio::time::timeout(SECOND, other.overdue()).await.is_err(), "one waiter ends one turn");
        drop((one, two, three));
        assert!(places.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_overdue_after_its_time_if_another_waits() {
        let places = FairPlaces::timed(FairLimits::new(1, 1), Duration::MAX, SECOND);
        let place = places.acquire(&account("long")).await.unwrap();
        assert!(tokio::time::timeout(10 * SECOND, place.overdue()).await.is_err(), "no other waits");
        let order = Arc::new(Mutex::new(Vec::new()));
        let next = waits(&places, "next", &order).await;
        place.overdue().await;
        drop(place);
        next.await.unwrap();
        let place = places.acquire(&account("long")).await.unwrap();
        let start = Instant::now();
        let next = waits(&places, "next", &order).await;
        place.overdue().await;
        assert_eq!(start.elapsed(), SECOND);
        drop(place);
        next.await.unwrap();
    }
}
