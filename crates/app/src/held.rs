//! Held events that an operator releases or discards (`docs/decisions/0044-held-events-in-bulk.md`).

use actors::InfraError;
use actors::intake::IntakeOutcome;
use bytes::Bytes;
use domain::clock::date_time;
use domain::foreign::visible;
use domain::ids::{HeldId, ReceiptId};
use store::StoreError;
use store::held::{HeldEntry, HeldState};
use wire::ops::{HeldEndOutcome, HeldShown};

use crate::App;

/// What an operator does with held events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldEnd {
    /// Submit them again, as if their senders had sent them now.
    Release,
    /// Discard them with their bodies.
    Discard,
}

/// Why a held event is neither released nor discarded.
#[derive(Debug, thiserror::Error)]
pub enum NotEnded {
    /// No entry has the id.
    #[error("no held event has this id")]
    Unknown,
    /// It was released or discarded before.
    #[error("the event is already {}", .0.as_str())]
    Ended(HeldState),
    /// Its body was not stored.
    #[error(
        "its payload was not stored, because the person's consent does not allow it; the sender has to send it again"
    )]
    WithoutBody,
    /// It is held again, or its intake is paused.
    #[error("the event is still held: {0}")]
    StillHeld(String),
    /// The statistics service refused it.
    #[error("the statistics service answered {0}")]
    Refused(String),
    /// It could not be forwarded now.
    #[error("the event could not be forwarded: {0}; try again")]
    Unavailable(String),
    /// A part of the server failed.
    #[error(transparent)]
    Fault(#[from] InfraError),
    /// An event before it could not be forwarded.
    #[error("an event before it could not be forwarded; try again")]
    NotTried,
}

impl NotEnded {
    /// The outcome in one word.
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ended(_) => "already_ended",
            Self::WithoutBody => "without_body",
            Self::StillHeld(_) => "still_held",
            Self::Refused(_) => "refused",
            Self::Unavailable(_) | Self::Fault(_) => "unavailable",
            Self::NotTried => "not_tried",
        }
    }
}

impl From<StoreError> for NotEnded {
    fn from(error: StoreError) -> Self {
        Self::Fault(error.into())
    }
}

/// The event with its body, if it can be submitted again.
pub fn releasable(found: Option<(HeldEntry, Option<Vec<u8>>)>) -> Result<(HeldEntry, Bytes), NotEnded> {
    let (entry, body) = found.ok_or(NotEnded::Unknown)?;
    if entry.state != HeldState::Held {
        return Err(NotEnded::Ended(entry.state));
    }
    let body = body.ok_or(NotEnded::WithoutBody)?;
    Ok((entry, body.into()))
}

impl App {
    /// Submits a held event again with the authority of its sender.
    #[boxed]
    pub async fn release_held(&self, entry: &HeldEntry, body: Bytes) -> Result<ReceiptId, NotEnded> {
        match self.intake.release(entry, body).await? {
            IntakeOutcome::Forwarded(receipt) => Ok(receipt),
            IntakeOutcome::Held { warning } => Err(NotEnded::StillHeld(warning)),
            IntakeOutcome::Paused(paused) => Err(NotEnded::StillHeld(paused.to_string())),
            IntakeOutcome::Passed(answer) => {
                let body = String::from_utf8_lossy(&answer.body);
                Err(NotEnded::Refused(format!("{}: {}", answer.status, visible(&body))))
            }
            IntakeOutcome::Unavailable { reason, .. } => Err(NotEnded::Unavailable(reason.to_owned())),
        }
    }

    /// Ends held events one after the other, in this order: chains of one sender stay in order. After the first that could not be
    /// forwarded the others are not tried.
    #[boxed]
    pub async fn end_held(&self, ids: &[HeldId], end: HeldEnd) -> Vec<HeldEndOutcome> {
        let mut results: Vec<_> = ids.iter().map(|_| Err(NotEnded::NotTried)).collect();
        let mut round: Vec<usize> = (0..ids.len()).collect();
        loop {
            let (mut progresses, mut refused) = (false, Vec::new());
            for index in round {
                let result = self.end_one(ids[index], end).await;
                let is_away = matches!(result, Err(NotEnded::Unavailable(_) | NotEnded::Fault(_)));
                progresses |= result.is_ok();
                if matches!(result, Err(NotEnded::Refused(_))) {
                    refused.push(index);
                }
                results[index] = result;
                if is_away {
                    refused.clear();
                    break;
                }
            }
            // Ids of one millisecond have no order: the event before a refused one may have been released after it.
            if !progresses || refused.is_empty() {
                break;
            }
            round = refused;
        }
        ids.iter().zip(results).map(|(id, result)| outcome(*id, end, result)).collect()
    }

    async fn end_one(&self, id: HeldId, end: HeldEnd) -> Result<Option<ReceiptId>, NotEnded> {
        if end == HeldEnd::Release {
            let (entry, body) = releasable(self.store.held_show(id).await?)?;
            return self.release_held(&entry, body).await.map(Some);
        }
        if self.store.held_discard(id, self.clock.now()).await? { Ok(None) } else { Err(NotEnded::Unknown) }
    }
}

fn outcome(id: HeldId, end: HeldEnd, result: Result<Option<ReceiptId>, NotEnded>) -> HeldEndOutcome {
    let success = if end == HeldEnd::Release { "released" } else { "discarded" };
    let outcome = result.as_ref().map_or_else(NotEnded::code, |_| success).to_owned();
    let (receipt_id, detail) = match result {
        Ok(receipt) => (receipt, None),
        Err(error) => (None, Some(domain::reasons(&error))),
    };
    HeldEndOutcome { id, outcome, detail, receipt_id }
}

/// A held event for operators, without its body.
pub fn described(entry: &HeldEntry) -> HeldShown {
    HeldShown {
        id: entry.id,
        state: entry.state.as_str().to_owned(),
        reason: entry.reason.as_str().to_owned(),
        detail: entry.detail.clone(),
        sender: entry.sender.to_string(),
        user_account_id: entry.account.clone(),
        event_id: entry.outline.event_id,
        event_type: entry.outline.event_type.clone(),
        agent_id: entry.outline.agent_id.clone(),
        machine_id: entry.outline.machine_uuid,
        seal: entry.seal,
        body_sha256: entry.body_sha256,
        body_bytes: entry.body_bytes,
        received_at: date_time(entry.received_at),
        state_at: entry.state_at.map(date_time),
        receipt_id: entry.receipt,
    }
}
