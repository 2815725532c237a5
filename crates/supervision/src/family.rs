//! The supervisor of all actors of one keyed kind.
//!
//! The family ensures one actor for each key, limits the number of actors, and quarantines keys with repeatedly crashing actors. It also
//! passivates: it asks an actor to leave that finished its last message `idle_after` ago. The actor then finishes its inbox and refuses
//! later messages, so that no message is lost between two actors. This needs no code in the actor; an actor that has finished its work may
//! also leave by itself ([`SelfRef::leave`](crate::keyed::SelfRef::leave)).
//!
//! Messages do not pass through the family: senders deliver them to the entry of the key (`family/entry.rs`). The family does no IO:
//! arguments arrive loaded, and the start of a keyed actor only builds its state from them.
//!
//! **If it crashes:** its actors are killed, the registry is cleared, and the root restarts the family; the next message of a key starts an
//! actor. A crash of an *actor* does not count against the restart budget of the family.

#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "the form of a message handler")]

pub(crate) mod entry;
pub(crate) mod quarantine;
pub(crate) mod registry;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use crate::keyed::KeyedActor;
use crate::mailbox::Reply;
use crate::unavailable::Unavailable;
use entry::Entry;
use registry::Registry;
use sweep::{ActorSnapshot, IdleSweep, SweepDecision};

/// Timeout of the start of a keyed actor. A start only builds a state, and activations of other keys wait for it.
const START_DEADLINE: Duration = Duration::from_secs(1);

/// Maximum number of checks in one message, so that activations do not wait for a long sweep.
const CHECKS_MAX: usize = 256;

/// Sent by a [`Directory`](crate::Directory) and by the family's own timer.
pub(crate) enum FamilyMessage<A: KeyedActor> {
    /// A sender found no actor of the key. The reply is the entry of the actor, which another sender may have started first.
    Activate(Activation<A>),
    /// Check the actors that may be idle, or that should have ended by now.
    Sweep,
    /// The settings of the kind were replaced.
    Retuned,
    /// Other keys are refused.
    Refused,
}

pub(crate) struct Activation<A: KeyedActor> {
    pub(crate) key: A::Key,
    /// The count of departures, read before the arguments were loaded.
    pub(crate) departures: u32,
    pub(crate) arguments: A::Arguments,
    pub(crate) reply: Reply<Result<Arc<Entry<A>>, NotActivated>>,
}

pub(crate) enum NotActivated {
    /// An actor of this key may have run after the arguments were loaded: load again.
    OutOfDate,
    Unavailable(Unavailable),
}

pub(crate) struct Family<A: KeyedActor> {
    pub(crate) registry: Arc<Registry<A>>,
    pub(crate) prototype: A,
}

pub(crate) struct FamilyState<A: KeyedActor> {
    sweep: IdleSweep<Arc<Entry<A>>>,
    _kill_on_drop: KillOnDrop<A>,
}

#[ractor::actor(message = FamilyMessage<A>, state = FamilyState<A>)]
impl<A: KeyedActor> Family<A> {
    async fn pre_start(
        &self,
        _myself: ActorRef<FamilyMessage<A>>,
        (): (),
    ) -> Result<FamilyState<A>, ActorProcessingErr> {
        // A crashed predecessor killed its actors, but they may still be ending: wait, so that each key has one actor. An actor that blocks
        // its thread outlives this deadline.
        let _ = tokio::time::timeout(START_DEADLINE, self.registry.all_ended()).await;
        self.registry.clear();
        let sweep = IdleSweep::new(&self.registry.kind.settings());
        Ok(FamilyState { sweep, _kill_on_drop: KillOnDrop(Arc::clone(&self.registry)) })
    }

    #[ractor::message(FamilyMessage::Activate(activation))]
    async fn activate(
        &self,
        myself: ActorRef<FamilyMessage<A>>,
        activation: Activation<A>,
        state: &mut FamilyState<A>,
    ) {
        let Activation { key, departures, arguments, reply } = activation;
        if reply.is_closed() {
            return;
        }
        let result = match self.registry.entry(&key) {
            Some(entry) => Ok(entry),
            None if self.registry.departures(&key) != departures => Err(NotActivated::OutOfDate),
            None => self.start(key, arguments, state).await.map_err(NotActivated::Unavailable),
        };
        reply.send(result);
        Self::set_timer(&myself, state);
    }

    #[ractor::message(FamilyMessage::Sweep)]
    fn sweep(&self, myself: ActorRef<FamilyMessage<A>>, state: &mut FamilyState<A>) {
        let now = Instant::now();
        state.sweep.on_timer(now);
        for _ in 0..CHECKS_MAX {
            let Some(check) = state.sweep.due(now) else { break };
            let entry = Arc::clone(&check.actor);
            let Some(leaving) = entry.is_leaving() else { continue };
            let snapshot = ActorSnapshot { leaving, queued: entry.queued(), unmoved_for: entry.unmoved_for() };
            match state.sweep.judge(check, snapshot, now) {
                SweepDecision::Keep => {}
                SweepDecision::Passivate => entry.leave(),
                SweepDecision::Kill => entry.mark_stuck_and_kill(),
            }
        }
        Self::set_timer(&myself, state);
    }

    #[ractor::message(FamilyMessage::Retuned)]
    fn retuned(&self, myself: ActorRef<FamilyMessage<A>>, state: &mut FamilyState<A>) {
        state.sweep.retune(&self.registry.kind.settings(), || self.registry.entries(), Instant::now());
        Self::set_timer(&myself, state);
    }

    #[ractor::message(FamilyMessage::Refused)]
    fn refused(&self) {
        let _ = self.registry.end(|subject| self.registry.check_subject(subject).is_err());
    }

    /// Lets every actor finish its inbox. After the deadline the root kills the family and with it the actors.
    async fn post_stop(
        &self,
        _myself: ActorRef<FamilyMessage<A>>,
        _state: &mut FamilyState<A>,
    ) -> Result<(), ActorProcessingErr> {
        for entry in self.registry.entries() {
            entry.leave();
        }
        self.registry.all_ended().await;
        self.registry.clear();
        Ok(())
    }

    async fn start(
        &self,
        key: A::Key,
        arguments: A::Arguments,
        state: &mut FamilyState<A>,
    ) -> Result<Arc<Entry<A>>, Unavailable> {
        self.registry.may_activate(&key)?;
        self.registry.check_start(&arguments)?;
        let (kind, owner) = (&self.registry.kind, self.registry.as_owner());
        let started = Entry::start(key, self.prototype.clone(), arguments, kind, owner, START_DEADLINE).await;
        let turn = started.ok_or(Unavailable::Crashed)?;
        let entry = Arc::clone(turn.entry());
        state.sweep.plan_first(Arc::clone(&entry), Instant::now());
        self.registry.add(&entry);
        Entry::settle(turn);
        Ok(entry)
    }

    fn set_timer(myself: &ActorRef<FamilyMessage<A>>, state: &mut FamilyState<A>) {
        if let Some(delay) = state.sweep.set_timer(Instant::now()) {
            myself.send_after(delay, || FamilyMessage::Sweep);
        }
    }
}

/// Kills the actors of a family when it is dropped: when the family has ended, crashed or been killed.
struct KillOnDrop<A: KeyedActor>(Arc<Registry<A>>);

impl<A: KeyedActor> Drop for KillOnDrop<A> {
    fn drop(&mut self) {
        for entry in self.0.entries() {
            entry.kill();
        }
    }
}
