//! Floor and product in turn, A B A B …, so that other load of the machine affects both.

use std::net::SocketAddr;
use std::time::Duration;

use domain::Rng;

use crate::event::{Ids, Machine};
use crate::floor::Floor;
use crate::outcome::{Answers, Outcome};
use crate::plan::{Pace, Plan};
use crate::process::{self, Server, myself, say};
use crate::product::{Product, make_folder};
use crate::report::{Contestant, Report, Sample, Section};
use crate::scenario::{self, Scenario};
use crate::settle::{Debtor, settled};
use crate::stock::Stocks;
use crate::{Options, Result, events, knowledge_api, peers, probe};

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs all measurements that the command line selects.
pub fn everything(options: &Options) -> Result<()> {
    let mut scenarios = scenario::all();
    let names: Vec<&str> = (scenarios.iter().map(|scenario| scenario.name()))
        .chain(EVENT_TRIALS.iter().chain(&peers::ALL).map(|(name, _)| *name))
        .chain(knowledge_api::ALL.iter().map(|trial| trial.name))
        .chain(probe::ALL.iter().map(|(name, _)| *name))
        .collect();
    if options.list {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    if let Some(unknown) = options.names.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("no scenario {unknown}; there are: {}", names.join(", ")).into());
    }
    let asked_for = |name: &str| options.names.iter().any(|other| other == name);
    let wanted = |name: &str| (options.names.is_empty() && !options.peers) || asked_for(name);

    let mut report = Report::new(options)?;
    let mut stocks = Stocks::default();
    if options.floors_only {
        report.section(&floors(options)?);
        return report.publish(&options.report);
    }
    for (name, trial) in EVENT_TRIALS.iter().filter(|(name, _)| wanted(name)) {
        say(&format!("· {name}"));
        trial(name, options, &mut stocks, &mut report)?;
    }
    for scenario in scenarios.iter_mut().filter(|scenario| wanted(scenario.name()) && scenario.runs(options)) {
        say(&format!("· {}", scenario.name()));
        report.section(&compare(scenario.as_mut(), options, &mut stocks)?);
    }
    for trial in
        knowledge_api::ALL.iter().filter(|trial| asked_for(trial.name) || (!trial.named_only && wanted(trial.name)))
    {
        say(&format!("· {}", trial.name));
        (trial.run)(trial.name, options, &mut report)?;
    }
    for (name, probe) in probe::ALL.iter().filter(|(name, _)| wanted(name)) {
        say(&format!("· {name}"));
        for finding in probe(options, &mut stocks)? {
            report.find(name, finding);
        }
    }
    for (name, trial) in peers::ALL.iter().filter(|(name, _)| asked_for(name) || options.peers) {
        say(&format!("· {name}"));
        trial(name, options, &mut stocks, &mut report)?;
    }
    report.publish(&options.report)
}

/// A trial that starts servers on filled folders.
pub type Trial = fn(&str, &Options, &mut Stocks, &mut Report) -> Result<()>;

const EVENT_TRIALS: [(&str, Trial); 2] =
    [("events_forwarded", events::in_states), ("event_connections", events::over_connections)];

/// One scenario against its floors.
fn compare(scenario: &mut dyn Scenario, options: &Options, stocks: &mut Stocks) -> Result<Section> {
    let product = match scenario.log(options) {
        0 => {
            let product = Product::start(options, scenario.upstream())?;
            scenario.prepare(&product, None, options)?;
            product
        }
        log => {
            let stock = stocks.get(log, Ids::Growing, options)?;
            let product = stock.start(options)?;
            scenario.prepare(&product, Some(stock), options)?;
            product
        }
    };
    let mut floors = Vec::new();
    for floor in scenario.floors() {
        floors.push((Standing::start(*floor, options)?, Contestant::new(floor.name())));
    }
    let mut ours = Contestant::new("attache");
    for round in 0..options.rounds {
        let plan = scenario.plan(round, options)?;
        for (floor, contestant) in &mut floors {
            contestant.samples.push(floor.measure(&plan, options)?);
        }
        let before = product.server.usage()?.cpu_seconds;
        let outcome = process::send(&plan, product.address)?;
        // Work that the product has deferred past its responses counts.
        let after = if scenario.writes() {
            settled(&Debtor { tree: None, ..product.debtor(0) })?
        } else {
            product.server.usage()?.cpu_seconds
        };
        let sample = sample(&outcome, scenario.status(), after - before, product.server.usage()?.peak_bytes)?;
        say(&format!("  round {}: {:.0}/s, {:.1} µs", round + 1, sample.rate, sample.cpu_us));
        ours.samples.push(sample);
    }
    let floors = floors.into_iter().map(|(_, contestant)| contestant).collect();
    Ok(Section { name: scenario.name(), goals: scenario.goals(), floors, product: Some(ours) })
}

/// The floors alone, with events of unregistered computers.
fn floors(options: &Options) -> Result<Section> {
    let rng = Rng::seeded(options.seed);
    let machines: Vec<Machine> = (0..options.connections).map(|_| Machine::invent(&rng)).collect();
    let mut floors = Vec::new();
    for floor in [Floor::Bare, Floor::Hash, Floor::Disk] {
        floors.push((floor, Standing::start(floor, options)?, Contestant::new(floor.name())));
    }
    for round in 0..options.rounds {
        let lanes = scenario::plan_of_events(&machines, "memory.stored", round, options.requests_max, options.seed);
        let events = Plan { pace: Pace { cycle: true, ..Pace::of(options.seconds) }, lanes };
        for (floor, standing, contestant) in &mut floors {
            let sample = standing.measure(&events, options)?;
            say(&format!("  round {}: {}: {:.0}/s", round + 1, floor.name(), sample.rate));
            contestant.samples.push(sample);
        }
    }
    let floors = floors.into_iter().map(|(.., contestant)| contestant).collect();
    Ok(Section { name: "floors", goals: Vec::new(), floors, product: None })
}

/// A floor that is ready for repeated measurements.
#[derive(Debug)]
pub struct Standing {
    floor: Floor,
    /// The disk floor has no server: each measurement is a process of its own.
    server: Option<Server>,
}

impl Standing {
    /// Starts the floor's server, if it has one.
    pub fn start(floor: Floor, options: &Options) -> Result<Self> {
        if floor == Floor::Disk {
            return Ok(Self { floor, server: None });
        }
        let folder = make_folder(options)?;
        let server = Server::start(&mut myself(&["floor", floor.command()])?, &folder.path().join("log"), PATIENCE)?;
        Ok(Self { floor, server: Some(server) })
    }

    /// Sends the plan to the floor's server; the disk floor measures itself, with one sender per connection.
    pub fn measure(&self, plan: &Plan, options: &Options) -> Result<Sample> {
        if let Some(server) = &self.server {
            return measure(server, server.ready.parse()?, plan, self.floor.status());
        }
        let folder = make_folder(options)?;
        let (connections, seconds) = (options.connections.to_string(), options.seconds.to_string());
        let outcome = process::measure(&[
            "floor",
            self.floor.command(),
            "--connections",
            &connections,
            "--seconds",
            &seconds,
            "--folder",
            folder.path().to_str().ok_or("the folder's name is no text")?,
        ])?;
        sample(&outcome, self.floor.status(), outcome.own_cpu_seconds, outcome.own_peak_bytes)
    }
}

/// Sends a plan to a server, and measures the server's CPU time and memory.
pub fn measure(server: &Server, address: SocketAddr, plan: &Plan, status: u16) -> Result<Sample> {
    let before = server.usage()?;
    let outcome = process::send(plan, address)?;
    let after = server.usage()?;
    sample(&outcome, status, after.cpu_seconds - before.cpu_seconds, after.peak_bytes)
}

/// The figures of one measurement that took `cpu_seconds` of the server.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn sample(outcome: &Outcome, status: u16, cpu_seconds: f64, peak_bytes: u64) -> Result<Sample> {
    if let Some(surprises) = outcome.surprises(&[status]) {
        say(&format!("  SURPRISES: {surprises}"));
    }
    if !outcome.totals.contains_key(&status) {
        return Err(format!("no answer {status}").into());
    }
    // On a busy machine, all responses of a short run may arrive before or after the measured time.
    let none = Answers::of(Vec::new(), String::new());
    let answers = outcome.answers(status).unwrap_or(&none);
    Ok(Sample {
        rate: outcome.rate(status),
        cpu_us: cpu_seconds * 1e6 / outcome.answers_total.max(1) as f64,
        p50_us: answers.p50_us,
        p99_us: answers.p99_us,
        peak_bytes,
        // A floor without HTTP, whose status is 0, has no generator.
        generator: if status == 0 { f64::NAN } else { outcome.own_cpu_share },
    })
}
