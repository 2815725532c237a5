//! Data folders that were filled before: many computers, and a log of so many events. A server starts on a copy.
//!
//! The events get into the log through the server's own crate, in large groups, so that whatever else it keeps of an event is
//! there as well.

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

/// The name of the log when nothing else is configured.
const ORIGIN: &str = "attache/log";
/// Events of one transaction.
const GROUP: usize = 2_000;
/// Events that get their place in the tree at once.
const SEQUENCED_MAX: u32 = 50_000;
/// Events whose ids are remembered, spread over the whole log.
const KNOWN_MAX: u64 = 200_000;

/// Folders that were made in this run; they are removed with it.
#[derive(Debug, Default)]
pub struct Stocks(Vec<Stock>);

/// A folder.
#[derive(Debug)]
pub struct Stock {
    /// Events in its log.
    pub log: u64,
    ids: Ids,
    /// Its computers; the log has a chain of each.
    pub machines: Vec<Machine>,
    /// Ids of events in the log, each with the place of its computer.
    pub known: Vec<(Uuid, usize)>,
    folder: TempDir,
}

impl Stocks {
    /// A folder whose log has so many events with such ids; made when it is first asked for.
    pub fn get(&mut self, log: u64, ids: Ids, options: &Options) -> Result<&Stock> {
        // Without events their ids do not matter.
        let same = |stock: &Stock| stock.log == log && (log == 0 || stock.ids == ids);
        let place = if let Some(place) = self.0.iter().position(same) {
            place
        } else {
            self.0.push(Stock::make(log, ids, options)?);
            self.0.len() - 1
        };
        Ok(&self.0[place])
    }

    /// Removes the folders with events that no later state starts on: one of ten million events takes some 15 GB.
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
        // What the server derives from its log is not what is measured later.
        let product = Product::start_on(folder, options, Upstream::Embedded, "")?;
        settled(&product.debtor(log))?;
        Ok(Self { log, ids, machines, known, folder: product.kill() })
    }

    /// A server on a copy of the folder, settled.
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
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Appends events to a log that no server has open, dealt to one chain per computer.
fn fill(file: &Path, machines: &[Machine], count: u64, ids: Ids, seed: u64) -> Result<Vec<(Uuid, usize)>> {
    let (sender, groups) = mpsc::sync_channel::<Result<Vec<Append>>>(4);
    let every = (count / KNOWN_MAX).max(1);
    let machines = machines.to_vec();
    // Rendering and writing take about the same time.
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
                // The writer has failed and says why.
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
    // As the server makes it by default.
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
