//! Numbers of held events, for operators.

use domain::Timestamp;
use domain::held::HoldReason;

use crate::Store;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::row::parsed;

/// Events that are held for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCount {
    /// Why they are held.
    pub reason: HoldReason,
    /// How many are held.
    pub number: u64,
    /// Time when the oldest was received.
    pub oldest_at: Timestamp,
}

crate::row! {
    struct CountRow {
        reason: String,
        number: i64,
        oldest_at: Timestamp,
    }
}

impl TryFrom<CountRow> for HeldCount {
    type Error = Corrupt;

    fn try_from(row: CountRow) -> Result<Self, Corrupt> {
        Ok(Self {
            reason: parsed("held_events.reason", &row.reason)?,
            number: row.number.try_into().map_err(|error| Corrupt::new("the number of held events", error))?,
            oldest_at: row.oldest_at,
        })
    }
}

impl Store {
    /// Number and oldest entry of each reason for which events are held, in the order of the reasons' names.
    #[boxed]
    pub async fn held_counts(&self) -> Result<Vec<HeldCount>, StoreError> {
        const SQL: &str = "SELECT reason, COUNT(*) AS number, MIN(received_at) AS oldest_at FROM held_events \
            WHERE state = 'held' GROUP BY reason ORDER BY reason";
        let rows: Vec<CountRow> = query(SQL).fetch_all(&self.pool).during(Operation::CountHeldEvents).await?;
        Ok(rows.into_iter().map(HeldCount::try_from).collect::<Result<_, Corrupt>>()?)
    }
}
