//! The actor of the root: a state machine over the children. Handlers do not wait, so messages are handled at once.

#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "the form of a message handler")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorProcessingErr, ActorRef, ActorStatus, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::child::{ChildSpec, Role};
use super::exit::{Progress, TreeExit};
use super::settings::RootSettings;
use super::tree::{BUSIEST_MAX, Budget, ChildFailure, FAILURES_MAX, Node, NotReplaced, Status};
use crate::address::milliseconds;
use crate::causes::with_causes;
use crate::jitter::Jitter;
use crate::periodic::passes::Passes;
use crate::restart::{Decision, RestartPolicy};
use crate::settings::ActorSettings;

/// Maximum length of an error in the tree, in characters.
const ERROR_CHARACTERS_MAX: usize = 400;

pub(crate) enum RootMessage {
    /// The restart delay of this child has passed. Sent by the root's own timer.
    Restart { child: usize, attempt: u64 },
    /// An attempt to start this child ended. Sent by the task of the attempt.
    Started { child: usize, attempt: u64, result: Result<ActorCell, String> },
    /// Sent by [`Root::drain`](crate::Root::drain).
    Drain(Duration),
    /// Sent by [`Root::kill_now`](crate::Root::kill_now).
    KillNow,
    /// The drain deadline has passed. Sent by the root's own timer.
    DeadlineHit,
    /// The grace period of killed children has passed. Sent by the root's own timer.
    Abandon,
    /// The reply is a snapshot. Sent by [`Root::tree`](crate::Root::tree).
    Tree(oneshot::Sender<Node>),
    /// The reply is the number of children of this kind. Sent by [`Root::retune`](crate::Root::retune).
    Retune { kind: &'static str, settings: ActorSettings, reply: oneshot::Sender<usize> },
    /// Sent by [`Root::replace`](crate::Root::replace).
    Replace { child: String, kill: bool, reply: oneshot::Sender<Result<(), NotReplaced>> },
}

pub(crate) struct Supervisor {
    pub(super) settings: RootSettings,
    pub(super) jitter: Jitter,
    pub(super) progress: watch::Sender<Progress>,
}

pub(crate) struct SupervisorState {
    children: Vec<Child>,
    phase: Phase,
}

enum Phase {
    /// Children before `next` run.
    Starting {
        next: usize,
    },
    Up,
    Ending {
        outcome: TreeExit,
        killed: bool,
    },
}

struct Child {
    spec: ChildSpec,
    policy: RestartPolicy,
    state: ChildState,
    /// Number of the current attempt to start the child; results of earlier attempts are discarded.
    attempt: u64,
    restarts: u64,
    /// Newest first.
    failures: VecDeque<(Instant, ChildFailure)>,
    restarts_at: Option<Instant>,
    /// An operator ended its actor, so the end is no failure.
    is_replaced: bool,
}

enum ChildState {
    Waiting,
    Starting(AbortHandle),
    Running(ActorCell),
    Stopping(ActorCell),
    Stopped,
}

#[ractor::actor(
    message = RootMessage,
    state = SupervisorState,
    arguments = Vec<ChildSpec>,
)]
impl Supervisor {
    async fn pre_start(
        &self,
        _myself: ActorRef<RootMessage>,
        children: Vec<ChildSpec>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let children = children.into_iter().map(Child::new).collect();
        Ok(SupervisorState { children, phase: Phase::Starting { next: 0 } })
    }

    async fn post_start(
        &self,
        myself: ActorRef<RootMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        self.start_next(&myself, state);
        Ok(())
    }

    #[ractor::message(RootMessage::Restart { child, attempt })]
    fn restart(&self, myself: ActorRef<RootMessage>, child: usize, attempt: u64, state: &mut SupervisorState) {
        // An operator may have restarted it before the end of its delay.
        if state.children[child].attempt == attempt {
            self.start_again(&myself, child, state);
        }
    }

    #[ractor::message(RootMessage::Started { child, attempt, result })]
    fn started(
        &self,
        myself: ActorRef<RootMessage>,
        child: usize,
        attempt: u64,
        result: Result<ActorCell, String>,
        state: &mut SupervisorState,
    ) {
        let entry = &mut state.children[child];
        if entry.attempt != attempt {
            return;
        }
        match result {
            // The child's failure arrived before its start.
            Ok(actor) if actor.get_status() >= ActorStatus::Stopping => {
                self.failed(&myself, child, "it ended as soon as it was started", state);
            }
            Ok(actor) if matches!(state.phase, Phase::Ending { .. }) => {
                entry.state = ChildState::Running(actor);
                self.end_next(&myself, state);
            }
            Ok(actor) => {
                let kind = entry.spec.address.kind().name;
                tracing::debug!(actor.name = entry.spec.name, actor.kind = kind, "actor started");
                entry.spec.address.point_at(actor.clone());
                entry.policy.on_started(Instant::now());
                entry.state = ChildState::Running(actor);
                entry.show_state();
                self.start_next(&myself, state);
            }
            Err(error) => self.failed(&myself, child, &error, state),
        }
    }

    #[ractor::message(RootMessage::Drain(deadline))]
    fn drain(&self, myself: ActorRef<RootMessage>, deadline: Duration, state: &mut SupervisorState) {
        self.end(&myself, TreeExit::Drained, deadline, state);
    }

    #[ractor::message(RootMessage::KillNow)]
    fn kill_now(&self, myself: ActorRef<RootMessage>, state: &mut SupervisorState) {
        self.kill(&myself, TreeExit::Killed, state);
    }

    #[ractor::message(RootMessage::DeadlineHit)]
    fn deadline_hit(&self, myself: ActorRef<RootMessage>, state: &mut SupervisorState) {
        self.kill(&myself, TreeExit::DeadlineHit, state);
    }

    #[ractor::message(RootMessage::Abandon)]
    fn abandon(&self, myself: ActorRef<RootMessage>, state: &SupervisorState) {
        for child in &state.children {
            if let ChildState::Stopping(_) | ChildState::Starting(_) = child.state {
                tracing::error!(actor.name = child.spec.name, "leaving an actor behind that cannot be killed");
            }
        }
        self.finish(&myself, state);
    }

    #[ractor::message(RootMessage::Tree(reply))]
    fn tree(&self, reply: oneshot::Sender<Node>, state: &SupervisorState) {
        let children: Vec<_> = state.children.iter().map(Child::node).collect();
        let status = match state.phase {
            Phase::Starting { .. } => Status::Starting,
            Phase::Up => Status::Running,
            Phase::Ending { .. } => Status::Stopping,
        };
        let root = Node {
            name: "root".to_owned(),
            kind: "root".into(),
            role: Role::Root,
            status,
            restarts: children.iter().map(|child| child.restarts).sum(),
            budget: None,
            restarts_in_ms: None,
            failures: Vec::new(),
            failing: None,
            pass: None,
            live: children.iter().map(|child| child.live).sum(),
            queued: children.iter().map(|child| child.queued).sum(),
            unmoved_ms: None,
            oldest_ms: None,
            quarantined: children.iter().map(|child| child.quarantined).sum(),
            times: None,
            busiest: Vec::new(),
            children,
        };
        // Fails only if the caller no longer waits.
        let _ = reply.send(root);
    }

    #[ractor::message(RootMessage::Retune { kind, settings, reply })]
    fn retune(
        &self,
        kind: &'static str,
        settings: ActorSettings,
        reply: oneshot::Sender<usize>,
        state: &SupervisorState,
    ) {
        let addresses = state.children.iter().map(|child| &child.spec.address);
        let retuned = addresses.filter(|address| address.kind().name == kind);
        // Fails only if the caller no longer waits.
        let _ = reply.send(retuned.map(|address| address.retune(&settings)).count());
    }

    #[ractor::message(RootMessage::Replace { child, kill, reply })]
    fn replace(
        &self,
        myself: ActorRef<RootMessage>,
        child: String,
        kill: bool,
        reply: oneshot::Sender<Result<(), NotReplaced>>,
        state: &mut SupervisorState,
    ) {
        // Fails only if the caller no longer waits.
        let _ = reply.send(self.end_to_start_again(&myself, &child, kill, state));
    }

    fn end_to_start_again(
        &self,
        myself: &ActorRef<RootMessage>,
        child: &str,
        kill: bool,
        state: &mut SupervisorState,
    ) -> Result<(), NotReplaced> {
        if matches!(state.phase, Phase::Ending { .. }) {
            return Err(NotReplaced::Ending);
        }
        let index = state.children.iter().position(|entry| entry.spec.name == child).ok_or(NotReplaced::Unknown)?;
        let entry = &mut state.children[index];
        match &entry.state {
            ChildState::Running(actor) | ChildState::Stopping(actor) => {
                let actor = actor.clone();
                // Senders repeat after the usual delay of a restart.
                let delay = entry.spec.address.kind().settings().restart.backoff_min;
                entry.spec.address.down_until(Instant::now() + delay);
                if kill {
                    actor.kill();
                } else if matches!(entry.state, ChildState::Running(_)) {
                    (entry.spec.stop)(&actor);
                }
                (entry.is_replaced, entry.state) = (true, ChildState::Stopping(actor));
            }
            ChildState::Waiting if entry.attempt > 0 => self.start_again(myself, index, state),
            ChildState::Waiting | ChildState::Starting(_) | ChildState::Stopped => return Err(NotReplaced::Starting),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<RootMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let (actor, error) = match event {
            SupervisionEvent::ActorFailed(actor, error) => (actor, with_causes(&*error)),
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                (actor, reason.unwrap_or_else(|| "it stopped by itself".to_owned()))
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        // An actor that is not found ended before its start was reported; `started` handles that case.
        let Some(child) = state.children.iter().position(|child| child.is(&actor)) else { return Ok(()) };
        let entry = &mut state.children[child];
        if std::mem::take(&mut entry.is_replaced) && !matches!(state.phase, Phase::Ending { .. }) {
            entry.state = ChildState::Waiting;
            entry.show_state();
            self.start_again(&myself, child, state);
        } else {
            self.failed(&myself, child, &error, state);
        }
        Ok(())
    }

    /// Starts a child again after its actor has ended.
    fn start_again(&self, myself: &ActorRef<RootMessage>, child: usize, state: &mut SupervisorState) {
        let entry = &mut state.children[child];
        if matches!(entry.state, ChildState::Waiting) && !matches!(state.phase, Phase::Ending { .. }) {
            entry.restarts += 1;
            entry.spec.address.kind().restarts.increment(1);
            self.start(myself, child, entry);
        }
    }

    /// Starts the next child of the list, if the one before it runs.
    fn start_next(&self, myself: &ActorRef<RootMessage>, state: &mut SupervisorState) {
        let Phase::Starting { next } = &mut state.phase else { return };
        while state.children.get(*next).is_some_and(|child| matches!(child.state, ChildState::Running(_))) {
            *next += 1;
        }
        let next = *next;
        match state.children.get_mut(next) {
            Some(child) if matches!(child.state, ChildState::Waiting) && child.attempt == 0 => {
                self.start(myself, next, child);
            }
            Some(_) => {}
            None => {
                state.phase = Phase::Up;
                self.progress.send_replace(Progress::Up);
            }
        }
    }

    /// Starts a child in a separate task, which reports back.
    fn start(&self, myself: &ActorRef<RootMessage>, index: usize, child: &mut Child) {
        child.attempt += 1;
        let (attempt, start, deadline) = (child.attempt, Arc::clone(&child.spec.start), self.settings.start_deadline);
        let root = myself.get_cell();
        let starting = tokio::spawn(async move { tokio::time::timeout(deadline, start(root)).await });
        child.state = ChildState::Starting(starting.abort_handle());
        let myself = myself.clone();
        tokio::spawn(async move {
            let result = match starting.await {
                Ok(Ok(started)) => started.map_err(|error| with_causes(&error)),
                Ok(Err(_elapsed)) => Err(format!("it did not start within {deadline:?}")),
                Err(panicked) => Err(panicked.to_string()),
            };
            // Fails only if the root has ended, and the child with it.
            let _ = myself.send_message(RootMessage::Started { child: index, attempt, result });
        });
    }

    /// A child ended, or could not be started.
    fn failed(&self, myself: &ActorRef<RootMessage>, index: usize, error: &str, state: &mut SupervisorState) {
        let child = &mut state.children[index];
        if matches!(state.phase, Phase::Ending { .. }) {
            child.state = ChildState::Stopped;
            child.show_state();
            return self.end_next(myself, state);
        }
        let now = Instant::now();
        let kind = child.spec.address.kind();
        kind.crashes.increment(1);
        child.failures.truncate(FAILURES_MAX - 1);
        let request = child.spec.address.panicked_request();
        let error_line = error.chars().take(ERROR_CHARACTERS_MAX).collect();
        child.failures.push_front((now, ChildFailure { error: error_line, request, seconds_ago: 0 }));
        child.state = ChildState::Waiting;
        match child.policy.on_failure(&kind.settings().restart, now, self.jitter.fraction()) {
            Decision::Restart { after } => {
                tracing::error!(
                    actor.name = child.spec.name,
                    actor.kind = kind.name,
                    error,
                    restart_after_ms = after.as_millis(),
                    "actor failed, will be restarted"
                );
                child.spec.address.down_until(now + after);
                child.restarts_at = Some(now + after);
                child.show_state();
                let attempt = child.attempt;
                myself.send_after(after, move || RootMessage::Restart { child: index, attempt });
            }
            Decision::GiveUp => {
                tracing::error!(
                    actor.name = child.spec.name,
                    actor.kind = kind.name,
                    error,
                    "actor used up its restarts, giving up"
                );
                let outcome = TreeExit::GaveUp { child: child.spec.name.clone() };
                self.end(myself, outcome, self.settings.give_up_deadline, state);
            }
        }
    }

    /// Closes every address and starts to stop the children.
    fn end(&self, myself: &ActorRef<RootMessage>, outcome: TreeExit, deadline: Duration, state: &mut SupervisorState) {
        if matches!(state.phase, Phase::Ending { .. }) {
            return;
        }
        state.phase = Phase::Ending { outcome, killed: false };
        for child in &mut state.children {
            child.spec.address.close();
            match &child.state {
                ChildState::Waiting => child.state = ChildState::Stopped,
                ChildState::Starting(task) => task.abort(),
                ChildState::Running(_) | ChildState::Stopping(_) | ChildState::Stopped => {}
            }
        }
        myself.send_after(deadline, || RootMessage::DeadlineHit);
        self.end_next(myself, state);
    }

    /// Stops the last running child, once the children after it have ended; finishes when every child has ended.
    fn end_next(&self, myself: &ActorRef<RootMessage>, state: &mut SupervisorState) {
        let Phase::Ending { killed, .. } = state.phase else { return };
        for child in state.children.iter_mut().rev() {
            match &child.state {
                ChildState::Stopped => {}
                ChildState::Running(actor) => {
                    let actor = actor.clone();
                    if killed {
                        actor.kill();
                    } else {
                        (child.spec.stop)(&actor);
                    }
                    child.state = ChildState::Stopping(actor);
                    return;
                }
                ChildState::Waiting | ChildState::Starting(_) | ChildState::Stopping(_) => return,
            }
        }
        self.finish(myself, state);
    }

    fn kill(&self, myself: &ActorRef<RootMessage>, outcome: TreeExit, state: &mut SupervisorState) {
        self.end(myself, outcome.clone(), self.settings.give_up_deadline, state);
        let Phase::Ending { outcome: planned, killed } = &mut state.phase else { return };
        if std::mem::replace(killed, true) {
            return;
        }
        if *planned == TreeExit::Drained {
            *planned = outcome;
        }
        for child in &mut state.children {
            if let ChildState::Running(actor) | ChildState::Stopping(actor) = &child.state {
                tracing::warn!(actor.name = child.spec.name, "killing an actor that has not finished");
                actor.kill();
                child.state = ChildState::Stopping(actor.clone());
            }
        }
        myself.send_after(self.settings.kill_grace, || RootMessage::Abandon);
        self.end_next(myself, state);
    }

    fn finish(&self, myself: &ActorRef<RootMessage>, state: &SupervisorState) {
        if let Phase::Ending { outcome, .. } = &state.phase {
            tracing::info!(?outcome, "every actor has ended");
            self.progress.send_replace(Progress::Ended(outcome.clone()));
            myself.stop(None);
        }
    }
}

impl Child {
    fn new(spec: ChildSpec) -> Self {
        Self {
            spec,
            policy: RestartPolicy::default(),
            state: ChildState::Waiting,
            attempt: 0,
            restarts: 0,
            failures: VecDeque::new(),
            restarts_at: None,
            is_replaced: false,
        }
    }

    fn is(&self, actor: &ActorCell) -> bool {
        matches!(&self.state, ChildState::Running(mine) | ChildState::Stopping(mine) if mine == actor)
    }

    /// Sets the gauge of running actors; a family counts its own members.
    fn show_state(&self) {
        if self.spec.role != Role::Family {
            let running = matches!(self.state, ChildState::Running(_) | ChildState::Stopping(_));
            self.spec.address.kind().live.set(f64::from(u8::from(running)));
        }
    }

    fn node(&self) -> Node {
        let (counts, kind, now) = (self.spec.address.counts(), self.spec.address.kind(), Instant::now());
        let (restarts_left, more_at) = self.policy.left(&kind.settings().restart, now);
        let restarts_at = self.restarts_at.filter(|_| matches!(self.state, ChildState::Waiting));
        Node {
            name: self.spec.name.clone(),
            kind: kind.name.into(),
            role: self.spec.role,
            status: match self.state {
                ChildState::Waiting => Status::Waiting,
                ChildState::Starting(_) => Status::Starting,
                ChildState::Running(_) => Status::Running,
                ChildState::Stopping(_) => Status::Stopping,
                ChildState::Stopped => Status::Stopped,
            },
            restarts: self.restarts,
            budget: Some(Budget { restarts_left, more_in_ms: more_at.map(|at| milliseconds(at - now)) }),
            restarts_in_ms: restarts_at.map(|at| milliseconds(at - now)),
            failures: self
                .failures
                .iter()
                .map(|(at, failure)| ChildFailure { seconds_ago: at.elapsed().as_secs(), ..failure.clone() })
                .collect(),
            failing: self.spec.passes.as_ref().and_then(Passes::failing),
            pass: self.spec.passes.as_ref().and_then(Passes::last),
            live: counts.live,
            queued: counts.queued,
            unmoved_ms: counts.unmoved_for.map(milliseconds),
            oldest_ms: counts.oldest_for.map(milliseconds),
            quarantined: counts.quarantined,
            times: kind.message_times(),
            busiest: self.spec.address.busiest(BUSIEST_MAX),
            children: Vec::new(),
        }
    }
}
