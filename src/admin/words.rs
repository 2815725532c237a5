//! The state of actors and the changes of a reload in words, as the operator's page, the console and `attache top` show it.

use actors::ActorKind;
use supervision::root::{Budget, LastPass, MessageTimes, Node, Status};
use wire::ops::{ReloadReport, SettingChanged};

/// The phase of an actor's life, and the class of its badge.
pub fn status_words(node: &Node) -> (&'static str, &'static str) {
    match node.status {
        Status::Running => ("running", "is-live"),
        Status::Waiting => ("waits to restart", "is-idle"),
        Status::Starting => ("starting", "is-idle"),
        Status::Stopping => ("stopping", "is-ended"),
        Status::Stopped => ("stopped", "is-ended"),
    }
}

/// The task of a kind of actor, as one sentence; empty for a kind of another version.
pub fn purpose(kind: &str) -> &'static str {
    ActorKind::ALL.iter().find(|one| one.name() == kind).map_or("", |one| one.description())
}

/// Failing passes, or the newest failure; `None` if there are none.
pub fn trouble(node: &Node) -> Option<String> {
    let failing = node.failing.as_ref();
    let failing =
        failing.map(|failing| format!("passes fail since {} s: {}", failing.since_seconds_ago, failing.error));
    let failed = node.failures.first().map(|failure| format!("{} s ago: {}", failure.seconds_ago, failure.error));
    failing.or(failed)
}

/// The messages a minute with the 99th percentiles of wait and handling, or the time of the last pass.
pub fn pace_words(node: &Node) -> Option<String> {
    let of_messages = |times: MessageTimes| {
        let (number, wait, handling) = (grouped(times.handled_per_minute), times.wait_p99_us, times.handler_p99_us);
        format!("{number} · {} + {}", micros(wait), micros(handling))
    };
    let of_pass = |pass: LastPass| format!("pass: {}", took(pass));
    node.pass.map(of_pass).or(node.times.map(of_messages))
}

/// The length of a pass.
pub fn took(LastPass { took_ms, .. }: LastPass) -> String {
    if took_ms == 0 { "< 1 ms".to_owned() } else { micros(took_ms.saturating_mul(1_000)) }
}

/// A time in its largest unit.
pub fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

/// The effect of the next failures; `None` while the budget is whole.
pub fn budget_words(Budget { restarts_left, more_in_ms }: Budget) -> Option<String> {
    let seconds = more_in_ms?.div_ceil(1_000);
    Some(match restarts_left {
        0 => format!("another failure within {seconds} s ends the process"),
        1 => format!("1 restart left, one more in {seconds} s"),
        left => format!("{left} restarts left, one more in {seconds} s"),
    })
}

/// The changes of a reload, or of its dry run.
pub fn reload_words(ReloadReport { dry_run, applied, restart_needed, shadowed, .. }: &ReloadReport) -> Vec<String> {
    let values = |SettingChanged { path, before, after }: &SettingChanged| format!("{path} {before} → {after}");
    let verb = if *dry_run { "would change" } else { "changed" };
    let changes = applied.iter().map(|change| format!("{verb}: {}", values(change)));
    let hidden = shadowed.iter().map(|change| format!("hidden by an override: {}", values(change)));
    let later = restart_needed.iter().map(|path| format!("needs a restart: {path}"));
    let lines: Vec<String> = changes.chain(hidden).chain(later).collect();
    if lines.is_empty() { vec!["nothing differs".to_owned()] } else { lines }
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_three_digits() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_budget_is_described_while_it_is_not_whole() {
        let words = |restarts_left, more_in_ms| budget_words(Budget { restarts_left, more_in_ms });
        assert_eq!(words(10, None), None);
        assert_eq!(words(8, Some(41_001)).unwrap(), "8 restarts left, one more in 42 s");
        assert_eq!(words(1, Some(900)).unwrap(), "1 restart left, one more in 1 s");
        assert_eq!(words(0, Some(900)).unwrap(), "another failure within 1 s ends the process");
    }

    #[test]
    fn times_are_shown_in_their_largest_unit() {
        assert_eq!([0, 999, 1_024, 999_999, 33_554_432].map(micros), ["0 µs", "999 µs", "1 ms", "999 ms", "33 s"]);
    }
}
