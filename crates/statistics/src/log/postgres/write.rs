//! Writing the judged chains of a group, in one statement.

use domain::ids::EventId;
use store::pool::query;

use super::judge::{ChainPart, Judged, StoredHead, Unsettled};
use super::read::{SourceNumbers, source_of, stored_head};
use crate::log::error::{During as _, LogError};
use crate::log::handle::Log;
use crate::log::job::Append;
use crate::log::sql::{self, ChainColumns, EventColumns, postgres, whole};

/// A chain with events to add.
pub type Plan = (ChainPart, Judged);

impl Log {
    /// Stores the additions of some chains, all or no events of each chain; returns a row per chain, in order.
    pub(super) async fn write_chains(
        &self,
        group: &[Append],
        plans: &[Plan],
        sources: &SourceNumbers,
    ) -> Result<Vec<sql::AppendedRow>, LogError> {
        let (mut chains, mut events) = (ChainColumns::default(), EventColumns::default());
        for (chain, (part, judged)) in plans.iter().enumerate() {
            push_chain(&mut chains, part, judged)?;
            let chain = whole(chain)?;
            for addition in &judged.additions {
                let Some(append) = group.get(addition.event) else { continue };
                let source_id = *sources.get(&source_of(append)).ok_or(LogError::Corrupt("sources"))?;
                push_event(&mut events, chain, append, source_id, addition.before)?;
            }
        }
        let mut rows: Vec<sql::AppendedRow> = events
            .bind(chains.bind(query(postgres::APPEND)))
            .fetch_all(self.pool.writer())
            .await
            .during("append events")?;
        rows.sort_unstable_by_key(|row| row.chain);
        if rows.len() == plans.len() { Ok(rows) } else { Err(LogError::Corrupt("the rows of appended chains")) }
    }

    /// Why the additions of a chain are not stored; `None` if they are. Caches the head of the chain.
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
            // The statement has locked this head, so it was the newest one.
            self.heads.insert(part.key.clone(), found);
            return Ok(Some(Unsettled::Moved));
        }
        self.heads.remove(&part.key);
        let is_locked = judged.from.is_some() && !row.taken;
        Ok(Some(if is_locked { Unsettled::Locked } else { Unsettled::Moved }))
    }
}

fn push_chain<'a>(columns: &mut ChainColumns<'a>, part: &'a ChainPart, judged: &'a Judged) -> Result<(), LogError> {
    let Some((head, event_id)) = &judged.to else { return Err(LogError::Corrupt("a chain without a head")) };
    columns.machine_id.push(part.key.machine_id.as_uuid());
    columns.agent_id.push(&part.key.agent_id);
    columns.moves.push(judged.from.map_or(0, |from| from.moves));
    columns.expected.push(judged.from.map_or([0; 32], |from| *from.head.self_hash.as_bytes()));
    columns.chain_epoch.push(whole(head.chain_epoch)?);
    columns.seq.push(whole(head.seq)?);
    columns.self_hash.push(*head.self_hash.as_bytes());
    columns.event_id.push(event_id.as_uuid());
    Ok(())
}

fn push_event<'a>(
    columns: &mut EventColumns<'a>,
    chain: i64,
    append: &'a Append,
    source_id: i64,
    before: Option<EventId>,
) -> Result<(), LogError> {
    let event = append.submission();
    columns.chain.push(chain);
    columns.event_id.push(event.event_id.as_uuid());
    columns.receipt_id.push(append.receipt().as_uuid());
    columns.source_id.push(source_id);
    columns.event_type.push(&event.event_type);
    columns.ts_edge_ms.push(event.ts_edge_ms);
    columns.consent_level.push(event.consent_level.as_str());
    columns.redacted.push(event.redacted);
    columns.chain_epoch.push(whole(event.position.chain_epoch)?);
    columns.seq.push(whole(event.position.seq)?);
    columns.self_hash.push(*event.seal.as_bytes());
    columns.prev_event_id.push(before.map(|event_id| event_id.as_uuid()));
    columns.received_at_ms.push(append.received_at().timestamp_millis());
    columns.leaf_hash.push(*append.leaf_hash().as_bytes());
    columns.canonical.push(&event.canonical);
    Ok(())
}
