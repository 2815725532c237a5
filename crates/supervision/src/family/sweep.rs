//! Plans when a family checks its actors, to passivate idle ones and to kill ones that are overdue.
//!
//! One timer for each family and one small record for each actor replace a timer for each actor, which every message would have to move. An
//! actor is checked at the earliest time at which it could be idle; if it is not idle, the next check is planned. A message costs nothing
//! here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::ActorSettings;

/// The observed condition of an actor.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActorSnapshot {
    /// The actor accepts no more messages.
    pub(super) leaving: bool,
    /// Messages that wait or are being handled.
    pub(super) queued: u32,
    /// Time since the actor last finished a message.
    pub(super) unmoved_for: Duration,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepDecision {
    Keep,
    Passivate,
    Kill,
}

/// A planned check of one actor. Checks are ordered by their time.
#[derive(Debug)]
pub(super) struct PlannedCheck<W> {
    at: Instant,
    pub(super) actor: W,
    /// At the previous check, the actor was already leaving or was asked to leave.
    asked_to_leave: bool,
}

impl<W> PartialEq for PlannedCheck<W> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<W> Eq for PlannedCheck<W> {}

impl<W> PartialOrd for PlannedCheck<W> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Ord for PlannedCheck<W> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

pub(super) struct IdleSweep<W> {
    idle_after: Duration,
    stuck_after: Duration,
    planned: BinaryHeap<Reverse<PlannedCheck<W>>>,
    timer_at: Option<Instant>,
}

impl<W> IdleSweep<W> {
    pub(super) fn new(settings: &ActorSettings) -> Self {
        let ActorSettings { idle_after, stuck_after, .. } = *settings;
        Self { idle_after, stuck_after, planned: BinaryHeap::new(), timer_at: None }
    }

    pub(super) fn plan_first(&mut self, actor: W, now: Instant) {
        if !self.idle_after.is_zero() {
            self.plan(now + self.idle_after, actor, false);
        }
    }

    /// Removes and returns the next check that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<PlannedCheck<W>> {
        let Reverse(next) = self.planned.peek()?;
        if next.at <= now { self.planned.pop().map(|Reverse(check)| check) } else { None }
    }

    /// Decides about the actor, and plans its next check unless it is to be killed.
    pub(super) fn judge(&mut self, check: PlannedCheck<W>, snapshot: ActorSnapshot, now: Instant) -> SweepDecision {
        let ActorSnapshot { leaving, queued, unmoved_for } = snapshot;
        let works = queued > 0 && unmoved_for < self.stuck_after;
        if leaving && check.asked_to_leave && !works {
            return SweepDecision::Kill;
        }
        let idle = queued == 0 && unmoved_for >= self.idle_after;
        if leaving || idle {
            let time_limit = if works { self.stuck_after.saturating_sub(unmoved_for) } else { self.stuck_after };
            self.plan(now + time_limit, check.actor, true);
            return if leaving { SweepDecision::Keep } else { SweepDecision::Passivate };
        }
        let rest = if queued == 0 { self.idle_after.saturating_sub(unmoved_for) } else { self.idle_after };
        self.plan(now + rest, check.actor, false);
        SweepDecision::Keep
    }

    /// The delay of the timer to set, or `None` if one is set that fires early enough.
    pub(super) fn set_timer(&mut self, now: Instant) -> Option<Duration> {
        let Reverse(next) = self.planned.peek()?;
        // Actors that become idle shortly after one another share a timer.
        let together = (self.idle_after / 16).clamp(Duration::from_millis(1), Duration::from_secs(1));
        let at = if next.at <= now { now } else { next.at + together };
        if self.timer_at.is_some_and(|timer_at| timer_at <= at) {
            return None;
        }
        self.timer_at = Some(at);
        Some(at - now)
    }

    /// Plans the checks by changed settings, so that each is at the earliest time at which its actor could be idle, or late in leaving.
    /// `actors` returns the actors that exist.
    pub(super) fn retune(&mut self, settings: &ActorSettings, actors: impl FnOnce() -> Vec<W>, now: Instant) {
        let idle_before = std::mem::replace(&mut self.idle_after, settings.idle_after);
        let stuck_before = std::mem::replace(&mut self.stuck_after, settings.stuck_after);
        let idle_sooner = idle_before.saturating_sub(self.idle_after);
        let stuck_sooner = stuck_before.saturating_sub(self.stuck_after);
        let decides_itself = self.idle_after.is_zero();
        let planned = std::mem::take(&mut self.planned).into_iter();
        self.planned = planned
            .filter(|Reverse(check)| check.asked_to_leave || !decides_itself)
            .map(|Reverse(check)| {
                let sooner = if check.asked_to_leave { stuck_sooner } else { idle_sooner };
                Reverse(PlannedCheck { at: check.at.checked_sub(sooner).unwrap_or(now), ..check })
            })
            .collect();
        if idle_before.is_zero() {
            for actor in actors() {
                self.plan_first(actor, now);
            }
        }
    }

    /// Handles a timer. A timer that was replaced by a later one fires too.
    pub(super) fn on_timer(&mut self, now: Instant) {
        self.timer_at = self.timer_at.filter(|&at| now < at);
    }

    fn plan(&mut self, at: Instant, actor: W, asked_to_leave: bool) {
        self.planned.push(Reverse(PlannedCheck { at, actor, asked_to_leave }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_mins(1);
    const STUCK: Duration = Duration::from_secs(30);

    fn settings(idle_after: Duration) -> ActorSettings {
        ActorSettings { idle_after, stuck_after: STUCK, ..ActorSettings::default() }
    }

    fn sweep() -> (IdleSweep<u64>, Instant) {
        (IdleSweep::new(&settings(IDLE)), Instant::now())
    }

    fn snapshot(leaving: bool, queued: u32, unmoved_for: Duration) -> ActorSnapshot {
        ActorSnapshot { leaving, queued, unmoved_for }
    }

    #[test]
    fn an_actor_that_was_busy_is_checked_again_when_it_could_be_idle() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        assert_eq!(sweep.due(now + IDLE / 2), None);
        let now = now + IDLE;
        let check = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 0, Duration::from_secs(10)), now), SweepDecision::Keep);
        assert_eq!(sweep.due(now + Duration::from_secs(49)), None);
        let now = now + Duration::from_secs(50);
        let check = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 0, IDLE), now), SweepDecision::Passivate);
    }

    #[test]
    fn a_shorter_idle_time_is_in_force_for_actors_that_are_planned_already() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        sweep.retune(&settings(IDLE / 6), Vec::new, now);
        let check = sweep.due(now + IDLE / 6).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 0, IDLE / 6), now + IDLE / 6), SweepDecision::Passivate);
    }

    #[test]
    fn a_longer_idle_time_keeps_actors_that_are_checked_early() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        sweep.retune(&settings(IDLE * 2), Vec::new, now);
        let check = sweep.due(now + IDLE).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 0, IDLE), now + IDLE), SweepDecision::Keep);
        let check = sweep.due(now + IDLE * 2).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 0, IDLE * 2), now + IDLE * 2), SweepDecision::Passivate);
    }

    #[test]
    fn without_an_idle_time_planned_checks_end_and_with_one_they_begin() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        sweep.retune(&settings(Duration::ZERO), Vec::new, now);
        assert_eq!(sweep.due(now + IDLE * 9), None);
        sweep.retune(&settings(IDLE), || vec![1, 2], now);
        assert_eq!(sweep.due(now + IDLE / 2), None);
        let due: Vec<u64> = std::iter::from_fn(|| sweep.due(now + IDLE)).map(|check| check.actor).collect();
        assert_eq!(due.len(), 2, "{due:?}");
    }

    #[test]
    fn an_actor_with_messages_is_never_idle() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        let check = sweep.due(now + IDLE).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 1, IDLE * 2), now + IDLE), SweepDecision::Keep);
    }

    #[test]
    fn an_actor_asked_to_leave_is_killed_when_it_does_nothing_but_not_while_it_works() {
        let (mut sweep, now) = sweep();
        sweep.plan_first(1, now);
        let mut now = now + IDLE;
        let check = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(check, snapshot(false, 0, IDLE), now), SweepDecision::Passivate);
        now += STUCK;
        let check = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(check, snapshot(true, 5, Duration::from_secs(1)), now), SweepDecision::Keep);
        now += STUCK;
        let check = sweep.due(now).unwrap();
        assert_eq!(sweep.judge(check, snapshot(true, 4, STUCK), now), SweepDecision::Kill);
        assert_eq!(sweep.due(now + IDLE), None);
    }

    #[test]
    fn one_timer_serves_many_and_an_earlier_need_sets_another() {
        let (mut sweep, now) = sweep();
        assert_eq!(sweep.set_timer(now), None);
        sweep.plan_first(1, now);
        let delay = sweep.set_timer(now).unwrap();
        assert!(IDLE <= delay && delay <= IDLE + Duration::from_secs(1));
        sweep.plan_first(2, now);
        assert_eq!(sweep.set_timer(now), None);
        sweep.plan(now + STUCK, 3, true);
        assert!(sweep.set_timer(now).unwrap() < IDLE);
        sweep.on_timer(now);
        assert_eq!(sweep.set_timer(now), None);
    }

    #[test]
    fn without_an_idle_time_no_actor_is_checked() {
        let mut sweep = IdleSweep::<u64>::new(&settings(Duration::ZERO));
        let now = Instant::now();
        sweep.plan_first(1, now);
        assert_eq!(sweep.set_timer(now), None);
    }
}
