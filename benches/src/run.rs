//! Runs the selected measurements, with floor and product in turn (A B A B …), so that other load on the machine
//! affects both.

use domain::Rng;

use crate::event::{Ids, Machine};
use crate::floor::Floor;
use crate::measurement::{StartedFloor, TrialFn, sample};
use crate::options::{Options, Result};
use crate::plan::{Pace, Plan};
use crate::process::{self, say};
use crate::product::Product;
use crate::report::{Contestant, Report, Section};
use crate::scenario::{self, Scenario};
use crate::settle::{Debtor, settled};
use crate::stock::Stocks;
use crate::{events, knowledge_api, peers, postgres, probe};

/// Runs the selected measurements.
pub fn everything(options: &Options) -> Result<()> {
    let mut scenarios = scenario::all();
    let names: Vec<&str> = (scenarios.iter().map(|scenario| scenario.name()))
        .chain(EVENT_TRIALS.iter().chain(&peers::ALL).map(|(name, _)| *name))
        .chain([postgres::NAME])
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
    if asked_for(postgres::NAME) {
        say(&format!("· {}", postgres::NAME));
        postgres::events(postgres::NAME, options, &mut stocks, &mut report)?;
    }
    for (name, trial) in peers::ALL.iter().filter(|(name, _)| asked_for(name) || options.peers) {
        say(&format!("· {name}"));
        trial(name, options, &mut stocks, &mut report)?;
    }
    report.publish(&options.report)
}

const EVENT_TRIALS: [(&str, TrialFn); 2] =
    [("events_forwarded", events::in_states), ("event_connections", events::over_connections)];

/// Measures one scenario and its floors.
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
        floors.push((StartedFloor::start(*floor, options)?, Contestant::new(floor.name())));
    }
    let mut ours = Contestant::new("attache");
    for round in 0..options.rounds {
        let plan = scenario.plan(round, options)?;
        for (floor, contestant) in &mut floors {
            contestant.samples.push(floor.measure(&plan, options)?);
        }
        let usage_before = product.server.usage()?.cpu_seconds;
        let outcome = process::send(&plan, product.address)?;
        // Work that the product deferred after its responses is part of the cost.
        let after = if scenario.writes() {
            settled(&Debtor { tree: None, ..product.debtor(0) })?
        } else {
            product.server.usage()?.cpu_seconds
        };
        let sample = sample(&outcome, scenario.status(), after - usage_before, product.server.usage()?.peak_bytes)?;
        say(&format!("  round {}: {:.0}/s, {:.1} µs", round + 1, sample.rate, sample.cpu_us));
        ours.samples.push(sample);
    }
    let floors = floors.into_iter().map(|(_, contestant)| contestant).collect();
    Ok(Section { name: scenario.name(), goals: scenario.goals(), floors, product: Some(ours) })
}

/// Measures only the floors, with events of unregistered computers.
fn floors(options: &Options) -> Result<Section> {
    let rng = Rng::seeded(options.seed);
    let machines: Vec<Machine> = (0..options.connections).map(|_| Machine::invent(&rng)).collect();
    let mut floors = Vec::new();
    for floor in [Floor::Bare, Floor::Hash, Floor::Disk] {
        floors.push((floor, StartedFloor::start(floor, options)?, Contestant::new(floor.name())));
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
