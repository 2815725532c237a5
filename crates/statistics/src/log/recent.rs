//! The newest events of the log, which are not in the indexes yet, shared by the writer and the readers of a process.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use domain::ids::EventId;
use domain::usage::Day;

/// The events after the last indexed one. Clones share them. Empty while the writer has no connection; readers then find the events in the
/// table, like events of another process that the writer has not read yet.
#[derive(Debug, Clone, Default)]
pub struct UnindexedEvents(Arc<RwLock<Newest>>);

#[derive(Debug, Default)]
struct Newest {
    /// The number of the last indexed event.
    indexed: i64,
    events: VecDeque<(i64, Recorded)>,
    numbers: HashMap<EventId, i64>,
}

/// The members of an event that the indexes contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub event_id: EventId,
    pub source_id: i64,
    pub received_at_ms: i64,
}

/// The events that a page of activity may show.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Inclusive lower bound of the time of receipt, in milliseconds since 1970.
    pub since: i64,
    /// Exclusive upper bound: milliseconds since 1970, and number of an event.
    pub before: (i64, i64),
    /// Maximum number of events.
    pub events_max: usize,
}

/// Unindexed events of one day.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecentDay {
    /// Number of events by source; a source without events is absent.
    pub events: HashMap<i64, u32>,
    /// The number of the last indexed event; the largest number while no writer is running, since all events are in the tables then.
    pub indexed: i64,
}

impl UnindexedEvents {
    /// Removes all events; events up to number `indexed` are indexed.
    pub fn clear(&self, indexed: i64) {
        *self.write() = Newest { indexed, ..Newest::default() };
    }

    /// Adds the next event with its number.
    pub fn push(&self, number: i64, event: Recorded) {
        let mut state = self.write();
        state.events.push_back((number, event));
        state.numbers.insert(event.event_id, number);
    }

    /// Removes the events up to number `indexed`.
    pub fn advance(&self, indexed: i64) {
        let mut state = self.write();
        state.indexed = indexed;
        while let Some((_, event)) = state.events.pop_front_if(|(number, _)| *number <= indexed) {
            state.numbers.remove(&event.event_id);
        }
    }

    /// The number of an event, by its id.
    pub fn number(&self, event_id: EventId) -> Option<i64> {
        self.read().numbers.get(&event_id).copied()
    }

    /// The number of the newest event, or of the last indexed one if there is none.
    pub fn last(&self) -> i64 {
        self.read().last()
    }

    /// Number of events in memory.
    pub fn len(&self) -> usize {
        self.read().events.len()
    }

    /// Numbers and members of all events, oldest first.
    pub fn all(&self) -> Vec<(i64, Recorded)> {
        self.read().events.iter().copied().collect()
    }

    /// The numbers of the newest events of `sources` within `window`, and the number of the newest event of any source.
    pub fn page(&self, sources: &HashSet<i64>, window: Window) -> (Vec<i64>, i64) {
        let state = self.read();
        let matches = state.events.iter().filter(|(number, event)| {
            sources.contains(&event.source_id)
                && event.received_at_ms >= window.since
                && (event.received_at_ms, *number) < window.before
        });
        let mut matches: Vec<(i64, i64)> = matches.map(|(number, event)| (event.received_at_ms, *number)).collect();
        matches.sort_unstable_by(|one, other| other.cmp(one));
        matches.truncate(window.events_max);
        (matches.into_iter().map(|(_, number)| number).collect(), state.last())
    }

    /// The events of `sources` that were received on a day.
    pub fn of_day(&self, sources: &HashSet<i64>, day: Day) -> RecentDay {
        let state = self.read();
        // A process without a writer has number 0 and no events in memory. A new log also has number 0, until its first events are indexed.
        let has_writer = state.indexed != 0 || !state.events.is_empty();
        let mut counts =
            RecentDay { indexed: if has_writer { state.indexed } else { i64::MAX }, ..RecentDay::default() };
        for (_, event) in &state.events {
            if sources.contains(&event.source_id) && event.received_at_ms.div_euclid(Day::MILLISECONDS) == day.number()
            {
                *counts.events.entry(event.source_id).or_default() += 1;
            }
        }
        counts
    }

    fn read(&self) -> RwLockReadGuard<'_, Newest> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Newest> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Newest {
    fn last(&self) -> i64 {
        self.events.back().map_or(self.indexed, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use domain::{Rng, Timestamp};

    use super::*;

    fn event(rng: &Rng, source_id: i64, received_at_ms: i64) -> Recorded {
        Recorded { event_id: rng.uuid_v7(Timestamp::UNIX_EPOCH).into(), source_id, received_at_ms }
    }

    #[test]
    fn events_are_found_by_id_until_they_are_indexed() {
        let (rng, recent) = (Rng::seeded(1), UnindexedEvents::default());
        recent.clear(10);
        let events: Vec<Recorded> = (0..5).map(|number| event(&rng, number % 2, 100 - number)).collect();
        for (number, event) in (11..).zip(&events) {
            recent.push(number, *event);
        }
        assert_eq!(recent.all()[3], (14, events[3]));
        recent.advance(13);
        assert_eq!((recent.len(), recent.last()), (2, 15));
        assert_eq!(
            events.iter().map(|event| recent.number(event.event_id)).collect::<Vec<_>>()[2..],
            [None, Some(14), Some(15)]
        );
        recent.advance(40);
        assert_eq!((recent.len(), recent.last()), (0, 40));
    }

    #[test]
    fn a_page_has_the_newest_of_its_sources_by_when_they_were_received() {
        let (rng, recent) = (Rng::seeded(1), UnindexedEvents::default());
        for (number, received_at_ms) in (1..).zip([5, 9, 7, 7, 8, 6]) {
            recent.push(number, event(&rng, received_at_ms % 2, received_at_ms));
        }
        let page = |sources: &[i64], since, before, events_max| {
            recent.page(&sources.iter().copied().collect(), Window { since, before, events_max })
        };
        assert_eq!(page(&[1], 0, (100, 0), 3), (vec![2, 4, 3], 6));
        assert_eq!(page(&[0, 1], 6, (8, 5), 9), (vec![4, 3, 6], 6));
        assert_eq!(page(&[1], 0, (7, 4), 9), (vec![3, 1], 6));
        assert_eq!(page(&[2], 0, (100, 0), 9), (vec![], 6));
    }

    #[test]
    fn the_events_of_a_day_are_counted_by_source_until_they_are_indexed() {
        let (rng, recent) = (Rng::seeded(1), UnindexedEvents::default());
        let of = |source: i64, day: i64| event(&rng, source, day * Day::MILLISECONDS + 5);
        recent.clear(40);
        for (number, event) in (41..).zip([of(1, 7), of(2, 7), of(1, 8), of(3, 7), of(1, 7)]) {
            recent.push(number, event);
        }
        let counted = |indexed| RecentDay { events: HashMap::from([(1, 2), (2, 1)]), indexed };
        assert_eq!(recent.of_day(&HashSet::from([1, 2]), Day::from(7)), counted(40));
        recent.advance(45);
        assert_eq!(
            recent.of_day(&HashSet::from([1, 2]), Day::from(7)),
            RecentDay { indexed: 45, ..RecentDay::default() }
        );
    }

    #[test]
    fn the_first_events_of_a_log_are_not_counted_in_the_tables_as_well() {
        let (rng, recent) = (Rng::seeded(1), UnindexedEvents::default());
        let (sources, day) = (HashSet::from([1]), Day::from(7));
        assert_eq!(recent.of_day(&sources, day).indexed, i64::MAX, "without a writer, all events are in the tables");
        recent.push(1, event(&rng, 1, 7 * Day::MILLISECONDS));
        assert_eq!(recent.of_day(&sources, day), RecentDay { events: HashMap::from([(1, 1)]), indexed: 0 });
    }
}
