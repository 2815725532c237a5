//! Events that wait for an answer while other processes have locked their chains.

use std::sync::Arc;

use domain::chain::ChainKey;

use super::append::{Outcomes, PAUSES};
use super::judge::ChainPart;
use crate::log::error::LogError;
use crate::log::handle::Log;
use crate::log::job::{Append, AppendOutcome, AppendReply};

/// Events of chains that another process has locked. [`Self::settle`] tries them again; dropping it drops their answers. Until then further
/// events of these chains are answered [`AppendOutcome::Busy`], since they would overtake.
pub struct ContendedEvents {
    pending: Pending,
    keys: Vec<ChainKey>,
}

/// Events, and their unsettled chains.
struct Pending {
    log: Log,
    group: Vec<Append>,
    answers: Vec<Option<AppendReply>>,
    left: Vec<ChainPart>,
}

impl Log {
    /// Appends events and answers them, except for events of chains that another process has locked; returns those.
    pub(in crate::log) async fn submit_on_postgres(
        &self,
        events: Vec<(Append, AppendReply)>,
    ) -> Option<ContendedEvents> {
        let (group, answers): (Vec<Append>, Vec<_>) =
            events.into_iter().map(|(event, answer)| (event, Some(answer))).unzip();
        let (contended, left): (Vec<ChainPart>, Vec<ChainPart>) =
            ChainPart::all(&group).into_iter().partition(|part| self.contended.contains_key(&part.key));
        let mut pending = Pending { log: self.clone(), group, answers, left };
        pending.refuse(&contended);
        pending.attempt().await;
        if pending.left.is_empty() {
            return None;
        }
        let keys: Vec<ChainKey> = pending.left.iter().map(|part| part.key.clone()).collect();
        for key in &keys {
            self.contended.insert(key.clone(), ());
        }
        Some(ContendedEvents { pending, keys })
    }
}

impl ContendedEvents {
    /// Retries, with pauses of less than a second in total, and answers each event: [`AppendOutcome::Busy`] if its chain is still locked.
    #[boxed]
    pub async fn settle(mut self) {
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            self.pending.attempt().await;
            if self.pending.left.is_empty() {
                return;
            }
        }
        let left = std::mem::take(&mut self.pending.left);
        self.pending.refuse(&left);
    }
}

impl Drop for ContendedEvents {
    fn drop(&mut self) {
        for key in &self.keys {
            self.pending.log.contended.remove(key);
        }
    }
}

impl Pending {
    async fn attempt(&mut self) {
        let mut outcomes = Outcomes::new();
        let left = std::mem::take(&mut self.left);
        let attempted = self.log.attempt(&self.group, left, &mut outcomes).await;
        for (event, outcome) in outcomes {
            self.answer(event, outcome);
        }
        match attempted {
            Ok(left) => self.left = left,
            Err(error) => {
                let error = Arc::new(error);
                for answer in self.answers.iter_mut().filter_map(Option::take) {
                    answer(Err(Arc::clone(&error)));
                }
            }
        }
    }

    /// Answers the events of the chains with [`AppendOutcome::Busy`].
    fn refuse(&mut self, parts: &[ChainPart]) {
        for event in parts.iter().flat_map(|part| &part.events) {
            self.answer(*event, Ok(AppendOutcome::Busy));
        }
    }

    fn answer(&mut self, event: usize, outcome: Result<AppendOutcome, Arc<LogError>>) {
        if let Some(answer) = self.answers.get_mut(event).and_then(Option::take) {
            answer(outcome);
        }
    }
}
