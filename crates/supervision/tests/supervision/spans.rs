//! The spans of messages: their parent is the sender's span, in every task.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{ActorProcessingErr, ActorRef};
use supervision::{ActorError, ChildSpec, Directory, Handle, KeyedActor, Kind, Reply, SelfRef, detached};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Instrument as _, Subscriber, info_span};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::{Layer, Registry};

use crate::world::{Do, Probe, TestKind, World, settings};

const SECOND: Duration = Duration::from_secs(1);

/// For each event: the names of the spans around it, outermost first.
#[derive(Clone, Default)]
struct Scopes(Arc<Mutex<Vec<Vec<&'static str>>>>);

impl Scopes {
    /// Records the events of this thread while the guard exists.
    fn record() -> (Self, DefaultGuard) {
        let scopes = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(scopes.clone()));
        (scopes, guard)
    }

    /// Takes the recorded scopes of this test's events.
    fn take(&self) -> Vec<Vec<&'static str>> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Scopes {
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if event.metadata().target() == module_path!() {
            let scope = ctx.event_scope(event).into_iter().flat_map(Scope::from_root);
            self.0.lock().unwrap().push(scope.map(|span| span.name()).collect());
        }
    }
}

/// Logs one line for each message.
#[derive(Clone)]
struct Logger;

#[ractor::actor(message = Reply<()>)]
impl Logger {
    async fn pre_start(&self, _myself: ActorRef<Reply<()>>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<Reply<()>>,
        reply: Reply<()>,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        tracing::info!("handled");
        reply.send(());
        Ok(())
    }
}

/// Logs one line for each message, after the given wait, and one for the message that it then sends to itself.
#[derive(Clone)]
struct KeyedLogger;

enum Log {
    After(Duration, Reply<()>),
    Again,
}

impl KeyedActor for KeyedLogger {
    type Key = u64;
    type Subject = &'static str;
    type Message = Log;
    type Arguments = ();
    type State = ();

    fn subject((): &()) -> &'static str {
        "the logger"
    }

    async fn start(&self, _myself: &SelfRef<Self>, (): ()) -> Result<(), ActorError> {
        Ok(())
    }

    async fn handle(&self, myself: &SelfRef<Self>, message: Log, (): &mut ()) -> Result<(), ActorError> {
        if let Log::After(delay, reply) = message {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            myself.send(Log::Again);
            reply.send(());
        }
        tracing::info!("handled");
        Ok(())
    }
}

/// A kind without spans for messages.
#[derive(Debug, Clone, Copy)]
struct Untraced;

impl Kind for Untraced {
    const METRICS_PREFIX: &'static str = "attache";

    fn name(self) -> &'static str {
        "untraced"
    }

    fn has_spans(self) -> bool {
        false
    }
}

async fn one_message(kind: impl Kind) -> Vec<Vec<&'static str>> {
    let (world, (scopes, _guard)) = (World::new(), Scopes::record());
    let handle = Handle::new(kind, &settings());
    let root = world.root(vec![ChildSpec::singleton(&handle, || (Logger, ()))]).await;
    handle.ask(|reply| reply, SECOND).instrument(info_span!("request")).await.unwrap();
    world.end(root).await;
    scopes.take()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_handled_in_a_span_below_that_of_its_sender() {
    assert_eq!(one_message(TestKind("logger")).await, [["request", "message"]]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_spans_handles_messages_in_the_span_of_their_sender() {
    assert_eq!(one_message(Untraced).await, [["request"]]);
}

#[tokio::test(start_paused = true)]
async fn a_keyed_actor_handles_each_message_below_the_span_of_its_sender() {
    let (world, (scopes, _guard)) = (World::new(), Scopes::record());
    let directory = Directory::new(TestKind("logger"), &settings());
    let root = world.root(vec![directory.child(KeyedLogger)]).await;
    let ask = |delay| {
        let load = async || Ok::<_, ()>(Some(()));
        let directory = directory.clone();
        async move { directory.ask(&1, load, |reply| Log::After(delay, reply), 10 * SECOND).await.unwrap() }
    };
    // The first message moves to a separate task; the second waits in the inbox.
    tokio::join!(ask(SECOND).instrument(info_span!("first")), ask(SECOND).instrument(info_span!("second")));
    tokio::time::sleep(SECOND).await;
    let mut seen = scopes.take();
    seen.sort_unstable();
    assert_eq!(seen, [["first", "message"], ["first", "message"], ["second", "message"], ["second", "message"]]);
    // A message without a wait is handled in the task of the sender.
    ask(Duration::ZERO).instrument(info_span!("third")).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(scopes.take(), [["third", "message"], ["third", "message"]]);
    world.end(root).await;
}

#[tokio::test]
async fn detached_work_runs_below_the_span_of_its_caller() {
    let (scopes, _guard) = Scopes::record();
    detached(async { tracing::info!("done") }).instrument(info_span!("request")).await.unwrap();
    assert_eq!(scopes.take(), [["request", "detached"]]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_names_the_request_of_its_message_and_the_tree_the_age_of_the_oldest_one() {
    let (_scopes, _guard) = Scopes::record();
    supervision::name_requests(|| Some(tracing::Span::current().metadata()?.name().to_owned()));
    let world = World::new();
    let handle = Handle::new(TestKind("probe"), &settings());
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    info_span!("asked").in_scope(|| handle.send(Do::Panic)).unwrap();
    // It waits behind the first one, and is lost with it.
    info_span!("other").in_scope(|| handle.send(Do::Count)).unwrap();
    tokio::time::sleep(SECOND).await;
    handle.send(|reply| Do::Work(8 * SECOND, reply)).unwrap();
    tokio::time::sleep(3 * SECOND).await;
    handle.send(Do::Count).unwrap();
    tokio::time::sleep(SECOND).await;
    let child = root.tree(SECOND).await.unwrap().children.remove(0);
    assert_eq!(child.failures[0].request.as_deref(), Some("message"));
    assert_eq!((child.queued, child.oldest_ms), (2, Some(4_000)));
    root.kill_now();
    world.deserted().await;
}
