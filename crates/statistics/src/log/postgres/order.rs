//! The order in which events get their places: by number, and each event after its predecessor in its chain.
//!
//! Numbers grow with each chain unless sessions of the database take several numbers at once (`CACHE`), or the sequence is set back.
//! So a number is a hint: `unsequenced.follows` decides.

use std::collections::HashMap;

use store::pool::query;

use crate::log::error::{During, LogError};
use crate::log::handle::Log;
use crate::log::sql::postgres;

store::row! {
    /// An event without a place.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WaitingEvent {
        /// Its number.
        pub event: i64,
        pub leaf_hash: Vec<u8>,
        /// The number of the previous event in its chain.
        pub follows: Option<i64>,
    }
}

impl WaitingEvent {
    /// Whether its predecessor has a larger number, so that it may wait behind this one.
    fn is_inverted(&self) -> bool {
        self.follows.is_some_and(|before| before > self.event)
    }
}

/// Whether an event is in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Open,
    Ordered,
    /// Its predecessor waits and is not in the input.
    Withheld,
}

/// Orders events with different numbers: by number, and each after its predecessor. If `is_absent_waiting`, an inverted event without its
/// predecessor in the input is left out, with all its successors.
pub fn in_chain_order(mut events: Vec<WaitingEvent>, is_absent_waiting: bool) -> Vec<WaitingEvent> {
    events.sort_unstable_by_key(|waiting| waiting.event);
    let places: HashMap<i64, usize> =
        events.iter().enumerate().map(|(place, waiting)| (waiting.event, place)).collect();
    let before = |place: usize| events.get(place)?.follows.and_then(|before| places.get(&before)).copied();
    let mut visits = vec![Visit::Open; events.len()];
    let (mut order, mut path) = (Vec::with_capacity(events.len()), Vec::new());
    for start in 0..events.len() {
        let mut next = Some(start);
        while let Some(place) = next.filter(|place| visits[*place] == Visit::Open) {
            visits[place] = Visit::Ordered;
            path.push(place);
            next = before(place);
        }
        let Some(first) = path.last() else { continue };
        let visit = match next {
            Some(place) => visits[place],
            None if is_absent_waiting && events[*first].is_inverted() => Visit::Withheld,
            None => Visit::Ordered,
        };
        for place in path.drain(..).rev() {
            visits[place] = visit;
            if visit == Visit::Ordered {
                order.push(place);
            }
        }
    }
    order.into_iter().map(|place| events[place].clone()).collect()
}

impl Log {
    /// The events that get the next places, in order, at most `events_max`; empty only if no event waits.
    pub(super) async fn next_events(&self, events_max: u32) -> Result<Vec<WaitingEvent>, LogError> {
        let waiting = query(postgres::WAITING).bind(i64::from(events_max)).fetch_all(self.postgres());
        let mut waiting: Vec<WaitingEvent> = waiting.await.during("read events without a place")?;
        // The predecessor of an event that is not inverted has a place or comes earlier in this order.
        if !waiting.iter().any(WaitingEvent::is_inverted) {
            return Ok(waiting);
        }
        let numbers: HashMap<i64, usize> = waiting.iter().enumerate().map(|(place, row)| (row.event, place)).collect();
        let absent = waiting.iter().filter(|row| row.is_inverted()).filter_map(|row| row.follows);
        let absent: Vec<i64> = absent.filter(|before| !numbers.contains_key(before)).collect();
        let mut is_cut = false;
        if !absent.is_empty() {
            let predecessors =
                query(postgres::PREDECESSORS).bind(absent).bind(i64::from(events_max)).fetch_all(self.postgres());
            let predecessors: Vec<WaitingEvent> =
                predecessors.await.during("read the predecessors of events without a place")?;
            is_cut = predecessors.len() >= usize::try_from(events_max).unwrap_or(usize::MAX);
            waiting.extend(predecessors.into_iter().filter(|row| !numbers.contains_key(&row.event)));
        }
        let mut ordered = in_chain_order(waiting, is_cut);
        ordered.truncate(usize::try_from(events_max).unwrap_or(usize::MAX));
        Ok(ordered)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(event: i64, follows: Option<i64>) -> WaitingEvent {
        WaitingEvent { event, leaf_hash: Vec::new(), follows }
    }

    fn numbers(events: Vec<WaitingEvent>, is_absent_waiting: bool) -> Vec<i64> {
        in_chain_order(events, is_absent_waiting).into_iter().map(|waiting| waiting.event).collect()
    }

    #[test]
    fn events_are_in_the_order_of_their_numbers_unless_a_predecessor_has_a_larger_one() {
        let rows = [(1, None), (2, Some(9)), (3, None), (4, Some(2)), (9, Some(1)), (10, Some(4))];
        let events: Vec<WaitingEvent> = rows.into_iter().map(|(event, follows)| waiting(event, follows)).collect();
        assert_eq!(numbers(events, false), [1, 9, 2, 3, 4, 10]);
    }

    #[test]
    fn an_event_waits_for_a_predecessor_that_waits_elsewhere_and_so_do_its_followers() {
        let events = || vec![waiting(2, Some(50)), waiting(3, Some(2)), waiting(5, Some(1)), waiting(6, None)];
        assert_eq!(numbers(events(), true), [5, 6]);
        assert_eq!(numbers(events(), false), [2, 3, 5, 6]);
    }

    #[test]
    fn a_circle_in_a_damaged_table_is_no_endless_loop() {
        assert_eq!(numbers(vec![waiting(1, Some(2)), waiting(2, Some(1)), waiting(3, Some(3))], false).len(), 3);
    }

    proptest! {
        #[test]
        fn every_chain_is_in_order_for_any_numbers(
            chains in proptest::collection::vec(1..20_usize, 1..8), keys in proptest::collection::vec(any::<u32>(), 160),
        ) {
            // Each event gets its rank among all random keys as its number.
            let count: usize = chains.iter().sum();
            let mut ranks: Vec<usize> = (0..count).collect();
            ranks.sort_by_key(|place| keys[*place]);
            let mut numbers = vec![0_i64; count];
            for (rank, place) in ranks.into_iter().enumerate() {
                numbers[place] = i64::try_from(rank).unwrap();
            }
            let mut rest = numbers.as_slice();
            let mut events = Vec::new();
            for length in chains {
                let (chain, others) = rest.split_at(length);
                rest = others;
                events.push(waiting(chain[0], None));
                events.extend(chain.windows(2).map(|pair| waiting(pair[1], Some(pair[0]))));
            }
            let ordered = in_chain_order(events, true);
            prop_assert_eq!(ordered.len(), count);
            let mut placed = std::collections::HashSet::new();
            for row in ordered {
                prop_assert!(row.follows.is_none_or(|before| placed.contains(&before)));
                placed.insert(row.event);
            }
        }
    }
}
