//! A month of a team that works with coding agents: the events that `attache demo --keep` leaves behind, and the pictures of the documents show.
//!
//! The month is the same each time. Its events are those of the hooks of coding agents (`docs/hooks.md`).

use chrono::TimeDelta;
use domain::Digest;
use domain::consent::ConsentLevel;
use domain::lane::Lane;
use serde_json::{Map, Value, json};

/// Number of days.
pub const DAYS: u16 = 30;

/// The computers, each with the agent that works there.
pub const COMPUTERS: [(&str, &str); 4] = [
    ("Ada's laptop", "claude-code"),
    ("Studio", "cursor"),
    ("CI runner", "codex"),
    ("Ben's workstation", "gemini-cli"),
];

/// The models of the agents, in the order of [`COMPUTERS`].
const MODELS: [&str; 4] = ["claude-sonnet-4-5", "claude-opus-4-5", "gpt-5-codex", "gemini-2.5-pro"];

/// Most sessions of a working day, in the order of [`COMPUTERS`].
const SESSIONS_MAX: [u64; 4] = [5, 4, 4, 3];

/// What people ask: project, prompt, files, and a command with the percentage of its runs that fail.
const TASKS: [(&str, &str, &[&str], &str, u64); 12] = [
    (
        "shop",
        "Retry the payment when the bank does not answer",
        &["src/payment.rs", "tests/payment.rs"],
        "cargo test payment",
        12,
    ),
    (
        "shop",
        "Show the delivery date in the cart",
        &["src/cart.rs", "templates/cart.html", "tests/cart.rs"],
        "cargo test cart",
        10,
    ),
    ("shop", "The checkout loses the voucher on reload", &["src/checkout.rs", "src/session.rs"], "npm run e2e", 55),
    ("shop", "Make the search box usable by keyboard", &["web/search.ts", "web/search.css"], "npm run e2e", 50),
    (
        "billing",
        "Round invoices to cents in one place",
        &["src/money.rs", "src/invoice.rs", "tests/money.rs"],
        "cargo test money",
        8,
    ),
    ("billing", "Export invoices of a year as CSV", &["src/export.rs", "handbook/export.md"], "cargo test export", 15),
    ("billing", "Why is the nightly import slow?", &["src/import.rs"], "cargo bench import", 5),
    ("infra", "Move the staging database to the new host", &["staging/database.tf"], "terraform plan", 20),
    (
        "infra",
        "Rotate the certificates automatically",
        &["roles/tls/tasks.yml", "roles/tls/renew.sh"],
        "ansible-playbook tls.yml --check",
        18,
    ),
    (
        "infra",
        "Alert when a backup is older than a day",
        &["monitoring/backup.yml"],
        "promtool check rules monitoring/backup.yml",
        6,
    ),
    ("handbook", "Write down how a release is made", &["pages/releases.md"], "npx markdownlint pages", 9),
    (
        "handbook",
        "Shorten the first day of new colleagues",
        &["pages/first-day.md", "pages/accounts.md"],
        "npx markdownlint pages",
        9,
    ),
];

/// Members of payloads that are content.
const CONTENT: [&str; 5] = ["prompt", "query", "input", "file_path", "cwd"];

/// An event of the month.
#[derive(Debug, Clone, PartialEq)]
pub struct MonthEvent {
    /// Index in [`COMPUTERS`].
    pub computer: usize,
    /// Time since the start of the first day.
    pub at: TimeDelta,
    /// Type of the event.
    pub event_type: &'static str,
    /// The lane of the type.
    pub lane: Lane,
    /// Number of its session; the month counts them from 0.
    pub session: u64,
    /// The name of its project.
    pub project: &'static str,
    /// Its payload with content.
    members: Map<String, Value>,
}

impl MonthEvent {
    /// The payload that a level permits.
    pub fn payload(&self, level: ConsentLevel) -> Map<String, Value> {
        let is_shown = |name: &str| level == ConsentLevel::Full || !CONTENT.contains(&name);
        self.members.clone().into_iter().filter(|(name, _)| is_shown(name)).collect()
    }
}

/// All events in the order of their times. The first day is a Monday.
pub fn events() -> Vec<MonthEvent> {
    let mut month = Month { dice: Dice(7), events: Vec::new(), session: 0 };
    for day in 0..i64::from(DAYS) {
        for (computer, most) in SESSIONS_MAX.into_iter().enumerate() {
            let is_weekend = day % 7 > 4;
            let sessions = if is_weekend { month.dice.below(4) / 3 } else { 1 + month.dice.below(most) };
            let mut at = TimeDelta::days(day) + TimeDelta::hours(8) + month.dice.seconds(5_400);
            for _ in 0..sessions {
                at = month.session(computer, at) + month.dice.seconds(4_800);
            }
        }
    }
    month.events.sort_by_key(|event| event.at);
    month.events
}

/// Numbers that look like chance and are the same each time.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn seconds(&mut self, most: u64) -> TimeDelta {
        TimeDelta::seconds(i64::try_from(10 + self.below(most)).unwrap_or_default())
    }
}

struct Month {
    dice: Dice,
    events: Vec<MonthEvent>,
    session: u64,
}

/// A session while it is written.
struct Work<'m> {
    month: &'m mut Month,
    computer: usize,
    at: TimeDelta,
    project: &'static str,
}

impl Work<'_> {
    fn step(&mut self, event_type: &'static str, lane: Lane, mut payload: Value) {
        payload["cwd"] = json!(format!("/home/dev/{}", self.project));
        let Self { computer, at, project, .. } = *self;
        self.month.events.push(MonthEvent {
            computer,
            at,
            event_type,
            lane,
            session: self.month.session,
            project,
            members: payload.as_object().cloned().unwrap_or_default(),
        });
    }

    fn wait(&mut self, most: u64) {
        self.at += self.month.dice.seconds(most);
    }

    fn prompt(&mut self, text: &str) {
        self.step("llm.completed", Lane::Llm, json!({ "activity": "prompt_submitted", "prompt": text }));
        self.wait(20);
    }

    fn answer(&mut self) {
        let dice = &mut self.month.dice;
        let (input, output) = (4_000 + dice.below(60_000), 80 + dice.below(2_400));
        let payload = json!({
            "activity": "completed", "model": MODELS[self.computer], "input_tokens": input, "output_tokens": output,
            "duration_ms": 900 + dice.below(14_000),
        });
        self.step("llm.completed", Lane::Llm, payload);
    }

    /// Runs a command; returns whether it succeeded.
    fn run(&mut self, command: &str, fails_percent: u64) -> bool {
        let succeeded = self.month.dice.below(100) >= fails_percent;
        let payload = json!({
            "activity": "tool_finished", "skill": "Bash", "succeeded": succeeded, "exit_status": u8::from(!succeeded),
            "duration_ms": 300 + self.month.dice.below(42_000), "input": { "command": command },
        });
        self.step("skill.invoked", Lane::Skill, payload);
        self.wait(60);
        succeeded
    }

    fn edit(&mut self, file: &str) {
        let path = format!("/home/dev/{}/{file}", self.project);
        let payload = json!({
            "activity": "file_edited", "skill": "Edit", "succeeded": true, "duration_ms": 8 + self.month.dice.below(40),
            "file": Digest::of(path.as_bytes()).to_string()[..16], "file_path": path,
        });
        self.step("skill.invoked", Lane::Skill, payload);
        self.wait(45);
    }
}

impl Month {
    /// Writes a session that begins at a time; returns its end.
    fn session(&mut self, computer: usize, at: TimeDelta) -> TimeDelta {
        let place = usize::try_from(self.dice.below(TASKS.len() as u64)).unwrap_or_default();
        let (project, prompt, files, command, fails_percent) = TASKS[place];
        let mut work = Work { month: self, computer, at, project };
        let session = |activity: &str| json!({ "activity": activity, "skill": "session", "model": MODELS[computer] });
        work.step("skill.invoked", Lane::Skill, session("session_started"));
        work.wait(40);
        work.prompt(prompt);
        let recalled = json!({ "query": prompt, "results": 1 + work.month.dice.below(4), "duration_ms": 8 + work.month.dice.below(30) });
        work.step("memory.recalled", Lane::Memory, recalled);
        work.wait(15);
        work.run("git status --short", 0);
        for file in files {
            work.edit(file);
        }
        if work.month.dice.below(9) == 0 {
            work.step("security.finding", Lane::Security, json!({ "activity": "permission_requested", "rule": "permission", "severity": "info", "skill": "Bash" }));
            work.wait(240);
        }
        // Until it works, or the third failure.
        for _ in 0..3 {
            if work.run(command, fails_percent) {
                break;
            }
            work.answer();
            work.wait(30);
            work.edit(files[0]);
        }
        work.answer();
        if work.month.dice.below(3) == 0 {
            work.wait(900);
            work.prompt("Commit it with a short message");
            work.run("git commit --all", 0);
            work.answer();
        }
        if work.month.dice.below(40) == 0 {
            work.step(
                "security.blocked",
                Lane::Security,
                json!({ "activity": "permission_denied", "rule": "permission", "action": "denied", "skill": "Bash" }),
            );
        }
        work.wait(30);
        work.step("skill.invoked", Lane::Skill, session("session_ended"));
        let end = work.at;
        self.session += 1;
        end
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_month_is_one_of_a_team() {
        let events = events();
        assert_eq!(events, super::events(), "the same each time");
        assert!((2_000..4_000).contains(&events.len()), "{}", events.len());
        assert!(events.is_sorted_by_key(|event| event.at));
        assert!(events.last().unwrap().at < TimeDelta::days(i64::from(DAYS)));
        let computers: BTreeSet<usize> = events.iter().map(|event| event.computer).collect();
        assert_eq!(computers.len(), COMPUTERS.len());
        let failed = |command: &str| {
            let is = |event: &&MonthEvent| {
                event.members.get("input").is_some_and(|input| input["command"] == command)
                    && event.members.get("succeeded") == Some(&json!(false))
            };
            events.iter().filter(is).count()
        };
        let others = TASKS.iter().filter(|task| task.3 != "npm run e2e").map(|task| failed(task.3)).max();
        assert!(failed("npm run e2e") > 2 * others.unwrap(), "one command fails the most");
    }
}
