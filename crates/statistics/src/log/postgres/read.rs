//! Reads, in one statement, the heads and stored events that a group is judged by, and the numbers of sources.

use std::collections::HashMap;

use domain::Digest;
use domain::chain::Head;
use store::pool::{Query, query};
use uuid::Uuid;

use super::judge::{ChainPart, KnownEvents, StoredHead};
use crate::log::error::{During as _, LogError};
use crate::log::handle::{Log, Source};
use crate::log::job::Append;
use crate::log::sql::{self, postgres};

/// Maximum number of statements for the sources of a group. A second one finds sources that another process added at the same time.
const SOURCES_TRIES_MAX: u32 = 3;

/// Rows from one snapshot.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// Heads, by the index of the chain in the request.
    pub heads: HashMap<usize, StoredHead>,
    pub events: KnownEvents,
}

/// The numbers of the sources of a group.
pub type SourceNumbers = HashMap<Source, i64>;

/// The source of an event.
pub fn source_of(append: &Append) -> Source {
    let event = append.submission();
    (event.machine, event.agent_id.clone(), event.identity.as_str().to_owned(), event.lane.as_str())
}

impl Log {
    /// Reads heads and stored events of some chains, and the numbers of sources that are not cached.
    pub(super) async fn read_chains(
        &self,
        group: &[Append],
        parts: &[ChainPart],
        sources: &mut SourceNumbers,
    ) -> Result<FoundRows, LogError> {
        let machines: Vec<Uuid> = parts.iter().map(|part| part.key.machine_id.as_uuid()).collect();
        let agents: Vec<&str> = parts.iter().map(|part| part.key.agent_id.as_str()).collect();
        let ids: Vec<Uuid> = parts.iter().flat_map(|part| part.ids(group)).map(|id| id.as_uuid()).collect();
        let unknown = self.unknown_sources(group, sources);
        let read = query(postgres::READ).bind(machines).bind(agents).bind(ids);
        let rows: Vec<sql::FoundRow> =
            bind_sources(read, &unknown).fetch_all(self.postgres()).await.during("read the heads of chains")?;
        let mut result = FoundRows::default();
        for row in rows {
            match row {
                sql::FoundRow { chain: Some(place), source: Some(id), .. } => {
                    self.learn_source(&unknown, place, id, sources);
                }
                sql::FoundRow { chain: Some(chain), head, .. } => {
                    let place = usize::try_from(chain).map_err(|_| LogError::Corrupt("the place of a chain"))?;
                    result.heads.extend(stored_head(&head)?.map(|head| (place, head)));
                }
                sql::FoundRow {
                    receipt_id: Some(receipt),
                    head: sql::HeadColumns { event_id: Some(id), self_hash: Some(seal), .. },
                    ..
                } => {
                    let seal = Digest::try_from(&seal[..]).map_err(|_| LogError::Corrupt("events.self"))?;
                    result.events.insert(id.into(), (receipt.into(), seal));
                }
                _ => return Err(LogError::Corrupt("a row without a meaning")),
            }
        }
        Ok(result)
    }

    /// Adds the new sources of a group and reads their numbers. Executes no statement if all are cached.
    pub(super) async fn add_sources(&self, group: &[Append], sources: &mut SourceNumbers) -> Result<(), LogError> {
        for _ in 0..SOURCES_TRIES_MAX {
            let unknown = self.unknown_sources(group, sources);
            if unknown.is_empty() {
                return Ok(());
            }
            let rows: Vec<(i64, i64)> = bind_sources(query(postgres::SOURCES), &unknown)
                .fetch_all(self.pool.writer())
                .await
                .during("add sources")?;
            for (place, id) in rows {
                self.learn_source(&unknown, place, id, sources);
            }
        }
        if self.unknown_sources(group, sources).is_empty() { Ok(()) } else { Err(LogError::Corrupt("sources")) }
    }

    /// The sources of a group without a number in `sources`, without duplicates. Takes numbers from the cache.
    fn unknown_sources(&self, group: &[Append], sources: &mut SourceNumbers) -> Vec<Source> {
        let mut unknown = Vec::new();
        for source in group.iter().map(source_of) {
            if sources.contains_key(&source) || unknown.contains(&source) {
                continue;
            }
            match self.sources.get(&source) {
                Some(id) => drop(sources.insert(source, id)),
                None => unknown.push(source),
            }
        }
        unknown
    }

    fn learn_source(&self, asked: &[Source], place: i64, id: i64, sources: &mut SourceNumbers) {
        if let Some(source) = usize::try_from(place).ok().and_then(|place| asked.get(place)) {
            self.sources.insert(source.clone(), id);
            sources.insert(source.clone(), id);
        }
    }
}

fn bind_sources<'q>(statement: Query<'q>, sources: &'q [Source]) -> Query<'q> {
    let machines: Vec<Uuid> = sources.iter().map(|(machine, ..)| machine.as_uuid()).collect();
    let column = |of: fn(&Source) -> &str| sources.iter().map(of).collect::<Vec<&str>>();
    statement
        .bind(machines)
        .bind(column(|source| &source.1))
        .bind(column(|source| &source.2))
        .bind(column(|source| source.3))
}

/// The head in a row; `None` if the row has none.
pub(super) fn stored_head(columns: &sql::HeadColumns) -> Result<Option<StoredHead>, LogError> {
    let sql::HeadColumns {
        chain_epoch: Some(epoch),
        seq: Some(seq),
        self_hash: Some(self_hash),
        event_id: Some(event_id),
        moves: Some(moves),
    } = columns
    else {
        return Ok(None);
    };
    let number =
        |value: i64| u64::try_from(value).map_err(|_| LogError::Corrupt("chain_heads.seq or chain_heads.chain_epoch"));
    let self_hash = Digest::try_from(&self_hash[..]).map_err(|_| LogError::Corrupt("chain_heads.self"))?;
    let head = Head { chain_epoch: number(*epoch)?, seq: number(*seq)?, self_hash };
    Ok(Some(StoredHead { head, event_id: (*event_id).into(), moves: *moves }))
}
