//! `attache top --once`: one table as text.

use super::order::Order;
use super::row::{TopRow, families};
use super::snapshot::Snapshot;
use crate::admin::words::{grouped, micros, took};
use crate::cli::top::act::target;
use commands::moment::short;
use commands::output;

/// Columns of the table.
const COLUMNS: [&str; 9] =
    ["actor", "node", "state", "live", "waiting", "a minute", "p99 wait + handling", "restarts", "trouble"];

/// The state as text: pauses, nodes that are not ready and problems, then a table of the rows in this order that contain `filter`.
pub fn text(snapshot: &Snapshot, order: Order, filter: &str) -> String {
    let pauses = snapshot.cluster.pauses.iter().map(|pause| {
        let (until, by, reason) = (&pause.until, &pause.set_by, pause.reason.as_str());
        format!("{} is paused until {until} by {by}: {reason}", target(pause))
    });
    let unready = snapshot.cluster.nodes.iter().filter(|node| node.status != "ready").map(|node| {
        let reason = node.unready.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{} is {}{reason}", node.name, node.status)
    });
    let overrides = snapshot.cluster.overrides.iter().map(|entry| {
        let place = entry.node.as_deref().unwrap_or("all nodes");
        format!("{} is {} on {place}, set by {}", entry.path, entry.value, entry.set_by)
    });
    let problems = snapshot.problems.iter().chain(&snapshot.cluster.differences).cloned();
    let lines = pauses.chain(unready).chain(overrides).chain(problems);
    let mut text: Vec<String> = lines.map(|line| domain::foreign::visible(&line)).collect();
    let rows = order.rows(&families(snapshot), filter);
    text.push(output::table(&COLUMNS, rows.iter().map(cells)));
    text.join("\n")
}

fn cells(row: &TopRow) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let actor = row.id.key.as_ref().map_or_else(|| row.id.actor.clone(), |key| format!("  {}", short(key)));
    let pass = row.pass.map(|pass| format!("pass: {}", took(pass)));
    let pace = row.times.map(|times| format!("{} + {}", micros(times.wait_p99_us), micros(times.handler_p99_us)));
    let left = row.restarts_left.map(|left| format!(" ({left} left)")).unwrap_or_default();
    vec![
        actor,
        row.node.clone(),
        row.state.to_owned(),
        or_dash(row.live.map(|live| live.to_string())),
        row.queued.to_string(),
        or_dash(row.times.map(|times| grouped(times.handled_per_minute))),
        or_dash(pass.or(pace)),
        format!("{}{left}", row.crashes),
        or_dash(row.trouble.clone()),
    ]
}
