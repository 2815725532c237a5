//! Comparison of the events with the tables of an SQLite file that are written after the log.
//!
//! Entries and events come in different orders, so both are summed: a sum of digests does not depend on the order, and differs if an entry
//! is missing, duplicate, or of another event.

use domain::Digest;
use rusqlite::Connection;
use store::Pool;

use super::super::error::During as _;
use super::super::handle::Log;
use super::super::sql::{self, AuditRow};
use super::super::writer::ENTRY_BYTES;
use super::fault::AuditFault;

const ASK: &str = "read the indexes";

/// Sums over the entries of the indexes, and over the events.
pub struct Indexes {
    /// The number of the last event in both; the maximum on PostgreSQL, where the database maintains the indexes.
    pub until: i64,
    stored: [Sum; 2],
    made: [Sum; 2],
}

/// Count of entries, and sum of their digests modulo 2^128.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    count: u64,
    digests: u128,
}

impl Sum {
    fn add(&mut self, parts: &[&[u8]]) {
        let digest = Digest::of(&parts.concat());
        let (half, _) = digest.as_bytes().as_chunks::<16>();
        self.count += 1;
        self.digests = self.digests.wrapping_add(u128::from_le_bytes(half[0]));
    }
}

impl Indexes {
    fn new(until: i64) -> Self {
        Self { until, stored: [Sum::default(); 2], made: [Sum::default(); 2] }
    }

    /// Adds an event to the sums that the indexes must have.
    pub fn add(&mut self, row: &AuditRow) {
        let number = row.id.to_be_bytes();
        let [activity, ids] = &mut self.made;
        if row.id <= self.until {
            activity.add(&[&row.source_id.to_be_bytes(), &row.proof.received_at_ms.to_be_bytes(), &number]);
            ids.add(&[row.proof.event_id.as_bytes(), &number]);
        }
    }

    /// Checks that the sums over the indexes equal the sums over the events.
    pub fn compare(&self) -> Result<(), AuditFault> {
        let named = ["the index of activity", "the index of ids"];
        let differs =
            named.into_iter().zip(self.stored.iter().zip(&self.made)).find(|(_, (stored, made))| stored != made);
        if let (Some((name, _)), true) = (differs, self.until < i64::MAX) {
            return Err(AuditFault::Index(name));
        }
        Ok(())
    }
}

impl Log {
    /// Sums the entries of the indexes in one snapshot.
    pub(super) async fn indexes(&self) -> Result<Indexes, AuditFault> {
        match &self.pool {
            Pool::Sqlite { readers, .. } => readers.visit(stored).await.during(ASK)?,
            Pool::Postgres(_) => Ok(Indexes::new(i64::MAX)),
        }
    }
}

fn stored(connection: &Connection) -> rusqlite::Result<Result<Indexes, AuditFault>> {
    // Dropping the transaction ends it.
    let snapshot = connection.unchecked_transaction()?;
    let mut indexes = Indexes::new(snapshot.query_row(sql::INDEXED, [], |row| row.get(0))?);
    let [activity, ids] = &mut indexes.stored;
    let mut statement = snapshot.prepare(sql::ACTIVITY)?;
    let mut rows = statement.query([indexes.until])?;
    while let Some(row) = rows.next()? {
        let [source, received, number] = [row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?].map(i64::to_be_bytes);
        activity.add(&[&source, &received, &number]);
    }
    let mut statement = snapshot.prepare(sql::CHUNKS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (first_id, entries): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        let begins_as_named = entries.first().is_some_and(|entry| entry.starts_with(&first_id));
        if !rest.is_empty() || !entries.is_sorted() || !begins_as_named {
            return Ok(Err(AuditFault::Index("a chunk of the index of ids")));
        }
        for entry in entries {
            ids.add(&[entry]);
        }
    }
    Ok(Ok(indexes))
}
