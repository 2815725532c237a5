//! All data of the selected row.

use domain::Timestamp;
use supervision::root::{ChildFailure, Node};
use wire::ops::{KeyEntry, NodeEntry};

use crate::admin::words::{self, grouped, micros, took};
use crate::cli::top::model::TopModel;
use crate::cli::top::row::TopRow;
use crate::cli::top::text::{brief, minute};

/// The selected row on one line: its trouble, or its task.
pub fn summary(row: &TopRow) -> String {
    let request = row.entries.iter().find_map(|entry| entry.request_id.as_deref());
    let request = request.map(|id| format!(" · request {id}")).unwrap_or_default();
    match (&row.trouble, &row.id.key) {
        (Some(trouble), _) => format!("{}{request} · {trouble}", row.name()),
        (None, Some(_)) => format!("{}{request}", row.name()),
        (None, None) => format!("{} · {}", row.name(), words::purpose(&row.kind)),
    }
}

/// The lines about the selected row; none if there is no row.
pub fn lines(model: &TopModel) -> Vec<String> {
    let (Some(row), Some(snapshot)) = (model.selected_row(), &model.snapshot) else { return Vec::new() };
    let mut lines = match row.id.key {
        Some(_) => of_key(row, snapshot.at),
        None => model.selected_actor().map(|actor| of_actor(row, actor)).unwrap_or_default(),
    };
    lines.extend(model.selected_keys().iter().map(|key| format!("{} · {} waiting", summary(key), key.queued)));
    lines.extend(model.selected_node().map(of_node));
    lines
}

fn of_actor(row: &TopRow, actor: &Node) -> Vec<String> {
    let mut lines = vec![format!("{} on {} · {}", row.name(), row.node, words::purpose(&row.kind))];
    let unmoved = row.unmoved_ms.filter(|_| row.queued > 0);
    let unmoved = unmoved.map(|unmoved| format!(", none finished for {}", brief(unmoved))).unwrap_or_default();
    let oldest = actor.oldest_ms.map(|oldest| format!(", the oldest for {}", brief(oldest))).unwrap_or_default();
    lines.push(format!("{} · {} live · {} waiting{oldest}{unmoved}", row.state, actor.live, actor.queued));
    if let Some(times) = actor.times {
        let both = |median, most| format!("{} (p99 {})", micros(median), micros(most));
        lines.push(format!(
            "messages: {} a minute · wait {} · handling {} · deepest queue {}",
            grouped(times.handled_per_minute),
            both(times.wait_p50_us, times.wait_p99_us),
            both(times.handler_p50_us, times.handler_p99_us),
            times.deepest_queue
        ));
    }
    if let Some(pass) = actor.pass {
        let (ended, next) = (brief(pass.ended_ms_ago), brief(pass.next_in_ms));
        lines.push(format!("last pass: {ended} ago, took {}, the next one in {next}", took(pass)));
    }
    if let Some(failing) = &actor.failing {
        let since = brief(failing.since_seconds_ago.saturating_mul(1_000));
        lines.push(format!("{} passes failed, the first one {since} ago: {}", failing.passes, failing.error));
    }
    let whole = |left: u32| format!("{left} restarts left");
    let budget = actor.budget.map(|budget| words::budget_words(budget).unwrap_or_else(|| whole(budget.restarts_left)));
    let next = actor.restarts_in_ms.map(|left| format!("restarts in {}", brief(left)));
    let restarts = [Some(format!("{} restarts since the start", actor.restarts)), budget, next];
    lines.push(restarts.into_iter().flatten().collect::<Vec<_>>().join(" · "));
    if actor.quarantined > 0 {
        lines.push(format!("keys in quarantine: {}", actor.quarantined));
    }
    lines.extend(actor.failures.iter().map(|ChildFailure { error, request, seconds_ago }| {
        let request = request.as_ref().map(|id| format!(" (request {id})")).unwrap_or_default();
        format!("failed {} ago: {error}{request}", brief(seconds_ago.saturating_mul(1_000)))
    }));
    lines
}

fn of_key(row: &TopRow, now: Timestamp) -> Vec<String> {
    let mut lines = vec![format!("{} on {} · {}", row.name(), row.node, row.state)];
    if row.queued > 0 {
        let unmoved = row.unmoved_ms.map(brief).unwrap_or_default();
        lines.push(format!("{} waiting, none finished for {unmoved}", row.queued));
    }
    lines.extend(row.entries.iter().flat_map(|entry| of_entry(entry, now)));
    lines
}

fn of_entry(entry: &KeyEntry, now: Timestamp) -> Vec<String> {
    let until = entry.quarantined_until.as_deref().map(|until| minute(until, now));
    let quarantine = until.map(|until| match (&entry.quarantined_by, &entry.reason) {
        (Some(by), Some(reason)) => format!("quarantined on all nodes until {until} by {by}: {}", reason.as_str()),
        (Some(by), None) => format!("quarantined on all nodes until {until} by {by}"),
        (None, _) => format!("quarantined until {until} after its crashes"),
    });
    let crashes = entry.last_crash_at.as_ref().map(|at| match entry.crashes {
        1 => format!("1 crash, at {at}"),
        number => format!("{number} crashes, the last one at {at}"),
    });
    let request = entry.request_id.as_ref().map(|id| format!("request {id}"));
    let error = entry.error.as_ref().map(|error| format!("error: {error}"));
    [quarantine, crashes, request, error].into_iter().flatten().collect()
}

fn of_node(node: &NodeEntry) -> String {
    let unready = node.unready.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("node {} · {}{unready} · version {} · {}", node.name, node.status, node.version, node.operator_address)
}
