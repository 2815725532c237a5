//! The processing of one event. The release of a held event by an operator takes the same path.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::consent::ConsentRule;
use domain::envelope::{Envelope, PartialEnvelope, Sealed, Unreadable};
use domain::held::{HoldDecision, HoldReason, SenderAuthority, judge, judge_of_machine, may_keep};
use domain::ids::{EventId, MachineUuid, ReceiptId};
use domain::lane::Lane;
use domain::recorder::Recorder;
use domain::registry::Registry;
use domain::retry_after::retry_after;
use domain::service_pause::{PauseSubject, Paused, ServicePart};
use domain::usage::QuotaUsed;
use domain::{Clock, Digest, Rng, Timestamp};
use statistics::contract::{RecordScope, Submission, SubmitOutcome, Unavailable};
use store::held::{HeldOutcome, HeldScope, NewHeld, Sender as HeldSender};
use store::{Store, StoreError};
use supervision::Handle;
use supervision::commit::CommitMessage;

use super::contract::{IntakeOutcome, SOON, Sender};
use super::hold::HeldBatch;
use super::lately::HeldLately;
use crate::budget::{BudgetDecision, Budgets};
use crate::meter::ReceiptCounter;
use crate::service_pause::ServicePauses;
use crate::upstream::Upstream;

/// The dependencies of event processing.
#[derive(Debug)]
pub struct EventProcessor {
    /// The database of identities, consent and held events.
    pub store: Store,
    /// Quotas of senders.
    pub budgets: Budgets,
    /// Commits held events in groups.
    pub hold: Handle<CommitMessage<HeldBatch>>,
    /// The statistics service that records events.
    pub upstream: Upstream,
    /// Counts receipts of an external service, which has no log to follow.
    pub tally: Option<Arc<ReceiptCounter>>,
    /// The registered event types.
    pub registry: Arc<Registry>,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
    /// Computers with recently held events.
    pub held_lately: HeldLately,
}

/// The `reason` of a refusal because a quota is spent.
pub const QUOTA_EXCEEDED: &str = "quota_exceeded";

/// An event with its sender.
#[derive(Debug)]
pub struct ReceivedEvent {
    sender: Sender,
    pub body: Bytes,
    pub opened: Result<Sealed, Unreadable>,
    /// The decision; `None` for an event of an account until its turn.
    judged: Option<Result<(), HoldDecision>>,
}

impl EventProcessor {
    /// Judges an event of a computer or agent. An event of an account is judged later, since only the store knows the computer that it
    /// names.
    pub fn received(&self, sender: Sender, body: Bytes, opened: Result<Sealed, Unreadable>) -> ReceivedEvent {
        let now = self.clock.now();
        let judged = match &sender {
            Sender::Machine { facts, .. } => Some(judge_of_machine(&opened, facts, &self.registry, now)),
            Sender::Unclaimed(_) => Some(judge(&opened, &SenderAuthority::Unclaimed, &self.registry, now)),
            Sender::Account { .. } => None,
        };
        ReceivedEvent { sender, body, opened, judged }
    }

    /// Forwards an event of a computer to the embedded log; returns any other event, for the ordered path.
    ///
    /// Only the actor of the log writes durably here, so a caller that stops waiting changes nothing.
    #[boxed]
    pub async fn grouped(&self, event: ReceivedEvent) -> Result<IntakeOutcome, ReceivedEvent> {
        let ReceivedEvent { sender: Sender::Machine { facts, has_held }, .. } = &event else { return Err(event) };
        let (machine, part, has_held) = (facts.machine_uuid, facts.part, *has_held);
        // The first try may still be about to be held: the turns of its chain keep the two in order.
        if !matches!(self.upstream, Upstream::Embedded { .. }) || self.was_held_lately(machine) {
            return Err(event);
        }
        if !matches!(event.judged, Some(Ok(()))) {
            self.note_held(machine, self.clock.now());
            return Err(event);
        }
        let ReceivedEvent { sender, body, opened, judged } = event;
        let sealed = match opened {
            Ok(sealed) => sealed,
            opened => return Err(ReceivedEvent { sender, body, opened, judged }),
        };
        domain::failpoint!("intake.worker");
        let event_id = sealed.envelope.event_id;
        // The log stores the envelope; the record scope is only for external services.
        let submission = Submission::new(body, sealed, RecordScope::default()).in_part(part);
        let now = self.clock.now();
        domain::failpoint!("forward.before");
        let outcome = self.upstream.submit(submission, self.rng.uuid_v7(now).into(), now).await;
        domain::failpoint!("forward.after");
        let verdict = match outcome {
            Ok(SubmitOutcome::Receipt(receipt)) => {
                if has_held {
                    self.heal_apart(machine, event_id, receipt).await;
                }
                IntakeOutcome::Forwarded(receipt)
            }
            Ok(SubmitOutcome::PassThrough(passed)) => IntakeOutcome::Passed(passed),
            Ok(SubmitOutcome::Refused { .. }) => IntakeOutcome::Unavailable { reason: "internal", retry_after: SOON },
            Ok(SubmitOutcome::Unavailable(why)) => unavailable(event_id, &why, now),
            Err(refusal) => refusal.into(),
        };
        Ok(verdict.counted())
    }

    /// Settles the held entry of an event's first try, independently of the request.
    async fn heal_apart(&self, machine: MachineUuid, event_id: EventId, receipt: ReceiptId) {
        let (store, now) = (self.store.clone(), self.clock.now());
        let healing = async move { heal(&store, &HeldScope::Machine(machine), event_id, receipt, now).await };
        // A panic has been logged; the next resend settles the entry.
        drop(supervision::detached(healing).await);
    }

    /// Refuses an event while its sender or its lane is paused.
    pub fn check_pauses(&self, sender: &Sender, lane: Option<Lane>) -> Result<(), Paused> {
        let (account, machine) = match sender {
            Sender::Unclaimed(_) => (None, None),
            Sender::Machine { facts, .. } => (facts.account.as_ref(), Some(facts.machine_uuid)),
            Sender::Account { account, .. } => (Some(account), None),
        };
        self.pauses.check_for(ServicePart::Intake, PauseSubject { account, machine, lane })
    }

    /// Charges an event to the sender's quota; returns the refusal if the quota is spent.
    #[boxed]
    pub async fn charge(&self, payer: &HeldSender, bytes: usize, now: Timestamp) -> Option<IntakeOutcome> {
        let refusal = match self.budgets.take(payer, bytes, now).await {
            Ok(BudgetDecision::Taken) => return None,
            Ok(BudgetDecision::Spent { retry_after }) => {
                IntakeOutcome::Unavailable { reason: QUOTA_EXCEEDED, retry_after }
            }
            Ok(BudgetDecision::Crowded) => supervision::Unavailable::Overloaded.into(),
            Err(error) => {
                tracing::warn!(error = domain::reasons(&error), "the budget of a sender could not be read");
                IntakeOutcome::STORE_UNAVAILABLE
            }
        };
        Some(refusal.counted())
    }

    /// Forwards the event, holds it, or returns the response of the statistics service.
    #[boxed]
    pub async fn handle(&self, event: ReceivedEvent) -> IntakeOutcome {
        let ReceivedEvent { sender, body, opened, judged } = event;
        let authority = match self.authority(&sender, &opened).await {
            Ok(authority) => authority,
            Err(error) => {
                tracing::warn!(error = domain::reasons(&error), "the computer of an event could not be looked up");
                return IntakeOutcome::STORE_UNAVAILABLE;
            }
        };
        let judged = judged.unwrap_or_else(|| judge(&opened, &authority, &self.registry, self.clock.now()));
        let outcome = match (judged, opened) {
            (Ok(()), Ok(sealed)) => self.forward(&sender, &authority, &body, sealed).await,
            (Err(hold), opened) => self.hold(&sender, &authority, &body, &opened, hold).await,
            // The judge refuses an envelope that cannot be opened.
            (Ok(()), Err(_)) => IntakeOutcome::Unavailable { reason: "internal", retry_after: SOON },
        };
        outcome.counted()
    }

    /// The authority of the sender. An account may speak for the computer that the scope names, so that computer is looked up.
    async fn authority(
        &self,
        sender: &Sender,
        opened: &Result<Sealed, Unreadable>,
    ) -> Result<SenderAuthority, StoreError> {
        Ok(match (sender, opened) {
            (Sender::Unclaimed(_), _) => SenderAuthority::Unclaimed,
            (Sender::Machine { facts, .. }, _) => SenderAuthority::Machine(facts.clone()),
            (Sender::Account { account, .. }, Ok(sealed)) => {
                let named = self.store.machine_facts(sealed.envelope.scope.machine_id).await?.map(|row| row.facts);
                SenderAuthority::Account { account: account.clone(), named }
            }
            (Sender::Account { account, .. }, Err(_)) => {
                SenderAuthority::Account { account: account.clone(), named: None }
            }
        })
    }

    async fn forward(
        &self,
        sender: &Sender,
        authority: &SenderAuthority,
        body: &Bytes,
        sealed: Sealed,
    ) -> IntakeOutcome {
        let event_id = sealed.envelope.event_id;
        let outline = PartialEnvelope::from(&sealed.envelope);
        let scope = RecordScope {
            account: authority.account().cloned(),
            identities: vec![sealed.envelope.scope.user_id.clone()],
            machine: Some(sealed.envelope.scope.machine_id),
            ..RecordScope::default()
        };
        let seal = sealed.seal;
        let used = self.tally.as_ref().map(|tally| {
            let envelope = &sealed.envelope;
            (tally, recorder_of(envelope), QuotaUsed::by(envelope.lane, &envelope.event_type))
        });
        let submission = Submission::new(body.clone(), sealed, scope).in_part(authority.part());
        let now = self.clock.now();
        let receipt = self.rng.uuid_v7(now).into();
        domain::failpoint!("forward.before");
        let outcome = match self.upstream.submit(submission, receipt, now).await {
            Ok(outcome) => outcome,
            Err(refusal) => return refusal.into(),
        };
        domain::failpoint!("forward.after");
        match outcome {
            SubmitOutcome::Receipt(receipt) => {
                if let Some((tally, recorder, used)) = used {
                    tally.receipt(event_id, &recorder, used, now);
                }
                if let Some(scope) = self.held_scope(sender) {
                    heal(&self.store, &scope, event_id, receipt, self.clock.now()).await;
                }
                IntakeOutcome::Forwarded(receipt)
            }
            SubmitOutcome::PassThrough(passed) => IntakeOutcome::Passed(passed),
            SubmitOutcome::Refused { status, detail } => {
                let detail = format!("the statistics service answered {status}: {detail}");
                let hold = HoldDecision { reason: HoldReason::UpstreamRefused, detail };
                // The person's consent permits it; without consent the event would not have been sent.
                let waiting = Waiting { body, outline, seal: Some(seal), is_kept: true };
                self.keep(self.entry(sender, authority, waiting, &hold), hold).await
            }
            SubmitOutcome::Unavailable(why) => unavailable(event_id, &why, now),
        }
    }

    /// The scope of held entries that this sender's resend settles. For a computer the authenticating query returned whether it has
    /// any; for an account the store is queried each time, since accounts rarely send.
    fn held_scope(&self, sender: &Sender) -> Option<HeldScope> {
        match sender {
            Sender::Unclaimed(_) => None,
            Sender::Account { account, .. } => Some(HeldScope::Account(account.clone())),
            Sender::Machine { facts, has_held } => {
                let machine = facts.machine_uuid;
                (*has_held || self.was_held_lately(machine)).then_some(HeldScope::Machine(machine))
            }
        }
    }

    fn note_held(&self, machine: MachineUuid, at: Timestamp) {
        self.held_lately.note(machine, at);
    }

    /// Whether an event of the computer was held while a request may have been in progress.
    fn was_held_lately(&self, machine: MachineUuid) -> bool {
        self.held_lately.includes(machine, self.clock.now())
    }

    async fn hold(
        &self,
        sender: &Sender,
        authority: &SenderAuthority,
        body: &Bytes,
        opened: &Result<Sealed, Unreadable>,
        mut hold: HoldDecision,
    ) -> IntakeOutcome {
        let is_kept = match self.may_keep(authority, opened).await {
            Ok(is_kept) => is_kept,
            Err(error) => {
                tracing::warn!(error = domain::reasons(&error), "the consent for an event could not be read");
                return IntakeOutcome::STORE_UNAVAILABLE;
            }
        };
        let (outline, seal) = match opened {
            Ok(sealed) => (PartialEnvelope::from(&sealed.envelope), Some(sealed.seal)),
            Err(unreadable) => ((*unreadable.outline).clone(), None),
        };
        // The consent of a person is not disclosed to a computer of another person.
        if !is_kept && !matches!(authority, SenderAuthority::Machine(facts) if facts.is_outsider()) {
            hold.detail.push_str("; its payload was not kept");
        }
        let waiting = Waiting { body, outline, seal, is_kept };
        let mut entry = self.entry(sender, authority, waiting, &hold);
        if let (false, Err(unreadable)) = (is_kept, opened) {
            // The details may quote the sent body.
            entry.detail = format!("{} at {}", unreadable.fault.reason, unreadable.fault.path);
        }
        self.keep(entry, hold).await
    }

    /// Whether consent permits storing the body. An event of an account that names none of its computers is judged by the levels of
    /// all.
    async fn may_keep(
        &self,
        authority: &SenderAuthority,
        opened: &Result<Sealed, Unreadable>,
    ) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let rules: Vec<ConsentRule>;
        let (rules, machine, is_paused): (&[ConsentRule], _, _) = match authority {
            SenderAuthority::Unclaimed => (&[], None, false),
            SenderAuthority::Machine(facts) => {
                (&facts.consent, Some(facts.machine_uuid), facts.pauses.until(now).is_some())
            }
            SenderAuthority::Account { account, named: Some(facts) } if facts.account.as_ref() == Some(account) => {
                (&facts.consent, Some(facts.machine_uuid), facts.pauses.until(now).is_some())
            }
            SenderAuthority::Account { account, .. } => {
                let records = self.store.consent_of_account(account).await?;
                rules = records.into_iter().map(|record| record.rule).collect();
                (&rules, None, self.store.pauses_of_account(account, now).await?.is_any())
            }
        };
        Ok(may_keep(opened, rules, machine, is_paused, &self.registry))
    }

    fn entry(
        &self,
        sender: &Sender,
        authority: &SenderAuthority,
        waiting: Waiting<'_>,
        hold: &HoldDecision,
    ) -> NewHeld {
        let now = self.clock.now();
        let Waiting { body, outline, seal, is_kept } = waiting;
        NewHeld {
            id: self.rng.uuid_v7(now).into(),
            sender: sender.as_held(),
            account: authority.account().cloned(),
            user_cuid: authority.identity().cloned(),
            outline,
            reason: hold.reason,
            detail: hold.detail.clone(),
            // An event without consent is stored nowhere.
            body: is_kept.then(|| body.to_vec()),
            body_sha256: Digest::of(body),
            body_bytes: u64::try_from(body.len()).unwrap_or(u64::MAX),
            seal,
            received_at: now,
        }
    }

    async fn keep(&self, item: NewHeld, hold: HoldDecision) -> IntakeOutcome {
        if let HeldSender::Machine(machine) = item.sender {
            self.note_held(machine, item.received_at);
        }
        let deadline = self.hold.ask_deadline();
        match self.hold.ask(|reply| CommitMessage::Add { item, reply }, deadline).await {
            Ok(Ok(HeldOutcome::Held(_) | HeldOutcome::AlreadyHeld(_))) => {
                metrics::counter!("attache_events_held_total", "reason" => hold.reason.as_str()).increment(1);
                IntakeOutcome::Held { warning: hold.warning() }
            }
            Ok(Ok(HeldOutcome::QuotaExceeded { retry_after })) => {
                let retry_after = retry_after.to_std().unwrap_or_default();
                IntakeOutcome::Unavailable { reason: "held_quota_exceeded", retry_after }
            }
            Ok(Ok(HeldOutcome::Busy) | Err(_)) => IntakeOutcome::STORE_UNAVAILABLE,
            Err(refusal) => refusal.into(),
        }
    }
}

/// Settles the entry of the first try after its resend was forwarded. A failure leaves only a stale entry, which the next resend
/// settles.
async fn heal(store: &Store, scope: &HeldScope, event_id: EventId, receipt: ReceiptId, now: Timestamp) {
    if let Err(error) = store.held_mark_released(event_id, scope, receipt, now).await {
        tracing::warn!(event.id = %event_id, error = domain::reasons(&error), "a held entry could not be marked as released");
    }
}

fn recorder_of(envelope: &Envelope) -> Recorder {
    Recorder { machine: envelope.scope.machine_id, identity: envelope.scope.user_id.clone() }
}

fn unavailable(event_id: EventId, why: &Unavailable, now: Timestamp) -> IntakeOutcome {
    tracing::warn!(event.id = %event_id, error = domain::reasons(why), "an event could not be forwarded");
    IntakeOutcome::Unavailable { reason: "upstream_unavailable", retry_after: pause(why, now) }
}

/// An event to be held.
struct Waiting<'b> {
    body: &'b Bytes,
    outline: PartialEnvelope,
    seal: Option<Digest>,
    is_kept: bool,
}

/// The retry delay that the statistics service requests, clamped to `SOON` … `PAUSE_MAX`.
fn pause(why: &Unavailable, now: Timestamp) -> Duration {
    const PAUSE_MAX: Duration = Duration::from_hours(1);
    let Unavailable::Status { retry_after: Some(value), .. } = why else { return SOON };
    let delay = value.to_str().ok().and_then(|value| retry_after(value, now));
    delay.map_or(SOON, |delay| delay.clamp(SOON, PAUSE_MAX))
}
