//! Stays with an event that was sealed until the server has said what became of it.

use std::fmt::Display;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::Error;
use domain::canonical;
use domain::chain::Position;
use serde_json::json;
use statistics::proof::AuditProof;
use wire::events::SubmitResult;

use super::Sending;
use crate::cli::event::chain::{Chain, Pending};
use crate::cli::event::report::SendReport;
use crate::cli::remote::failed;
use crate::cli::{Done, Failure};

impl Sending {
    /// Sends what is pending until it is settled. `own`: whether it is of the input that is worked on.
    pub(super) async fn deliver(&mut self, chain: &mut Chain, own: bool) -> Done {
        let mut moved = false;
        while let Some(pending) = chain.pending().cloned() {
            let report = SendReport { pending: &pending, position: chain.next(), own, moved };
            match self.client.event_submit(pending.sealed.clone()).await {
                Ok(SubmitResult::Forwarded { receipt_id }) => {
                    self.tally.sent += 1;
                    self.tally.receipts.push((pending.event_id, receipt_id));
                    report.say(
                        self.voice,
                        json!({ "receipt_id": receipt_id }),
                        "sent ",
                        &format!("receipt {receipt_id}"),
                    );
                    chain.taken(own);
                }
                Ok(SubmitResult::Held { warning, .. }) => {
                    self.tally.held += 1;
                    report.say(self.voice, json!({ "held": true, "warning": warning }), "held ", &warning);
                    chain.set_aside(own);
                }
                Err(error) if error.code() == Some("event_id_conflict") => {
                    match self.other(&pending).await? {
                        None => {
                            self.tally.known += 1;
                            let words = "the log has this event already";
                            report.say(self.voice, json!({ "known": true }), "known", words);
                        }
                        Some(reason) => {
                            self.tally.failed += 1;
                            report.say(self.voice, json!({ "failed": true, "reason": reason }), "taken", &reason);
                        }
                    }
                    chain.set_aside(own);
                }
                Err(error) if error.refusal().is_some_and(|refusal| refusal.status == 413) => {
                    chain.give_up()?;
                    let reason = "it is too large for this server, and is not sent";
                    if own {
                        return Err(Failure::refused(format!("{error}\n  event {}: {reason}", pending.event_id)));
                    }
                    self.tally.failed += 1;
                    report.say(self.voice, json!({ "failed": true, "reason": reason }), "large", reason);
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

    /// Why the event that has the id of this one in the log is another one; nothing when it is the same.
    async fn other(&self, pending: &Pending) -> Result<Option<String>, Failure> {
        let unproven = |fault: &dyn Display| {
            Some(format!(
                "an event with this id is in the log already, and that it is this one cannot be told: {fault}"
            ))
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
            Ok(_) => {
                Some("another event with this id is in the log: this one is not, and needs an id of its own".to_owned())
            }
            Err(fault) => unproven(&fault),
        })
    }
}

/// The place at which the server wants the chain to go on.
fn expected(error: &Error) -> Option<Position> {
    let refusal = error.refusal().filter(|refusal| matches!(refusal.status, 409 | 422))?;
    serde_json::from_value(refusal.body.others.get("expected")?.clone()).ok()
}

fn unsettled(chain: &Chain, pending: &Pending, error: Error) -> Failure {
    let is_refused_again = expected(&error).is_some();
    let Failure::Refused(reason) = failed(error) else { return Failure::refused("the event was refused") };
    if !is_refused_again {
        return Failure::Refused(reason);
    }
    Failure::Refused(format!(
        "{reason}\n  event {} was put on the place that the server expected, and was refused there too: something else sends \
         on this chain. It is kept in {}; `attache event pending --drop` gives it up",
        pending.event_id,
        chain.path(),
    ))
}
