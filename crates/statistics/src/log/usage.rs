//! Usage: sums of the events of the log between two places in the tree, and of uncounted events.
//!
//! The place of an event never changes, so a counter that stores the last counted leaf can continue from there after a crash.

pub(super) mod sums;

use domain::recorder::Recorder;
use domain::usage::{Day, MEMORY, QuotaUsed, RETROSPECTIVE, UsageWindow};
use store::pool::{query, scalar};
use store::usage::UsageDay;
use uuid::Uuid;

use super::error::{During, LogError};
use super::handle::Log;
use super::sql::{Dialect, TREE_SIZE};

impl Log {
    /// The usage of at most `leaves_max` leaves from place `counted` on, and the end place; `counted` if there are no new leaves.
    #[boxed]
    pub async fn usage_from(&self, counted: u64, leaves_max: u32) -> Result<(u64, Vec<UsageDay>), LogError> {
        if let Some(counted) = self.spans.from(counted, leaves_max) {
            return Ok(counted);
        }
        let size: i64 = scalar(TREE_SIZE).fetch_one(&self.pool).await.during("read the size of the tree")?;
        let size = u64::try_from(size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let until = size.min(counted.saturating_add(leaves_max.into()));
        if until <= counted {
            return Ok((counted, Vec::new()));
        }
        let sum = query(Dialect::of(&self.pool).usage).bind(MEMORY.as_str()).bind(RETROSPECTIVE);
        let sum = sum.bind(place(counted)).bind(place(until)).bind(Day::MILLISECONDS);
        let rows: Vec<(Uuid, String, i64, i64, i64)> =
            sum.fetch_all(&self.pool).await.during("sum the usage of new leaves")?;
        let days = rows.into_iter().map(|(machine, user_cuid, day, memory, retrospectives)| {
            let identity = user_cuid.parse().map_err(|_| LogError::Corrupt("sources.user_cuid"))?;
            Ok(UsageDay {
                recorder: Recorder { machine: machine.into(), identity },
                day: day.into(),
                used: used(memory, retrospectives)?,
            })
        });
        Ok((until, days.collect::<Result<_, LogError>>()?))
    }

    /// Usage of computers in a window beyond the first `counted` leaves, including events without a place. Reads at most `events_max`
    /// events; with more uncounted events the sum is too small, until the counter has caught up.
    #[boxed]
    pub async fn usage_beyond(
        &self,
        counted: u64,
        computers: &[Recorder],
        window: UsageWindow,
        events_max: u32,
    ) -> Result<QuotaUsed, LogError> {
        let sources = self.sources_of(computers.iter(), None, None).await?;
        let sources = serde_json::to_string(&sources).unwrap_or_default();
        let sum = query(Dialect::of(&self.pool).usage_beyond).bind(MEMORY.as_str()).bind(RETROSPECTIVE);
        let sum = sum.bind(place(counted)).bind(i64::from(events_max)).bind(&sources);
        let millis = |day: Day| day.begin().timestamp_millis();
        let sum = sum.bind(millis(window.first)).bind(millis(window.end));
        let (memory, retrospectives): (i64, i64) =
            sum.fetch_one(&self.pool).await.during("sum the usage of uncounted events")?;
        used(memory, retrospectives)
    }
}

fn place(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn used(memory: i64, retrospectives: i64) -> Result<QuotaUsed, LogError> {
    let number = |sum| u64::try_from(sum).map_err(|_| LogError::Corrupt("a sum of events"));
    Ok(QuotaUsed { memory: number(memory)?, retrospectives: number(retrospectives)? })
}
