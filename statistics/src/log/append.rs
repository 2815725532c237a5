//! Appending events of many senders in one transaction.

use std::sync::Arc;

use futures_util::future;
use tokio::sync::oneshot;

use super::error::LogError;
use super::handle::Log;
use super::job::{Append, AppendOutcome, AppendReply};

impl Log {
    /// Takes a group of events; one outcome per event, in order. New events are durable when it returns; after an error, nothing of the
    /// group is known to be.
    pub async fn append(&self, group: &[Append]) -> Result<Vec<AppendOutcome>, LogError> {
        self.admits()?;
        let Some(writer) = &self.writer else { return self.append_on_postgres(group).await };
        let (events, outcomes): (Vec<_>, Vec<_>) = group
            .iter()
            .map(|event| {
                let (answer, outcome) = oneshot::channel();
                let answer: AppendReply = Box::new(move |outcome| drop(answer.send(outcome)));
                ((event.clone(), answer), outcome)
            })
            .unzip();
        writer.append(events);
        let outcomes = future::join_all(outcomes).await;
        let outcome = |outcome: Result<_, _>| outcome.unwrap_or_else(|_| Err(Arc::new(LogError::Closed)));
        outcomes.into_iter().map(|each| outcome(each).map_err(LogError::Group)).collect()
    }

    /// Appends events and answers each after the commit of its group, or with the error that prevented the commit. On SQLite it only queues
    /// them: groups form while another one is committed. On PostgreSQL the events are one group; if one of them makes the group fail, each
    /// is appended alone.
    pub async fn submit(&self, events: Vec<(Append, AppendReply)>) {
        if let Err(error) = self.admits() {
            let error = Arc::new(error);
            for (_, answer) in events {
                answer(Err(Arc::clone(&error)));
            }
            return;
        }
        if let Some(writer) = &self.writer {
            writer.append(events);
            return;
        }
        let (group, answers): (Vec<Append>, Vec<AppendReply>) = events.into_iter().unzip();
        match self.append_on_postgres(&group).await {
            Ok(outcomes) => outcomes.into_iter().zip(answers).for_each(|(outcome, answer)| answer(Ok(outcome))),
            Err(error) if error.is_unavailable() || group.len() == 1 => {
                let error = Arc::new(error);
                for answer in answers {
                    answer(Err(Arc::clone(&error)));
                }
            }
            Err(error) => {
                tracing::warn!(
                    items = group.len(),
                    error = domain::reasons(&error),
                    "a group of events was not committed; each is tried alone"
                );
                for (event, answer) in group.iter().zip(answers) {
                    let alone = self.append_on_postgres(std::slice::from_ref(event)).await;
                    let outcome = alone.map(|mut outcomes| outcomes.pop()).map_err(Arc::new);
                    answer(outcome.and_then(|outcome| outcome.ok_or_else(|| Arc::new(LogError::Contended))));
                }
            }
        }
    }

    /// Whether [`Self::submit`] only queues, so that the next group need not wait for the commit of the last one.
    pub fn queues(&self) -> bool {
        self.writer.is_some()
    }
}
