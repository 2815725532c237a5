//! The loop: reads the state once a second, handles keys, sends acts, draws.

use std::pin::Pin;
use std::time::Duration;

use domain::Clock;
use domain::act::ActReason;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratatui::crossterm::event::Event;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use wire::ops::TapEntry;

use super::act::Act;
use super::keys::{Effect, press};
use super::model::TopModel;
use super::screen::{Screen, lost};
use super::send::{ActAnswer, send};
use super::snapshot::{NodeScope, Snapshot};
use super::view::TopView;
use crate::cli::operator_client::OperatorClient;
use crate::cli::tap::{TapSamples, line};
use commands::ending::Endings;
use commands::failure::{Done, Failure};

/// Time between two readings, if an answer takes less.
const EVERY: Duration = Duration::from_secs(1);

/// A request that has ended.
enum Ended {
    /// A reading that started at this time.
    Reading(Instant, Box<Result<Snapshot, Failure>>),
    /// An act with this reason.
    Act(Result<ActAnswer, Failure>, ActReason),
    /// The next sample of a tap.
    Sample(TapSamples, Box<Result<Option<TapEntry>, Failure>>),
}

type Request<'c> = Pin<Box<dyn Future<Output = Ended> + 'c>>;

/// Shows the state until a key or a signal ends it.
pub async fn watch(client: &OperatorClient, scope: &NodeScope, mut model: TopModel, mut view: TopView) -> Done {
    #[cfg(feature = "failpoints")]
    let _failpoints = domain::fail::FailScenario::setup();
    let mut endings = Endings::watch()?;
    let mut screen = Screen::open()?;
    let mut events = Screen::events();
    // Ages of data change without an event.
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut requests: FuturesUnordered<Request<'_>> = FuturesUnordered::new();
    requests.push(Box::pin(reading(client, scope, Duration::ZERO)));
    let mut read_at: Option<Instant> = None;
    loop {
        screen.draw(|frame| view.draw(frame, &model, read_at.map(|at| at.elapsed())))?;
        domain::failpoint!("top.drawn");
        tokio::select! {
            _ = endings.next() => return Ok(()),
            event = events.recv() => match event {
                Some(Event::Key(key)) => match press(&mut model, key) {
                    Effect::None => {}
                    Effect::End => return Ok(()),
                    Effect::Send(act, reason) => requests.push(Box::pin(acting(client, act, reason))),
                },
                Some(_) => {}
                None => return Err(lost(&"no key can be read")),
            },
            Some(ended) = requests.next() => match ended {
                Ended::Act(answer, reason) => {
                    requests.extend(model.answered(answer, reason).map(|samples| -> Request<'_> { Box::pin(sampling(samples)) }));
                }
                // A hidden tap is closed.
                Ended::Sample(..) if model.samples.is_none() => {}
                Ended::Sample(samples, sample) => match *sample {
                    Ok(Some(sample)) => {
                        model.sampled(line(&sample));
                        requests.push(Box::pin(sampling(samples)));
                    }
                    Ok(None) => model.sampled("the tap has ended; Esc hides it".to_owned()),
                    Err(failure) => model.refuse(failure.reason()),
                },
                Ended::Reading(started, result) => {
                    if result.is_ok() {
                        read_at = Some(started);
                    }
                    model.read(*result);
                    // A slow server is asked less often.
                    let pause = started.elapsed().max(EVERY);
                    requests.push(Box::pin(reading(client, scope, pause)));
                }
            },
            _ = seconds.tick() => {}
        }
    }
}

async fn reading(client: &OperatorClient, scope: &NodeScope, pause: Duration) -> Ended {
    sleep(pause).await;
    let started = Instant::now();
    Ended::Reading(started, Box::new(Snapshot::read(client, scope, Clock::system().now()).await))
}

async fn sampling(mut samples: TapSamples) -> Ended {
    let sample = samples.next().await;
    Ended::Sample(samples, Box::new(sample))
}

async fn acting(client: &OperatorClient, act: Act, reason: ActReason) -> Ended {
    Ended::Act(send(client, &act, &reason).await, reason)
}
