//! Reads of the log: activity, proofs, and the public data of the tree.

pub(super) mod statements;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use chrono::DateTime;
use domain::chain::Prev;
use domain::clock::{date_time, read_millis};
use domain::envelope::Lane;
use domain::ids::{EventId, MachineUuid};
use domain::recorder::{Recorder, Recorders};
use domain::{Digest, Timestamp};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use store::Pool;
use store::pool::{probe, query, scalar};

use super::archive::MissingBody;
use super::error::{During, LogError};
use super::handle::Log;
use super::recent::Window;
use super::sql::{self, Dialect};
use super::tree_cache::cache::{Group, Signed, SignedTree};
use super::writer::number_in;
use crate::contract::{ActivityQuery, EntryFilter, Passed, RecordScope};
use proofs::leaf::{Leaf, VERSION};
use proofs::merkle;
use proofs::proof::{AuditProof, HashAlg, ProofChain, ProofSchema, ProofStatus};

/// Entries of a page when the query has no limit.
const LIMIT_DEFAULT: u16 = 100;
/// Maximum number of entries of a page.
const LIMIT_MAX: u16 = 500;

/// Capacity for a proof without its event, in bytes.
const BODY_BYTES: usize = 4096;

/// The last entry of a page; the next page consists of earlier events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    pub(crate) received_at_ms: i64,
    pub(crate) id: i64,
}

/// A query of activity, read.
#[derive(Debug)]
pub(crate) struct PageQuery {
    pub(crate) limit: u16,
    since: i64,
    until: Option<i64>,
    lane: Option<Lane>,
    machine: Option<MachineUuid>,
    agent: Option<String>,
    pub(crate) filter: EntryFilter,
    is_filtered: bool,
    pub(crate) is_complete: bool,
}

impl PageQuery {
    /// Reads all but the cursor; the error is the response.
    pub(crate) fn read(query: &ActivityQuery) -> Result<Self, Passed> {
        let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(invalid("invalid_limit"));
        }
        let since = query.since.as_deref().map_or(Some(i64::MIN), read_millis);
        Ok(Self {
            limit,
            since: since.ok_or_else(|| invalid("invalid_since"))?,
            until: query.until,
            lane: query.lane,
            machine: query.machine,
            agent: query.agent.clone(),
            filter: query.entries.clone().unwrap_or_default(),
            is_filtered: query.entries.is_some(),
            is_complete: query.is_complete,
        })
    }

    /// Removes the row beyond the page; returns the last row of the page if there was one.
    pub(crate) fn end_of<'r, R>(&self, rows: &'r mut Vec<R>) -> Option<&'r R> {
        let has_more = rows.len() > usize::from(self.limit);
        rows.truncate(usize::from(self.limit));
        rows.last().filter(|_| has_more)
    }

    /// The page. `searched`: the number of events that were read, and the time of receipt of the last one.
    pub(crate) fn written(
        &self,
        events: &[Value],
        next: Option<&str>,
        (searched, oldest_ms): (usize, Option<i64>),
        unread: u32,
    ) -> Passed {
        let mut page = json!({ "events": events, "next_cursor": next });
        if self.is_filtered {
            page["searched"] = json!(searched);
            page["oldest_ms"] = json!(oldest_ms);
            page["unread"] = json!(unread);
        }
        Passed::json(StatusCode::OK, &page)
    }
}

/// The response to an invalid query.
pub(crate) fn invalid(code: &str) -> Passed {
    Passed::json(StatusCode::BAD_REQUEST, &json!({ "error": code }))
}

impl sql::ActivityRow {
    /// Its place in a page.
    pub(crate) fn place(&self) -> Cursor {
        Cursor { received_at_ms: self.received_at_ms, id: self.id }
    }
}

impl Log {
    /// A page of activity from the database of this handle.
    pub(super) async fn activity_here(&self, scope: &RecordScope, query: &ActivityQuery) -> Result<Passed, LogError> {
        let wanted = match PageQuery::read(query) {
            Ok(wanted) => wanted,
            Err(refusal) => return Ok(refusal),
        };
        let Some(before) = query.cursor.as_deref().map_or(Some(Cursor::LAST), Cursor::read) else {
            return Ok(invalid("invalid_cursor"));
        };
        let mut rows = self.page_rows(scope, &wanted, before).await?;
        let next = wanted.end_of(&mut rows).map(|row| row.place().written());
        let read = (rows.len(), rows.last().map(|row| row.received_at_ms));
        let (events, unread) = self.page_entries(scope, rows, &wanted).await?;
        let events: Vec<Value> = events.into_iter().map(|(_, entry)| entry).collect();
        Ok(wanted.written(&events, next.as_deref(), read, unread))
    }

    /// The newest rows of a page before a cursor: one more than the page has, if there is a next page.
    pub(crate) async fn page_rows(
        &self,
        scope: &RecordScope,
        wanted: &PageQuery,
        before: Cursor,
    ) -> Result<Vec<sql::ActivityRow>, LogError> {
        let before = wanted.until.map_or(before, |until| before.min(Cursor { received_at_ms: until, id: i64::MIN }));
        let is_wanted = |recorder: &&Recorder| wanted.machine.is_none_or(|machine| recorder.machine == machine);
        let sources =
            self.sources_of(scope.shown.all().filter(is_wanted), wanted.lane, wanted.agent.as_deref()).await?;
        self.activity_rows(&sources, wanted.since, before, wanted.limit.saturating_add(1)).await
    }

    /// The entries of the rows that the scope and the filter include, each with the place of its row; and the number of events with a payload
    /// that was too long to compare.
    pub(crate) async fn page_entries(
        &self,
        scope: &RecordScope,
        mut rows: Vec<sql::ActivityRow>,
        wanted: &PageQuery,
    ) -> Result<(Vec<(Cursor, Value)>, u32), LogError> {
        rows.retain(|row| {
            is_shown(&scope.shown, row.machine_id.into(), row.report.as_deref())
                && wanted.filter.event_type.as_ref().is_none_or(|event_type| row.event_type == *event_type)
        });
        self.summarised(rows, wanted).await
    }

    /// At most `rows_max` events of `sources` that were received since `since` and are before `before`, newest first.
    pub(super) async fn activity_rows(
        &self,
        sources: &[i64],
        since: i64,
        before: Cursor,
        rows_max: u16,
    ) -> Result<Vec<sql::ActivityRow>, LogError> {
        let window = Window { since, before: (before.received_at_ms, before.id), events_max: usize::from(rows_max) };
        let unindexed = self.unindexed(sources, window);
        let sources = serde_json::to_string(sources).unwrap_or_default();
        let page = store::pool::query(Dialect::of(&self.pool).activity).bind(&sources).bind(since);
        let page = page.bind(before.received_at_ms).bind(before.id).bind(i64::from(rows_max));
        let page = match unindexed {
            Some((numbers, last)) => page.bind(numbers).bind(last),
            None => page,
        };
        page.fetch_all(&self.pool).await.during("read activity")
    }

    /// The numbers of the sources of `recorders`, optionally of one lane and of one agent kind.
    pub(super) async fn sources_of(
        &self,
        recorders: impl Iterator<Item = &Recorder>,
        lane: Option<Lane>,
        agent: Option<&str>,
    ) -> Result<Vec<i64>, LogError> {
        let recorders: Vec<&Recorder> = recorders.collect();
        if recorders.is_empty() {
            return Ok(Vec::new());
        }
        let recorders = serde_json::to_string(&recorders).unwrap_or_default();
        let sources =
            scalar(Dialect::of(&self.pool).sources_of).bind(&recorders).bind(lane.map(Lane::as_str)).bind(agent);
        sources.fetch_all(&self.pool).await.during("read sources")
    }

    /// The unindexed events of a page, as a JSON array of numbers, and the number of the newest event that this process knows. Must be
    /// called before the page is read: an event leaves the memory only after it was indexed. `None` on PostgreSQL.
    fn unindexed(&self, sources: &[i64], window: Window) -> Option<(String, i64)> {
        let Pool::Sqlite { .. } = &self.pool else { return None };
        let (numbers, last) = self.recent.page(&sources.iter().copied().collect(), window);
        Some((serde_json::to_string(&numbers).unwrap_or_default(), last))
    }

    /// The proof of an event from the database of this handle.
    pub(super) async fn proof_here(&self, scope: &RecordScope, event_id: EventId) -> Result<Passed, LogError> {
        let Some(row) = self.placed(scope, event_id).await? else {
            return Ok(Passed::json(StatusCode::NOT_FOUND, &json!({ "error": "event_not_found" })));
        };
        let bytes = BODY_BYTES + row.canonical.len() * 4 / 3;
        // Read after the event: a place in the tree is stored together with the checkpoint that covers it.
        let tree = self.signed_tree(size_of(&row)?).await?;
        let proof = self.proven(row, &tree).await?;
        let mut body = Vec::with_capacity(bytes);
        // Serialising plain members to memory cannot fail.
        let _ = serde_json::to_writer(&mut body, &proof);
        Ok(Passed::written(StatusCode::OK, body))
    }

    /// The proofs of events against one checkpoint. Events that the scope does not include are left out, and those that no checkpoint covers.
    #[boxed]
    pub async fn included_proofs(&self, scope: &RecordScope, ids: &[EventId]) -> Result<Vec<AuditProof>, LogError> {
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            rows.extend(self.placed(scope, *id).await?.filter(|row| row.leaf_index.is_some()));
        }
        let mut size = 0;
        for row in &rows {
            size = size.max(size_of(row)?);
        }
        let tree = self.signed_tree(size).await?;
        let mut proofs = Vec::with_capacity(rows.len());
        for row in rows {
            proofs.push(self.proven(row, &tree).await?);
        }
        Ok(proofs)
    }

    /// An event with its place, if the scope includes it.
    async fn placed(&self, scope: &RecordScope, event_id: EventId) -> Result<Option<statements::PlacedRow>, LogError> {
        let row = self.found(event_id).await?;
        let Some(mut row) = row.filter(|row| holds(scope, row)) else { return Ok(None) };
        if let Some(place) = row.leaf_index {
            let missing = MissingBody { place, seal: &row.self_hash, body: &mut row.canonical };
            self.fill(std::iter::once(missing)).await?;
        }
        Ok(Some(row))
    }

    async fn found(&self, event_id: EventId) -> Result<Option<statements::PlacedRow>, LogError> {
        let row = match &self.pool {
            Pool::Sqlite { .. } => match self.number(event_id).await? {
                Some(number) => {
                    probe(statements::PLACED).bind(number).bind(event_id.as_uuid()).fetch_optional(&self.pool).await
                }
                None => Ok(None),
            },
            Pool::Postgres(pool) => {
                query(statements::PLACED_ON_POSTGRES).bind(event_id.as_uuid()).fetch_optional(pool).await
            }
        };
        row.during("read an event")
    }

    /// The proof of an event against a tree that was read after it.
    async fn proven(&self, row: statements::PlacedRow, tree: &SignedTree) -> Result<AuditProof, LogError> {
        let (row, siblings) = row.parted();
        let mut proof = described(&row, &tree.signed)?;
        if let Some(index) = proof.leaf_index {
            let group = siblings.map(|hashes| Group::of(index, &hashes));
            let size = tree.signed.size;
            let path = self.path(tree, group.as_ref(), |tiles| merkle::inclusion(tiles, index, size)).await?;
            proof.inclusion_path = Some(path);
        }
        Ok(proof)
    }

    /// The number of an event in an SQLite file: from memory, the runs of ids, or, if another process has just appended it, the events.
    async fn number(&self, event_id: EventId) -> Result<Option<i64>, LogError> {
        const OPERATION: &str = "look for an event";
        // In the order in which an event moves: it leaves the memory and the unindexed events only after it is in a run.
        let (recent, newest) = (self.recent.number(event_id), self.recent.last());
        if recent.is_some() {
            return Ok(recent);
        }
        let id = event_id.as_uuid();
        let unindexed = probe(statements::UNINDEXED).bind(newest).bind(id).fetch_optional(&self.pool);
        if let Some(row) = unindexed.await.during(OPERATION)? {
            return Ok(Some(row.id));
        }
        let chunks = probe(statements::CHUNKS).bind(id).fetch_all(&self.pool).await.during(OPERATION)?;
        Ok(chunks.iter().find_map(|row| number_in(&row.entries, id.as_bytes())))
    }

    /// `GET /v1/audit/checkpoint`: the signed note with its cosignatures.
    #[boxed]
    pub async fn checkpoint(&self) -> Result<Passed, LogError> {
        let signed = self.signed().await?;
        Ok(Passed::text(self.cosigned_note(signed.checkpoint, &signed.vkey, signed.size).await?))
    }

    /// `GET /v1/audit/consistency`: `{from, to, proof, checkpoint}`; `to` defaults to the newest checkpoint.
    #[boxed]
    pub async fn consistency(&self, from: Option<&str>, to: Option<&str>) -> Result<Passed, LogError> {
        let signed = self.signed().await?;
        let from = from.and_then(|text| text.parse::<u64>().ok());
        let to = to.map_or(Some(signed.size), |text| text.parse().ok());
        let (Some(from), Some(to)) = (from, to) else { return Ok(invalid_range(signed.size)) };
        if from == 0 || from > to || to > signed.size {
            return Ok(invalid_range(signed.size));
        }
        let tree = self.signed_tree(signed.size).await?;
        let proof = self.path(&tree, None, |tiles| merkle::consistency(tiles, from, to)).await?;
        let checkpoint = self.cosigned_note(signed.checkpoint, &signed.vkey, signed.size).await?;
        let body = json!({ "from": from, "to": to, "proof": proof, "checkpoint": checkpoint });
        Ok(Passed::json(StatusCode::OK, &body))
    }

    /// `GET /v1/audit/keys`: `{keys: [{vkey, active_from, retired_at}]}`, oldest first.
    #[boxed]
    pub async fn keys(&self) -> Result<Passed, LogError> {
        Ok(Passed::json(StatusCode::OK, &json!({ "keys": self.key_list().await? })))
    }

    /// The keys of this log, as [`Self::keys`] lists them.
    pub(crate) async fn key_list(&self) -> Result<Vec<Value>, LogError> {
        let rows: Vec<(String, Timestamp, Option<Timestamp>)> =
            query(sql::KEYS).fetch_all(&self.pool).await.during("read the keys of the log")?;
        let keys: Vec<Value> = rows
            .into_iter()
            .map(|(vkey, active_from, retired_at)| {
                json!({ "vkey": vkey, "active_from": date_time(active_from), "retired_at": retired_at.map(date_time) })
            })
            .collect();
        Ok(keys)
    }

    /// Reads the signed tree from the database for a client, and remembers its checkpoint.
    pub(super) async fn signed(&self) -> Result<Signed, LogError> {
        let signed = self.signed_row().await?;
        self.memory.serve(&signed.vkey, signed.size, signed.root, &signed.checkpoint);
        Ok(signed)
    }

    pub(super) async fn signed_row(&self) -> Result<Signed, LogError> {
        let row = self.tree_row().await?;
        let size = u64::try_from(row.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let root = Digest::try_from(&row.root[..]).map_err(|_| LogError::Corrupt("tree.root"))?;
        Ok(Signed { size, root, checkpoint: row.checkpoint, vkey: row.vkey })
    }

    async fn tree_row(&self) -> Result<statements::TreeRow, LogError> {
        const OPERATION: &str = "read the signed tree";
        let row = probe(statements::TREE).fetch_optional(&self.pool).await.during(OPERATION)?;
        row.ok_or(sqlx::Error::RowNotFound).during(OPERATION)
    }
}

/// The size of the signed tree in the snapshot of an event.
fn size_of(row: &statements::PlacedRow) -> Result<u64, LogError> {
    u64::try_from(row.tree_size).map_err(|_| LogError::Corrupt("tree.size"))
}

/// Whether the scope includes the event.
fn holds(scope: &RecordScope, row: &statements::PlacedRow) -> bool {
    let of = |known: &Recorder| known.machine.as_uuid() == row.machine_id && known.identity.as_str() == row.user_cuid;
    scope.shown.all().any(of) && is_shown(&scope.shown, row.machine_id.into(), Some(&row.canonical))
}

/// Whether an event of a recorder is shown. The service's own events are shown only if they are about no computer or about a computer of
/// `shown`: before an identity is linked, foreign computers that name it can change consent too, and these events are in the same chain.
pub(super) fn is_shown(shown: &Recorders, machine: MachineUuid, event: Option<&[u8]>) -> bool {
    #[derive(Deserialize)]
    struct Report {
        payload: About,
    }
    #[derive(Deserialize)]
    struct About {
        machine_uuid: Option<MachineUuid>,
    }
    if !shown.service.iter().any(|known| known.machine == machine) {
        return true;
    }
    let report = event.and_then(|event| serde_json::from_slice::<Report>(event).ok());
    report.is_some_and(|report| report.payload.machine_uuid.is_none_or(|machine| shown.has_computer(machine)))
}

/// The proof of an event without its inclusion path.
pub(super) fn described(row: &sql::ProofRow, signed: &Signed) -> Result<AuditProof, LogError> {
    let number = |value: i64| u64::try_from(value).map_err(|_| LogError::Corrupt("events.seq or events.chain_epoch"));
    let digest = |bytes: &[u8], column| Digest::try_from(bytes).map_err(|_| LogError::Corrupt(column));
    let leaf_hash = digest(&row.leaf_hash, "events.leaf_hash")?;
    let quick = written_prev(&row.canonical);
    let mut leaf = Leaf {
        agent_id: row.agent_id.as_str().into(),
        chain_epoch: number(row.chain_epoch)?,
        event_id: row.event_id.into(),
        machine_id: row.machine_id.into(),
        prev: quick.unwrap_or(Prev::Genesis),
        receipt_id: row.receipt_id.into(),
        received_at_ms: row.received_at_ms,
        self_hash: digest(&row.self_hash, "events.self")?,
        seq: number(row.seq)?,
        v: VERSION,
    };
    let mut leaf_bytes = leaf.bytes();
    // The leaf hash covers `prev`, so a match elsewhere in the text is detected.
    if quick.is_none() || merkle::leaf_hash(&leaf_bytes) != leaf_hash {
        leaf.prev = read_prev(&row.canonical)?;
        leaf_bytes = leaf.bytes();
    }
    let leaf_index =
        row.leaf_index.map(u64::try_from).transpose().map_err(|_| LogError::Corrupt("leaves.leaf_index"))?;
    let included = leaf_index.is_some();
    Ok(AuditProof {
        schema: ProofSchema::V1,
        status: if included { ProofStatus::Included } else { ProofStatus::Pending },
        event_id: leaf.event_id,
        receipt_id: leaf.receipt_id,
        hash_alg: HashAlg::Sha256JcsV1,
        canonical_b64: BASE64_STANDARD.encode(&row.canonical),
        self_hash: leaf.self_hash,
        chain: ProofChain {
            machine_id: leaf.machine_id,
            agent_id: row.agent_id.clone(),
            chain_epoch: leaf.chain_epoch,
            seq: leaf.seq,
            prev: leaf.prev,
            prev_event_id: row.prev_event_id.map(EventId::from),
        },
        leaf_b64: BASE64_STANDARD.encode(&leaf_bytes),
        leaf_hash,
        leaf_index,
        tree_size: included.then_some(signed.size),
        root_hash: included.then_some(signed.root),
        inclusion_path: None,
        checkpoint: included.then(|| signed.checkpoint.clone()),
        vkey: signed.vkey.clone(),
    })
}

/// Finds `prev`, the only member without a column, in canonical bytes without parsing them. Quotes in strings are escaped, so the
/// pattern cannot match within a string.
fn written_prev(canonical: &[u8]) -> Option<Prev> {
    const BEFORE: &[u8] = br#""hash_chain":{"prev":""#;
    let begin = canonical.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let text = canonical[begin..].split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn read_prev(canonical: &[u8]) -> Result<Prev, LogError> {
    #[derive(Deserialize)]
    struct Linked {
        hash_chain: Link,
    }
    #[derive(Deserialize)]
    struct Link {
        prev: Prev,
    }
    let linked: Linked = serde_json::from_slice(canonical).map_err(|_| LogError::Corrupt("events.canonical"))?;
    Ok(linked.hash_chain.prev)
}

/// An event as a page of activity lists it, without its sentence.
pub(super) fn entry(row: &sql::ActivityRow) -> Value {
    json!({
        "event_id": row.event_id,
        "event_type": row.event_type,
        "lane": row.lane,
        "agent_id": row.agent_id,
        "machine_uuid": row.machine_id,
        "ts_edge_ms": row.ts_edge_ms,
        "received_at": DateTime::from_timestamp_millis(row.received_at_ms).map(date_time),
        "consent_level": row.consent_level,
        "redacted": row.redacted,
        "chain_epoch": row.chain_epoch,
        "seq": row.seq,
        "receipt_id": row.receipt_id,
        "proof_status": if row.placed == 0 { ProofStatus::Pending } else { ProofStatus::Included },
    })
}

fn invalid_range(size: u64) -> Passed {
    let message = format!("from and to are sizes of the tree: 1 ≤ from ≤ to ≤ {size}");
    Passed::json(StatusCode::BAD_REQUEST, &json!({ "error": "invalid_range", "message": message }))
}

impl Cursor {
    /// After every event.
    pub(crate) const LAST: Self = Self { received_at_ms: i64::MAX, id: i64::MAX };

    pub(crate) fn written(self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode([self.received_at_ms.to_be_bytes(), self.id.to_be_bytes()].concat())
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let bytes: [u8; 16] = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let [received_at_ms, id] = [&bytes[..8], &bytes[8..]].map(|half| half.try_into().map(i64::from_be_bytes));
        Some(Self { received_at_ms: received_at_ms.ok()?, id: id.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_found_where_it_is_written_and_nowhere_else() {
        let link = Digest::of(b"before").to_string();
        let canonical = |before: &str, link: &str| {
            format!(r#"{{"event_type":"{before}","hash_chain":{{"prev":"{link}"}},"payload":{{}}}}"#).into_bytes()
        };
        let quoted = r#"\"hash_chain\":{\"prev\":\"GENESIS\""#;
        for before in ["memory.stored", quoted] {
            for link in [&link, Prev::GENESIS] {
                let text = canonical(before, link);
                assert_eq!(written_prev(&text), Some(link.parse().unwrap()));
                assert_eq!(read_prev(&text).unwrap(), link.parse().unwrap());
            }
        }
        assert_eq!(written_prev(&canonical("x", "genesis")), None);
        assert_eq!(written_prev(b"{}"), None);
        assert!(read_prev(b"{}").is_err());
    }

    #[test]
    fn a_cursor_reads_back_and_nothing_else_does() {
        let cursor = Cursor { received_at_ms: 1_767_225_600_000, id: 7 };
        assert_eq!(Cursor::read(&cursor.written()), Some(cursor));
        for wrong in ["", "x", "AAAA", &format!("{}A", cursor.written())] {
            assert_eq!(Cursor::read(wrong), None, "{wrong}");
        }
    }
}
