//! Medians with their spread, as ratios to the floor of the same round.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use domain::Clock;

use crate::floor::Floor;
use crate::{Options, Result};

/// Everything that a run has found.
#[derive(Debug)]
pub struct Report {
    head: String,
    /// Paths against floors.
    pub sections: Vec<Section>,
    /// Single figures.
    pub findings: Vec<Finding>,
}

/// One scenario.
#[derive(Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// Its goals.
    pub goals: Vec<(Floor, f64)>,
    /// In the order of the goals, where there are any.
    pub floors: Vec<Contestant>,
    /// Absent when only floors were measured.
    pub product: Option<Contestant>,
}

/// Who was measured, round after round.
#[derive(Debug)]
pub struct Contestant {
    name: &'static str,
    /// One per round.
    pub samples: Vec<Sample>,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Good answers per second.
    pub rate: f64,
    /// CPU time of the server per answer, in microseconds.
    pub cpu_us: f64,
    /// Median latency in microseconds; not a number where single latencies mean nothing.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Most memory that the server ever had.
    pub peak_bytes: u64,
}

/// A figure that is no ratio.
#[derive(Debug)]
pub struct Finding {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub found: String,
    /// What it should be, and whether it is; absent where there is no goal.
    pub goal: Option<(String, bool)>,
}

impl Finding {
    /// A figure without a goal.
    pub fn of(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), found: found.into(), goal: None }
    }

    /// Adds the goal, and whether it is met.
    pub fn should(self, goal: impl Into<String>, met: bool) -> Self {
        Self { goal: Some((goal.into(), met)), ..self }
    }
}

impl Contestant {
    /// Nothing measured yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, samples: Vec::new() }
    }

    /// Median over the rounds.
    pub fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.spread(of).median
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(of).collect())
    }

    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    fn peak_megabytes(&self) -> f64 {
        self.samples.iter().map(|sample| sample.peak_bytes).max().unwrap_or_default() as f64 / 1e6
    }
}

/// Median and extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        let median = f64::midpoint(at(last / 2), at(values.len() / 2));
        Self { median, min: at(0), max: at(last) }
    }

    fn show(self, decimals: usize) -> String {
        if !self.median.is_finite() {
            return "–".to_owned();
        }
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", self.median, self.min, self.max)
    }
}

impl Report {
    /// The head: when, on what, how much.
    pub fn new(options: &Options) -> Result<Self> {
        let cpu = fs::read_to_string("/proc/cpuinfo")?;
        let models: Vec<&str> = cpu
            .lines()
            .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map(|(_, model)| model)
            .collect();
        let memory = fs::read_to_string("/proc/meminfo")?;
        let memory = memory.lines().next().unwrap_or_default().trim_start_matches("MemTotal:").trim().to_owned();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let head = format!(
            "# Results of the load harness\n\n{date} · {cores} × {model} · {memory} · Linux {kernel}\n\n\
             {connections} connections, {rounds} rounds of {seconds} s, floor and product in turn, seed {seed}{quick}. \
             Medians, with the least and the greatest in brackets; a ratio compares within one round. The generator shares the \
             cores with the server, so CPU per request is the steadier figure.\n",
            date = Clock::system().now().format("%Y-%m-%d %H:%M UTC"),
            cores = models.len(),
            model = models.first().unwrap_or(&"unknown processor"),
            kernel = kernel.trim(),
            connections = options.connections,
            rounds = options.rounds,
            seconds = options.seconds,
            seed = options.seed,
            quick = if options.quick { ", a quick look and no measurement" } else { "" },
        );
        Ok(Self { head, sections: Vec::new(), findings: Vec::new() })
    }

    /// Prints the report, and keeps it.
    pub fn publish(&self, file: &Path) -> Result<()> {
        let text = self.text();
        println!("{text}");
        if file != Path::new("-") {
            fs::write(file, text)?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = self.head.clone();
        for section in &self.sections {
            text.push_str(&section.text());
        }
        if !self.findings.is_empty() {
            text.push_str("\n## Single figures\n\n| what | found | goal | |\n|---|---|---|---|\n");
        }
        for Finding { what, found, goal } in &self.findings {
            let (goal, verdict) = match goal {
                Some((goal, met)) => (goal.as_str(), verdict(*met)),
                None => ("–", ""),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {what} | {found} | {goal} | {verdict} |");
        }
        text
    }
}

impl Section {
    fn text(&self) -> String {
        let mut text = format!(
            "\n## {}\n\n| | per second | CPU µs each | p50 µs | p99 µs | peak MB |\n|---|---|---|---|---|---|\n",
            self.name
        );
        for contestant in self.floors.iter().chain(&self.product) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.0} |",
                contestant.name,
                contestant.spread(|sample| sample.rate).show(0),
                contestant.spread(|sample| sample.cpu_us).show(1),
                contestant.spread(|sample| sample.p50_us).show(0),
                contestant.spread(|sample| sample.p99_us).show(0),
                contestant.peak_megabytes(),
            );
        }
        if let Some(product) = self.product.as_ref().filter(|_| !self.goals.is_empty()) {
            text.push_str(&self.ratios(product));
        }
        text
    }

    /// One line per floor, and the verdict: the lower bar counts.
    fn ratios(&self, product: &Contestant) -> String {
        let mut text = String::from("\n");
        let mut met = false;
        for (floor, (name, goal)) in self.floors.iter().zip(&self.goals) {
            let pairs = || product.samples.iter().zip(&floor.samples);
            let rate = Spread::of(pairs().map(|(ours, floor)| ours.rate / floor.rate).collect());
            let cpu = Spread::of(pairs().map(|(ours, floor)| ours.cpu_us / floor.cpu_us).collect());
            met |= rate.median >= *goal;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "- **{} of {}**, goal {goal:.2}; CPU per request {} times as much",
                rate.show(2),
                name.name(),
                cpu.show(1)
            );
        }
        text + "- " + verdict(met) + "\n"
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 3.0, 2.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
    }

    #[test]
    fn a_ratio_compares_within_a_round_and_the_lower_bar_counts() {
        let sample = |rate| Sample { rate, cpu_us: 10.0, p50_us: 1.0, p99_us: 2.0, peak_bytes: 1_000_000 };
        let of = |name, rates: [f64; 3]| Contestant { name, samples: rates.map(sample).to_vec() };
        let section = Section {
            name: "path",
            goals: vec![(Floor::Hash, 0.6), (Floor::Disk, 0.5)],
            floors: vec![of("F2 hash", [100.0, 200.0, 400.0]), of("F3 disk", [100.0, 200.0, 400.0])],
            product: Some(of("attache", [55.0, 110.0, 220.0])),
        };
        let text = section.text();
        assert!(text.contains("**0.55 (0.55–0.55) of F2 hash**, goal 0.60"), "{text}");
        assert!(text.ends_with("- met\n"), "{text}");
    }
}
