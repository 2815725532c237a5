//! Limits concurrent extractions, and shares them fairly between accounts.
//!
//! A free slot is given to the account with the fewest running extractions, and among those to the one that has waited
//! longest. An account with many expensive pages delays others by its running pages, not by its queued ones.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::UserAccountId;
use tokio::sync::oneshot;

/// The slots. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Shares(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    running: HashMap<UserAccountId, usize>,
    /// Accounts with waiting callers, in the order of their last turns.
    waiting: VecDeque<(UserAccountId, VecDeque<oneshot::Sender<Share>>)>,
}

/// An occupied slot, freed on drop.
#[derive(Debug)]
pub(super) struct Share {
    shares: Shares,
    account: Option<UserAccountId>,
}

impl Shares {
    pub(super) fn new(places: usize) -> Self {
        let state = State { free: places.max(1), running: HashMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a slot. Dropping the future cancels the wait.
    pub(super) async fn acquire(&self, account: &UserAccountId) -> Option<Share> {
        let waiter = {
            let mut state = self.lock();
            if state.free > 0 && state.waiting.is_empty() {
                return Some(self.take(&mut state, account));
            }
            let (sender, waiter) = oneshot::channel();
            match state.waiting.iter_mut().find(|(waiting, _)| waiting == account) {
                Some((_, callers)) => callers.push_back(sender),
                None => state.waiting.push_back((account.clone(), VecDeque::from([sender]))),
            }
            waiter
        };
        waiter.await.ok()
    }

    /// Assigns free slots to waiting callers. Skips callers that no longer wait.
    fn hand_out(&self) {
        while let Some((sender, share)) = self.next() {
            if let Err(mut unwanted) = sender.send(share) {
                // Returned here, because the drop of the share would call this function recursively.
                self.give_back(unwanted.account.take());
            }
        }
    }

    fn next(&self) -> Option<(oneshot::Sender<Share>, Share)> {
        let mut state = self.lock();
        if state.free == 0 {
            return None;
        }
        let State { running, waiting, .. } = &mut *state;
        let held = |(account, _): &(UserAccountId, _)| running.get(account).copied().unwrap_or(0);
        let at = (0..waiting.len()).min_by_key(|at| held(&waiting[*at]))?;
        let (account, mut callers) = waiting.remove(at)?;
        let sender = callers.pop_front()?;
        if !callers.is_empty() {
            waiting.push_back((account.clone(), callers));
        }
        let share = self.take(&mut state, &account);
        Some((sender, share))
    }

    fn take(&self, state: &mut State, account: &UserAccountId) -> Share {
        state.free -= 1;
        *state.running.entry(account.clone()).or_default() += 1;
        Share { shares: self.clone(), account: Some(account.clone()) }
    }

    fn give_back(&self, account: Option<UserAccountId>) {
        let Some(account) = account else { return };
        let mut state = self.lock();
        state.free += 1;
        if let Some(held) = state.running.get_mut(&account) {
            *held -= 1;
            if *held == 0 {
                state.running.remove(&account);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.account.is_some() {
            self.shares.give_back(self.account.take());
            self.shares.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    fn account(name: &str) -> UserAccountId {
        name.parse().unwrap()
    }

    /// Spawns a caller and returns once it waits.
    async fn waits(shares: &Shares, name: &'static str, order: &Arc<Mutex<Vec<&'static str>>>) -> JoinHandle<()> {
        let (shares, order) = (shares.clone(), Arc::clone(order));
        let task = tokio::spawn(async move {
            let share = shares.acquire(&account(name)).await.unwrap();
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
            drop(share);
        });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn many_pages_of_one_account_delay_another_by_those_under_way_alone() {
        let (shares, order) = (Shares::new(2), Arc::new(Mutex::new(Vec::new())));
        let under_way =
            [shares.acquire(&account("many")).await.unwrap(), shares.acquire(&account("many")).await.unwrap()];
        let mut tasks = Vec::new();
        for name in [["many"; 20].as_slice(), &["few", "few", "one"]].concat() {
            tasks.push(waits(&shares, name, &order).await);
        }
        let [first, second] = under_way;
        drop(first);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(order.lock().unwrap()[..3], ["few", "one", "few"], "one place goes round among those with none");
        drop(second);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(order.lock().unwrap().len(), 23);
        let state = shares.lock();
        assert_eq!((state.free, state.running.len(), state.waiting.len()), (2, 0, 0));
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_leaves_its_place_to_the_next() {
        let (shares, order) = (Shares::new(1), Arc::new(Mutex::new(Vec::new())));
        let held = shares.acquire(&account("first")).await.unwrap();
        let gives_up = waits(&shares, "gone", &order).await;
        let next = waits(&shares, "next", &order).await;
        gives_up.abort();
        assert!(gives_up.await.unwrap_err().is_cancelled());
        drop(held);
        next.await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["next"]);
        assert_eq!(shares.lock().free, 1);
    }
}
