//! The root's actor: a small state machine over its children. It never waits inside a handler, so it hears everything at once.

#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "the form of a message handler")]

use std::sync::Arc;
use std::time::Duration;

use domain::Rng;
use ractor::{ActorCell, ActorProcessingErr, ActorRef, ActorStatus, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::child::{ChildSpec, Role};
use super::tree::{LastFailure, Node, Status};
use super::{Progress, RootSettings, TreeExit};
use crate::periodic::Passes;
use crate::restart::{Decision, RestartPolicy};

/// Longest error that is kept for the operator, in characters.
const ERROR_CHARACTERS_MAX: usize = 200;

/// What the root is told.
pub(crate) enum RootMessage {
    /// The delay of this child's restart is over. Sent by the root's own timer.
    Restart { child: usize },
    /// An attempt to start this child ended. Sent by the task that made it.
    Started { child: usize, attempt: u64, result: Result<ActorCell, String> },
    /// Sent by [`Root::drain`](super::Root::drain).
    Drain(Duration),
    /// Sent by [`Root::kill_now`](super::Root::kill_now).
    KillNow,
    /// The time to drain is over. Sent by the root's own timer.
    DeadlineHit,
    /// The time to die is over. Sent by the root's own timer.
    Abandon,
    /// The reply is a snapshot. Sent by [`Root::tree`](super::Root::tree).
    Tree(oneshot::Sender<Node>),
}

pub(crate) struct Supervisor {
    pub(super) settings: RootSettings,
    pub(super) rng: Rng,
    pub(super) progress: watch::Sender<Progress>,
}

pub(crate) struct SupervisorState {
    children: Vec<Child>,
    phase: Phase,
}

enum Phase {
    /// Children before this one were up.
    Rising {
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
    life: ChildState,
    /// Tells the results of older attempts to start it from the present one's.
    attempt: u64,
    restarts: u64,
    last_failure: Option<(Instant, String)>,
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
        Ok(SupervisorState { children, phase: Phase::Rising { next: 0 } })
    }

    async fn post_start(
        &self,
        myself: ActorRef<RootMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        self.rise(&myself, state);
        Ok(())
    }

    #[ractor::message(RootMessage::Restart { child })]
    fn restart(&self, myself: ActorRef<RootMessage>, child: usize, state: &mut SupervisorState) {
        let child_state = &mut state.children[child];
        if matches!(child_state.life, ChildState::Waiting) && !matches!(state.phase, Phase::Ending { .. }) {
            child_state.restarts += 1;
            child_state.spec.address.kind().restarts.increment(1);
            self.start(&myself, child, child_state);
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
        let child_state = &mut state.children[child];
        if child_state.attempt != attempt {
            return;
        }
        match result {
            // Its failure was reported before the root knew it.
            Ok(actor) if actor.get_status() >= ActorStatus::Stopping => {
                self.failed(&myself, child, "it ended as soon as it was started", state);
            }
            Ok(actor) if matches!(state.phase, Phase::Ending { .. }) => {
                child_state.life = ChildState::Running(actor);
                self.end_next(&myself, state);
            }
            Ok(actor) => {
                let kind = child_state.spec.address.kind().name;
                tracing::info!(actor.name = child_state.spec.name, actor.kind = kind, "actor started");
                child_state.spec.address.point_at(actor.clone());
                child_state.policy.on_started(Instant::now());
                child_state.life = ChildState::Running(actor);
                child_state.show_life();
                self.rise(&myself, state);
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
            if let ChildState::Stopping(_) | ChildState::Starting(_) = child.life {
                tracing::error!(actor.name = child.spec.name, "leaving an actor behind that cannot be killed");
            }
        }
        self.finish(&myself, state);
    }

    #[ractor::message(RootMessage::Tree(reply))]
    fn tree(&self, reply: oneshot::Sender<Node>, state: &SupervisorState) {
        let children: Vec<_> = state.children.iter().map(Child::node).collect();
        let status = match state.phase {
            Phase::Rising { .. } => Status::Starting,
            Phase::Up => Status::Running,
            Phase::Ending { .. } => Status::Stopping,
        };
        let root = Node {
            name: "root".to_owned(),
            kind: "root",
            role: Role::Root,
            status,
            restarts: children.iter().map(|child| child.restarts).sum(),
            last_failure: None,
            failing: None,
            live: children.iter().map(|child| child.live).sum(),
            queued: children.iter().map(|child| child.queued).sum(),
            unmoved_ms: None,
            quarantined: children.iter().map(|child| child.quarantined).sum(),
            children,
        };
        // Nobody waits any more: nothing to do.
        let _ = reply.send(root);
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<RootMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let (actor, error) = match event {
            SupervisionEvent::ActorFailed(actor, error) => (actor, domain::reasons(&*error)),
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                (actor, reason.unwrap_or_else(|| "it stopped by itself".to_owned()))
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        // An actor that is not here any more ended before its start was reported, and is dealt with there.
        if let Some(child) = state.children.iter().position(|child| child.is(&actor)) {
            self.failed(&myself, child, &error, state);
        }
        Ok(())
    }

    /// Starts the next child of the list, if the one before it is up.
    fn rise(&self, myself: &ActorRef<RootMessage>, state: &mut SupervisorState) {
        let Phase::Rising { next } = &mut state.phase else { return };
        while state.children.get(*next).is_some_and(|child| matches!(child.life, ChildState::Running(_))) {
            *next += 1;
        }
        let next = *next;
        match state.children.get_mut(next) {
            Some(child) if matches!(child.life, ChildState::Waiting) && child.attempt == 0 => {
                self.start(myself, next, child);
            }
            Some(_) => {}
            None => {
                state.phase = Phase::Up;
                self.progress.send_replace(Progress::Up);
            }
        }
    }

    /// Starts a child in a task of its own, which reports back.
    fn start(&self, myself: &ActorRef<RootMessage>, index: usize, child: &mut Child) {
        child.attempt += 1;
        let (attempt, start, deadline) = (child.attempt, Arc::clone(&child.spec.start), self.settings.start_deadline);
        let root = myself.get_cell();
        let starting = tokio::spawn(async move { tokio::time::timeout(deadline, start(root)).await });
        child.life = ChildState::Starting(starting.abort_handle());
        let myself = myself.clone();
        tokio::spawn(async move {
            let result = match starting.await {
                Ok(Ok(started)) => started.map_err(|error| domain::reasons(&error)),
                Ok(Err(_elapsed)) => Err(format!("it did not start within {deadline:?}")),
                Err(panicked) => Err(panicked.to_string()),
            };
            // Fails only if the root is gone, and then it took the child with it.
            let _ = myself.send_message(RootMessage::Started { child: index, attempt, result });
        });
    }

    /// A child ended, or could not be started.
    fn failed(&self, myself: &ActorRef<RootMessage>, index: usize, error: &str, state: &mut SupervisorState) {
        let child = &mut state.children[index];
        if matches!(state.phase, Phase::Ending { .. }) {
            child.life = ChildState::Stopped;
            child.show_life();
            return self.end_next(myself, state);
        }
        let now = Instant::now();
        let kind = child.spec.address.kind();
        kind.crashes.increment(1);
        child.last_failure = Some((now, error.chars().take(ERROR_CHARACTERS_MAX).collect()));
        child.life = ChildState::Waiting;
        match child.policy.on_failure(now, self.rng.fraction()) {
            Decision::Restart { after } => {
                tracing::error!(
                    actor.name = child.spec.name,
                    actor.kind = kind.name,
                    error,
                    restart_after_ms = after.as_millis(),
                    "actor failed, will be restarted"
                );
                child.spec.address.down_until(now + after);
                child.show_life();
                myself.send_after(after, move || RootMessage::Restart { child: index });
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

    /// Closes every address and begins to stop the children.
    fn end(&self, myself: &ActorRef<RootMessage>, outcome: TreeExit, deadline: Duration, state: &mut SupervisorState) {
        if matches!(state.phase, Phase::Ending { .. }) {
            return;
        }
        state.phase = Phase::Ending { outcome, killed: false };
        for child in &mut state.children {
            child.spec.address.close();
            match &child.life {
                ChildState::Waiting => child.life = ChildState::Stopped,
                ChildState::Starting(task) => task.abort(),
                ChildState::Running(_) | ChildState::Stopping(_) | ChildState::Stopped => {}
            }
        }
        myself.send_after(deadline, || RootMessage::DeadlineHit);
        self.end_next(myself, state);
    }

    /// Stops the last child that runs, when nothing below it is left; finishes when nothing is left at all.
    fn end_next(&self, myself: &ActorRef<RootMessage>, state: &mut SupervisorState) {
        let Phase::Ending { killed, .. } = state.phase else { return };
        for child in state.children.iter_mut().rev() {
            match &child.life {
                ChildState::Stopped => {}
                ChildState::Running(actor) => {
                    let actor = actor.clone();
                    if killed {
                        actor.kill();
                    } else {
                        (child.spec.stop)(&actor);
                    }
                    child.life = ChildState::Stopping(actor);
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
            if let ChildState::Running(actor) | ChildState::Stopping(actor) = &child.life {
                tracing::warn!(actor.name = child.spec.name, "killing an actor that has not finished");
                actor.kill();
                child.life = ChildState::Stopping(actor.clone());
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
        let policy = RestartPolicy::new(spec.address.kind().settings.restart.clone());
        Self { spec, policy, life: ChildState::Waiting, attempt: 0, restarts: 0, last_failure: None }
    }

    fn is(&self, actor: &ActorCell) -> bool {
        matches!(&self.life, ChildState::Running(mine) | ChildState::Stopping(mine) if mine == actor)
    }

    /// The gauge of living actors; a family counts its own members.
    fn show_life(&self) {
        if self.spec.role != Role::Family {
            let running = matches!(self.life, ChildState::Running(_) | ChildState::Stopping(_));
            self.spec.address.kind().live.set(f64::from(u8::from(running)));
        }
    }

    fn node(&self) -> Node {
        let census = self.spec.address.census();
        Node {
            name: self.spec.name.clone(),
            kind: self.spec.address.kind().name,
            role: self.spec.role,
            status: match self.life {
                ChildState::Waiting => Status::Waiting,
                ChildState::Starting(_) => Status::Starting,
                ChildState::Running(_) => Status::Running,
                ChildState::Stopping(_) => Status::Stopping,
                ChildState::Stopped => Status::Stopped,
            },
            restarts: self.restarts,
            last_failure: self
                .last_failure
                .as_ref()
                .map(|(at, error)| LastFailure { error: error.clone(), seconds_ago: at.elapsed().as_secs() }),
            failing: self.spec.passes.as_ref().and_then(Passes::failing),
            live: census.live,
            queued: census.queued,
            unmoved_ms: census.unmoved_for.map(|unmoved| u64::try_from(unmoved.as_millis()).unwrap_or(u64::MAX)),
            quarantined: census.quarantined,
            children: Vec::new(),
        }
    }
}
