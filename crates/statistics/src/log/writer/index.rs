//! The tables that are written after the log: the index of activity, the heads of chains, and the runs of ids.
//!
//! All three are derived from the log. A pass takes the unindexed events, sorts their entries by the keys of each table, and writes them in
//! slices of one transaction each, so that neighbours are written together and no group waits long. Only the last slice advances the row
//! `indexed`; if a pass is interrupted, the next one writes the same entries again. Until then readers find the events in
//! [`UnindexedEvents`](super::super::recent::UnindexedEvents).

use rusqlite::{Connection, params};

use super::chains::{ChainNumber, Chains};
use super::ids::{Ids, Key, RunWriter};
use crate::log::error::{DuringSqlite as _, LogError};
use crate::log::recent::Recorded;
use crate::log::sql::whole;

/// Number of rows that one transaction writes.
const SLICE: usize = 1_000;
/// Number of ids that one transaction writes, a few hundred kilobytes.
const SLICE_IDS: usize = 8_192;

const ADVANCE: &str = "UPDATE indexed SET events = ?2 WHERE id = 1 AND events = ?1";
const ACTIVITY: &str = "INSERT OR IGNORE INTO activity (source_id, received_at_ms, id) VALUES (?1, ?2, ?3)";
/// A head is never replaced by an older one: another process may have appended to the chain and indexed it since this process read the log.
const HEAD: &str = "INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
    ON CONFLICT (machine_id, agent_id) DO UPDATE SET chain_epoch = excluded.chain_epoch, seq = excluded.seq,
        self = excluded.self, event_id = excluded.event_id, moves = moves + 1
    WHERE (excluded.chain_epoch, excluded.seq) > (chain_heads.chain_epoch, chain_heads.seq)";

/// State of one indexing pass.
pub struct Indexing {
    from: i64,
    /// The number of the last event of the pass.
    pub until: i64,
    activity: Vec<(i64, i64, i64)>,
    heads: Vec<ChainNumber>,
    ids: Vec<(Key, i64)>,
    /// The run of the pass; `None` before the first id.
    run: Option<RunWriter>,
}

impl Indexing {
    /// A pass over all events after number `from`.
    pub fn new(from: i64, events: &[(i64, Recorded)], chains: &Chains) -> Self {
        let mut activity: Vec<_> =
            events.iter().map(|(number, event)| (event.source_id, event.received_at_ms, *number)).collect();
        let mut ids: Vec<_> =
            events.iter().map(|(number, event)| (*event.event_id.as_uuid().as_bytes(), *number)).collect();
        // In descending order, because each slice pops from the end.
        activity.sort_unstable_by(|one, other| other.cmp(one));
        ids.sort_unstable_by(|one, other| other.cmp(one));
        let until = events.last().map_or(from, |(number, _)| *number);
        Self { from, until, activity, heads: chains.moved_since(from), ids, run: None }
    }

    /// Writes one slice; `true` after the last.
    pub fn advance(&mut self, db: &Connection, chains: &mut Chains, ids: &mut Ids) -> Result<bool, LogError> {
        if !self.activity.is_empty() {
            const ASK: &str = "write the index of activity";
            let mut add = db.prepare_cached(ACTIVITY).during(ASK)?;
            for row in self.activity.drain(self.activity.len().saturating_sub(SLICE)..).rev() {
                add.execute(row).during(ASK)?;
            }
            return Ok(false);
        }
        if !self.heads.is_empty() {
            for number in self.heads.drain(self.heads.len().saturating_sub(SLICE)..).rev() {
                write_head(db, chains, number)?;
            }
            return Ok(false);
        }
        let run = match &mut self.run {
            Some(run) => run,
            none => none.insert(ids.new_run(db, self.ids.len())?),
        };
        for (key, number) in self.ids.drain(self.ids.len().saturating_sub(SLICE_IDS)..).rev() {
            run.push(db, &key, number)?;
        }
        Ok(self.ids.is_empty())
    }

    /// Ends the pass in the transaction of the last slice; `false` if another process was faster.
    pub fn end(self, db: &Connection, ids: &mut Ids) -> Result<bool, LogError> {
        const ASK: &str = "note how far the log is indexed";
        let Some(run) = self.run else { return Ok(false) };
        let is_first = db.prepare_cached(ADVANCE).during(ASK)?.execute((self.from, self.until)).during(ASK)? > 0;
        Ok(is_first && ids.publish(db, run)?)
    }
}

fn write_head(db: &Connection, chains: &mut Chains, number: ChainNumber) -> Result<(), LogError> {
    const ASK: &str = "write the head of a chain";
    let chain = chains.get(number).ok_or(LogError::Corrupt("chains in memory"))?;
    let Some(tip) = chain.head else { return Ok(()) };
    db.prepare_cached(HEAD)
        .during(ASK)?
        .execute(params![
            number.machine.as_uuid().as_bytes(),
            chain.agent_id(),
            whole(tip.head.chain_epoch)?,
            whole(tip.head.seq)?,
            tip.head.self_hash.as_bytes(),
            tip.event_id.as_uuid().as_bytes(),
        ])
        .during(ASK)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::envelope::{AgentKinds, Sealed};
    use domain::{Clock, Rng};
    use harness::event::{Chain, Machine};
    use serde_json::Value;
    use store::pool::SqliteFile;
    use store::{DatabaseSettings, Pool};

    use super::super::open::Open;
    use crate::contract::{RecordScope, Submission};
    use crate::log::Log;
    use crate::log::job::{Append, AppendOutcome};
    use crate::log::recent::UnindexedEvents;
    use crate::log::settings::WriterSettings;

    /// The writer of a process that has read the log.
    fn process(file: &SqliteFile) -> Open {
        let recent = UnindexedEvents::default();
        let mut open = Open::new(file.writer().unwrap(), &WriterSettings::default(), &recent, &Rng::system()).unwrap();
        open.fold().unwrap();
        open
    }

    fn take(process: &mut Open, event: &Value) -> AppendOutcome {
        let body = Bytes::from(event.to_string());
        let sealed = Sealed::open(&body, usize::MAX, &AgentKinds::new(["codex".to_owned()])).unwrap();
        let (now, rng) = (Clock::system().now(), Rng::system());
        let submission = Submission::new(body, sealed, RecordScope::default());
        let append = Append::new(submission, rng.uuid_v7(now).into(), now);
        process.append(&[append]).unwrap().outcomes.remove(0).unwrap()
    }

    fn index(process: &mut Open) {
        process.begin_indexing();
        while process.has_index_work() {
            process.index_some().unwrap();
        }
    }

    #[tokio::test]
    async fn a_pass_that_another_process_overtook_writes_no_older_head() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statistics.db");
        let pool = Pool::open(&DatabaseSettings::default(), &path, None).await.unwrap();
        let log = Log::open(pool, "attache.test/log", &Clock::system(), &Rng::system()).await.unwrap();
        let Pool::Sqlite { file, .. } = &log.pool else { unreachable!() };
        let rng = Rng::system();
        let uuid = rng.uuid_v7(Clock::system().now()).to_string();
        let mut chain = Chain::new(&Machine { user_cuid: rng.cuid2(), uuid, secret: String::new() });

        let mut server = process(file);
        assert!(matches!(take(&mut server, &chain.next()), AppendOutcome::Receipt(_)));
        let mut command = process(file);
        command.begin_indexing();
        assert!(matches!(take(&mut server, &chain.next()), AppendOutcome::Receipt(_)));
        index(&mut server);
        while command.has_index_work() {
            command.index_some().unwrap();
        }
        // A process that starts now reads the head from the table.
        drop((server, command));
        let outcome = take(&mut process(file), &chain.next());
        assert!(matches!(outcome, AppendOutcome::Receipt(_)), "{outcome:?}");
    }
}
