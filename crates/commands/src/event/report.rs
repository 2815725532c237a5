//! Prints the outcome of each event, and counts the outcomes.

use domain::chain::Position;
use domain::foreign::visible;
use domain::ids::{EventId, ReceiptId};
use serde_json::{Value, json};

use super::chain::PendingEvent;
use crate::failure::{Done, Failure};
use crate::{output, terminal};

/// Format in which outcomes are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// One line of text per event.
    Human,
    /// One JSON object per line.
    Json,
    /// No output; the caller reads the counts.
    Silent,
}

/// Number of events per outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Forwarded, with a receipt.
    pub sent: usize,
    /// Stored by the server, but not part of the chain.
    pub held: usize,
    /// Already in the log.
    pub known: usize,
    /// Refused permanently: another event has the id, or the event is too large.
    pub failed: usize,
    /// Failed events with the id of another event in the log.
    pub taken: usize,
    /// Receipts of the forwarded events.
    pub receipts: Vec<(EventId, ReceiptId)>,
}

impl SendCounts {
    /// Prints the summary line, in the format for people only.
    pub fn print(&self, format: ReportFormat) {
        let Self { sent, held, known, failed, .. } = *self;
        if format != ReportFormat::Human {
            return;
        }
        let mut words = vec![format!("{sent} sent")];
        if held > 0 {
            words.push(terminal::styled(terminal::WARNING, format!("{held} held")));
        }
        if known > 0 {
            words.push(format!("{known} already recorded"));
        }
        if failed > 0 {
            words.push(terminal::styled(terminal::WARNING, format!("{failed} failed")));
        }
        output::print(&words.join(", "));
    }

    /// An error if an event failed, or was held and `may_be_held` is false.
    pub fn done(&self, may_be_held: bool) -> Done {
        if self.failed > 0 {
            return Err(Failure::refused(format!("not recorded: {} (see the reasons above)", self.failed)));
        }
        if self.held > 0 && !may_be_held {
            return Err(Failure::refused(format!("held: {} (held events are not part of the chain)", self.held)));
        }
        Ok(())
    }
}

/// The outcome of one event.
pub struct SendReport<'p> {
    /// The event that was sent.
    pub pending: &'p PendingEvent,
    /// Position at which it was sent.
    pub position: Position,
    /// Whether it belongs to the current input and not to an earlier run.
    pub own: bool,
    /// Whether the server expected another position than the stored one.
    pub moved: bool,
}

impl SendReport<'_> {
    /// Prints the outcome.
    pub fn print(&self, format: ReportFormat, outcome: Value, word: &str, words: &str) {
        let PendingEvent { event_id, event_type, place, .. } = self.pending;
        let Position { chain_epoch, seq, .. } = self.position;
        if format == ReportFormat::Silent {
            return;
        }
        if format == ReportFormat::Json {
            let mut value = json!({
                "line": self.own.then_some(place.line),
                "event_id": event_id,
                "event_type": event_type,
                "chain_epoch": chain_epoch,
                "seq": seq,
            });
            if self.moved {
                value["moved"] = json!(true);
            }
            if let (Value::Object(outcome), Some(members)) = (outcome, value.as_object_mut()) {
                members.extend(outcome);
            }
            return output::print_json_line(&value);
        }
        let is_sent = outcome.get("receipt_id").is_some();
        if self.moved {
            output::print(&terminal::styled(
                terminal::FAINT,
                format!(
                    "the server expects another position than the stored one: continuing at epoch {chain_epoch}, seq {seq}"
                ),
            ));
        }
        let word = terminal::styled(if is_sent { terminal::GOOD } else { terminal::WARNING }, word);
        let place = if is_sent { format!("  seq {seq}") } else { String::new() };
        let earlier = if self.own { "" } else { "  (of an earlier run)" };
        output::print(&format!("{word}  {event_id}  {}{place}  {}{earlier}", visible(event_type), visible(words)));
    }
}
