//! Samples of the events that senders submit, for operators who watch. A sample has no content.
//!
//! While no tap is open, an event costs one atomic load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use domain::Timestamp;
use domain::envelope::{AgentKinds, PartialEnvelope, Sealed};
use domain::ids::{EventId, MachineUuid, UserAccountId};
use domain::lane::Lane;
use store::held::Sender as Payer;
use supervision::Unavailable;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::contract::{IntakeOutcome, Sender};

/// Maximum number of samples of a tap in a second.
pub const SAMPLES_PER_SECOND_MAX: u32 = 50;

/// The values of [`TapSample::outcome`].
pub const OUTCOMES: [&str; 4] = ["forwarded", "held", "passed_through", IntakeOutcome::UNAVAILABLE];

/// Samples that wait for a reader.
const WAITING_MAX: usize = 64;

/// Which events a tap samples.
#[derive(Debug, Clone, Default)]
pub struct TapFilter {
    /// Every n-th event; 0 and 1 are every one.
    pub one_in: u64,
    /// Events with this outcome, as [`TapSample::outcome`] names it.
    pub outcome: Option<String>,
    /// Events that are charged to this account.
    pub account: Option<UserAccountId>,
    /// Events of this computer.
    pub machine: Option<MachineUuid>,
}

/// One event, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapSample {
    /// Time of the answer to its sender.
    pub at: Timestamp,
    /// Who is charged for it, such as `account:ID`.
    pub payer: String,
    /// One of [`OUTCOMES`].
    pub outcome: &'static str,
    /// Why it was not forwarded.
    pub reason: Option<String>,
    /// Size of its body.
    pub bytes: usize,
    /// Time from its acceptance to the answer.
    pub took: Duration,
    /// Id that its sender chose, if it can be read.
    pub event_id: Option<EventId>,
    /// Its type, if it is a readable event.
    pub event_type: Option<String>,
    /// Its lane, if it is a readable event.
    pub lane: Option<Lane>,
    /// The computer that it names.
    pub machine: Option<MachineUuid>,
    /// Matching events since the sample before that were above the maximum rate.
    pub skipped: u64,
}

/// The open taps. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Taps(Arc<ArcSwap<Vec<Arc<Tap>>>>);

#[derive(Debug)]
struct Tap {
    filter: TapFilter,
    samples: mpsc::Sender<TapSample>,
    matches: AtomicU64,
    skipped: AtomicU64,
    /// The second, and its number of samples.
    second: Mutex<(Instant, u32)>,
}

/// The samples of one tap, which closes when this is dropped.
#[derive(Debug)]
pub struct TapReader {
    taps: Taps,
    tap: Arc<Tap>,
    samples: mpsc::Receiver<TapSample>,
}

/// An event that an open tap may sample.
pub(super) struct TappedEvent {
    sender: Sender,
    body: Bytes,
    since: Instant,
}

impl Taps {
    /// Opens a tap.
    pub fn open(&self, filter: TapFilter) -> TapReader {
        let (sender, samples) = mpsc::channel(WAITING_MAX);
        let (matches, skipped) = (AtomicU64::new(0), AtomicU64::new(0));
        let second = Mutex::new((Instant::now(), 0));
        let tap = Arc::new(Tap { filter, samples: sender, matches, skipped, second });
        self.0.rcu(|taps| taps.iter().chain([&tap]).cloned().collect::<Vec<_>>());
        TapReader { taps: self.clone(), tap, samples }
    }

    /// The event, if a tap is open.
    pub(super) fn begin(&self, sender: &Sender, body: &Bytes) -> Option<TappedEvent> {
        let is_open = !self.0.load().is_empty();
        is_open.then(|| TappedEvent { sender: sender.clone(), body: body.clone(), since: Instant::now() })
    }

    /// Samples an event with its outcome.
    pub(super) fn end(
        &self,
        event: &TappedEvent,
        outcome: Result<&IntakeOutcome, &Unavailable>,
        at: Timestamp,
        limits: (usize, &AgentKinds),
    ) {
        for tap in self.0.load().iter() {
            tap.see(event, outcome, at, limits);
        }
    }
}

/// The members of an event that a sample has.
#[derive(Default)]
struct Members {
    event_id: Option<EventId>,
    event_type: Option<String>,
    lane: Option<Lane>,
    machine: Option<MachineUuid>,
}

impl Members {
    /// Of an invalid event only ids are read, since its type can be any text.
    fn of(body: &[u8], (bytes_max, agents): (usize, &AgentKinds)) -> Self {
        match Sealed::open(body, bytes_max, agents) {
            Ok(Sealed { envelope, .. }) => Self {
                event_id: Some(envelope.event_id),
                event_type: Some(envelope.event_type),
                lane: Some(envelope.lane),
                machine: Some(envelope.scope.machine_id),
            },
            Err(unreadable) => {
                let PartialEnvelope { event_id, machine_uuid, .. } = *unreadable.outline;
                Self { event_id, machine: machine_uuid, ..Self::default() }
            }
        }
    }
}

impl Tap {
    fn see(
        &self,
        TappedEvent { sender, body, since }: &TappedEvent,
        outcome: Result<&IntakeOutcome, &Unavailable>,
        at: Timestamp,
        limits: (usize, &AgentKinds),
    ) {
        let TapFilter { one_in, outcome: wanted, account, machine } = &self.filter;
        let (kind, reason) = outcome.map_or_else(
            |refusal| (IntakeOutcome::UNAVAILABLE, Some(refusal.reason().to_owned())),
            |outcome| (outcome.kind(), outcome.reason()),
        );
        let payer = sender.payer();
        let is_other = wanted.as_ref().is_some_and(|wanted| wanted != kind)
            || account.as_ref().is_some_and(|account| payer != Payer::Account(account.clone()));
        if is_other {
            return;
        }
        let opened = machine.map(|machine| (machine, Members::of(body, limits)));
        if opened.as_ref().is_some_and(|(machine, members)| members.machine != Some(*machine)) {
            return;
        }
        if !self.matches.fetch_add(1, Ordering::Relaxed).is_multiple_of((*one_in).max(1)) {
            return;
        }
        if !self.is_within_rate() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let members = opened.map_or_else(|| Members::of(body, limits), |(_, members)| members);
        let Members { event_id, event_type, lane, machine } = members;
        let sample = TapSample {
            at,
            payer: payer.to_string(),
            outcome: kind,
            reason,
            bytes: body.len(),
            took: since.elapsed(),
            event_id,
            event_type,
            lane,
            machine,
            skipped: self.skipped.swap(0, Ordering::Relaxed),
        };
        if let Err(mpsc::error::TrySendError::Full(unsent)) = self.samples.try_send(sample) {
            self.skipped.fetch_add(unsent.skipped + 1, Ordering::Relaxed);
        }
    }

    fn is_within_rate(&self) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if second.0.elapsed() >= Duration::from_secs(1) {
            *second = (Instant::now(), 0);
        }
        second.1 += 1;
        second.1 <= SAMPLES_PER_SECOND_MAX
    }
}

impl TapReader {
    /// The next sample.
    #[boxed]
    pub async fn next(&mut self) -> Option<TapSample> {
        self.samples.recv().await
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        self.taps.0.rcu(|taps| taps.iter().filter(|tap| !Arc::ptr_eq(tap, &self.tap)).cloned().collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(taps: &Taps, account: &str, bytes: usize, outcome: &IntakeOutcome) {
        let sender = Sender::Account { account: account.parse().unwrap(), agent: None };
        let Some(event) = taps.begin(&sender, &vec![b'x'; bytes].into()) else { return };
        taps.end(&event, Ok(outcome), Timestamp::UNIX_EPOCH, (1_000, &AgentKinds::new([])));
    }

    fn held() -> IntakeOutcome {
        IntakeOutcome::Held { warning: "consent_missing: at payload.secret".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_tap_has_the_matching_events_without_their_content_at_its_rate() {
        let taps = Taps::default();
        let (ada, bob) = ("ada", "bob");
        sent(&taps, ada, 1, &held());
        let filter = TapFilter { one_in: 2, account: Some(ada.parse().unwrap()), ..TapFilter::default() };
        let mut tap = taps.open(filter);
        let mut of_forwarded = taps.open(TapFilter { outcome: Some("forwarded".to_owned()), ..TapFilter::default() });
        sent(&taps, bob, 2, &held());
        for bytes in 10..12 {
            sent(&taps, ada, bytes, &held());
        }
        let sample = tap.next().await.unwrap();
        assert_eq!((sample.bytes, sample.outcome, sample.reason.as_deref()), (10, "held", Some("consent_missing")));
        assert_eq!((sample.event_type, sample.payer), (None, format!("account:{ada}")));

        for _ in 0..2 * 70 {
            sent(&taps, ada, 20, &held());
        }
        let mut samples = 0;
        while tap.samples.try_recv().is_ok() {
            samples += 1;
        }
        assert_eq!(samples, SAMPLES_PER_SECOND_MAX - 1, "one of this second was before");
        tokio::time::advance(Duration::from_secs(1)).await;
        sent(&taps, ada, 30, &held());
        assert_eq!(tap.next().await.unwrap().skipped, 70 - u64::from(samples));
        assert!(of_forwarded.samples.try_recv().is_err(), "no event had this outcome");

        drop((tap, of_forwarded));
        assert!(taps.0.load().is_empty());
    }
}
