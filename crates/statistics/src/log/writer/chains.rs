//! The heads of chains and the numbers of sources in the writer's memory, up to a maximum number of chains.

use std::collections::HashMap;
use std::sync::Arc;

use domain::Digest;
use domain::chain::Head;
use domain::envelope::Lane;
use domain::ids::{EventId, MachineUuid, UserCuid};
use domain::recorder::Recorder;
use rusqlite::{Connection, OptionalExtension as _};

use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::job::Append;

/// Chains by computer and agent. A chain with an unindexed last event is never dropped; for other chains the table `chain_heads` is
/// current.
pub struct Chains {
    machines: HashMap<MachineUuid, Machine>,
    /// Number of chains of all machines.
    count: usize,
    count_max: usize,
    /// Number of uses so far; the most recently used machines are kept.
    uses: u64,
}

#[derive(Default)]
struct Machine {
    chains: Vec<Chain>,
    used: u64,
}

/// The head of one chain, kept in memory by the writer.
pub struct Chain {
    agent_id: Box<str>,
    /// The last event; `None` for an empty chain.
    pub head: Option<ChainHead>,
    sources: Vec<Source>,
}

/// The last event of a chain.
#[derive(Debug, Clone, Copy)]
pub struct ChainHead {
    /// Epoch, sequence number and seal.
    pub head: Head,
    /// Event id, chosen by the sender.
    pub event_id: EventId,
    /// Number of its row, which is also its order in the log; 0 for a head from the table, which has an indexed row.
    pub id: i64,
}

/// A source of a chain's events: one for each identity and lane.
pub struct Source {
    /// Number by which events refer to the source.
    pub id: i64,
    /// Computer and identity, shared by the events that wait for their places.
    pub recorder: Arc<Recorder>,
    lane: Lane,
}

/// Reference to a chain in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainNumber {
    pub machine: MachineUuid,
    index: usize,
}

impl Chains {
    pub fn new(count_max: usize) -> Self {
        Self { machines: HashMap::new(), count: 0, count_max, uses: 0 }
    }

    /// Returns the chain of a computer and agent, with the stored head if it is not in memory.
    pub fn of(&mut self, db: &Connection, machine: MachineUuid, agent_id: &str) -> Result<ChainNumber, LogError> {
        self.uses += 1;
        let entry = self.machines.entry(machine).or_default();
        entry.used = self.uses;
        if let Some(index) = entry.chains.iter().position(|chain| *chain.agent_id == *agent_id) {
            return Ok(ChainNumber { machine, index });
        }
        let head = stored_head(db, machine, agent_id)?;
        entry.chains.push(Chain { agent_id: agent_id.into(), head, sources: Vec::new() });
        self.count += 1;
        Ok(ChainNumber { machine, index: entry.chains.len() - 1 })
    }

    /// A chain that [`Self::of`] returned since the last [`Self::shrink`].
    pub fn get(&mut self, number: ChainNumber) -> Option<&mut Chain> {
        self.machines.get_mut(&number.machine)?.chains.get_mut(number.index)
    }

    /// The chains with a last event after `number`, in the order of the table of heads.
    pub fn moved_since(&self, number: i64) -> Vec<ChainNumber> {
        let of_machine = |(machine, known): (&MachineUuid, &Machine)| {
            let chains = known.chains.iter().enumerate();
            let moved = chains.filter(|(_, chain)| chain.head.is_some_and(|tip| tip.id > number));
            moved.map(|(index, _)| ChainNumber { machine: *machine, index }).collect::<Vec<_>>()
        };
        let mut moved: Vec<ChainNumber> = self.machines.iter().flat_map(of_machine).collect();
        moved.sort_unstable();
        moved
    }

    /// Drops the least recently used machines if there are too many chains; machines with an event after `indexed` are kept.
    pub fn shrink(&mut self, indexed: i64) {
        if self.count <= self.count_max {
            return;
        }
        let mut used: Vec<u64> = self.machines.values().map(|machine| machine.used).collect();
        let middle = used.len() / 2;
        let (_, median, _) = used.select_nth_unstable(middle);
        let median = *median;
        self.machines.retain(|_, machine| {
            machine.used >= median || machine.chains.iter().any(|chain| chain.head.is_some_and(|tip| tip.id > indexed))
        });
        self.count = self.machines.values().map(|machine| machine.chains.len()).sum();
    }
}

impl Chain {
    /// Agent id of the chain.
    pub fn agent_id(&self) -> &str {
        &self.agent_id
    }

    /// The source of an event; adds a new one to the table.
    pub fn source(&mut self, db: &Connection, event: &Append) -> Result<&Source, LogError> {
        let event = event.submission();
        let position = self
            .sources
            .iter()
            .position(|source| source.lane == event.lane && source.recorder.identity == event.identity);
        let index = if let Some(index) = position {
            index
        } else {
            let id = stored_source(db, event.machine, &event.agent_id, &event.identity, event.lane)?;
            let recorder = Recorder { machine: event.machine, identity: event.identity.clone() };
            self.sources.push(Source { id, recorder: Arc::new(recorder), lane: event.lane });
            self.sources.len() - 1
        };
        Ok(&self.sources[index])
    }
}

fn stored_head(db: &Connection, machine: MachineUuid, agent_id: &str) -> Result<Option<ChainHead>, LogError> {
    const SQL: &str =
        "SELECT chain_epoch, seq, self, event_id FROM chain_heads WHERE machine_id = ?1 AND agent_id = ?2";
    const ASK: &str = "read the head of a chain";
    let number = |value: i64| u64::try_from(value).map_err(|_| LogError::Corrupt("chain_heads.seq or chain_epoch"));
    let columns: Option<(i64, i64, [u8; 32], [u8; 16])> = db
        .prepare_cached(SQL)
        .during(ASK)?
        .query_row((machine.as_uuid().as_bytes(), agent_id), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()
        .during(ASK)?;
    let Some((epoch, seq, self_hash, event_id)) = columns else { return Ok(None) };
    let head = Head { chain_epoch: number(epoch)?, seq: number(seq)?, self_hash: Digest::from(self_hash) };
    // The row is indexed; otherwise reading newer events would have added the chain.
    Ok(Some(ChainHead { head, event_id: uuid::Uuid::from_bytes(event_id).into(), id: 0 }))
}

fn stored_source(
    db: &Connection,
    machine: MachineUuid,
    agent_id: &str,
    identity: &UserCuid,
    lane: Lane,
) -> Result<i64, LogError> {
    const ADD: &str = "INSERT INTO sources (machine_id, agent_id, user_cuid, lane) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO NOTHING";
    const FIND: &str =
        "SELECT id FROM sources WHERE machine_id = ?1 AND agent_id = ?2 AND user_cuid = ?3 AND lane = ?4";
    const ASK: &str = "find the source of an event";
    let machine = machine.as_uuid();
    let key = (machine.as_bytes(), agent_id, identity.as_str(), lane.as_str());
    let mut find = db.prepare_cached(FIND).during(ASK)?;
    if let Some(id) = find.query_row(key, |row| row.get(0)).optional().during(ASK)? {
        return Ok(id);
    }
    db.prepare_cached(ADD).during(ASK)?.execute(key).during(ASK)?;
    find.query_row(key, |row| row.get(0)).during(ASK)
}
