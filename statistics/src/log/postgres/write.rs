//! Writing the judged chains of a group, in one statement.

use domain::chain::Position;
use domain::ids::EventId;
use store::pool::query;
use uuid::Uuid;

use super::judge::{ChainPart, Judged, StoredHead, Unsettled};
use super::read::{SourceNumbers, source_of, stored_head};
use crate::log::error::{During as _, LogError};
use crate::log::handle::Log;
use crate::log::job::Append;
use crate::log::sql::{self, Rows, postgres};

/// A chain with events to add.
pub type Plan = (ChainPart, Judged);

impl Log {
    /// Stores the additions of some chains, of each chain all or none; returns a row for each, in order.
    pub(super) async fn write_chains(
        &self,
        group: &[Append],
        plans: &[Plan],
        sources: &SourceNumbers,
    ) -> Result<Vec<sql::AppendedRow>, LogError> {
        let (mut chains, mut events) = (Rows::default(), Rows::default());
        for (chain, (part, judged)) in plans.iter().enumerate() {
            push_chain(&mut chains, chain, part, judged);
            for addition in &judged.additions {
                let Some(append) = group.get(addition.event) else { continue };
                let source_id = *sources.get(&source_of(append)).ok_or(LogError::Corrupt("sources"))?;
                push_event(&mut events, chain, append, source_id, addition.before);
            }
        }
        let ((chains, chain_bytes), (events, event_bytes)) = (chains.parameters(), events.parameters());
        let mut rows: Vec<sql::AppendedRow> = query(postgres::APPEND)
            .bind(&chains)
            .bind(&chain_bytes)
            .bind(&events)
            .bind(&event_bytes)
            .fetch_all(self.postgres())
            .await
            .during("append events")?;
        rows.sort_unstable_by_key(|row| row.chain);
        if rows.len() == plans.len() { Ok(rows) } else { Err(LogError::Corrupt("the rows of appended chains")) }
    }

    /// Why the additions of a chain are not stored; `None` if they are. Notes the head of the chain.
    pub(super) fn result_of(
        &self,
        part: &ChainPart,
        judged: &Judged,
        row: &sql::AppendedRow,
    ) -> Result<Option<Unsettled>, LogError> {
        if row.won {
            if let Some((head, event_id)) = judged.to {
                let moves = judged.from.map_or(0, |from| from.moves) + 1;
                self.heads.insert(part.key.clone(), StoredHead { head, event_id, moves });
            }
            return Ok(None);
        }
        if let Some(found) = stored_head(&row.head)? {
            // The statement has locked it, so it was the newest one.
            self.heads.insert(part.key.clone(), found);
            return Ok(Some(Unsettled::Moved));
        }
        self.heads.remove(&part.key);
        let is_locked = judged.from.is_some() && !row.taken;
        Ok(Some(if is_locked { Unsettled::Locked } else { Unsettled::Moved }))
    }
}

fn push_chain(rows: &mut Rows, chain: usize, part: &ChainPart, judged: &Judged) {
    let Some((head, event_id)) = &judged.to else { return };
    let row = sql::ChainRow {
        chain,
        pos: rows.pos(),
        agent_id: &part.key.agent_id,
        chain_epoch: head.chain_epoch,
        seq: head.seq,
        moves: judged.from.map_or(0, |from| from.moves),
    };
    let expected = judged.from.map_or([0; 32], |from| *from.head.self_hash.as_bytes());
    rows.push(
        &row,
        &[
            part.key.machine_id.as_uuid().as_bytes(),
            &expected,
            head.self_hash.as_bytes(),
            event_id.as_uuid().as_bytes(),
        ],
    );
}

fn push_event(rows: &mut Rows, chain: usize, append: &Append, source_id: i64, before: Option<EventId>) {
    let event = append.submission();
    let Position { chain_epoch, seq, .. } = event.position;
    let row = sql::EventRow {
        chain,
        pos: rows.pos(),
        len: event.canonical.len(),
        source_id,
        event_type: &event.event_type,
        ts_edge_ms: event.ts_edge_ms,
        consent_level: event.consent_level.as_str(),
        redacted: event.redacted,
        chain_epoch,
        seq,
        begins: before.is_none(),
        received_at_ms: append.received_at().timestamp_millis(),
    };
    let before = before.map_or(Uuid::nil(), |event_id| event_id.as_uuid());
    rows.push(
        &row,
        &[
            event.event_id.as_uuid().as_bytes(),
            append.receipt().as_uuid().as_bytes(),
            event.seal.as_bytes(),
            append.leaf_hash().as_bytes(),
            before.as_bytes(),
            &event.canonical,
        ],
    );
}
