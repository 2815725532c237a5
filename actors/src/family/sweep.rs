//! When a family looks at each of its actors again: to passivate the idle, and to end those that should have left long ago.
//!
//! One timer per family and one small entry per actor, instead of a timer per actor that every message would have to move: an entry
//! is looked at when the actor *could* be idle, and if it was not, it is planned anew. Passing a message costs nothing here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::ActorSettings;

/// What a visit sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActorSnapshot {
    /// The actor takes no more messages.
    pub(super) leaving: bool,
    /// Messages waiting or in its hands.
    pub(super) queued: u32,
    /// How long it has not finished a message.
    pub(super) unmoved_for: Duration,
}

/// What a visit leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepDecision {
    Leave,
    Passivate,
    Kill,
}

/// A visit to one actor. Visits compare by their time alone.
#[derive(Debug)]
pub(super) struct SweepEntry<W> {
    at: Instant,
    pub(super) whom: W,
    /// On the visit before, the actor was already leaving or was told to.
    told_to_leave: bool,
}

impl<W> PartialEq for SweepEntry<W> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<W> Eq for SweepEntry<W> {}

impl<W> PartialOrd for SweepEntry<W> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Ord for SweepEntry<W> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

pub(super) struct IdleSweep<W> {
    idle_after: Duration,
    stuck_after: Duration,
    planned: BinaryHeap<Reverse<SweepEntry<W>>>,
    rings_at: Option<Instant>,
}

impl<W> IdleSweep<W> {
    pub(super) fn new(settings: &ActorSettings) -> Self {
        let ActorSettings { idle_after, stuck_after, .. } = *settings;
        Self { idle_after, stuck_after, planned: BinaryHeap::new(), rings_at: None }
    }

    /// An actor was started.
    pub(super) fn plan_first(&mut self, whom: W, now: Instant) {
        if !self.idle_after.is_zero() {
            self.plan(now + self.idle_after, whom, false);
        }
    }

    /// The next visit that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<SweepEntry<W>> {
        let Reverse(next) = self.planned.peek()?;
        if next.at <= now { self.planned.pop().map(|Reverse(visit)| visit) } else { None }
    }

    /// Judges what a visit saw and plans the next one.
    pub(super) fn judge(&mut self, visit: SweepEntry<W>, sight: ActorSnapshot, now: Instant) -> SweepDecision {
        let ActorSnapshot { leaving, queued, unmoved_for } = sight;
        let works = queued > 0 && unmoved_for < self.stuck_after;
        if leaving && visit.told_to_leave && !works {
            return SweepDecision::Kill;
        }
        let idle = queued == 0 && unmoved_for >= self.idle_after;
        if leaving || idle {
            let patience = if works { self.stuck_after.saturating_sub(unmoved_for) } else { self.stuck_after };
            self.plan(now + patience, visit.whom, true);
            return if leaving { SweepDecision::Leave } else { SweepDecision::Passivate };
        }
        let rest = if queued == 0 { self.idle_after.saturating_sub(unmoved_for) } else { self.idle_after };
        self.plan(now + rest, visit.whom, false);
        SweepDecision::Leave
    }

    /// In how long the timer must ring next, or `None` if one is set that rings early enough.
    pub(super) fn set_timer(&mut self, now: Instant) -> Option<Duration> {
        let Reverse(next) = self.planned.peek()?;
        // Actors that become idle shortly after one another share a ring.
        let together = (self.idle_after / 16).clamp(Duration::from_millis(1), Duration::from_secs(1));
        let at = if next.at <= now { now } else { next.at + together };
        if self.rings_at.is_some_and(|rings_at| rings_at <= at) {
            return None;
        }
        self.rings_at = Some(at);
        Some(at - now)
    }

    /// The timer rang. An earlier timer that was overtaken may ring too.
    pub(super) fn rang(&mut self, now: Instant) {
        self.rings_at = self.rings_at.filter(|&at| now < at);
    }

    fn plan(&mut self, at: Instant, whom: W, told_to_leave: bool) {
        self.planned.push(Reverse(SweepEntry { at, whom, told_to_leave }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_mins(1);
    const STUCK: Duration = Duration::from_secs(30);

    fn sweep() -> (IdleSweep<u64>, Instant) {
        let settings = ActorSettings { idle_after: IDLE, stuck_after: STUCK, ..ActorSettings::default() };
        (IdleSweep::new(&settings), Instant::now())
    }

    fn sight(leaving: bool, queued: u32, unmoved_for: Duration) -> ActorSnapshot {
        ActorSnapshot { leaving, queued, unmoved_for }
    }

    #[test]
    fn an_actor_that_was_busy_is_visited_again_when_it_could_be_idle() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        assert_eq!(sweep.due(now + IDLE / 2), None);
        let now = now + IDLE;
        let visit = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(visit, sight(false, 0, Duration::from_secs(10)), now), SweepDecision::Leave);
        assert_eq!(sweep.due(now + Duration::from_secs(49)), None);
        let now = now + Duration::from_secs(50);
        let visit = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(visit, sight(false, 0, IDLE), now), SweepDecision::Passivate);
    }

    #[test]
    fn an_actor_with_messages_is_never_idle() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        let visit = sweep.due(now + IDLE).unwrap();
        assert_eq!(sweep.judge(visit, sight(false, 1, IDLE * 2), now + IDLE), SweepDecision::Leave);
    }

    #[test]
    fn one_that_was_told_to_leave_and_does_nothing_is_killed_but_not_while_it_works() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        let mut now = now + IDLE;
        let visit = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(visit, sight(false, 0, IDLE), now), SweepDecision::Passivate);
        now += STUCK;
        let visit = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(visit, sight(true, 5, Duration::from_secs(1)), now), SweepDecision::Leave);
        now += STUCK;
        let visit = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(visit, sight(true, 4, STUCK), now), SweepDecision::Kill);
        assert_eq!(sweep.due(now + IDLE), None);
    }

    #[test]
    fn one_timer_serves_many_and_an_earlier_need_sets_another() {
        let (mut sweep, now) = sweep();
        assert_eq!(sweep.set_timer(now), None);
        sweep.plan_first(1, now);
        let ring = sweep.set_timer(now).unwrap();
        assert!(IDLE <= ring && ring <= IDLE + Duration::from_secs(1));
        sweep.plan_first(2, now);
        assert_eq!(sweep.set_timer(now), None);
        sweep.plan(now + STUCK, 3, true);
        assert!(sweep.set_timer(now).unwrap() < IDLE);
        sweep.rang(now);
        assert_eq!(sweep.set_timer(now), None);
    }

    #[test]
    fn without_an_idle_time_nobody_is_visited() {
        let mut sweep =
            IdleSweep::<u64>::new(&ActorSettings { idle_after: Duration::ZERO, ..ActorSettings::default() });
        let now = Instant::now();
        sweep.plan_first(1, now);
        assert_eq!(sweep.set_timer(now), None);
    }
}
