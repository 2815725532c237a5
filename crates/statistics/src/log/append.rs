//! Appending events of many senders at once.

use std::sync::Arc;

use futures_util::future;
use tokio::sync::oneshot;

use super::error::LogError;
use super::handle::Log;
use super::job::{Append, AppendOutcome, AppendReply};
use super::postgres::ContendedEvents;

impl Log {
    /// Appends a group of events; one outcome per event, in order. New events are durable on success. After an error any event may be
    /// stored.
    #[boxed]
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

    /// Appends events and answers each after its commit, or with the error that prevented it. On SQLite it only queues them: groups form
    /// while another one is committed. On PostgreSQL it returns after all answers, except for events of chains that another process has
    /// locked: it returns those, and the caller settles them concurrently with the next group.
    #[boxed]
    pub async fn submit(&self, events: Vec<(Append, AppendReply)>) -> Option<ContendedEvents> {
        if let Err(error) = self.admits() {
            let error = Arc::new(error);
            for (_, answer) in events {
                answer(Err(Arc::clone(&error)));
            }
            return None;
        }
        let Some(writer) = &self.writer else { return self.submit_on_postgres(events).await };
        writer.append(events);
        None
    }

    /// Whether [`Self::submit`] only queues, so that the next group need not wait for the commit of the last one.
    pub fn queues(&self) -> bool {
        self.writer.is_some()
    }
}
