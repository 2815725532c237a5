//! What became of events, one by one and in sum.

use domain::chain::Position;
use domain::foreign::visible;
use domain::ids::{EventId, ReceiptId};
use serde_json::{Value, json};

use super::chain::Pending;
use crate::cli::{Done, Failure, output, terminal};

/// How it is told what became of each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// For a person.
    Human,
    /// An object a line.
    Json,
    /// Not at all: the tally has it.
    Silent,
}

/// How many events became what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Got a receipt.
    pub sent: usize,
    /// Were retained.
    pub held: usize,
    /// Were in the log before.
    pub known: usize,
    /// Are not in the log, and will not be: the id is of another event, or the server takes none of that size.
    pub failed: usize,
    /// The events that were sent.
    pub receipts: Vec<(EventId, ReceiptId)>,
}

impl SendCounts {
    /// The last line, for a person.
    pub fn say(&self, voice: ReportFormat) {
        let Self { sent, held, known, failed, .. } = *self;
        if voice != ReportFormat::Human {
            return;
        }
        let mut words = vec![format!("{sent} sent")];
        if held > 0 {
            words.push(terminal::styled(terminal::WARNING, format!("{held} held")));
        }
        if known > 0 {
            words.push(format!("{known} known before"));
        }
        if failed > 0 {
            words.push(terminal::styled(terminal::WARNING, format!("{failed} failed")));
        }
        output::say(&words.join(", "));
    }

    /// Whether that is what was asked for.
    pub fn done(&self, may_be_held: bool) -> Done {
        if self.failed > 0 {
            return Err(Failure::refused(format!(
                "not recorded: {}, for the reasons that are said there",
                self.failed
            )));
        }
        if self.held > 0 && !may_be_held {
            return Err(Failure::refused(format!("held: {}; what is held is not in the chain", self.held)));
        }
        Ok(())
    }
}

/// An answer, and of which event.
pub struct SendReport<'p> {
    /// The event.
    pub pending: &'p Pending,
    /// Where it was put.
    pub position: Position,
    /// Whether it is of the input that is worked on, not of an earlier run.
    pub own: bool,
    /// Whether it was put elsewhere than was kept here.
    pub moved: bool,
}

impl SendReport<'_> {
    /// Says it.
    pub fn say(&self, voice: ReportFormat, outcome: Value, word: &str, words: &str) {
        let Pending { event_id, event_type, place, .. } = self.pending;
        let Position { chain_epoch, seq, .. } = self.position;
        if voice == ReportFormat::Silent {
            return;
        }
        if voice == ReportFormat::Json {
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
            return output::say_json_line(&value);
        }
        let is_sent = outcome.get("receipt_id").is_some();
        if self.moved {
            output::say(&terminal::styled(
                terminal::FAINT,
                format!(
                    "the server's chain is elsewhere than was kept here: it goes on at epoch {chain_epoch}, seq {seq}"
                ),
            ));
        }
        let word = terminal::styled(if is_sent { terminal::GOOD } else { terminal::WARNING }, word);
        let place = if is_sent { format!("  seq {seq}") } else { String::new() };
        let earlier = if self.own { "" } else { "  (of an earlier run)" };
        output::say(&format!("{word}  {event_id}  {}{place}  {}{earlier}", visible(event_type), visible(words)));
    }
}
