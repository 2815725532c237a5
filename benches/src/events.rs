//! Events forwarded to the embedded log: in every state, and over a few and over many connections.
//!
//! In each state: rounds of floors and product in turn, with CPU time counted until the server has settled; then an
//! open loop at 70 % of the rate; then a run that is ended with kill −9, after which every acknowledged event must be
//! present.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{self, Client};
use crate::event::Machine;
use crate::floor::Floor;
use crate::measurement::{StartedFloor, sample};
use crate::options::{Options, Result};
use crate::outcome::Outcome;
use crate::plan::{Pace, Plan};
use crate::population;
use crate::process::{self, say};
use crate::product::Product;
use crate::report::{Contestant, Finding, Report, Sample, Spread, generator};
use crate::settle::{settled, tree_size};
use crate::states::{self, Acknowledged, Run, State};
use crate::stock::Stocks;

/// Fraction of the saturated rate at which latency is measured.
const LOAD: f64 = 0.7;
/// Goals, in microseconds of CPU per event.
const GROWING_CPU_US: f64 = 40.0;
const WORST_CPU_US: f64 = 50.0;
const SIXTEEN_CPU_US: f64 = 60.0;
const OPEN_P99_US: f64 = 5_000.0;
const COMMITS: f64 = 2.0;

/// A row of the table of states.
struct Row {
    state: State,
    floors: [Contestant; 2],
    ours: Contestant,
    open: OpenLoop,
    killed: KillResult,
}

/// Latency at a fixed rate.
struct OpenLoop {
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    generator: f64,
}

/// Result of killing the server.
struct KillResult {
    acknowledged: usize,
    found: usize,
    /// Whether requests were in progress.
    under_load: bool,
    start: Duration,
}

/// The server in one state, and the acknowledged events.
struct StateBench<'a> {
    product: Product,
    machines: &'a [Machine],
    state: State,
    options: &'a Options,
    connections: usize,
    /// Epoch of the next run; the filled log uses epoch 0.
    epoch: u64,
}

/// `events_forwarded`: the table of states.
pub fn in_states(name: &str, options: &Options, stocks: &mut Stocks, report: &mut Report) -> Result<()> {
    let mut rows = Vec::new();
    for state in states::all(options) {
        say(&format!("  {state}"));
        stocks.keep(state.ids);
        match row(state, options, stocks) {
            Ok(row) => rows.push(row),
            Err(error) => {
                say(&format!("  BROKEN: {error}"));
                report.find(name, Finding::of(state.to_string(), error.to_string()).should("measured", false));
            }
        }
    }
    if rows.is_empty() {
        return Err("no state could be measured".into());
    }
    report.text(name, &table(&rows));
    for finding in verdicts(&rows) {
        report.find(name, finding);
    }
    Ok(())
}

fn row(state: State, options: &Options, stocks: &mut Stocks) -> Result<Row> {
    let stock = stocks.get(state.log, state.ids, options)?;
    let mut bench = StateBench::start(stock.start(options)?, &stock.machines, state, options, options.connections);
    let floors = [Floor::Bare, Floor::Disk];
    let standing = [StartedFloor::start(Floor::Bare, options)?, StartedFloor::start(Floor::Disk, options)?];
    let mut contestants = floors.map(|floor| Contestant::new(floor.name()));
    let mut ours = Contestant::new("attache");
    let mut count = options.requests_max;
    for round in 0..options.rounds {
        let run = bench.run(count);
        for (floor, contestant) in standing.iter().zip(&mut contestants) {
            contestant.samples.push(floor.measure(&cycling(&run, options), options)?);
        }
        let (sample, _) = bench.measure(&run, Pace::of(options.seconds))?;
        say(&format!("    round {}: {:.0}/s, {:.1} µs", round + 1, sample.rate, sample.cpu_us));
        count = enough(sample.rate, options);
        ours.samples.push(sample);
    }
    let rate = (ours.median(|sample| sample.rate) * LOAD).max(1.0);
    let run = bench.run(enough(rate, options));
    let (sample, outcome) = bench.measure(&run, Pace::open(options.seconds, rate))?;
    let p999_us = outcome.answers(202).map_or(f64::NAN, |answers| answers.p999_us);
    let open = OpenLoop { rate, p50_us: sample.p50_us, p99_us: sample.p99_us, p999_us, generator: sample.generator };
    let killed = bench.kill(count)?;
    Ok(Row { state, floors: contestants, ours, open, killed })
}

/// `event_connections`: one state with few and many connections.
pub fn over_connections(name: &str, options: &Options, stocks: &mut Stocks, report: &mut Report) -> Result<()> {
    const CONNECTIONS: [usize; 4] = [1, 16, 64, 256];
    let mut text = String::from(
        "| connections | per second | of F3r | CPU µs each, settled | of F1b | p50 µs | p99 µs | F3r's p50 µs | generator |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut findings = Vec::new();
    for connections in CONNECTIONS {
        let options = &Options { connections, ..options.clone() };
        let state = states::plain(options, connections);
        let stock = stocks.get(state.log, state.ids, options)?;
        let mut bench = StateBench::start(stock.start(options)?, &stock.machines, state, options, connections);
        let standing = [StartedFloor::start(Floor::Bare, options)?, StartedFloor::start(Floor::Disk, options)?];
        let [mut bare, mut disk] = [Floor::Bare, Floor::Disk].map(|floor| Contestant::new(floor.name()));
        let mut contestant = Contestant::new("attache");
        let mut count = options.requests_max;
        for _ in 0..options.rounds {
            let run = bench.run(count);
            bare.samples.push(standing[0].measure(&cycling(&run, options), options)?);
            disk.samples.push(standing[1].measure(&cycling(&run, options), options)?);
            let (sample, _) = bench.measure(&run, Pace::of(options.seconds))?;
            say(&format!("    {connections} connections: {:.0}/s, {:.1} µs", sample.rate, sample.cpu_us));
            count = enough(sample.rate, options);
            contestant.samples.push(sample);
        }
        let commits = contestant.against(&disk, |sample| sample.p50_us);
        let cpu = contestant.spread(|sample| sample.cpu_us);
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "| {connections} | {} | {} | {} | {} | {} | {} | {} | {} |",
            contestant.spread(|sample| sample.rate).show(0),
            contestant.against(&disk, |sample| sample.rate).show(2),
            cpu.show(1),
            contestant.against(&bare, |sample| sample.cpu_us).show(1),
            contestant.spread(|sample| sample.p50_us).show(0),
            contestant.spread(|sample| sample.p99_us).show(0),
            disk.spread(|sample| sample.p50_us).show(0),
            generator(contestant.median(|sample| sample.generator)),
        );
        findings.push(match connections {
            1 => Finding::of("p50 of one connection, in commits of F3r with one sender", commits.show(2))
                .should("≤ 2 commits", commits.at_most(COMMITS)),
            16 => Finding::of("CPU of an event with 16 connections", format!("{} µs", cpu.show(1)))
                .should("≤ 60 µs", cpu.at_most(SIXTEEN_CPU_US)),
            _ => continue,
        });
    }
    report.text(name, &text);
    for finding in findings {
        report.find(name, finding);
    }
    Ok(())
}

/// The floors accept repeated requests.
fn cycling(run: &Run, options: &Options) -> Plan {
    run.plan(Pace { cycle: true, ..Pace::of(options.seconds) })
}

/// The number of requests for all lanes, and no more, because rendering takes time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number far below 2^52")]
fn enough(rate: f64, options: &Options) -> usize {
    const SPARE: f64 = 1.6;
    ((rate * options.seconds * SPARE) as usize).clamp(options.connections * 16, options.requests_max)
}

impl<'a> StateBench<'a> {
    fn start(
        product: Product,
        machines: &'a [Machine],
        state: State,
        options: &'a Options,
        connections: usize,
    ) -> Self {
        Self { product, machines, state, options, connections, epoch: 0 }
    }

    fn run(&mut self, count: usize) -> Run {
        self.epoch += 1;
        Run::new(self.machines, self.connections, count, self.state, self.epoch, self.options.seed)
    }

    /// Sends a run and waits until the server has settled.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn measure(&self, run: &Run, pace: Pace) -> Result<(Sample, Outcome)> {
        let size = tree_size(&mut Client::new(self.product.address)?)?;
        let usage_before = self.product.server.usage()?.cpu_seconds;
        let outcome = process::send(&run.plan(pace), self.product.address)?;
        let taken = self.checked(run, &outcome)?;
        let cpu = settled(&self.product.debtor(size + taken.forwarded.len() as u64))? - usage_before;
        let sample = sample(&outcome, 202, cpu, self.product.server.usage()?.peak_bytes)?;
        Ok((Sample { cpu_us: cpu * 1e6 / taken.acknowledged().max(1) as f64, ..sample }, outcome))
    }

    /// Checks that every response is the expected one.
    fn checked(&self, run: &Run, outcome: &Outcome) -> Result<Acknowledged> {
        let expected: &[u16] = if self.state.mixed { &[202, 409] } else { &[202] };
        if let Some(surprises) = outcome.surprises(expected) {
            return Err(surprises.into());
        }
        let taken = run.taken(outcome);
        let count = |status| outcome.totals.get(&status).copied().unwrap_or_default();
        if (count(202), count(409)) != (taken.acknowledged(), taken.conflicts) {
            return Err(format!(
                "{} × 202 and {} × 409 instead of {} and {}",
                count(202),
                count(409),
                taken.acknowledged(),
                taken.conflicts
            )
            .into());
        }
        Ok(taken)
    }

    /// Kills the server during a run, restarts it, and checks that every acknowledged event is present.
    fn kill(&mut self, count: usize) -> Result<KillResult> {
        const CONNECTIONS: usize = 16;
        const TIME_LIMIT: Duration = Duration::from_mins(1);
        let run = self.run(count * 2);
        let (plan, address) = (run.plan(Pace::of(TIME_LIMIT.as_secs_f64())), self.product.address);
        let mut client = Client::new(address)?;
        let size = tree_size(&mut client)?;
        let load = thread::spawn(move || process::send(&plan, address));
        // The generator has started once events appear in the tree.
        let begin = Instant::now();
        while tree_size(&mut client)? == size && begin.elapsed() < TIME_LIMIT {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_secs_f64(self.options.seconds / 2.0));
        self.product.server.end();
        let outcome = load.join().map_err(|_| "the load panicked")??;
        let start = self.product.kill_and_start()?;
        let taken = run.taken(&outcome);
        if taken.acknowledged() == 0 {
            return Err("nothing was acknowledged before the kill".into());
        }
        let proofs: Vec<_> = taken
            .forwarded
            .iter()
            .map(|(id, place)| {
                self.machines[*place].request("GET", &format!("/api/v1/audit/verify?event_id={id}"), b"")
            })
            .collect();
        let proved = client::send_all(address, &proofs, CONNECTIONS.min(proofs.len()))?;
        let held = population::held(&self.product.database())?;
        let found = proved.iter().filter(|answer| answer.status == 200).count()
            + taken.held.iter().filter(|id| held.contains(id)).count();
        let acknowledged = taken.forwarded.len() + taken.held.len();
        Ok(KillResult { acknowledged, found, under_load: outcome.failures > 0, start })
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| state | per second | of F3r | CPU µs each, settled | of F1b | generator | open loop, per second | p50 ms | p99 ms | \
         p99.9 ms | after kill −9 | start ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Row { state, floors: [bare, disk], ours, open, killed } in rows {
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "| {state} | {} | {} | {} | {} | {} | {:.0} | {:.2} | {:.2} | {:.2} | {} of {}{} | {} |",
            ours.spread(|sample| sample.rate).show(0),
            ours.against(disk, |sample| sample.rate).show(2),
            ours.spread(|sample| sample.cpu_us).show(1),
            ours.against(bare, |sample| sample.cpu_us).show(1),
            generator(ours.median(|sample| sample.generator).max(open.generator)),
            open.rate,
            open.p50_us / 1e3,
            open.p99_us / 1e3,
            open.p999_us / 1e3,
            killed.found,
            killed.acknowledged,
            if killed.under_load { "" } else { ", idle" },
            killed.start.as_millis(),
        );
    }
    text
}

/// Compares the goals with the worst row.
fn verdicts(rows: &[Row]) -> Vec<Finding> {
    let cpu = |row: &Row| row.ours.spread(|sample| sample.cpu_us);
    let worst = |rows: &mut dyn Iterator<Item = &Row>| -> Option<(State, Spread)> {
        let (row, cpu) = rows.map(|row| (row, cpu(row))).max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
        Some((row.state, cpu))
    };
    let mut findings = Vec::new();
    let growing = rows.iter().filter(|row| row.state.ids == crate::event::Ids::Growing);
    if let Some((state, cpu)) = worst(&mut growing.into_iter()) {
        let what = format!("CPU of an event, settled, worst of the states with growing ids: {state}");
        findings.push(Finding::of(what, format!("{} µs", cpu.show(1))).should("≤ 40 µs", cpu.at_most(GROWING_CPU_US)));
    }
    if let Some((state, cpu)) = worst(&mut rows.iter()) {
        let what = format!("CPU of an event, settled, worst of all states: {state}");
        findings.push(Finding::of(what, format!("{} µs", cpu.show(1))).should("≤ 50 µs", cpu.at_most(WORST_CPU_US)));
    }
    if let Some(row) = rows.iter().max_by(|a, b| a.open.p99_us.total_cmp(&b.open.p99_us)) {
        let what = format!("p99 at 70 % of the rate, open loop, worst of all states: {}", row.state);
        let text = format!("{:.1} ms", row.open.p99_us / 1e3);
        findings.push(Finding::of(what, text).should("≤ 5 ms", row.open.p99_us <= OPEN_P99_US));
    }
    let (acknowledged, present) =
        rows.iter().fold((0, 0), |sum, Row { killed, .. }| (sum.0 + killed.acknowledged, sum.1 + killed.found));
    let what = "events acknowledged before kill −9 and found after it";
    findings.push(
        Finding::of(what, format!("{present} of {acknowledged}")).should("all", present == acknowledged && present > 0),
    );
    if let Some(slowest) = rows.iter().map(|row| row.killed.start).max() {
        let text = format!("{} ms", slowest.as_millis());
        findings
            .push(Finding::of("start after kill −9, slowest", text).should("≤ 2 s", slowest <= Duration::from_secs(2)));
    }
    findings
}
