//! Assigns tree positions to new events of the embedded log and signs checkpoints. On PostgreSQL it also writes the newest checkpoint to
//! the node's file.
//!
//! On PostgreSQL the passes slow down while no event arrives. Each node is woken by its own appends, and its passes stay frequent for
//! longer than another node's lease can last; a slow pass finds the events of a node that ended before it sequenced them.
//!
//! **If it crashes:** the next pass continues at the end of the log; events stay `pending` a little longer.

use domain::log_part::LogPart;
use metrics::Label;
use statistics::parts::PartSlot;
use supervision::periodic::{Next, Pass, PassError, Waker};

/// One pass over the events that are not in the tree yet.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// The part of the embedded log that is sequenced.
    pub part: LogPart,
    /// Its log, once it is open.
    pub log: PartSlot,
    /// Maximum number of events of one pass.
    pub events_max: u32,
    /// Wake the actors that follow the tree.
    pub grown: Vec<Waker>,
}

impl Pass for Sequence {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("sequence.pass");
        let Some(log) = self.log.get() else { return Ok(Next::Idle) };
        let labels = || labels_of(self.part);
        let sequenced = log.sequence(self.events_max).await;
        metrics::gauge!("attache_log_halted", labels()).set(if log.halted().is_some() { 1.0 } else { 0.0 });
        if let Err(fault) = log.remember(false).await {
            // The pass that stores the checkpoint in the main database reports it.
            tracing::debug!(
                error = domain::reasons(&fault),
                "the newest checkpoint was not written to the node's file"
            );
        }
        let sequenced = sequenced?;
        metrics::gauge!("attache_log_tree_size", labels()).set(as_f64(sequenced.tree_size));
        metrics::counter!("attache_log_sequenced_total", labels()).increment(u64::from(sequenced.added));
        metrics::gauge!("attache_log_sequencer", labels()).set(f64::from(u8::from(log.is_sequencer())));
        if sequenced.added == 0 {
            return Ok(Next::Idle);
        }
        self.grown.iter().for_each(Waker::wake);
        Ok(Next::at_once_if(sequenced.added >= self.events_max))
    }
}

/// The labels of the metrics of a part: none for the first one, which every installation has.
pub(crate) fn labels_of(part: LogPart) -> Vec<Label> {
    if part.is_first() { Vec::new() } else { vec![Label::new("part", part.to_string())] }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; trees stay far below 2^52 leaves")]
pub(crate) fn as_f64(size: u64) -> f64 {
    size as f64
}
