//! `/console/nodes`: the servers on this database, with overrides and pauses.

use axum::extract::State;
use axum::response::Response;
use wire::ops::{Cluster, NodeEntry, OverrideEntry, ServicePauseEntry};

use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{ConsoleFrame, PageSection, Row, SectionPage, TableCell, Trouble, question};

const HERE: &str = "/console/nodes";

/// `GET /console/nodes`: servers, pauses, overrides and differences.
pub async fn list(State(state): State<ConsoleState>, operator: ConsoleOperator) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let Cluster { nodes, differences, overrides, pauses } = state.api.get(&operator, "/cluster").await?;
    let ask = |label: &str, deed: &str, parameters: &[(&str, &str)]| question(&operator, label, deed, parameters, HERE);
    let node = |node: &NodeEntry| {
        let id = node.id.to_string();
        let parameters = [("node", id.as_str())];
        let class = match node.status.as_str() {
            "ready" => "is-good",
            "draining" => "is-warn",
            _ => "is-bad",
        };
        let state = node.unready.clone().unwrap_or_else(|| node.status.clone());
        let is_drained = node.status == "draining";
        let drain = if is_drained {
            ask("Put back…", "node_undrain", &parameters)
        } else {
            ask("Drain…", "node_drain", &parameters)
        };
        Row::new([
            TableCell::from(node.name.as_str()).to(format!("{HERE}/{id}")),
            TableCell::badge(state, class),
            TableCell::from(node.version.as_str()),
            TableCell::moment(Some(&node.started_at), now),
            TableCell::from(format!("{} ms ahead", node.clock_ahead_ms)),
            TableCell::from(if node.sequencer { "yes" } else { "no" }),
            TableCell::number(u64::from(node.batches)),
        ])
        .link(drain)
        .link(ask("Reload…", "config_reload", &parameters))
    };
    let columns = ["Node", "State", "Version", "Started", "Clock", "Signs the log", "Batches"];
    let servers =
        PageSection::new("Servers").table(&columns, nodes.iter().map(node).collect(), "No server has a row yet.");
    let differing = differences.iter().map(|text| Row::new([TableCell::from(text.as_str())])).collect();
    let differing = PageSection::new("Differences").table(&["Difference"], differing, "The servers agree.");
    let pause = |pause: &ServicePauseEntry| {
        let id = pause.id.to_string();
        let parameters = [("id", id.as_str()), ("part", &pause.part), ("scope", &pause.scope)];
        Row::new([
            TableCell::from(pause.part.as_str()),
            TableCell::mono(pause.scope.as_str()),
            TableCell::moment(Some(&pause.until), now),
            TableCell::from(pause.set_by.as_str()),
            TableCell::from(pause.reason.as_str()),
        ])
        .link(ask("End…", "pause_end", &parameters))
    };
    let columns = ["Part", "For", "Until", "By", "Reason"];
    let paused = PageSection::new("Pauses")
        .table(&columns, pauses.iter().map(pause).collect(), "Nothing is paused.")
        .link(ask("Pause a part…", "pause_begin", &[]));
    let rows = overrides.iter().map(|entry| overridden(entry, &operator, now, HERE)).collect();
    let overridden = PageSection::new("Overrides").table(&OVERRIDE_COLUMNS, rows, "No setting is overridden.");
    let frame = ConsoleFrame::of(&state, &operator, HERE).await;
    let view = SectionPage::new(frame, "Nodes", "The servers on this database.");
    Ok(view.section(servers).section(paused).section(overridden).section(differing).shown())
}

/// Columns of [`overridden`].
pub const OVERRIDE_COLUMNS: [&str; 5] = ["Setting", "Value", "On", "Until", "By"];

/// The row of an override.
pub fn overridden(entry: &OverrideEntry, operator: &ConsoleOperator, now: domain::Timestamp, back: &str) -> Row {
    let parameters = [("path", entry.path.as_str()), ("node", entry.node.as_deref().unwrap_or_default())];
    let until = entry
        .until
        .as_deref()
        .map_or_else(|| TableCell::from("it is removed"), |until| TableCell::moment(Some(until), now));
    Row::new([
        TableCell::mono(entry.path.as_str()),
        TableCell::mono(entry.value.to_string()),
        TableCell::from(entry.node.as_deref().unwrap_or("all nodes")),
        until,
        TableCell::from(entry.set_by.as_str()),
    ])
    .link(question(operator, "Remove…", "config_unset", &parameters, back))
}
