//! Sends mail.
//!
//! Two kinds of mail:
//! * A *sign-in code* exists only in memory, since codes are never stored in the clear. Each is tried for a few minutes in its own task, so
//!   that none waits for another; a limit bounds the concurrent tasks. After that the person requests a new code.
//! * A *notice* was committed together with its cause. The actor looks for notices when one was committed and every `mail.drain_every`,
//!   retries with growing delays, and gives up very old ones. Each try is leased in the row, so that two nodes do not send the same mail.
//!
//! **If it crashes:** tasks in progress still send their codes; notices are read again from the store. A mail that was sent without being
//! recorded as sent is sent again with the same `Message-ID`.

mod settings;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use domain::clock::delta;
use domain::mail::OutgoingMail;
use domain::service_pause::ServicePart;
use domain::{Clock, Rng, Timestamp};
use ractor::{ActorProcessingErr, ActorRef};
use store::mail::{DueMail, MailFailure, QueuedMail};
use store::{Store, StoreError};
use supervision::restart::delay_after;
use supervision::{ActorSettings, Handle, Reply, Unavailable};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

pub use settings::{MailSettings, SmtpSettings, TransportKind};
pub use transport::{Transport, Undelivered, remove_files};

use crate::kind::ActorKind;
use crate::service_pause::ServicePauses;

/// Sign-in codes that are being sent; beyond it a code is refused. Mail servers accept few connections of one client.
const IN_FLIGHT_MAX: usize = 64;

/// Time for which sending a sign-in code is retried: the person is waiting for it.
const CODE_DEADLINE: Duration = Duration::from_mins(2);

/// Notices that are read from the store at once.
const DRAIN_ROWS: usize = 8;

/// The dependencies of the mailer.
#[derive(Debug)]
pub struct Dependencies {
    /// The database of queued mails.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// The mail server or folder that mails are sent to.
    pub transport: Transport,
    /// `[mail]`: limits and delays.
    pub settings: MailSettings,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
}

/// Sent by [`Mail`] and by the actor's own timer.
#[derive(Debug)]
pub enum MailMessage {
    /// Send a mail with a code, which must not be stored.
    Send {
        /// The mail with its code.
        mail: OutgoingMail,
        /// Whether the mail was accepted.
        reply: Reply<Result<(), Busy>>,
    },
    /// Look for notices: the timer fired, or one was just committed.
    Look,
}

/// Too many mails are being sent already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

/// The address of the mailer.
#[derive(Debug, Clone)]
pub struct Mail(Handle<MailMessage>);

impl Mail {
    /// Without an actor until the root starts it.
    pub fn new(settings: &ActorSettings) -> Self {
        Self(Handle::new(ActorKind::Mail, settings))
    }

    /// The address, for the supervisor.
    pub fn handle(&self) -> &Handle<MailMessage> {
        &self.0
    }

    /// Queues a sign-in mail and returns; the mail is sent as soon as the transport is available.
    #[boxed]
    pub async fn send(&self, mail: OutgoingMail) -> Result<(), Unavailable> {
        let deadline = self.0.ask_deadline();
        let taken = self.0.ask(|reply| MailMessage::Send { mail, reply }, deadline).await?;
        taken.map_err(|Busy| Unavailable::Overloaded)
    }

    /// Hints that a notice was committed, so that it is sent sooner. Optional.
    pub fn wake(&self) {
        // If the actor does not run, its next pass finds the notice.
        let _ = self.0.send(|_: Reply<()>| MailMessage::Look);
    }
}

/// The actor that sends mail.
#[derive(Debug, Clone)]
pub struct Mailer {
    dependencies: Arc<Dependencies>,
    /// Permits of mails that are being sent, codes and notices; kept across restarts of the actor.
    in_flight: Arc<Semaphore>,
}

impl Mailer {
    /// Creates a mailer without mails in progress.
    pub fn new(dependencies: Dependencies) -> Self {
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        Self { dependencies: Arc::new(dependencies), in_flight }
    }
}

/// The state of the mailer.
#[derive(Debug, Default)]
pub struct MailerState {
    drain: Option<JoinHandle<()>>,
}

#[ractor::actor(message = MailMessage, state = MailerState)]
impl Mailer {
    async fn pre_start(&self, myself: ActorRef<MailMessage>, (): ()) -> Result<MailerState, ActorProcessingErr> {
        myself.cast(MailMessage::Look)?;
        // The timer's task ends with the actor.
        drop(myself.send_interval(self.dependencies.settings.drain_every, || MailMessage::Look));
        Ok(MailerState::default())
    }

    #[ractor::message(MailMessage::Send { mail, reply })]
    fn send(&self, mail: OutgoingMail, reply: Reply<Result<(), Busy>>) {
        let Ok(place) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            tracing::warn!("a sign-in code was refused: too many mails are being sent");
            reply.send(Err(Busy));
            return;
        };
        let dependencies = Arc::clone(&self.dependencies);
        let sending = async move {
            send_code(&dependencies, mail).await;
            drop(place);
        };
        tokio::spawn(sending.in_current_span());
        reply.send(Ok(()));
    }

    #[ractor::message(MailMessage::Look)]
    fn look(&self, state: &mut MailerState) {
        domain::failpoint!("mail.look");
        if !self.dependencies.pauses.is_paused(ServicePart::Mail) {
            self.drain(state);
        }
    }
}

impl Mailer {
    /// Looks for notices outside the mailbox, so that codes do not wait for a slow mail server; one look at a time.
    fn drain(&self, state: &mut MailerState) {
        if state.drain.as_ref().is_none_or(JoinHandle::is_finished) {
            let (dependencies, in_flight) = (Arc::clone(&self.dependencies), Arc::clone(&self.in_flight));
            state.drain = Some(tokio::spawn(async move {
                if let Err(error) = drain(&dependencies, &in_flight).await {
                    tracing::warn!(
                        error = domain::reasons(&error),
                        "notices to send could not be read and will be looked for again"
                    );
                }
            }));
        }
    }
}

/// Sends a sign-in code, with retries until it is sent or has expired.
async fn send_code(dependencies: &Dependencies, mail: OutgoingMail) {
    let until = Instant::now() + CODE_DEADLINE;
    let mail = queued(mail, &dependencies.rng, dependencies.clock.now());
    for failures in 1.. {
        let outcome =
            tokio::time::timeout_at(until, dependencies.transport.deliver(&mail, dependencies.clock.now())).await;
        let why = match outcome {
            Ok(Ok(())) => return count("sent"),
            Ok(Err(why)) => why,
            Err(_) => Undelivered::too_late(),
        };
        let pause = pause(dependencies, failures);
        if why.for_good || Instant::now() + pause >= until {
            count("given_up");
            tracing::error!(mail.id = %mail.id, error = domain::reasons(&why), "a sign-in code could not be sent");
            return;
        }
        count("failed");
        tracing::warn!(mail.id = %mail.id, error = domain::reasons(&why), "a sign-in code was not sent and will be tried again");
        tokio::time::sleep(pause).await;
    }
}

/// Sends all due notices.
async fn drain(dependencies: &Arc<Dependencies>, in_flight: &Arc<Semaphore>) -> Result<(), StoreError> {
    // Exceeds the longest possible delivery: each SMTP step has its own timeout.
    let lease = dependencies.settings.smtp.timeout * 8 + Duration::from_mins(1);
    loop {
        let now = dependencies.clock.now();
        let due = dependencies.store.mails_claim_due(now, now + delta(lease), DRAIN_ROWS).await?;
        let more = due.len() == DRAIN_ROWS && !dependencies.pauses.is_paused(ServicePart::Mail);
        let mut sending = JoinSet::new();
        for due in due {
            let (dependencies, in_flight) = (Arc::clone(dependencies), Arc::clone(in_flight));
            sending.spawn(async move {
                // Never closed. A code without a permit is refused; a notice waits for one.
                let _place = in_flight.acquire().await;
                send_notice(&dependencies, due).await
            });
        }
        while let Some(sent) = sending.join_next().await {
            match sent {
                Ok(noted) => noted?,
                Err(error) => {
                    tracing::error!(error = domain::reasons(&error), "sending a notice ended without a result");
                }
            }
        }
        if !more {
            return Ok(());
        }
    }
}

async fn send_notice(dependencies: &Dependencies, due: DueMail) -> Result<(), StoreError> {
    let Dependencies { store, clock, transport, settings, .. } = dependencies;
    let id = due.mail.id;
    let outcome = transport.deliver(&due.mail, clock.now()).await;
    domain::failpoint!("mail.sent");
    let now = clock.now();
    let why = match outcome {
        Ok(()) => {
            count("sent");
            return store.mail_sent(id, now).await.map(drop);
        }
        Err(why) => why,
    };
    let again_at = now + delta(pause(dependencies, due.tries));
    if why.for_good || again_at - due.created_at > delta(settings.give_up_after) {
        count("given_up");
        tracing::error!(mail.id = %id, mail.tries = due.tries, error = domain::reasons(&why), "a notice could not be sent and is given up");
        return store.mail_failed(id, MailFailure::GivenUp, now).await.map(drop);
    }
    count("failed");
    tracing::warn!(mail.id = %id, mail.tries = due.tries, error = domain::reasons(&why), "a notice was not sent and will be tried again");
    store.mail_failed(id, MailFailure::TryAgainAt(again_at), now).await.map(drop)
}

/// The delay after this many failures, ± 10 %.
fn pause(dependencies: &Dependencies, failures: u32) -> Duration {
    let MailSettings { backoff_min, backoff_max, .. } = dependencies.settings;
    delay_after(failures, backoff_min, backoff_max).mul_f64(0.9 + 0.2 * dependencies.rng.fraction())
}

fn count(outcome: &'static str) {
    metrics::counter!("attache_mails_total", "outcome" => outcome).increment(1);
}

/// Assigns an id to a mail, for insertion in a transaction of [`store`].
pub fn queued(mail: OutgoingMail, rng: &Rng, now: Timestamp) -> QueuedMail {
    QueuedMail { id: rng.uuid_v7(now).into(), mail }
}
