//! Comparison with packages of npm that users could choose instead, pinned by `peers/package-lock.json`.
//!
//! Each peer is a script in `peers/`, which documents its scope.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::Rng;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use crate::event::Machine;
use crate::measurement::{TrialFn, sample};
use crate::options::{Options, Result};
use crate::outcome::Outcome;
use crate::plan::{self, Pace, Plan};
use crate::process::{self, Server, say};
use crate::product::{Product, Upstream, make_folder};
use crate::report::{Contestant, Finding, Report, Sample, Section, Spread};
use crate::settle::{Debtor, settled, tree_size};
use crate::states::{self, Run};
use crate::stock::Stocks;
use crate::{client, population};

/// All comparisons in the order of the report. They run if named, or with `--peers`.
pub const ALL: [(&str, TrialFn); 3] =
    [("peer_events", events), ("peer_one_connection", one_connection), ("peer_polls", polls)];

const SCRIPTS: [(&str, &str); 4] = [
    ("events.mjs", include_str!("../peers/events.mjs")),
    ("events-postgres.mjs", include_str!("../peers/events-postgres.mjs")),
    ("better-auth.mjs", include_str!("../peers/better-auth.mjs")),
    ("oidc-provider.mjs", include_str!("../peers/oidc-provider.mjs")),
];
/// Marks lines of a section that the README shows.
const README_MARK: &str = "<!-- readme ";
const README_HEAD: &str = "| | attache | what its users would pick instead | |\n|---|---|---|---|\n";

const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A folder in which Node resolves the packages.
pub struct Peers {
    folder: TempDir,
}

impl Peers {
    /// Copies the scripts next to the installed packages.
    pub fn new(options: &Options) -> Result<Self> {
        let packages =
            options.peers_folder.clone().ok_or("the peers are not installed: `make bench-peers` does that")?;
        let packages = packages.join("node_modules");
        if !packages.is_dir() {
            return Err(format!("no npm packages in {}: `make bench-peers` installs them", packages.display()).into());
        }
        let folder = make_folder(options)?;
        for (name, text) in SCRIPTS {
            fs::write(folder.path().join(name), text)?;
        }
        // Node looks for packages in the folder of the script.
        symlink(fs::canonicalize(packages)?, folder.path().join("node_modules"))?;
        Ok(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a script and waits for its first line, which is its address.
    pub fn start(&self, script: &str, arguments: &[&str]) -> Result<Server> {
        let mut command = Command::new("node");
        command.arg(script).args(arguments).current_dir(self.folder.path()).env("NODE_ENV", "production");
        Server::start(&mut command, &self.path(&format!("{script}.log")), TIME_LIMIT)
    }
}

/// A server that accepts events: the product or a peer.
struct EventServer {
    name: &'static str,
    process: Process,
    machines: Vec<Machine>,
    samples: Contestant,
    /// Events of the last run.
    forwarded: Vec<(Uuid, usize)>,
}

enum Process {
    Product(Box<Product>),
    Peer(Server, PathBuf),
}

impl EventServer {
    fn product(options: &Options) -> Result<Self> {
        let product = Product::start(options, Upstream::Embedded)?;
        let machines = product.register(options.connections, options)?;
        Ok(Self::of("attache", Process::Product(Box::new(product)), machines))
    }

    fn peer(peers: &Peers, name: &'static str, mode: &str, options: &Options) -> Result<Self> {
        let database = peers.path(&format!("{mode}.db"));
        let server = peers.start("events.mjs", &[mode, database.to_str().ok_or("the folder's name is no text")?])?;
        let machines = machines_of(server.ready.parse()?, options)?;
        Ok(Self::of(name, Process::Peer(server, database), machines))
    }

    fn of(name: &'static str, process: Process, machines: Vec<Machine>) -> Self {
        Self { name, process, machines, samples: Contestant::new(name), forwarded: Vec::new() }
    }

    fn server(&self) -> &Server {
        match &self.process {
            Process::Product(product) => &product.server,
            Process::Peer(server, _) => server,
        }
    }

    fn address(&self) -> Result<std::net::SocketAddr> {
        Ok(match &self.process {
            Process::Product(product) => product.address,
            Process::Peer(server, _) => server.ready.parse()?,
        })
    }

    /// One run of events, with CPU time counted until the server has settled.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn take(&mut self, round: u32, options: &Options) -> Result<()> {
        let state = states::plain(options, options.connections);
        let address = self.address()?;
        let (machines, count, epoch) = (&self.machines, options.requests_max, u64::from(round) + 1);
        let run = Run::new(machines, options.connections, count, state, epoch, options.seed);
        let size = match &self.process {
            Process::Product(_) => tree_size(&mut client::Client::new(address)?)?,
            Process::Peer(..) => 0,
        };
        let usage_before = self.server().usage()?.cpu_seconds;
        let outcome = process::send(&run.plan(Pace::of(options.seconds)), address)?;
        if let Some(surprises) = outcome.surprises(&[202]) {
            return Err(format!("{}: {surprises}", self.name).into());
        }
        let taken = run.taken(&outcome);
        let debtor = match &self.process {
            Process::Product(product) => product.debtor(size + taken.forwarded.len() as u64),
            Process::Peer(server, database) => Debtor { server, tree: None, databases: vec![database.clone()] },
        };
        let cpu = settled(&debtor)? - usage_before;
        let sample = sample(&outcome, 202, cpu, self.server().usage()?.peak_bytes)?;
        let sample = Sample { cpu_us: cpu * 1e6 / taken.acknowledged().max(1) as f64, ..sample };
        say(&format!("  {}: {:.0}/s, {:.1} µs", self.name, sample.rate, sample.cpu_us));
        self.samples.samples.push(sample);
        self.forwarded = taken.forwarded;
        Ok(())
    }

    /// Requests for proofs of the last run's events, in random order.
    fn proofs(&self, options: &Options) -> Plan {
        let proof = |(id, place): &(Uuid, usize)| {
            self.machines[*place].request("GET", &format!("/api/v1/audit/verify?event_id={id}"), b"")
        };
        let requests: Vec<Bytes> = self.forwarded.iter().map(proof).collect();
        Plan::dealt(&requests, options.connections, options.seconds)
    }
}

/// Registers a computer for each connection with a peer.
pub fn machines_of(address: std::net::SocketAddr, options: &Options) -> Result<Vec<Machine>> {
    let rng = Rng::seeded(options.seed);
    let mut machines: Vec<Machine> = (0..options.connections).map(|_| Machine::invent(&rng)).collect();
    let requests: Vec<Bytes> = machines
        .iter()
        .map(|machine| {
            let body = json!({"machine_uuid": machine.uuid}).to_string();
            plan::request("POST", "/api/v1/machines", &["Content-Type: application/json"], body.as_bytes())
        })
        .collect();
    let answers = client::send_all(address, &requests, 1)?;
    for (machine, answer) in machines.iter_mut().zip(answers) {
        let answer = answer.json(201)?;
        answer["machine_secret"].as_str().ok_or("no machine_secret")?.clone_into(&mut machine.secret);
    }
    Ok(machines)
}

/// Durable events over all connections, and then proofs of the recorded events.
fn events(name: &str, options: &Options, _stocks: &mut Stocks, report: &mut Report) -> Result<()> {
    const TREE: &str = "Fastify + better-sqlite3, group commit, Merkle tree";
    let peers = Peers::new(options)?;
    let mut takers = vec![
        EventServer::product(options)?,
        EventServer::peer(&peers, TREE, "tree", options)?,
        EventServer::peer(&peers, "Fastify + better-sqlite3, group commit", "turn", options)?,
    ];
    for round in 0..options.rounds {
        for taker in &mut takers {
            taker.take(round, options)?;
        }
    }
    let contestants: Vec<Contestant> = takers.iter().map(|taker| taker.samples.clone()).collect();
    report.section(&table("peer_events", &contestants));
    let [ours, tree] = [&contestants[0], &contestants[1]];
    let rate = ours.against(tree, |sample| sample.rate);
    let cpu = ours.against(tree, |sample| sample.cpu_us);
    report.find(name, Finding::of("rate, of that with a tree", rate.show(2)).should("≥ 2.5", rate.at_least(2.5)));
    report.find(name, Finding::of("CPU, of that with a tree", cpu.show(2)).should("≤ 0.5", cpu.at_most(0.5)));
    report.text(
        name,
        &readme_line("durable events a second, 64 connections", [ours, tree], TREE, 0, |sample| sample.rate),
    );
    report.text(name, &readme_line("– CPU each, µs", [ours, tree], TREE, 0, |sample| sample.cpu_us));

    let mut proofs = [ours, tree].map(|contestant| Contestant::new(contestant.name));
    for _ in 0..options.rounds {
        for (taker, contestant) in takers.iter().zip(&mut proofs) {
            let (plan, address) = (taker.proofs(options), taker.address()?);
            let usage_before = taker.server().usage()?.cpu_seconds;
            let plan = Plan { pace: Pace { holding: Some(r#""status":"included""#.into()), ..plan.pace }, ..plan };
            let outcome = process::send(&plan, address)?;
            all_hold(&outcome, taker.name)?;
            let after = taker.server().usage()?;
            contestant.samples.push(sample(&outcome, 200, after.cpu_seconds - usage_before, after.peak_bytes)?);
        }
    }
    report.section(&table("peer_proofs", &proofs));
    let rate = proofs[0].against(&proofs[1], |sample| sample.rate);
    report
        .find("peer_proofs", Finding::of("rate, of that with a tree", rate.show(2)).should("≥ 3", rate.at_least(3.0)));
    let line = readme_line("audit proofs a second", [&proofs[0], &proofs[1]], TREE, 0, |sample| sample.rate);
    report.text("peer_proofs", &line);
    Ok(())
}

/// A single sender, compared with one commit per event.
fn one_connection(name: &str, options: &Options, _stocks: &mut Stocks, report: &mut Report) -> Result<()> {
    const SINGLE: &str = "Fastify + better-sqlite3, a commit each";
    let options = &Options { connections: 1, ..options.clone() };
    let peers = Peers::new(options)?;
    let mut takers = vec![EventServer::product(options)?, EventServer::peer(&peers, SINGLE, "single", options)?];
    for round in 0..options.rounds {
        for taker in &mut takers {
            taker.take(round, options)?;
        }
    }
    let contestants: Vec<Contestant> = takers.iter().map(|taker| taker.samples.clone()).collect();
    report.section(&table("peer_one_connection", &contestants));
    let [ours, single] = [&contestants[0], &contestants[1]];
    let p50 = ours.against(single, |sample| sample.p50_us);
    report.find(name, Finding::of("p50, of a single commit's", p50.show(2)).should("≤ 1", p50.at_most(1.0)));
    report.text(
        name,
        &readme_line("one sender's median wait, ms", [ours, single], SINGLE, 2, |sample| sample.p50_us / 1e3),
    );
    Ok(())
}

/// Polls of pending codes. No code of attache or better-auth is polled twice within five seconds, so that every
/// response is `authorization_pending`; oidc-provider does not limit the pace.
fn polls(name: &str, options: &Options, _stocks: &mut Stocks, report: &mut Report) -> Result<()> {
    const BETTER_AUTH: &str = "better-auth";
    let [ours_count, theirs_count, oidc_count] = if options.quick { [2_000, 500, 64] } else { [200_000, 8_000, 640] };
    let peers = Peers::new(options)?;
    let product = Product::start(options, Upstream::Embedded)?;
    let (database, codes) = (peers.path("better-auth.db"), peers.path("codes"));
    let file =
        |path: &Path| Ok::<_, crate::options::Failure>(path.to_str().ok_or("the folder's name is no text")?.to_owned());
    let better_auth =
        peers.start("better-auth.mjs", &[&file(&database)?, &theirs_count.to_string(), &file(&codes)?])?;
    let oidc = peers.start("oidc-provider.mjs", &[])?;

    let ours = population::waiting(&product.database(), ours_count, options.seed)?;
    // The first poll creates the server's state of the code.
    client::send_all(product.address, &ours, 32)?;
    let theirs: Vec<Bytes> = fs::read_to_string(&codes)?.lines().map(better_auth_poll).collect();
    let requests: Vec<Bytes> = (0..oidc_count).map(|_| form("/device/auth", "client_id=bench")).collect();
    let given = client::send_all(oidc.ready.parse()?, &requests, 8)?;
    let third = given.iter().map(|answer| {
        let answer = answer.json(200)?;
        Ok(oidc_poll(answer["device_code"].as_str().ok_or("no device_code")?))
    });
    let third: Vec<Bytes> = third.collect::<Result<_>>()?;

    let mut contestants = ["attache", BETTER_AUTH, "oidc-provider, in memory"].map(Contestant::new);
    let turns = [
        (&product.server, product.address, &ours, false),
        (&better_auth, better_auth.ready.parse()?, &theirs, false),
        (&oidc, oidc.ready.parse()?, &third, true),
    ];
    let mut rested = [Instant::now(); 3];
    for _ in 0..options.rounds {
        for (((server, address, polls, cycle), contestant), ended) in
            turns.iter().zip(&mut contestants).zip(&mut rested)
        {
            const INTERVAL: Duration = Duration::from_millis(5_500);
            if !cycle {
                thread::sleep(INTERVAL.saturating_sub(ended.elapsed()));
            }
            let dealt = Plan::dealt(polls, options.connections, options.seconds);
            let holding = Some("authorization_pending".to_owned());
            // A run may end early, once each code was polled, so there is no warm-up.
            let pace = Pace { cycle: *cycle, holding, warm_up_seconds: 0.0, ..Pace::of(options.seconds) };
            let usage_before = server.usage()?.cpu_seconds;
            let outcome = process::send(&Plan { pace, ..dealt }, *address)?;
            all_hold(&outcome, contestant.name)?;
            let after = server.usage()?;
            *ended = Instant::now();
            let sample = sample(&outcome, 400, after.cpu_seconds - usage_before, after.peak_bytes)?;
            say(&format!("  {}: {:.0}/s, {:.1} µs", contestant.name, sample.rate, sample.cpu_us));
            contestant.samples.push(sample);
        }
    }
    report.section(&table("peer_polls", &contestants));
    let rate = contestants[0].against(&contestants[1], |sample| sample.rate);
    report.find(name, Finding::of("rate, of better-auth's", rate.show(0)).should("≥ 100", rate.at_least(100.0)));
    let line =
        readme_line("polls of waiting codes a second", [&contestants[0], &contestants[1]], BETTER_AUTH, 0, |sample| {
            sample.rate
        });
    report.text(name, &line);
    Ok(())
}

/// Checks that every response contains the expected text.
fn all_hold(outcome: &Outcome, name: &str) -> Result<()> {
    let others = outcome.answers_total - outcome.holding;
    if others > 0 {
        let statuses = outcome.surprises(&[]).unwrap_or_default();
        return Err(
            format!("{name}: {others} of {} answers say something else: {statuses}", outcome.answers_total).into()
        );
    }
    Ok(())
}

fn better_auth_poll(code: &str) -> Bytes {
    let grant = "urn:ietf:params:oauth:grant-type:device_code";
    let body = json!({"grant_type": grant, "device_code": code, "client_id": "bench"}).to_string();
    plan::request("POST", "/api/auth/device/token", &["Content-Type: application/json"], body.as_bytes())
}

fn oidc_poll(code: &str) -> Bytes {
    let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code";
    form("/token", &format!("grant_type={grant}&device_code={code}&client_id=bench"))
}

fn form(target: &str, body: &str) -> Bytes {
    plan::request("POST", target, &["Content-Type: application/x-www-form-urlencoded"], body.as_bytes())
}

fn table(name: &'static str, contestants: &[Contestant]) -> Section {
    Section { name, goals: Vec::new(), floors: contestants.to_vec(), product: None }
}

/// A line of the README's table, hidden in the section.
fn readme_line(
    what: &str,
    [ours, theirs]: [&Contestant; 2],
    peer: &str,
    decimals: usize,
    of: impl Fn(&Sample) -> f64 + Copy,
) -> String {
    let ratio: Spread = ours.against(theirs, of);
    let decimal = if ratio.median < 10.0 { 2 } else { 0 };
    format!(
        "\n{README_MARK}| {what} | {:.decimals$} | {:.decimals$}, {peer} | {:.decimal$} times | -->\n",
        ours.median(of),
        theirs.median(of),
        ratio.median
    )
}

/// Prints the README's table from the hidden lines of the report.
pub fn readme(report: &Path) -> Result<()> {
    let text = fs::read_to_string(report)?;
    let table = readme_table(&text);
    if table.is_empty() {
        return Err(format!("{} has no section about peers: `make bench-peers` adds them", report.display()).into());
    }
    print!("{table}");
    Ok(())
}

fn readme_table(report: &str) -> String {
    let hidden = |line: &str| Some(line.strip_prefix(README_MARK)?.strip_suffix(" -->")?.to_owned());
    let lines: Vec<String> = report.lines().filter_map(hidden).collect();
    let mut table = String::new();
    if !lines.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(table, "{README_HEAD}{}", lines.join("\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contestant(name: &'static str, rate: f64) -> Contestant {
        let sample = Sample { rate, cpu_us: 1.0, p50_us: 1.0, p99_us: 1.0, peak_bytes: 1, generator: 0.1 };
        Contestant { name, samples: vec![sample] }
    }

    #[test]
    fn the_readme_shows_the_lines_that_are_hidden_in_the_report() {
        let pair = [&contestant("attache", 300.0), &contestant("peer", 2.0)];
        let line = readme_line("things a second", pair, "peer", 0, |sample| sample.rate);
        let report = format!("# Head\n\n## peers\n\n| a |\n{line}\nwords\n");
        assert_eq!(readme_table(&report), format!("{README_HEAD}| things a second | 300 | 2, peer | 150 times |\n"));
        assert_eq!(readme_table("# Head\n"), "");
    }
}
