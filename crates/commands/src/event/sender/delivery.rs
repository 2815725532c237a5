//! Sends the pending event until the server has accepted, held or refused it.

use std::fmt::Display;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::Error;
use domain::canonical;
use domain::chain::Position;
use proofs::proof::AuditProof;
use serde_json::json;
use wire::events::SubmitResult;

use super::EventSender;
use crate::connection::failed;
use crate::event::chain::{LocalChain, PendingEvent};
use crate::event::report::SendReport;
use crate::failure::{Done, Failure};

impl EventSender {
    /// Sends the pending event until it is settled. `own`: whether it belongs to the current input.
    pub(super) async fn deliver(&mut self, chain: &mut LocalChain, own: bool) -> Done {
        let mut moved = false;
        while let Some(pending) = chain.pending().cloned() {
            let report = SendReport { pending: &pending, position: chain.next(), own, moved };
            match self.client.event_submit(pending.sealed.clone()).await {
                Ok(SubmitResult::Forwarded { receipt_id }) => {
                    self.counts.sent += 1;
                    self.counts.receipts.push((pending.event_id, receipt_id));
                    report.print(
                        self.format,
                        json!({ "receipt_id": receipt_id }),
                        "sent ",
                        &format!("receipt {receipt_id}"),
                    );
                    chain.taken(own);
                }
                Ok(SubmitResult::Held { warning, .. }) => {
                    self.counts.held += 1;
                    report.print(self.format, json!({ "held": true, "warning": warning }), "held ", &warning);
                    chain.set_aside(own);
                }
                Err(error) if error.code() == Some("event_id_conflict") => {
                    match self.other(&pending).await? {
                        None => {
                            self.counts.known += 1;
                            let words = "the log already has this event";
                            report.print(self.format, json!({ "known": true }), "known", words);
                        }
                        Some(reason) => {
                            self.counts.failed += 1;
                            self.counts.taken += 1;
                            report.print(self.format, json!({ "failed": true, "reason": reason }), "taken", &reason);
                        }
                    }
                    chain.set_aside(own);
                }
                Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 413) => {
                    chain.give_up()?;
                    let reason = "it is too large for this server and was not sent";
                    if own {
                        return Err(Failure::refused(format!("{error}\n  event {}: {reason}", pending.event_id)));
                    }
                    self.counts.failed += 1;
                    report.print(self.format, json!({ "failed": true, "reason": reason }), "large", reason);
                }
                Err(error) => match expected(&error).filter(|_| !moved) {
                    Some(position) => {
                        moved = true;
                        chain.move_to(position)?;
                    }
                    None => return Err(unsettled(chain, &pending, error)),
                },
            }
        }
        Ok(())
    }

    /// Compares the event in the log that has the same id. `None` if it is the same event, else the reason.
    async fn other(&self, pending: &PendingEvent) -> Result<Option<String>, Failure> {
        let unproven = |fault: &dyn Display| {
            Some(format!("the log already has an event with this id, and it cannot be compared with this one: {fault}"))
        };
        let proof = match self.client.proof(pending.event_id).await {
            Ok(proof) => proof,
            Err(error) if error.is_temporary() => return Err(failed(error)),
            Err(error) => return Ok(unproven(&error)),
        };
        let logged = AuditProof::parse(&proof).map_err(|fault| fault.to_string()).and_then(|proof| {
            let bytes = BASE64_STANDARD.decode(&proof.canonical_b64).map_err(|fault| fault.to_string())?;
            canonical::parse_object(&bytes, usize::MAX).map_err(|fault| fault.to_string())
        });
        Ok(match logged {
            Ok(logged) if pending.says(&logged, &[]) => None,
            Ok(_) => Some(
                "the log has another event with this id: this event was not recorded and needs a new id".to_owned(),
            ),
            Err(fault) => unproven(&fault),
        })
    }
}

/// The position that the server expects next.
fn expected(error: &Error) -> Option<Position> {
    let refusal = error.refusal().filter(|refusal| matches!(refusal.status, 409 | 422))?;
    serde_json::from_value(refusal.body.others.get("expected")?.clone()).ok()
}

fn unsettled(chain: &LocalChain, pending: &PendingEvent, error: Error) -> Failure {
    let is_refused_again = expected(&error).is_some();
    let failure = failed(error);
    if !is_refused_again {
        return failure;
    }
    failure.advised(&format!(
        "event {} was moved to the position that the server expected, and was refused there too: another program sends \
         on this chain. The event is stored in {}; `attache event pending --drop` drops it",
        pending.event_id,
        chain.path(),
    ))
}
