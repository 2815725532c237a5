//! The next event of a chain.

use domain::ids::EventId;
use domain::recorder::Recorder;
use http::StatusCode;
use store::pool::query;
use uuid::Uuid;

use super::error::{During, LogError};
use super::handle::Log;
use crate::contract::RecordScope;
use proofs::proof::AuditProof;

/// Entries of the index that are read for each source in each direction.
const ENTRIES_MAX: i64 = 64;
/// Milliseconds by which a later event of a chain may have been received earlier: several connections may send one chain.
const DISORDER_MS: i64 = 5_000;

/// The event with predecessor `$3`, among the events of some sources (JSON array of numbers) that were received first since `$2`, and last
/// between `$5` and `$2`. An event that is not indexed yet is found by its number.
const SQLITE: &str = "SELECT e.event_id FROM json_each($1) r
        CROSS JOIN events e ON e.id IN (
            SELECT id FROM (SELECT n.id FROM activity n WHERE n.source_id = r.value AND n.received_at_ms >= $2
                ORDER BY n.received_at_ms, n.id LIMIT $4)
            UNION ALL
            SELECT id FROM (SELECT n.id FROM activity n WHERE n.source_id = r.value AND n.received_at_ms < $2
                AND n.received_at_ms >= $5 ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $4))
        WHERE e.prev_event_id = $3
    UNION
    SELECT e.event_id FROM events e WHERE e.id > (SELECT events FROM indexed WHERE id = 1) AND e.prev_event_id = $3
        AND e.source_id IN (SELECT value FROM json_each($1))";

/// The same on PostgreSQL, whose index is never behind.
const POSTGRES: &str = "SELECT e.event_id FROM jsonb_array_elements_text($1::JSONB) AS r (id)
    CROSS JOIN LATERAL (
        (SELECT n.event_id, n.prev_event_id FROM events n WHERE n.source_id = r.id::BIGINT AND n.received_at_ms >= $2
            ORDER BY n.received_at_ms, n.id LIMIT $4)
        UNION ALL
        (SELECT n.event_id, n.prev_event_id FROM events n WHERE n.source_id = r.id::BIGINT AND n.received_at_ms < $2
            AND n.received_at_ms >= $5 ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $4)) e
    WHERE e.prev_event_id = $3";

impl Log {
    /// The next event of a chain, if the scope includes it. Searches the `ENTRIES_MAX` events of each lane that were received next after and
    /// before the given one; others are not found.
    #[boxed]
    pub async fn follower(
        &self,
        scope: &RecordScope,
        event: &AuditProof,
        received_at_ms: i64,
    ) -> Result<Option<EventId>, LogError> {
        let chain = &event.chain;
        let recorders = scope.shown.all().filter(|known: &&Recorder| known.machine == chain.machine_id);
        let sources = self.sources_of(recorders, None, Some(&chain.agent_id)).await?;
        let sources = serde_json::to_string(&sources).unwrap_or_default();
        let next = query(if self.pool.is_postgres() { POSTGRES } else { SQLITE }).bind(&sources);
        let next = next.bind(received_at_ms).bind(event.event_id.as_uuid()).bind(ENTRIES_MAX);
        let next = next.bind(received_at_ms.saturating_sub(DISORDER_MS));
        let rows: Vec<(Uuid,)> = next.fetch_all(&self.pool).await.during("look for the next event of a chain")?;
        let Some((next,)) = rows.first() else { return Ok(None) };
        let next = EventId::from(*next);
        // The service's own chain also has events about foreign computers.
        let proof = self.proof_here(scope, next).await?;
        Ok((proof.status == StatusCode::OK).then_some(next))
    }
}
