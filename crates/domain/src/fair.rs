//! Shares few places among many parties (`docs/decisions/0034-fair-shares.md`).
//!
//! A free place goes to the waiting party with the fewest places, and among equals to the one with the oldest last turn. So every other
//! party gets at most one place before a waiting party that has none, regardless of demand. A party may occupy only a part of the places,
//! and slow turns share a separate lane with a part of the places.
//!
//! A [`FairQueue`] decides and does not wait. `extract::fair` makes tasks wait for it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// Numbers of places and waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairLimits {
    /// Total number of places.
    pub places: usize,
    /// Maximum number of places of one party.
    pub per_party_max: usize,
    /// Maximum number of places for turns that are expected to be slow.
    pub slow_max: usize,
    /// Maximum number of waiters.
    pub waiting_max: usize,
    /// Maximum number of waiters of one party.
    pub waiting_per_party_max: usize,
}

impl FairLimits {
    /// `places` without a lane for slow turns and without limits on waiters, for callers that have few.
    pub fn new(places: usize, per_party_max: usize) -> Self {
        Self { places, per_party_max, slow_max: places, waiting_max: usize::MAX, waiting_per_party_max: usize::MAX }
    }

    /// Raises each limit to at least one, and lowers each share to at most the whole.
    fn sound(self) -> Self {
        let places = self.places.max(1);
        Self {
            places,
            per_party_max: self.per_party_max.clamp(1, places),
            slow_max: self.slow_max.clamp(1, places),
            ..self
        }
    }
}

/// Expected duration of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// As usual.
    Quick,
    /// Longer: it takes a place of the lane for slow turns.
    Slow,
}

/// Why a waiter was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FairRefusal {
    /// The party has reached its maximum number of waiters.
    #[error("the account waits for too much already")]
    Party,
    /// All parties together have reached the maximum number of waiters.
    #[error("too much waits already")]
    All,
}

/// Identifies a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairTicket(u64);

/// A place that was given to a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn<K, W> {
    /// The party, which gives the place back.
    pub party: K,
    /// The lane of the place.
    pub speed: Speed,
    /// The waiter that gets it.
    pub waiter: W,
}

/// The places and their waiters `W`, by party `K`.
#[derive(Debug)]
pub struct FairQueue<K, W> {
    limits: FairLimits,
    /// Taken places by party; parties without one are absent.
    taken: HashMap<K, usize>,
    taken_by_all: usize,
    taken_by_slow: usize,
    /// Parties with waiters, in the order of their last turns.
    parties: VecDeque<Party<K, W>>,
    waiting: usize,
    tickets: u64,
}

#[derive(Debug)]
struct Party<K, W> {
    key: K,
    quick: VecDeque<(FairTicket, W)>,
    slow: VecDeque<(FairTicket, W)>,
}

impl<K: Clone + Eq + Hash, W> FairQueue<K, W> {
    /// Creates a queue with all places free.
    pub fn new(limits: FairLimits) -> Self {
        Self {
            limits: limits.sound(),
            taken: HashMap::new(),
            taken_by_all: 0,
            taken_by_slow: 0,
            parties: VecDeque::new(),
            waiting: 0,
            tickets: 0,
        }
    }

    /// Replaces the limits. Turns and waiters beyond them stay: only new ones are refused.
    pub fn set_limits(&mut self, limits: FairLimits) {
        self.limits = limits.sound();
    }

    /// Adds a waiter. [`FairQueue::next_turn`] gives it a place, at once if one is free for it.
    pub fn enter(&mut self, party: &K, speed: Speed, waiter: W) -> Result<FairTicket, FairRefusal> {
        let at = self.parties.iter().position(|entry| entry.key == *party);
        if at.is_some_and(|at| self.parties[at].waiting() >= self.limits.waiting_per_party_max) {
            return Err(FairRefusal::Party);
        }
        if self.waiting >= self.limits.waiting_max {
            return Err(FairRefusal::All);
        }
        let ticket = FairTicket(self.tickets);
        self.tickets += 1;
        self.waiting += 1;
        let at = at.unwrap_or_else(|| {
            self.parties.push_back(Party { key: party.clone(), quick: VecDeque::new(), slow: VecDeque::new() });
            self.parties.len() - 1
        });
        self.parties[at].lane(speed).push_back((ticket, waiter));
        Ok(ticket)
    }

    /// Gives a free place to a waiter; `None` if no place is free, or no waiter may have one.
    pub fn next_turn(&mut self) -> Option<Turn<K, W>> {
        if self.taken_by_all >= self.limits.places {
            return None;
        }
        let has_slow = self.taken_by_slow < self.limits.slow_max;
        let held = |party: &Party<K, W>| self.taken.get(&party.key).copied().unwrap_or(0);
        let may = |party: &Party<K, W>| held(party) < self.limits.per_party_max && party.next_lane(has_slow).is_some();
        let eligible = (0..self.parties.len()).filter(|at| may(&self.parties[*at]));
        let at = eligible.min_by_key(|at| held(&self.parties[*at]))?;
        let mut party = self.parties.remove(at)?;
        let speed = party.next_lane(has_slow)?;
        let (_, waiter) = party.lane(speed).pop_front()?;
        let key = party.key.clone();
        if party.waiting() > 0 {
            self.parties.push_back(party);
        }
        self.waiting -= 1;
        self.taken_by_all += 1;
        self.taken_by_slow += usize::from(speed == Speed::Slow);
        *self.taken.entry(key.clone()).or_default() += 1;
        Some(Turn { party: key, speed, waiter })
    }

    /// Releases a place.
    pub fn end_turn(&mut self, party: &K, speed: Speed) {
        let Some(taken) = self.taken.get_mut(party) else { return };
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(party);
        }
        self.taken_by_all -= 1;
        self.taken_by_slow -= usize::from(speed == Speed::Slow);
    }

    /// Removes a waiter that no longer waits.
    pub fn withdraw(&mut self, party: &K, ticket: FairTicket) {
        let Some(at) = self.parties.iter().position(|entry| entry.key == *party) else { return };
        let entry = &mut self.parties[at];
        let waiting_before = entry.waiting();
        entry.quick.retain(|(other, _)| *other != ticket);
        entry.slow.retain(|(other, _)| *other != ticket);
        self.waiting -= waiting_before - entry.waiting();
        if entry.waiting() == 0 {
            self.parties.remove(at);
        }
    }

    /// Removes all waiters.
    pub fn withdraw_all(&mut self) {
        self.parties.clear();
        self.waiting = 0;
    }

    /// Whether a waiter lacks only a free place. Waiters of a party that has its full share wait for that party's turns.
    pub fn is_contended(&self) -> bool {
        let held = |party: &Party<K, W>| self.taken.get(&party.key).copied().unwrap_or(0);
        self.parties.iter().any(|party| held(party) < self.limits.per_party_max)
    }

    /// Number of waiters.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of taken places.
    pub fn taken(&self) -> usize {
        self.taken_by_all
    }

    /// Whether there are no turns and no waiters.
    pub fn is_idle(&self) -> bool {
        self.taken.is_empty() && self.waiting == 0
    }
}

impl<K, W> Party<K, W> {
    fn waiting(&self) -> usize {
        self.quick.len() + self.slow.len()
    }

    fn lane(&mut self, speed: Speed) -> &mut VecDeque<(FairTicket, W)> {
        match speed {
            Speed::Quick => &mut self.quick,
            Speed::Slow => &mut self.slow,
        }
    }

    /// The lane of the oldest waiter, among the lanes with room.
    fn next_lane(&self, has_slow: bool) -> Option<Speed> {
        match (self.quick.front(), self.slow.front().filter(|_| has_slow)) {
            (Some((FairTicket(quick), _)), Some((FairTicket(slow), _))) if slow < quick => Some(Speed::Slow),
            (Some(_), _) => Some(Speed::Quick),
            (None, Some(_)) => Some(Speed::Slow),
            (None, None) => None,
        }
    }
}

/// Maximum number of remembered keys of slow turns.
const SLOW_KEYS_MAX: usize = 4096;

/// Remembers which parties, or parts of parties, were slow in their last turn. Beyond the maximum it forgets the oldest, which then may be
/// slow once more.
#[derive(Debug)]
pub struct SlowTurns<K> {
    slow: HashSet<K>,
    oldest: VecDeque<K>,
}

impl<K> Default for SlowTurns<K> {
    fn default() -> Self {
        Self { slow: HashSet::new(), oldest: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash> SlowTurns<K> {
    /// Records the speed of the last turn.
    pub fn record(&mut self, key: &K, speed: Speed) {
        match speed {
            Speed::Quick => {
                if self.slow.remove(key) {
                    self.oldest.retain(|other| other != key);
                }
            }
            Speed::Slow => {
                if self.slow.insert(key.clone()) {
                    self.oldest.push_back(key.clone());
                }
                if self.oldest.len() > SLOW_KEYS_MAX
                    && let Some(forgotten) = self.oldest.pop_front()
                {
                    self.slow.remove(&forgotten);
                }
            }
        }
    }

    /// The expected speed of the next turn.
    pub fn expected(&self, key: &K) -> Speed {
        if self.slow.contains(key) { Speed::Slow } else { Speed::Quick }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Queue = FairQueue<usize, u32>;

    fn limits(places: usize, per_party_max: usize, slow_max: usize) -> FairLimits {
        FairLimits { slow_max, ..FairLimits::new(places, per_party_max) }
    }

    /// Assigns every free place.
    fn turns(queue: &mut Queue) -> Vec<Turn<usize, u32>> {
        std::iter::from_fn(|| queue.next_turn()).collect()
    }

    #[test]
    fn many_items_of_one_party_delay_another_by_those_under_way_alone() {
        let mut queue = Queue::new(limits(2, 2, 2));
        let (many, few, one) = (0, 1, 2);
        for nth in 0..22 {
            queue.enter(&many, Speed::Quick, nth).unwrap();
        }
        let under_way = turns(&mut queue);
        assert_eq!(under_way.len(), 2);
        for (party, waiter) in [(few, 100), (few, 101), (one, 200)] {
            queue.enter(&party, Speed::Quick, waiter).unwrap();
        }
        let mut order = Vec::new();
        let mut running = under_way[0].party;
        for _ in 0..3 {
            queue.end_turn(&running, Speed::Quick);
            let turn = queue.next_turn().unwrap();
            order.push(turn.waiter);
            running = turn.party;
        }
        assert_eq!(order, [100, 200, 101], "a place goes round among those with none");
    }

    #[test]
    fn a_party_has_its_share_and_slow_turns_have_theirs() {
        let mut queue = Queue::new(limits(4, 2, 2));
        for nth in 0..3 {
            queue.enter(&0, Speed::Quick, nth).unwrap();
        }
        assert_eq!(turns(&mut queue).len(), 2, "one party has at most its share");
        assert!(!queue.is_contended(), "it waits for itself");
        for party in 1..4 {
            queue.enter(&party, Speed::Slow, 9).unwrap();
        }
        queue.end_turn(&0, Speed::Quick);
        queue.end_turn(&0, Speed::Quick);
        let taken = turns(&mut queue);
        let slow = taken.iter().filter(|turn| turn.speed == Speed::Slow).count();
        assert_eq!((taken.len(), slow), (3, 2));
        assert_eq!((queue.taken(), queue.waiting()), (3, 1), "a place is free, and not for slow turns");
        assert!(queue.is_contended());
        queue.enter(&9, Speed::Quick, 1).unwrap();
        assert_eq!(queue.next_turn().unwrap().party, 9);
    }

    #[test]
    fn waiters_are_bounded_and_may_give_up() {
        let mut queue = Queue::new(FairLimits { waiting_max: 3, waiting_per_party_max: 2, ..limits(1, 1, 1) });
        queue.enter(&0, Speed::Quick, 0).unwrap();
        turns(&mut queue);
        let given_up = queue.enter(&1, Speed::Quick, 1).unwrap();
        queue.enter(&1, Speed::Slow, 2).unwrap();
        assert_eq!(queue.enter(&1, Speed::Quick, 3), Err(FairRefusal::Party));
        queue.enter(&2, Speed::Quick, 4).unwrap();
        assert_eq!(queue.enter(&3, Speed::Quick, 5), Err(FairRefusal::All));
        queue.withdraw(&1, given_up);
        queue.withdraw(&1, given_up);
        queue.enter(&3, Speed::Quick, 5).unwrap();
        queue.end_turn(&0, Speed::Quick);
        assert_eq!(queue.next_turn().unwrap().waiter, 2);
        queue.withdraw_all();
        queue.end_turn(&1, Speed::Slow);
        assert!(queue.next_turn().is_none() && queue.is_idle());
    }

    #[test]
    fn the_last_turn_decides_about_the_next_and_the_oldest_are_forgotten() {
        let mut memory = SlowTurns::default();
        memory.record(&0, Speed::Slow);
        memory.record(&1, Speed::Slow);
        memory.record(&1, Speed::Quick);
        assert_eq!((memory.expected(&0), memory.expected(&1)), (Speed::Slow, Speed::Quick));
        for key in 2..2 + SLOW_KEYS_MAX {
            memory.record(&key, Speed::Slow);
        }
        assert_eq!((memory.expected(&0), memory.expected(&2)), (Speed::Quick, Speed::Slow));
        assert_eq!((memory.slow.len(), memory.oldest.len()), (SLOW_KEYS_MAX, SLOW_KEYS_MAX));
    }

    proptest! {
        /// Greedy parties always want more, and their turns end in any order. A party without a place waits for at most one turn of each
        /// greedy party, and for none while those are slow.
        #[test]
        fn an_honest_party_waits_for_turns_of_parties_and_not_for_their_items(
            places in 1_usize..9, share in 1_usize..9, slow_max in 1_usize..9,
            greedy in 1_usize..24, items in 1_u32..40,
            are_slow: bool,
            ends in prop::collection::vec(any::<prop::sample::Index>(), 200),
            arrives in 0_usize..60,
        ) {
            let (share, slow_max) = (share.min(places), slow_max.min(places));
            let mut queue = Queue::new(limits(places, share, slow_max));
            let speed = if are_slow { Speed::Slow } else { Speed::Quick };
            let honest = usize::MAX;
            let (mut running, mut before_it, mut is_served) = (Vec::new(), None, false);
            for (step, end) in ends.iter().enumerate() {
                for party in 0..greedy {
                    while queue.parties.iter().find(|entry| entry.key == party).map_or(0, Party::waiting) < items as usize {
                        queue.enter(&party, speed, items).unwrap();
                    }
                }
                if step == arrives {
                    queue.enter(&honest, Speed::Quick, 0).unwrap();
                    before_it = Some(0);
                }
                for turn in turns(&mut queue) {
                    is_served |= turn.party == honest;
                    if let Some(others) = &mut before_it && !is_served {
                        *others += 1;
                    }
                    running.push(turn);
                }
                let slow = running.iter().filter(|turn| turn.speed == Speed::Slow).count();
                prop_assert!(running.len() <= places && slow <= slow_max);
                for party in 0..greedy {
                    prop_assert!(running.iter().filter(|turn| turn.party == party).count() <= share);
                }
                if step == arrives && are_slow && slow_max < places {
                    prop_assert!(is_served, "slow parties left it a place");
                }
                // No place is free for a waiter.
                for party in 0..greedy {
                    let is_waiting = queue.parties.iter().any(|entry| entry.key == party);
                    let has_share = running.iter().filter(|turn| turn.party == party).count() == share;
                    prop_assert!(!is_waiting || has_share || running.len() == places || are_slow && slow == slow_max);
                }
                if is_served {
                    break;
                }
                if !running.is_empty() {
                    let ended = running.swap_remove(end.index(running.len()));
                    queue.end_turn(&ended.party, ended.speed);
                }
            }
            prop_assert!(is_served, "{greedy} parties with {items} items kept it out");
            prop_assert!(before_it.unwrap() <= greedy, "{before_it:?} turns of {greedy} parties");
        }
    }
}
