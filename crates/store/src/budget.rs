//! Quota usage of event senders: accounts, unattached computers and unclaimed agents.
//!
//! Processes count in memory and add to these rows at intervals, so the rows lag behind the sum of all processes.

use std::collections::HashMap;

use domain::usage::Day;

use crate::error::StoreError;
use crate::held::Sender;
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, probe};
use crate::row::chunks;
use crate::{Store, in_transaction, probes};

/// Number of events and of their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Number of events.
    pub events: i64,
    /// Total size of their bodies, in bytes.
    pub bytes: i64,
}

crate::row! {
    struct SumRow {
        sender: String,
        day: i64,
        events: i64,
        bytes: i64,
    }
}

impl Store {
    /// The stored usage of a sender on a day.
    #[boxed]
    pub async fn budget_spent(&self, sender: &Sender, day: Day) -> Result<Spent, StoreError> {
        let key = sender.to_string();
        let row = probe(probes::SPENT).bind(&key).bind(day.number()).fetch_optional(&self.pool);
        let row = row.during(Operation::ReadUsageOfSender).await?;
        Ok(row.map(|row| Spent { events: row.events, bytes: row.bytes }).unwrap_or_default())
    }

    /// Adds usage of senders; returns the sums in the same order. Each pair of sender and day must occur once.
    #[boxed]
    pub async fn budget_add(&self, added: &[(Sender, Day, Spent)]) -> Result<Vec<Spent>, StoreError> {
        let mut keys: Vec<(String, i64, Spent)> =
            added.iter().map(|(sender, day, spent)| (sender.to_string(), day.number(), *spent)).collect();
        // Sorted, because PostgreSQL locks rows in input order: two nodes with different orders would deadlock.
        keys.sort_unstable_by(|one, two| (&one.0, one.1).cmp(&(&two.0, two.1)));
        let sums = in_transaction!(&self.pool, |tx| {
            let mut sums: HashMap<(String, i64), Spent> = HashMap::with_capacity(keys.len());
            for chunk in chunks(&keys) {
                let mut sql = QueryBuilder::new("INSERT INTO sender_days (sender, day, events, bytes) ");
                sql.push_values(chunk, |mut row, (sender, day, spent)| {
                    row.push_bind(sender.as_str()).push_bind(*day).push_bind(spent.events).push_bind(spent.bytes);
                });
                sql.push(
                    " ON CONFLICT (sender, day) DO UPDATE SET events = sender_days.events + excluded.events,
                        bytes = sender_days.bytes + excluded.bytes RETURNING sender, day, events, bytes",
                );
                let rows: Vec<SumRow> = sql.build().fetch_all(&mut *tx).await?;
                let sum = |row: SumRow| ((row.sender, row.day), Spent { events: row.events, bytes: row.bytes });
                sums.extend(rows.into_iter().map(sum));
            }
            Ok(sums)
        })
        .during(Operation::WriteUsageOfSenders)
        .await?;
        let sum = |(sender, day, _): &(Sender, Day, Spent)| sums.get(&(sender.to_string(), day.number())).copied();
        Ok(added.iter().map(|entry| sum(entry).unwrap_or_default()).collect())
    }
}
