//! Figures that are not ratios: latency at half load, overload, start, lag, memory. To add one, write a function and
//! add a line here.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::event::{Chain, Ids, Machine};
use crate::floor::Floor;
use crate::measurement::StartedFloor;
use crate::options::{Options, Result};
use crate::outcome::{Answers, Outcome};
use crate::plan::{Pace, Plan};
use crate::product::{Product, Upstream};
use crate::report::{Finding, Spread};
use crate::scenario::{claim_poll, plan_of_events};
use crate::stock::Stocks;
use crate::{client, population, process};

/// Measures some figures.
pub type Probe = fn(&Options, &mut Stocks) -> Result<Vec<Finding>>;

/// All probes in the order of the report.
pub const ALL: [(&str, Probe); 8] = [
    ("one_connection", one_connection),
    ("added_latency", added_latency),
    ("overload", overload),
    ("checkpoint_lag", checkpoint_lag),
    ("start", start),
    ("claim_memory", claim_memory),
    ("device_memory", device_memory),
    ("request_memory", request_memory),
];

const TEMPORARILY_UNAVAILABLE: u16 = 424;

/// One connection, durable, embedded: latency of a single sender relative to a commit of the disk, in turn.
fn one_connection(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    let options = &Options { connections: 1, ..options.clone() };
    let product = Product::start(options, Upstream::Embedded)?;
    let disk = StartedFloor::start(Floor::Disk, options)?;
    let machines = product.register(1, options)?;
    let (mut commits, mut ours, mut theirs, mut p99) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let plan = events(&machines, round, options);
        let commit = disk.measure(&plan, options)?.p50_us;
        let outcome = process::send(&plan, product.address)?;
        let answers = of(&outcome, 202)?;
        commits.push(answers.p50_us / commit);
        ours.push(answers.p50_us);
        theirs.push(commit);
        p99.push(answers.p99_us);
    }
    let commits = Spread::of(commits);
    let text = format!(
        "p50 {} µs, p99 {} µs; a commit {} µs: {} commits",
        Spread::of(ours).show(0),
        Spread::of(p99).show(0),
        Spread::of(theirs).show(0),
        commits.show(2)
    );
    Ok(vec![Finding::of("event forwarded, one connection", text).should("p50 ≤ 2 commits", commits.at_most(2.0))])
}

/// Latency that forwarding over HTTP adds to the upstream's, at half of the maximum rate.
fn added_latency(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    let product = Product::start(options, Upstream::External(Duration::ZERO))?;
    let upstream = product.upstream.ok_or("no external upstream")?;
    let machines = product.register(options.connections, options)?;
    let full = process::send(&events(&machines, 0, options), product.address)?.rate(202);
    let half = |round| {
        let plan = events(&machines, round, options);
        Plan { pace: Pace::open(options.seconds, full / 2.0), ..plan }
    };
    let direct = process::send(&half(1), upstream)?;
    let through = process::send(&half(1), product.address)?;
    let (direct, through) = (of(&direct, 200)?.clone(), of(&through, 202)?.clone());
    let added = |ours: f64, theirs: f64| (ours - theirs) / 1000.0;
    let (p50, p99) = (added(through.p50_us, direct.p50_us), added(through.p99_us, direct.p99_us));
    let what = format!("latency added to an instant upstream at half load ({:.0}/s)", full / 2.0);
    let text = format!("p50 {p50:.2} ms, p99 {p99:.2} ms");
    Ok(vec![Finding::of(what, text).should("p50 ≤ 0.6 ms, p99 ≤ 2.5 ms", p50 <= 0.6 && p99 <= 2.5)])
}

/// Five times the rate of a slow upstream. Senders retry rejected requests.
fn overload(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    const UPSTREAM_DELAY: Duration = Duration::from_millis(50);
    const SENDERS_AT_CAPACITY: usize = 256;
    const SENDERS: usize = 2048;
    let product = Product::start(options, Upstream::External(UPSTREAM_DELAY))?;
    let machines = product.register(SENDERS, options)?;
    let calm = Plan { pace: again(options, None), ..events(&machines[..SENDERS_AT_CAPACITY], 0, options) };
    let capacity = process::send(&calm, product.address)?.rate(202);
    let usage_before = product.server.usage()?;
    let storm = Plan { pace: again(options, Some(capacity * 5.0)), ..events(&machines, 1, options) };
    let outcome = process::send(&storm, product.address)?;
    let after = product.server.usage()?;

    let admitted = of(&outcome, 202)?;
    let offered = outcome.rate(202) + outcome.rate(TEMPORARILY_UNAVAILABLE);
    let mut findings = vec![
        Finding::of(
            format!("overload: offered {offered:.0}/s ({} sent late), capacity {capacity:.0}/s", outcome.late),
            format!("{:.0}/s admitted, p99 {:.0} ms", outcome.rate(202), admitted.p99_us / 1000.0),
        )
        .should("admitted p99 ≤ 100 ms", admitted.p99_us <= 100_000.0),
        Finding::of(
            "overload: peak memory before and after",
            format!("{} → {}", megabytes(usage_before.peak_bytes), megabytes(after.peak_bytes)),
        ),
    ];
    findings.push(match outcome.answers(TEMPORARILY_UNAVAILABLE) {
        Some(refused) => Finding::of(
            "overload: time to refuse",
            format!("p50 {:.1} ms, p99 {:.1} ms", refused.p50_us / 1e3, refused.p99_us / 1e3),
        )
        .should("p99 ≤ 5 ms", refused.p99_us <= 5_000.0),
        None => Finding::of("overload: time to refuse", "nothing was refused").should("refusals at 5×", false),
    });
    if let Some(surprises) = outcome.surprises(&[202, TEMPORARILY_UNAVAILABLE]) {
        findings.push(Finding::of("overload: surprises", surprises).should("none", false));
    }
    Ok(findings)
}

/// Delay between the receipt of an event and its signed checkpoint, at full load.
fn checkpoint_lag(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    let product = Product::start(options, Upstream::Embedded)?;
    let machines = product.register(options.connections + 1, options)?;
    let (sampler, senders) = machines.split_last().ok_or("no machines")?;
    let (address, plan) = (product.address, events(senders, 0, options));
    let load = thread::spawn(move || process::send(&plan, address));
    let mut chain = Chain::new(sampler, "memory.stored", 0, options.seed + 1);
    let mut lags = vec![lag_of(&mut chain, sampler, product.address)?];
    while !load.is_finished() {
        lags.push(lag_of(&mut chain, sampler, product.address)?);
    }
    let outcome = load.join().map_err(|_| "the load panicked")??;
    lags.sort_unstable();
    let (median, worst) = (lags[lags.len() / 2], lags[lags.len() - 1]);
    let what = format!("checkpoint lag at {:.0} events/s, {} samples", outcome.rate(202), lags.len());
    let text = format!("median {} ms, worst {} ms", median.as_millis(), worst.as_millis());
    Ok(vec![Finding::of(what, text).should("≤ 0.6 s", worst <= Duration::from_millis(600))])
}

/// Sends one event and requests its proof until it is included.
fn lag_of(chain: &mut Chain, machine: &Machine, address: SocketAddr) -> Result<Duration> {
    const TIME_LIMIT: Duration = Duration::from_secs(30);
    const ASK_EVERY: Duration = Duration::from_millis(10);
    let mut client = client::Client::new(address)?;
    let (event_id, event) = chain.next();
    client.send(&event)?.json(202)?;
    let receipt = Instant::now();
    let ask = machine.request("GET", &format!("/api/v1/audit/verify?event_id={event_id}"), b"");
    while client.send(&ask)?.json(200)?["status"] != "included" {
        if receipt.elapsed() > TIME_LIMIT {
            return Err("an event does not get into a checkpoint".into());
        }
        thread::sleep(ASK_EVERY);
    }
    Ok(receipt.elapsed())
}

/// Start on a filled folder: after kill −9 under load, and again.
fn start(options: &Options, stocks: &mut Stocks) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for &log in &options.log {
        let mut product = stocks.get(log, Ids::Growing, options)?.start(options)?;
        let machines = product.register(options.connections, options)?;
        let (address, plan) = (product.address, events(&machines, 0, options));
        let load = thread::spawn(move || process::send(&plan, address));
        thread::sleep(Duration::from_secs_f64(options.seconds * 0.75));
        let mut starts = vec![product.kill_and_start()?];
        load.join().map_err(|_| "the load panicked")??;
        for _ in 0..options.rounds {
            starts.push(product.kill_and_start()?);
        }
        let (first, worst) = (starts[0], starts[1..].iter().max().copied().unwrap_or_default());
        let found = |took: Duration| format!("{} ms", took.as_millis());
        findings.extend([
            Finding::of(format!("start after kill −9 under load with {log} events"), found(first))
                .should("≤ 2 s", first <= Duration::from_secs(2)),
            Finding::of(format!("start with {log} events, worst of {}", options.rounds), found(worst))
                .should("≤ 1 s", worst <= Duration::from_secs(1)),
        ]);
    }
    Ok(findings)
}

/// Memory must not grow with requests while `/metrics` is not read. Polls of one code are the cheapest requests that
/// pass through all layers.
#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
fn request_memory(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    /// Allowance for allocators and caches: 2 bytes per request.
    const GROWTH_BYTES_MAX: u64 = 2_000_000;
    const POLLED: usize = 64;
    let wanted: u64 = if options.quick { 5_000 } else { 1_000_000 };
    let product = Product::start(options, Upstream::Embedded)?;
    let polls = population::waiting(&product.database(), POLLED, options.seed)?;
    let poll = |wanted: u64| -> Result<u64> {
        let mut sent = 0;
        while sent < wanted {
            let plan = Plan::cycling(&polls, options.connections, options.seconds);
            sent += process::send(&plan, product.address)?.answers_total;
        }
        Ok(sent)
    };
    poll(wanted / 10)?;
    let usage_before = product.server.usage()?.resident_bytes;
    let polled = poll(wanted)?;
    let grown = product.server.usage()?.resident_bytes.saturating_sub(usage_before);
    let what = format!("resident memory after {polled} more requests, /metrics never read");
    let text = format!("{} + {:.1} MB", megabytes(usage_before), grown as f64 / 1e6);
    Ok(vec![Finding::of(what, text).should("≤ 2 MB more", grown <= GROWTH_BYTES_MAX)])
}

/// Memory per live claim: registered, unconfirmed, polled once.
fn claim_memory(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    let polls = |product: &Product, count, _seed| {
        Ok(product.register_agents(count)?.iter().map(|token| claim_poll(token)).collect())
    };
    memory_each("live claim", 1.5, polls, options)
}

/// Memory per pending device code, polled once.
fn device_memory(options: &Options, _stocks: &mut Stocks) -> Result<Vec<Finding>> {
    let polls = |product: &Product, count, seed| population::waiting(&product.database(), count, seed);
    memory_each("pending device code", 1.0, polls, options)
}

/// Memory per object that `make` creates and a poll keeps alive.
#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
fn memory_each(
    what: &str,
    goal_kilobytes: f64,
    make: impl Fn(&Product, usize, u64) -> Result<Vec<Bytes>>,
    options: &Options,
) -> Result<Vec<Finding>> {
    const CONNECTIONS: usize = 32;
    const WARM: usize = 100;
    let counts: &[usize] = if options.quick { &[1_000] } else { &[1_000, 10_000, 100_000] };
    let mut findings = Vec::new();
    for &count in counts {
        let product = Product::start(options, Upstream::Embedded)?;
        // The first ones fill buffers and caches, and are not counted.
        client::send_all(product.address, &make(&product, WARM, options.seed)?, CONNECTIONS)?;
        let usage_before = product.server.usage()?.resident_bytes;
        client::send_all(product.address, &make(&product, count - WARM, options.seed + 1)?, CONNECTIONS)?;
        let after = product.server.usage()?.resident_bytes;
        let each = after.saturating_sub(usage_before) as f64 / (count - WARM) as f64;
        let text = format!("{:.1} KB ({} → {})", each / 1024.0, megabytes(usage_before), megabytes(after));
        findings.push(
            Finding::of(format!("memory per {what}, {count} of them"), text)
                .should(format!("≤ {goal_kilobytes} KB"), each <= goal_kilobytes * 1024.0),
        );
    }
    Ok(findings)
}

fn events(machines: &[Machine], round: u32, options: &Options) -> Plan {
    let lanes = plan_of_events(machines, "memory.stored", round, options.requests_max, options.seed);
    Plan { pace: Pace::of(options.seconds), lanes }
}

/// The pace of senders that retry rejected requests.
fn again(options: &Options, rate: Option<f64>) -> Pace {
    Pace { again_after: Some(TEMPORARILY_UNAVAILABLE), rate, ..Pace::of(options.seconds) }
}

fn of(outcome: &Outcome, status: u16) -> Result<&Answers> {
    outcome.answers(status).ok_or_else(|| format!("no answer {status}: {:?}", outcome.surprises(&[status])).into())
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
