//! Comparison of the events with the tables of an SQLite file that are written after the log.
//!
//! Entries and events come in different orders, so both are summed: a sum of digests does not depend on the order, and differs if an entry
//! is missing, duplicate, or of another event.

use domain::Digest;
use store::Pool;

use super::super::error::During as _;
use super::super::handle::Log;
use super::super::sql::{self, AuditRow};
use super::super::writer::ENTRY_BYTES;
use super::fault::AuditFault;

/// Number of entries of one read.
const PAGE: i64 = 2_000;
/// Number of chunks of ids of one read.
const CHUNKS: i64 = 64;

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
    /// Adds an event to the sums that the indexes must have.
    pub fn add(&mut self, row: &AuditRow) {
        let number = row.id.to_be_bytes();
        let [activity, ids] = &mut self.made;
        if row.id <= self.until {
            activity.add(&[&row.source_id.to_be_bytes(), &row.proof.received_at_ms.to_be_bytes(), &number]);
            ids.add(&[row.proof.event_id.as_bytes(), &number]);
        }
    }

    /// Checks that the sums of both indexes equal those of the events.
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
        let mut found = Indexes { until: i64::MAX, stored: [Sum::default(); 2], made: [Sum::default(); 2] };
        let Pool::Sqlite { reader, .. } = &self.pool else { return Ok(found) };
        let mut snapshot = reader.begin().await.during(ASK)?;
        found.until = sqlx::query_scalar(sql::INDEXED).fetch_one(&mut *snapshot).await.during(ASK)?;
        let [activity, ids] = &mut found.stored;
        let mut after = (i64::MIN, i64::MIN, i64::MIN);
        loop {
            let page = sqlx::query_as(sql::ACTIVITY_AFTER).bind(after.0).bind(after.1).bind(after.2).bind(PAGE);
            let rows: Vec<(i64, i64, i64)> = page.fetch_all(&mut *snapshot).await.during(ASK)?;
            let Some(last) = rows.last() else { break };
            after = *last;
            for (source, received, number) in rows.iter().filter(|(_, _, number)| *number <= found.until) {
                activity.add(&[&source.to_be_bytes(), &received.to_be_bytes(), &number.to_be_bytes()]);
            }
        }
        let (mut run, mut first_id) = (i64::MIN, Vec::new());
        loop {
            let page = sqlx::query_as(sql::CHUNKS_AFTER).bind(run).bind(&first_id).bind(CHUNKS);
            let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = page.fetch_all(&mut *snapshot).await.during(ASK)?;
            let Some((last_run, last_id, _)) = rows.last() else { break };
            (run, first_id) = (*last_run, last_id.clone());
            for (_, fence, entries) in &rows {
                let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
                if !rest.is_empty()
                    || !entries.is_sorted()
                    || !entries.first().is_some_and(|entry| entry.starts_with(fence))
                {
                    return Err(AuditFault::Index("a chunk of the index of ids"));
                }
                for entry in entries {
                    ids.add(&[entry]);
                }
            }
        }
        snapshot.rollback().await.during(ASK)?;
        Ok(found)
    }
}
