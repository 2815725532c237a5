//! Filled data folders, with many computers and a log. A server starts on a copy.
//!
//! Events are appended with the server's own crate in large groups, so that all data that the server keeps per event
//! exists.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use domain::envelope::{AgentKinds, Sealed};
use domain::{Clock, Rng};
use statistics::contract::{RecordScope, Submission};
use statistics::log::{Append, AppendOutcome, Log};
use store::Pool;
use store::pool::DatabaseSettings;
use tempfile::TempDir;
use uuid::Uuid;

use crate::event::{Chain, IdSource, Ids, Machine, Members};
use crate::options::{Options, Result};
use crate::population;
use crate::process::say;
use crate::product::{LOG, Product, Upstream, make_folder};
use crate::settle::settled;

/// The default name of the log.
const ORIGIN: &str = "attache/log";
/// Events per transaction.
const GROUP: usize = 2_000;
/// Maximum number of events that are sequenced at once.
const SEQUENCED_MAX: u32 = 50_000;
/// Maximum number of remembered ids, distributed over the whole log.
const KNOWN_MAX: u64 = 200_000;

/// The folders of this run, removed at its end.
#[derive(Debug, Default)]
pub struct Stocks(Vec<Stock>);

/// A filled folder.
#[derive(Debug)]
pub struct Stock {
    /// Number of events in the log.
    pub log: u64,
    ids: Ids,
    /// The computers, each with a chain in the log.
    pub machines: Vec<Machine>,
    /// Ids of some events in the log, with the index of their computer.
    pub known: Vec<(Uuid, usize)>,
    folder: TempDir,
}

impl Stocks {
    /// The folder for this number of events and kind of ids, created on first use.
    pub fn get(&mut self, log: u64, ids: Ids, options: &Options) -> Result<&Stock> {
        // Without events, the kind of ids is irrelevant.
        let same = |stock: &Stock| stock.log == log && (log == 0 || stock.ids == ids);
        let place = if let Some(place) = self.0.iter().position(same) {
            place
        } else {
            self.0.push(Stock::make(log, ids, options)?);
            self.0.len() - 1
        };
        Ok(&self.0[place])
    }

    /// Removes folders with the other kind of ids: one of ten million events takes some 15 GB.
    pub fn keep(&mut self, ids: Ids) {
        self.0.retain(|stock| stock.log == 0 || stock.ids == ids);
    }
}

impl Stock {
    fn make(log: u64, ids: Ids, options: &Options) -> Result<Self> {
        let count = options.chains().into_iter().max().unwrap_or(options.connections);
        say(&format!("  filling a folder: {count} computers, {log} events"));
        let product = Product::start(options, Upstream::Embedded)?;
        let machines = population::machines(&product.database(), count, options.seed)?;
        if log == 0 {
            settled(&product.debtor(0))?;
            return Ok(Self { log, ids, machines, known: Vec::new(), folder: product.kill() });
        }
        let folder = product.kill();
        let known = fill(&folder.path().join(LOG), &machines, log, ids, options.seed)?;
        // Lets the server derive its data from the log before the measurements.
        let product = Product::start_on(folder, options, Upstream::Embedded, "")?;
        settled(&product.debtor(log))?;
        Ok(Self { log, ids, machines, known, folder: product.kill() })
    }

    /// Starts a server on a copy of the folder, and waits until it has settled.
    pub fn start(&self, options: &Options) -> Result<Product> {
        let folder = make_folder(options)?;
        fs::create_dir(folder.path().join("data"))?;
        copy(&self.folder.path().join("data"), &folder.path().join("data"))?;
        let product = Product::start_on(folder, options, Upstream::Embedded, "")?;
        settled(&product.debtor(self.log))?;
        Ok(product)
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            // A killed server leaves its socket.
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Appends events to a log without a server, distributed over one chain per computer.
fn fill(file: &Path, machines: &[Machine], count: u64, ids: Ids, seed: u64) -> Result<Vec<(Uuid, usize)>> {
    let (sender, groups) = mpsc::sync_channel::<Result<Vec<Append>>>(4);
    let every = (count / KNOWN_MAX).max(1);
    let machines = machines.to_vec();
    // A separate thread renders, because rendering and writing take about the same time.
    let renderer = thread::spawn(move || -> Vec<(Uuid, usize)> {
        let source = IdSource::until(Clock::system().now(), count, ids, seed ^ 0x006c_6f67);
        let mut chains: Vec<Chain> = (0_u64..)
            .zip(&machines)
            .map(|(n, machine)| Chain::new(machine, "memory.stored", 0, seed ^ (n << 8)))
            .collect();
        let mut known = Vec::new();
        let mut group = Vec::with_capacity(GROUP);
        for (number, place) in (0..count).zip((0..chains.len()).cycle()) {
            let event = chains[place].grow(source.draw(number), Members::Canonical);
            if number % every == 0 {
                known.push((event.id, place));
            }
            group.push(append(event.body.into(), &source, number));
            if group.len() == GROUP || number + 1 == count {
                let group = std::mem::replace(&mut group, Vec::with_capacity(GROUP)).into_iter().collect();
                // The writer has failed and reports the reason.
                if sender.send(group).is_err() {
                    break;
                }
            }
        }
        known
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(write(file, groups))?;
    renderer.join().map_err(|_| "the renderer of events panicked".into())
}

/// The event as the server would append it.
fn append(body: Bytes, source: &IdSource, number: u64) -> Result<Append> {
    const BODY_BYTES_MAX: usize = 256 * 1024;
    let sealed = Sealed::open(&body, BODY_BYTES_MAX, &AgentKinds::new([]))?;
    let scope = RecordScope {
        account: None,
        identities: vec![sealed.envelope.scope.user_id.clone()],
        machine: Some(sealed.envelope.scope.machine_id),
        ..RecordScope::default()
    };
    let received_at = source.moment(number);
    Ok(Append::new(Submission::new(body, sealed, scope), source.receipt(number).into(), received_at))
}

async fn write(file: &Path, groups: mpsc::Receiver<Result<Vec<Append>>>) -> Result<()> {
    // The default page size of the server.
    let settings = DatabaseSettings { page_bytes: 16_384, ..DatabaseSettings::default() };
    let pool = Pool::open(&settings, file, Some("statistics")).await?;
    let log = Log::open(pool, ORIGIN, &Clock::system(), &Rng::system()).await?;
    let mut waiting = 0;
    for group in groups {
        let group = group?;
        let outcomes = log.append(&group).await?;
        if let Some(other) = outcomes.iter().find(|outcome| !matches!(outcome, AppendOutcome::Receipt(_))) {
            return Err(format!("an event of the filling was not taken: {other:?}").into());
        }
        waiting += group.len();
        if waiting >= SEQUENCED_MAX as usize {
            log.sequence(SEQUENCED_MAX).await?;
            waiting = 0;
        }
    }
    while log.sequence(SEQUENCED_MAX).await?.added > 0 {}
    log.close().await;
    Ok(())
}
