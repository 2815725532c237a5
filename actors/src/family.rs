//! The supervisor of all actors of one per-key kind.
//!
//! What it guards: one actor per key, the number of living actors, and the quarantine of keys whose actors keep crashing. It also
//! passivates: an actor that finished its last message `idle_after` ago is asked to leave, which lets it finish what is queued and
//! refuses everything later, so no message is lost between two actors. An actor needs no code for that; one that has reached its end
//! may leave by itself ([`SelfRef::leave`](crate::keyed::Myself::leave)).
//!
//! Messages do not pass through it: senders deliver them to the entry of the key (`directory/entry.rs`). It never waits for IO: arguments
//! arrive loaded, and the start of a per-key actor only builds its state from them.
//!
//! **If it crashes:** its actors die with it, the directory is emptied, and the root starts it again; keys are activated by their next
//! message. A crashing *actor* never counts against the family's own restart budget.

#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "the form of a message handler")]

mod quarantine;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;

pub(crate) use quarantine::Quarantine;

use crate::directory::{Entry, Shared};
use crate::handle::{Reply, Unavailable};
use crate::keyed::KeyedActor;
use sweep::{ActorSnapshot, IdleSweep, SweepDecision};

/// The start of a per-key actor only builds a state; one that takes this long hangs and would hold up its siblings.
const START_DEADLINE: Duration = Duration::from_secs(1);

/// Visits made in one go, so that activations are not held up by a mass passivation.
const VISITS_MAX: usize = 256;

/// What a [`Directory`](crate::Directory) and the family's own timer send.
pub(crate) enum FamilyMessage<A: KeyedActor> {
    /// A sender found no actor under the key. The answer is the actor's entry, no matter for whom it was started.
    Activate(Activation<A>),
    /// Time to look for actors that are idle, or that should have left by now.
    SweepEntry,
}

pub(crate) struct Activation<A: KeyedActor> {
    pub(crate) key: A::Key,
    /// The count of departures from before the arguments were loaded.
    pub(crate) departures: u32,
    pub(crate) arguments: A::Arguments,
    pub(crate) reply: Reply<Result<Arc<Entry<A>>, NotActivated>>,
}

pub(crate) enum NotActivated {
    /// An actor of this key may have come and gone since the arguments were loaded: load again.
    OutOfDate,
    Unavailable(Unavailable),
}

pub(crate) struct Family<A: KeyedActor> {
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) prototype: A,
}

pub(crate) struct FamilyState<A: KeyedActor> {
    sweep: IdleSweep<Arc<Entry<A>>>,
    _wards: KillOnDrop<A>,
}

#[ractor::actor(message = FamilyMessage<A>, state = FamilyState<A>)]
impl<A: KeyedActor> Family<A> {
    async fn pre_start(
        &self,
        _myself: ActorRef<FamilyMessage<A>>,
        (): (),
    ) -> Result<FamilyState<A>, ActorProcessingErr> {
        // A crashed predecessor killed its actors, but they may not have ended yet: one key, one actor. One that blocks its thread outlives
        // this; guarded writes keep the store safe from it.
        let _ = tokio::time::timeout(START_DEADLINE, self.shared.all_ended()).await;
        self.shared.all_departed();
        let wards = KillOnDrop(Arc::clone(&self.shared));
        Ok(FamilyState { sweep: IdleSweep::new(&self.shared.kind.settings), _wards: wards })
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
        let found = match self.shared.living(&key) {
            Some(entry) => Ok(entry),
            None if self.shared.departures(&key) != departures => Err(NotActivated::OutOfDate),
            None => self.start(key, arguments, state).await.map_err(NotActivated::Unavailable),
        };
        reply.send(found);
        Self::set_timer(&myself, state);
    }

    #[ractor::message(FamilyMessage::SweepEntry)]
    fn visit(&self, myself: ActorRef<FamilyMessage<A>>, state: &mut FamilyState<A>) {
        let now = Instant::now();
        state.sweep.rang(now);
        for _ in 0..VISITS_MAX {
            let Some(visit) = state.sweep.due(now) else { break };
            let entry = Arc::clone(&visit.whom);
            let Some(leaving) = entry.is_leaving() else { continue };
            let sight = ActorSnapshot { leaving, queued: entry.queued(), unmoved_for: entry.unmoved_for() };
            match state.sweep.judge(visit, sight, now) {
                SweepDecision::Leave => {}
                SweepDecision::Passivate => entry.leave(),
                SweepDecision::Kill => entry.condemn(),
            }
        }
        Self::set_timer(&myself, state);
    }

    /// Lets every actor finish what is queued. The root kills the family, and with it the actors, if that takes too long.
    async fn post_stop(
        &self,
        _myself: ActorRef<FamilyMessage<A>>,
        _state: &mut FamilyState<A>,
    ) -> Result<(), ActorProcessingErr> {
        for entry in self.shared.entries() {
            entry.leave();
        }
        self.shared.all_ended().await;
        self.shared.all_departed();
        Ok(())
    }

    async fn start(
        &self,
        key: A::Key,
        arguments: A::Arguments,
        state: &mut FamilyState<A>,
    ) -> Result<Arc<Entry<A>>, Unavailable> {
        self.shared.may_activate(&key)?;
        let started = Entry::start(key, self.prototype.clone(), arguments, &self.shared, START_DEADLINE).await;
        let turn = started.ok_or(Unavailable::Crashed)?;
        let entry = Arc::clone(turn.entry());
        state.sweep.plan_first(Arc::clone(&entry), Instant::now());
        self.shared.arrived(&entry);
        Entry::settle(turn);
        Ok(entry)
    }

    fn set_timer(myself: &ActorRef<FamilyMessage<A>>, state: &mut FamilyState<A>) {
        if let Some(delay) = state.sweep.set_timer(Instant::now()) {
            myself.send_after(delay, || FamilyMessage::SweepEntry);
        }
    }
}

/// The actors of a family that lives. They are killed when this is dropped, which is when the family has ended, crashed or been killed.
struct KillOnDrop<A: KeyedActor>(Arc<Shared<A>>);

impl<A: KeyedActor> Drop for KillOnDrop<A> {
    fn drop(&mut self) {
        for entry in self.0.entries() {
            entry.kill();
        }
    }
}
