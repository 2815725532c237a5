//! The supervisor of all actors of one per-key kind.
//!
//! What it guards: one actor per key, the number of living actors, and the quarantine of keys whose actors keep crashing. It also
//! passivates: an actor that finished its last message `idle_after` ago is asked to drain, which lets it finish what is queued and
//! refuses everything later, so no message is lost between two actors. An actor needs no code for that; one that has reached its end
//! may drain itself (`myself.drain()`).
//!
//! It never waits for IO: arguments arrive loaded, and the `pre_start` of a per-key actor only builds its state from them.
//!
//! **If it crashes:** its actors die with it, the directory is emptied, and the root starts it again; keys are activated by their next
//! message. A crashing *child* never counts against the family's own restart budget.

#![expect(clippy::needless_pass_by_value, reason = "the form of a message handler")]

mod quarantine;
mod visits;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, ActorStatus, SupervisionEvent};
use tokio::time::Instant;

pub(crate) use quarantine::Quarantine;

use crate::directory::{Key, Shared};
use crate::handle::{Door, Reply, Unavailable};
use visits::{Sight, Verdict, Visits};

/// `pre_start` of a per-key actor only builds a state; one that takes this long hangs and would hold up its siblings.
const START_DEADLINE: Duration = Duration::from_secs(1);

/// Visits made in one go, so that activations are not held up by a mass passivation.
const VISITS_MAX: usize = 256;

/// What a [`Directory`](crate::Directory) and the family's own timer send.
pub(crate) enum FamilyMessage<K, A: Actor> {
    /// A caller found no actor under the key. The answer is the actor's door, whoever had it opened.
    Activate(Activation<K, A>),
    /// Time to look for actors that are idle, or that should have left by now.
    Visit,
}

pub(crate) struct Activation<K, A: Actor> {
    pub(crate) key: K,
    /// The count of departures from before the arguments were loaded.
    pub(crate) departures: u32,
    pub(crate) arguments: A::Arguments,
    pub(crate) reply: Reply<Result<Door, NotActivated>>,
}

pub(crate) enum NotActivated {
    /// An actor of this key may have come and gone since the arguments were loaded: load again.
    OutOfDate,
    Unavailable(Unavailable),
}

pub(crate) struct Family<K, A: Actor> {
    pub(crate) shared: Arc<Shared<K, A>>,
    pub(crate) prototype: A,
}

pub(crate) struct FamilyState<K> {
    /// Keys by the process id of their actor.
    keys: HashMap<u64, K>,
    visits: Visits,
}

#[ractor::actor(message = FamilyMessage<K, A>, state = FamilyState<K>)]
impl<K: Key, A: Actor + Clone> Family<K, A> {
    async fn pre_start(
        &self,
        _myself: ActorRef<FamilyMessage<K, A>>,
        (): (),
    ) -> Result<FamilyState<K>, ActorProcessingErr> {
        // A crashed predecessor took its children with it, but not those that were just leaving: one key, one actor.
        let orphans = Wards(self.shared.doors().into_iter().map(|door| door.actor).collect());
        for orphan in &orphans.0 {
            orphan.kill();
        }
        // One that blocks its thread outlives this; guarded writes keep the store safe from it.
        let _ = tokio::time::timeout(START_DEADLINE, orphans.gone()).await;
        self.shared.all_departed();
        Ok(FamilyState { keys: HashMap::new(), visits: Visits::new(&self.shared.kind.settings) })
    }

    #[ractor::message(FamilyMessage::Activate(activation))]
    async fn activate(
        &self,
        myself: ActorRef<FamilyMessage<K, A>>,
        activation: Activation<K, A>,
        state: &mut FamilyState<K>,
    ) {
        let Activation { key, departures, arguments, reply } = activation;
        if reply.is_closed() {
            return;
        }
        let found = match self.shared.living(&key) {
            Some(door) => Ok(door),
            None if self.shared.departures(&key) != departures => Err(NotActivated::OutOfDate),
            None => self.start(&myself, key, arguments, state).await.map_err(NotActivated::Unavailable),
        };
        reply.send(found);
        Self::set_timer(&myself, state);
    }

    #[ractor::message(FamilyMessage::Visit)]
    fn visit(&self, myself: ActorRef<FamilyMessage<K, A>>, state: &mut FamilyState<K>) {
        let now = Instant::now();
        state.visits.rang(now);
        for _ in 0..VISITS_MAX {
            let Some(visit) = state.visits.due(now) else { break };
            let Some(door) = state.keys.get(&visit.pid).and_then(|key| self.shared.living(key)) else { continue };
            let sight = Sight {
                leaving: door.actor.get_status() >= ActorStatus::Draining,
                queued: door.queued(),
                unmoved_for: door.unmoved_for(),
            };
            match state.visits.judge(visit, sight, now) {
                Verdict::Leave => {}
                // Fails only if the actor is gone already, which is as good.
                Verdict::Passivate => drop(door.actor.drain()),
                Verdict::Kill => door.condemn(),
            }
        }
        Self::set_timer(&myself, state);
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<FamilyMessage<K, A>>,
        event: SupervisionEvent,
        state: &mut FamilyState<K>,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(actor, ..) => {
                if let Some((key, door)) = self.departed(&actor, state)
                    && door.was_condemned()
                {
                    self.crashed(key, "killed: it finished no message in time");
                }
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some((key, _)) = self.departed(&actor, state) {
                    self.crashed(key, &error.to_string());
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }

    /// Lets every child finish what is queued. The root kills the family, and with it the children, if that takes too long.
    async fn post_stop(
        &self,
        myself: ActorRef<FamilyMessage<K, A>>,
        _state: &mut FamilyState<K>,
    ) -> Result<(), ActorProcessingErr> {
        let children = Wards(myself.get_children());
        for child in &children.0 {
            // Fails only if the child is gone already.
            let _ = child.drain();
        }
        children.gone().await;
        self.shared.all_departed();
        Ok(())
    }

    async fn start(
        &self,
        myself: &ActorRef<FamilyMessage<K, A>>,
        key: K,
        arguments: A::Arguments,
        state: &mut FamilyState<K>,
    ) -> Result<Door, Unavailable> {
        self.shared.may_activate(&key)?;
        let start = A::spawn_linked(None, self.prototype.clone(), arguments, myself.get_cell());
        let started = match tokio::time::timeout(START_DEADLINE, start).await {
            Ok(started) => started.map_err(|error| error.to_string()),
            Err(_elapsed) => Err(format!("it did not start within {START_DEADLINE:?}")),
        };
        match started {
            Ok((actor, _task)) => {
                let pid = actor.get_id().pid();
                state.keys.insert(pid, key.clone());
                state.visits.plan_first(pid, Instant::now());
                Ok(self.shared.arrived(key, actor.get_cell()))
            }
            Err(error) => {
                self.crashed(key, &error);
                Err(Unavailable::Crashed)
            }
        }
    }

    fn departed(&self, actor: &ActorCell, state: &mut FamilyState<K>) -> Option<(K, Door)> {
        let key = state.keys.remove(&actor.get_id().pid())?;
        let door = self.shared.departed(&key)?;
        Some((key, door))
    }

    fn crashed(&self, key: K, error: &str) {
        let kind = &self.shared.kind;
        kind.crashes.increment(1);
        tracing::error!(actor.kind = kind.name, error, "a per-key actor crashed");
        if self.shared.quarantine().on_crash(key, Instant::now()) {
            kind.quarantines.increment(1);
            tracing::error!(
                actor.kind = kind.name,
                seconds = kind.settings.quarantine_for.as_secs(),
                "a key whose actors keep crashing is quarantined"
            );
        }
    }

    fn set_timer(myself: &ActorRef<FamilyMessage<K, A>>, state: &mut FamilyState<K>) {
        if let Some(delay) = state.visits.set_timer(Instant::now()) {
            myself.send_after(delay, || FamilyMessage::Visit);
        }
    }
}

/// Children that are on their way out. When this is dropped before they are gone, as when the family is killed, they are killed too:
/// ractor would leave those alone that drain.
struct Wards(Vec<ActorCell>);

impl Wards {
    async fn gone(&self) {
        for child in &self.0 {
            // Without a time-out this cannot fail.
            let _ = child.wait(None).await;
        }
    }
}

impl Drop for Wards {
    fn drop(&mut self) {
        for child in &self.0 {
            child.kill();
        }
    }
}
