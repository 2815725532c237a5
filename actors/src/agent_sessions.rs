//! Adds new events of the embedded log to the sums of their sessions.
//!
//! The pass follows the log, so appends do no counting. On PostgreSQL it is woken when the tree has grown.
//!
//! **If it crashes:** the progress and the sums are one transaction, so the next pass continues after the last counted event.

use statistics::parts::PartSlot;
use supervision::periodic::{Next, Pass, PassError};

/// Events of one pass; if more remain, the next pass follows at once.
const EVENTS_MAX: u32 = 5_000;

/// One pass over the events that no session includes.
#[derive(Debug, Clone)]
pub struct SessionFollower(pub PartSlot);

impl Pass for SessionFollower {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("agent_sessions.pass");
        let Some(log) = self.0.get() else { return Ok(Next::Idle) };
        let added = log.follow_sessions(EVENTS_MAX).await?;
        metrics::counter!("attache_session_events_total").increment(u64::from(added));
        Ok(if added == 0 { Next::Idle } else { Next::at_once_if(added >= EVENTS_MAX) })
    }
}
