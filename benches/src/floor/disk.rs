//! F3: how fast rows become durable when senders share commits.

use std::path::Path;
use std::time::{Duration, Instant};

use domain::{Chance, Timestamp};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, Executor, QueryBuilder, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::{Result, process};

const ROW_BYTES: usize = 1100;
/// As many as a statement may have parameters for, and more than 64 senders ever fill.
const GROUP_MAX: usize = 128;

/// A row, and where to say that it is durable.
type Append = (Uuid, Vec<u8>, oneshot::Sender<()>);

/// Appends from `senders` tasks at once, each waiting for its row to be durable; prints the outcome.
pub async fn measure(folder: &Path, senders: usize, length: Duration) -> Result<()> {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("floor.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    connection.execute("CREATE TABLE IF NOT EXISTS appended (id BLOB PRIMARY KEY, bytes BLOB NOT NULL)").await?;

    let (queue, rows) = mpsc::channel(senders);
    let writer = tokio::spawn(write(connection, rows));
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for seed in 0..senders {
        tasks.spawn(append(queue.clone(), Chance::seeded(seed as u64), begin + length));
    }
    drop(queue);
    let mut latencies = Vec::new();
    let mut lanes_done = Vec::new();
    while let Some(appended) = tasks.join_next().await {
        let appended = appended?;
        lanes_done.push(appended.len());
        latencies.extend(appended);
    }
    let seconds = begin.elapsed().as_secs_f64();
    writer.await??;

    let usage = process::usage(std::process::id())?;
    let outcome = Outcome::of(0, Answers::of(latencies, String::new()), seconds, usage);
    Outcome { lanes_done, ..outcome }.print()
}

/// One sender; returns the latencies of its rows in nanoseconds.
async fn append(queue: mpsc::Sender<Append>, chance: Chance, end: Instant) -> Vec<u64> {
    let mut latencies = Vec::new();
    let mut row = vec![0; ROW_BYTES];
    while Instant::now() < end {
        row[..32].copy_from_slice(&chance.bytes::<32>());
        let (durable, wait) = oneshot::channel();
        let before = Instant::now();
        if queue.send((chance.uuid_v7(Timestamp::UNIX_EPOCH), row.clone(), durable)).await.is_err()
            || wait.await.is_err()
        {
            break;
        }
        latencies.push(nanoseconds(before.elapsed()));
    }
    latencies
}

/// The one writer: whatever has queued up while the last commit was under way goes into the next.
async fn write(mut connection: SqliteConnection, mut rows: mpsc::Receiver<Append>) -> Result<()> {
    let mut group: Vec<Append> = Vec::with_capacity(GROUP_MAX);
    while rows.recv_many(&mut group, GROUP_MAX).await > 0 {
        let mut insert = QueryBuilder::new("INSERT INTO appended (id, bytes) ");
        let mut told = Vec::with_capacity(group.len());
        insert.push_values(group.drain(..), |mut row, (id, bytes, durable)| {
            row.push_bind(id).push_bind(bytes);
            told.push(durable);
        });
        // A single statement is its own transaction.
        insert.build().execute(&mut connection).await?;
        for durable in told {
            // A sender that has left does not need to know.
            let _ = durable.send(());
        }
    }
    Ok(connection.close().await?)
}
