//! Medians with their spread, as ratios to the floor of the same round, and the report file.
//!
//! The file is a list of sections. A run replaces the sections that it has measured and keeps the others; each states
//! its time of measurement.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use domain::Clock;

use crate::floor::Floor;
use crate::options::{Options, Result};

/// Fraction of a core above which the generator limits the rate.
pub const GENERATOR_SHARE_MAX: f64 = 0.45;
/// The worst tenth of the rounds may miss a goal by this factor.
const WORST_TENTH: f64 = 0.9;

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    stamp: String,
    parts: Vec<Part>,
}

/// A section of the report file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    text: String,
    findings: String,
}

/// The result of a scenario.
#[derive(Debug)]
pub struct Section {
    pub name: &'static str,
    pub goals: Vec<Goal>,
    /// The floors of the same rounds.
    pub floors: Vec<Contestant>,
    /// The product; `None` if only floors were measured.
    pub product: Option<Contestant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At least this fraction of the rate of a floor; with several floors, the lowest requirement counts.
    Rate(Floor, f64),
    /// At least this rate per second.
    PerSecond(f64),
    /// At most this CPU time per response, in microseconds.
    Cpu(f64),
    /// At most this multiple of the CPU time of a floor.
    CpuOf(Floor, f64),
}

/// A measured server with one sample per round.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// Name in the table.
    pub name: &'static str,
    /// The samples, one per round.
    pub samples: Vec<Sample>,
}

/// The figures of one measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Expected responses per second.
    pub rate: f64,
    /// CPU time of the server per response, in microseconds.
    pub cpu_us: f64,
    /// Median latency in microseconds; NaN if latencies are meaningless.
    pub p50_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
    /// Peak memory of the server.
    pub peak_bytes: u64,
    /// The generator's fraction of a core; NaN without a generator.
    pub generator: f64,
}

/// A figure that is not a ratio.
#[derive(Debug)]
pub struct Finding {
    /// Description of the figure.
    pub what: String,
    /// The measured value.
    pub found: String,
    /// The goal, and whether it is met; `None` without a goal.
    pub goal: Option<(String, bool)>,
}

impl Finding {
    /// A figure without a goal.
    pub fn of(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), found: found.into(), goal: None }
    }

    /// Adds a goal, and whether it is met.
    pub fn should(self, goal: impl Into<String>, met: bool) -> Self {
        Self { goal: Some((goal.into(), met)), ..self }
    }
}

impl Contestant {
    /// A contestant without samples.
    pub fn new(name: &'static str) -> Self {
        Self { name, samples: Vec::new() }
    }

    /// Median of a figure over the rounds.
    pub fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.spread(of).median
    }

    /// Median and extremes of a figure over the rounds.
    pub fn spread(&self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(of).collect())
    }

    /// Ratios to another contestant, per round.
    pub fn against(&self, other: &Self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().zip(&other.samples).map(|(ours, theirs)| of(ours) / of(theirs)).collect())
    }

    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    fn peak_megabytes(&self) -> f64 {
        self.samples.iter().map(|sample| sample.peak_bytes).max().unwrap_or_default() as f64 / 1e6
    }
}

/// Median, extremes, and deciles at both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Median of the values.
    pub median: f64,
    min: f64,
    max: f64,
    tenth: f64,
    ninetieth: f64,
}

impl Spread {
    /// The spread of the values of all rounds.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        let median = f64::midpoint(at(last / 2), at(values.len() / 2));
        Self { median, min: at(0), max: at(last), tenth: at(last / 10), ninetieth: at(last - last / 10) }
    }

    /// Whether the median is at least the goal, and the worst decile nearly so.
    pub fn at_least(self, goal: f64) -> bool {
        self.median >= goal && self.tenth >= goal * WORST_TENTH
    }

    /// Whether the median is at most the goal, and the worst decile nearly so.
    pub fn at_most(self, goal: f64) -> bool {
        self.median <= goal && self.ninetieth <= goal / WORST_TENTH
    }

    /// Formats the spread for a table.
    pub fn show(self, decimals: usize) -> String {
        if !self.median.is_finite() {
            return "–".to_owned();
        }
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", self.median, self.min, self.max)
    }
}

impl Report {
    /// An empty report, stamped with time, machine and size.
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
        let stamp = format!(
            "{date} · {cores} × {model} · {memory} · Linux {kernel} · {connections} connections, {rounds} rounds of {seconds} s, \
             seed {seed}{quick}",
            date = Clock::system().now().format("%Y-%m-%d %H:%M UTC"),
            cores = models.len(),
            model = models.first().unwrap_or(&"unknown processor"),
            kernel = kernel.trim(),
            connections = options.connections,
            rounds = options.rounds,
            seconds = options.seconds,
            seed = options.seed,
            quick = if options.quick { "; a quick look and no measurement" } else { "" },
        );
        Ok(Self { stamp, parts: Vec::new() })
    }

    /// Adds the result of a scenario.
    pub fn section(&mut self, section: &Section) {
        let text = section.text();
        self.part(section.name).text.push_str(&text);
    }

    /// Adds text to a section.
    pub fn text(&mut self, name: &str, text: &str) {
        self.part(name).text.push_str(text);
    }

    /// Adds a figure to a section.
    pub fn find(&mut self, name: &str, finding: Finding) {
        let Finding { what, found, goal } = finding;
        let (goal, verdict) = match &goal {
            Some((goal, met)) => (goal.as_str(), verdict(*met)),
            None => ("–", ""),
        };
        let line = format!("| {what} | {found} | {goal} | {verdict} |\n");
        let findings = &mut self.part(name).findings;
        if findings.is_empty() {
            findings.push_str("| what | found | goal | |\n|---|---|---|---|\n");
        }
        findings.push_str(&line);
    }

    fn part(&mut self, name: &str) -> &mut Part {
        let place = self.parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
            self.parts.push(Part { name: name.to_owned(), text: String::new(), findings: String::new() });
            self.parts.len() - 1
        });
        &mut self.parts[place]
    }

    /// Prints the results and updates the report file.
    pub fn publish(&self, file: &Path) -> Result<()> {
        let sections = self.sections();
        for (name, text) in &sections {
            println!("## {name}\n\n{text}");
        }
        if file != Path::new("-") {
            let before = if file.exists() { fs::read_to_string(file)? } else { String::new() };
            fs::write(file, merged(&before, &sections))?;
        }
        Ok(())
    }

    fn sections(&self) -> Vec<(String, String)> {
        let text = |Part { name, text, findings }: &Part| {
            let tables = [text.trim(), findings.trim()].into_iter().filter(|table| !table.is_empty());
            (name.clone(), format!("{}\n\n{}\n", self.stamp, tables.collect::<Vec<_>>().join("\n\n")))
        };
        self.parts.iter().map(text).collect()
    }
}

/// Text above all sections.
const HEAD: &str = "# Results of the load harness

Each section says when it was measured; `attache-bench` replaces the sections that it measures and keeps the others.
Medians over the rounds, with the least and the greatest in brackets. Contestants are measured in turn, and a ratio compares
within one round. The generator shares the cores with the server, so CPU per request is the steadier figure; a rate is invalid
when the generator took more than 0.45 of a core. [README.md](README.md) says what each section measures.
";

/// Replaces existing sections of a file, and appends new ones.
fn merged(before: &str, sections: &[(String, String)]) -> String {
    let mut all: Vec<(String, String)> = Vec::new();
    for section in before.split("\n## ").skip(1) {
        let (name, text) = section.split_once('\n').unwrap_or((section, ""));
        all.push((name.to_owned(), text.trim().to_owned() + "\n"));
    }
    for (name, text) in sections {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone_from(text),
            None => all.push((name.clone(), text.clone())),
        }
    }
    let mut text = HEAD.to_owned();
    for (name, section) in all {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n## {name}\n\n{section}");
    }
    text
}

impl Section {
    fn text(&self) -> String {
        let mut text = String::from(
            "| | per second | CPU µs each | p50 µs | p99 µs | peak MB | generator |\n|---|---|---|---|---|---|---|\n",
        );
        for contestant in self.floors.iter().chain(&self.product) {
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.0} | {} |",
                contestant.name,
                contestant.spread(|sample| sample.rate).show(0),
                contestant.spread(|sample| sample.cpu_us).show(1),
                contestant.spread(|sample| sample.p50_us).show(0),
                contestant.spread(|sample| sample.p99_us).show(0),
                contestant.peak_megabytes(),
                generator(contestant.median(|sample| sample.generator)),
            );
        }
        if let Some(product) = &self.product {
            text.push_str(&self.verdicts(product));
        }
        text
    }

    /// One line per goal.
    fn verdicts(&self, product: &Contestant) -> String {
        let mut text = String::new();
        let rates: Vec<bool> =
            self.goals.iter().filter_map(|goal| self.rate(product, goal)).map(|(_, met)| met).collect();
        let any = rates.iter().any(|&met| met);
        for goal in &self.goals {
            let cpu = product.spread(|sample| sample.cpu_us);
            let line = match *goal {
                Goal::Rate(floor, least) => self.rate(product, goal).map(|(rate, _)| {
                    format!("**{} of the rate of {}**, goal {least:.2}: {}", rate.show(2), floor.name(), verdict(any))
                }),
                Goal::PerSecond(least) => {
                    let rate = product.spread(|sample| sample.rate);
                    Some(format!("**{}/s**, goal {least:.0}: {}", rate.show(0), verdict(rate.at_least(least))))
                }
                Goal::Cpu(most) => Some(format!(
                    "**{} µs of CPU**, goal {most:.0} at most: {}",
                    cpu.show(1),
                    verdict(cpu.at_most(most))
                )),
                Goal::CpuOf(floor, most) => self.against(product, floor, |sample| sample.cpu_us).map(|cpu| {
                    let (name, met) = (floor.name(), verdict(cpu.at_most(most)));
                    format!("**{} times the CPU of {name}**, goal {most:.2} at most: {met}", cpu.show(2))
                }),
            };
            if let Some(line) = line {
                // Writing to a `String` cannot fail.
                let _ = write!(text, "\n- {line}");
            }
        }
        if text.is_empty() { text } else { text + "\n" }
    }

    fn rate(&self, product: &Contestant, goal: &Goal) -> Option<(Spread, bool)> {
        let Goal::Rate(floor, least) = *goal else { return None };
        let rate = self.against(product, floor, |sample| sample.rate)?;
        Some((rate, rate.at_least(least)))
    }

    /// Ratios of the product to a floor, per round.
    fn against(&self, product: &Contestant, floor: Floor, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        let floor = self.floors.iter().find(|contestant| contestant.name == floor.name())?;
        Some(product.against(floor, of))
    }
}

/// The generator's fraction of a core, marked if it limits the rate.
pub fn generator(share: f64) -> String {
    match share {
        share if !share.is_finite() => "–".to_owned(),
        share if share > GENERATOR_SHARE_MAX => format!("{share:.2}, rate invalid"),
        share => format!("{share:.2}"),
    }
}

/// The mark of a goal in a table.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: f64, cpu_us: f64) -> Sample {
        Sample { rate, cpu_us, p50_us: 1.0, p99_us: 2.0, peak_bytes: 1_000_000, generator: 0.5 }
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
    }

    #[test]
    fn a_goal_is_missed_when_its_median_is_or_the_worst_tenth_is_far_off() {
        assert!(Spread::of(vec![10.0, 9.5, 11.0, 10.5, 10.0]).at_least(10.0));
        assert!(!Spread::of(vec![10.0, 5.0, 5.0, 10.5, 10.0]).at_least(10.0));
        assert!(!Spread::of(vec![9.9, 9.9, 9.9]).at_least(10.0));
        assert!(Spread::of(vec![10.0, 10.5, 9.0]).at_most(10.0));
        assert!(!Spread::of(vec![10.0, 12.0, 12.0, 9.0, 9.0]).at_most(10.0));
        assert!(!Spread::of(vec![10.1, 10.1, 10.1]).at_most(10.0));
    }

    #[test]
    fn a_ratio_compares_within_a_round_and_the_lower_bar_of_two_rates_counts() {
        let of = |name, values: [(f64, f64); 3]| Contestant {
            name,
            samples: values.map(|(rate, cpu)| sample(rate, cpu)).to_vec(),
        };
        let section = Section {
            name: "path",
            goals: vec![
                Goal::Rate(Floor::Hash, 0.6),
                Goal::Rate(Floor::Disk, 0.5),
                Goal::Cpu(30.0),
                Goal::CpuOf(Floor::Hash, 1.5),
            ],
            floors: vec![
                of("F2r hash", [(100.0, 10.0), (200.0, 15.0), (400.0, 10.0)]),
                of("F3r disk", [(100.0, 10.0), (200.0, 20.0), (400.0, 10.0)]),
            ],
            product: Some(of("attache", [(55.0, 20.0), (110.0, 30.0), (220.0, 20.0)])),
        };
        let text = section.text();
        assert!(text.contains("**0.55 (0.55–0.55) of the rate of F2r hash**, goal 0.60: met"), "{text}");
        assert!(text.contains("**20.0 (20.0–30.0) µs of CPU**, goal 30 at most: met"), "{text}");
        assert!(
            text.contains("**2.00 (2.00–2.00) times the CPU of F2r hash**, goal 1.50 at most: **missed**"),
            "{text}"
        );
        assert!(text.contains("| 0.50, rate invalid |"), "{text}");
    }

    #[test]
    fn a_run_replaces_its_own_sections_and_keeps_the_rest() {
        let before = "# Old head\n\nwords\n\n## one\n\nfirst\n\n## two\n\n| a |\n\nsecond\n";
        let after = merged(before, &[("one".into(), "new\n".into()), ("three".into(), "third\n".into())]);
        assert!(after.ends_with("\n## one\n\nnew\n\n## two\n\n| a |\n\nsecond\n\n## three\n\nthird\n"), "{after}");
        assert!(after.starts_with(HEAD));
        assert_eq!(merged(&after, &[]), after);
    }
}
