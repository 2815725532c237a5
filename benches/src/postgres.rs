//! Events on PostgreSQL: one, two and three nodes, and a node with a log of two parts, in turn with the floor of PostgreSQL
//! itself and with a peer.
//!
//! Each measurement starts its processes on a new database and ends them, because idle nodes use the database too. The CPU time of
//! PostgreSQL is the sum over all its processes, so no other program may use the cluster during a measurement.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::client::Client;
use crate::event::Machine;
use crate::floor::Floor;
use crate::measurement::sample;
use crate::options::{Options, Result};
use crate::outcome::Outcome;
use crate::peers::{Peers, machines_of};
use crate::plan::{Pace, Plan};
use crate::process::{self, Server, say};
use crate::product::{Product, Upstream};
use crate::report::{Contestant, Finding, Report, Sample, generator};
use crate::settle::{Debtor, settled, tree_size};
use crate::states::{self, Run};
use crate::stock::Stocks;
use crate::usage::usage;

/// Name in the list of scenarios.
pub const NAME: &str = "events_postgres";

const PEER: &str = "Fastify + pg, group commit";
/// Rate of one node, in rates of the peer.
const PEER_RATE: f64 = 2.0;
/// CPU of an event with two parts of the log, as a multiple of the CPU with one part.
const PARTS_CPU: f64 = 1.10;

/// A cluster that no other program uses.
struct Cluster {
    /// `postgres://user@address/database`.
    url: String,
    /// The process that starts all other processes of the cluster.
    postmaster: u32,
}

/// The measured kinds of servers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Floor,
    Nodes(usize),
    /// One node with a part of the log on each of two clusters, and the connections of one node for each part.
    Parts,
    Peer,
}

/// The samples of one kind: the cost of its servers, of PostgreSQL, and of all of these processes.
struct Row {
    kind: Kind,
    servers: Contestant,
    postgres: Contestant,
    all: Contestant,
}

/// One measurement.
struct Taken {
    outcomes: Vec<Outcome>,
    status: u16,
    cpu_seconds: f64,
    peak_bytes: u64,
}

/// Measures all kinds in turn.
pub fn events(name: &str, options: &Options, _stocks: &mut Stocks, report: &mut Report) -> Result<()> {
    let first = options.postgres.as_deref().ok_or(
        "no PostgreSQL to measure: pass --postgres postgres://user@address/database of a cluster on this machine that nothing else uses",
    )?;
    let urls = [first].into_iter().chain(options.further_postgres.as_deref());
    let clusters = urls.map(Cluster::at).collect::<Result<Vec<_>>>()?;
    let mut kinds = vec![Kind::Floor, Kind::Nodes(1), Kind::Nodes(2), Kind::Nodes(3)];
    kinds.extend(options.further_postgres.as_ref().map(|_| Kind::Parts));
    kinds.extend(options.peers_folder.as_ref().map(|_| Kind::Peer));
    let mut rows: Vec<Row> = kinds.into_iter().map(Row::new).collect();
    for round in 0..options.rounds {
        for row in &mut rows {
            row.take(&clusters, round, options)?;
        }
    }
    report.text(name, &table(&rows));
    let rate = |sample: &Sample| sample.rate;
    let three = rows[3].servers.against(&rows[1].servers, rate);
    let of_one = Finding::of("rate of three nodes, of that of one", three.show(2));
    report.find(name, of_one.should("≥ 1", three.at_least(1.0)));
    let cpu = |sample: &Sample| sample.cpu_us;
    let three = rows[3].all.against(&rows[1].all, cpu);
    report.find(name, Finding::of("CPU of all processes with three nodes, of that with one", three.show(2)));
    if let Some(parts) = rows.iter().find(|row| matches!(row.kind, Kind::Parts)) {
        let two = parts.all.against(&rows[1].all, cpu);
        let of_one = Finding::of("CPU of all processes with two parts, of that with one", two.show(2));
        report.find(name, of_one.should("≤ 1.10", two.at_most(PARTS_CPU)));
    }
    if let Some(peer) = rows.iter().find(|row| matches!(row.kind, Kind::Peer)) {
        let one = rows[1].servers.against(&peer.servers, rate);
        let of_peer = Finding::of(format!("rate of one node, of that of {PEER}"), one.show(2));
        report.find(name, of_peer.should("≥ 2", one.at_least(PEER_RATE)));
        let one = rows[1].all.against(&peer.all, cpu);
        report.find(name, Finding::of(format!("CPU of all processes with one node, of that with {PEER}"), one.show(2)));
    }
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| | CPU µs each, all processes | servers | PostgreSQL | per second | of the floor | p50 µs | p99 µs | generator |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let Row { servers, postgres, all, .. } = row;
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            servers.name,
            all.spread(|sample| sample.cpu_us).show(1),
            servers.spread(|sample| sample.cpu_us).show(1),
            postgres.spread(|sample| sample.cpu_us).show(1),
            servers.spread(|sample| sample.rate).show(0),
            servers.against(&rows[0].servers, |sample| sample.rate).show(2),
            servers.spread(|sample| sample.p50_us).show(0),
            servers.spread(|sample| sample.p99_us).show(0),
            generator(servers.median(|sample| sample.generator)),
        );
    }
    text
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Floor => Floor::Postgres.name(),
            Self::Nodes(1) => "attache, 1 node",
            Self::Nodes(2) => "attache, 2 nodes",
            Self::Nodes(_) => "attache, 3 nodes",
            Self::Parts => "attache, 1 node, 2 parts",
            Self::Peer => PEER,
        }
    }
}

impl Row {
    fn new(kind: Kind) -> Self {
        let contestant = || Contestant::new(kind.name());
        Self { kind, servers: contestant(), postgres: contestant(), all: contestant() }
    }

    /// One measurement on new databases.
    fn take(&mut self, clusters: &[Cluster], round: u32, options: &Options) -> Result<()> {
        let used = if let Kind::Parts = self.kind { clusters } else { &clusters[..1] };
        let databases = used.iter().map(Cluster::create).collect::<Result<Vec<_>>>()?;
        let urls: Vec<&str> = databases.iter().map(|(url, _)| url.as_str()).collect();
        let usage_before = cpu_seconds(used)?;
        let (taken, begun) = match self.kind {
            Kind::Floor => (floor(urls[0], options)?, usage_before),
            Kind::Nodes(count) => nodes(&urls, count, used, round, options)?,
            Kind::Parts => {
                let connections = options.connections * used.len();
                nodes(&urls, 1, used, round, &Options { connections, ..options.clone() })?
            }
            Kind::Peer => peer(urls[0], used, round, options)?,
        };
        let postgres = cpu_seconds(used)? - begun;
        for (cluster, (_, name)) in used.iter().zip(&databases) {
            cluster.remove(name)?;
        }
        let Taken { outcomes, status, cpu_seconds, peak_bytes } = taken;
        let each = outcomes.iter().map(|outcome| sample(outcome, status, cpu_seconds, peak_bytes));
        let each: Vec<Sample> = each.collect::<Result<_>>()?;
        let answers: u64 = outcomes.iter().map(|outcome| outcome.answers_total).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let per_answer = |cpu_seconds: f64| cpu_seconds * 1e6 / answers.max(1) as f64;
        let worst = |of: fn(&Sample) -> f64| each.iter().map(of).fold(0.0, f64::max);
        let whole = Sample {
            rate: each.iter().map(|sample| sample.rate).sum(),
            cpu_us: per_answer(cpu_seconds),
            p50_us: worst(|sample| sample.p50_us),
            p99_us: worst(|sample| sample.p99_us),
            peak_bytes,
            generator: each.iter().map(|sample| sample.generator).sum(),
        };
        let own = Sample { cpu_us: per_answer(postgres), ..whole };
        say(&format!(
            "  {}: {:.0}/s, {:.1} µs and {:.1} µs in PostgreSQL",
            self.kind.name(),
            whole.rate,
            whole.cpu_us,
            own.cpu_us
        ));
        self.servers.samples.push(whole);
        self.postgres.samples.push(own);
        self.all.samples.push(Sample { cpu_us: whole.cpu_us + own.cpu_us, ..whole });
        Ok(())
    }
}

fn floor(database: &str, options: &Options) -> Result<Taken> {
    let (connections, seconds) = (options.connections.to_string(), options.seconds.to_string());
    let command = Floor::Postgres.command();
    let arguments = ["floor", command, "--connections", &connections, "--seconds", &seconds, "--database", database];
    let outcome = process::measure(&arguments)?;
    let (cpu_seconds, peak_bytes) = (outcome.own_cpu_seconds, outcome.own_peak_bytes);
    Ok(Taken { outcomes: vec![outcome], status: Floor::Postgres.status(), cpu_seconds, peak_bytes })
}

/// Events dealt over the nodes: each chain stays with its node. Also returns PostgreSQL's CPU seconds at the start.
fn nodes(urls: &[&str], count: usize, used: &[Cluster], round: u32, options: &Options) -> Result<(Taken, f64)> {
    let table = |(part, url): (usize, &&str)| match part {
        0 => format!("\n[database]\nurl = \"{url}\"\n"),
        _ => format!("[[log.part]]\nnumber = {part}\nurl = \"{url}\"\n"),
    };
    let more: String = urls.iter().enumerate().map(table).collect();
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Product::start_with(options, Upstream::Embedded, &more)?);
    }
    let machines = nodes[0].register(options.connections, options)?;
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let servers: Vec<&Server> = nodes.iter().map(|node| &node.server).collect();
    let size = tree_size(&mut Client::new(addresses[0])?)?;
    measure(&servers, &addresses, &machines, Some(size), used, round, options)
}

fn peer(database: &str, used: &[Cluster], round: u32, options: &Options) -> Result<(Taken, f64)> {
    let peers = Peers::new(options)?;
    let server = peers.start("events-postgres.mjs", &[database])?;
    let address: SocketAddr = server.ready.parse()?;
    let machines = machines_of(address, options)?;
    measure(&[&server], &[address], &machines, None, used, round, options)
}

/// Sends events to all addresses at once and waits until the servers have settled; `tree` is the size of their tree before.
fn measure(
    servers: &[&Server],
    addresses: &[SocketAddr],
    machines: &[Machine],
    tree: Option<u64>,
    used: &[Cluster],
    round: u32,
    options: &Options,
) -> Result<(Taken, f64)> {
    let state = states::plain(options, options.connections);
    let epoch = u64::from(round) + 1;
    let run = Run::new(machines, options.connections, options.requests_max, state, epoch, options.seed);
    let plan = run.plan(Pace::of(options.seconds));
    let dealt = |first: usize| plan.lanes.iter().skip(first).step_by(addresses.len()).cloned().collect();
    let plans: Vec<Plan> = (0..addresses.len()).map(|at| Plan { pace: plan.pace.clone(), lanes: dealt(at) }).collect();
    let cpu = || {
        servers.iter().try_fold(0.0, |sum, server| Ok::<_, crate::options::Failure>(sum + server.usage()?.cpu_seconds))
    };
    let (begun, before) = (cpu_seconds(used)?, cpu()?);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let running: Vec<_> = plans
            .iter()
            .zip(addresses)
            .map(|(plan, address)| {
                scope.spawn(move || process::send(plan, *address).map_err(|error| error.to_string()))
            })
            .collect();
        let ended =
            running.into_iter().map(|generator| generator.join().map_err(|_| "a generator panicked".to_owned()));
        ended.map(|ended| ended?).collect::<std::result::Result<_, String>>()
    })?;
    let mut acknowledged = 0;
    for outcome in &outcomes {
        if let Some(surprises) = outcome.surprises(&[202]) {
            return Err(surprises.into());
        }
        acknowledged += outcome.answers_total;
    }
    for (server, address) in servers.iter().copied().zip(addresses) {
        let tree = tree.map(|before| (*address, before + acknowledged));
        settled(&Debtor { server, tree, databases: Vec::new() })?;
    }
    let mut peak_bytes = 0;
    for server in servers {
        peak_bytes += server.usage()?.peak_bytes;
    }
    Ok((Taken { outcomes, status: 202, cpu_seconds: cpu()? - before, peak_bytes }, begun))
}

/// CPU time of all processes of these clusters.
fn cpu_seconds(clusters: &[Cluster]) -> Result<f64> {
    clusters.iter().try_fold(0.0, |sum, cluster| Ok(sum + cluster.cpu_seconds()?))
}

impl Cluster {
    fn at(url: &str) -> Result<Self> {
        // While the connection is open: its process ends with it.
        let postmaster = on(url, async |connection| {
            let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await?;
            let stat = fs::read_to_string(format!("/proc/{backend}/stat"))?;
            Ok(parent(&stat).ok_or("/proc/…/stat names no parent")?)
        })?;
        Ok(Self { url: url.to_owned(), postmaster })
    }

    /// Creates a database; returns its URL and its name.
    fn create(&self) -> Result<(String, String)> {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench_{}_{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))?;
        self.execute("CHECKPOINT")?;
        let (server, _) = self.url.rsplit_once('/').ok_or("the URL of PostgreSQL names no database")?;
        Ok((format!("{server}/{name}"), name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
    }

    fn execute(&self, statement: &str) -> Result<()> {
        on(&self.url, async |connection| {
            connection.execute(AssertSqlSafe(statement.to_owned())).await?;
            Ok(())
        })
    }

    /// CPU time of all processes of the cluster so far; the postmaster's time includes ended processes.
    fn cpu_seconds(&self) -> Result<f64> {
        let mut sum = usage(self.postmaster)?.cpu_seconds;
        for entry in fs::read_dir("/proc")? {
            let Ok(process) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
            // A process may end during the loop; the postmaster's time then includes it.
            let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
            if parent(&stat) == Some(self.postmaster) {
                sum += usage(process).map_or(0.0, |usage| usage.cpu_seconds);
            }
        }
        Ok(sum)
    }
}

/// The parent in the text of `/proc/…/stat`: the second field after the name, which is in brackets.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Runs statements on a new connection.
fn on<T>(url: &str, work: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await?;
        let done = work(&mut connection).await?;
        connection.close().await?;
        Ok(done)
    })
}
