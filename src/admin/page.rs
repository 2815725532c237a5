//! `GET /`: the state of this server for an operator's browser. It changes nothing.
//!
//! It shows the data of the JSON routes, the throughput of the last ten minutes and the numbers of held events. A script reloads the page
//! every five seconds; without it the page shows the state at the time of the request.

use actors::upstream::Upstream;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use domain::held::HoldReason;
use domain::node::short;
use domain::{Timestamp, reasons};
use supervision::root::Node;

use super::AdminState;
use super::readiness::{Failing, pace};
use super::throughput::{Totals, last_minute};
use super::words::{budget_words, grouped, pace_words, purpose, status_words, trouble};
use web::asset::{self, versioned};
use web::{Moment, page};

/// Height of the plot, and width of an interval, in units of the plot.
const PLOT_HEIGHT: u64 = 72;
const BAR_WIDTH: u64 = 10;

/// Number of intervals in the plot.
const BARS: u64 = 60;

#[derive(Template)]
#[template(path = "operator.html")]
struct OperatorPage {
    style: String,
    icon: String,
    state: ServerState,
    failing: Vec<Failing>,
    degraded: Vec<Failing>,
    about: About,
    tiles: Vec<Tile>,
    plot: Plot,
    actors: Result<Vec<ActorRow>, String>,
    held: Result<Vec<HeldRow>, String>,
    nodes: Vec<NodeRow>,
    has_console: bool,
}

/// Whether the server accepts requests, as text and as the class of its badge.
struct ServerState {
    word: &'static str,
    class: &'static str,
    lead: &'static str,
}

struct About {
    name: String,
    version: String,
    base: String,
    started: Moment,
    now: String,
}

struct Tile {
    label: &'static str,
    value: String,
    hint: &'static str,
}

/// Bars of the intervals; the newest ends at the right.
struct Plot {
    bars: Vec<Bar>,
    most: u64,
}

struct Bar {
    x: u64,
    forwarded: (u64, u64),
    held: (u64, u64),
}

struct ActorRow {
    name: String,
    purpose: &'static str,
    status: &'static str,
    class: &'static str,
    live: u64,
    queued: u64,
    restarts: u64,
    quarantined: u64,
    /// Its recent messages or its last pass.
    pace: Option<String>,
    trouble: Option<String>,
    /// What is left of the restart budget, while it is not whole.
    budget: Option<String>,
}

struct HeldRow {
    reason: &'static str,
    meaning: &'static str,
    number: u64,
    oldest: Moment,
}

struct NodeRow {
    name: String,
    place: String,
    version: String,
    configuration: String,
    state: String,
    class: &'static str,
}

/// `GET /`
pub(super) async fn show(State(state): State<AdminState>) -> Response {
    let AdminState { app, phases, readiness, gauges, held, throughput } = &state;
    let now = app.clock.now();
    let ((report, tree), (), held) = tokio::join!(
        readiness.look(app, phases),
        gauges.refresh(app),
        held.answer(pace(app).of_counts(), || {
            let store = app.store.clone();
            async move { store.held_counts().await.map_err(|error| reasons(&error)) }
        })
    );
    let held = held.map(|counts| {
        let row = |count: &store::held::HeldCount| HeldRow {
            reason: count.reason.as_str(),
            meaning: meaning(count.reason),
            number: count.number,
            oldest: Moment::new(count.oldest_at, now),
        };
        counts.iter().map(row).collect::<Vec<_>>()
    });
    let intervals = throughput.intervals();
    let about = app.nodes.traits();
    let template = OperatorPage {
        style: versioned("style.css"),
        icon: versioned("icon.svg"),
        state: state_of(report.failing.is_empty(), phases.is_leaving()),
        tiles: tiles(&state, &intervals, tree.as_ref().ok(), held.as_ref().ok(), now),
        plot: Plot::of(&intervals),
        actors: tree.map(|tree| tree.children.iter().map(ActorRow::of).collect()),
        held,
        nodes: nodes(&state),
        has_console: app.live.get().admin.has_console(),
        failing: report.failing,
        degraded: report.degraded,
        about: About {
            name: about.name.clone(),
            version: about.version.clone(),
            base: app.urls.base.clone(),
            started: Moment::new(about.started_at, now),
            now: now.format("%H:%M:%S UTC").to_string(),
        },
    };
    page(StatusCode::OK, &template)
}

/// `GET /assets/{*path}`: the files of this page, including files that it shares with the public pages.
pub(super) async fn file(
    axum::extract::Path(path): axum::extract::Path<String>,
    headers: axum::http::HeaderMap,
) -> Response {
    let own = match path.as_str() {
        "operator.css" => ("text/css", include_bytes!("assets/operator.css").as_slice()),
        "operator.js" => ("text/javascript", include_bytes!("assets/operator.js").as_slice()),
        _ => return asset::file(&path, &headers).into_response(),
    };
    // The paths contain no version, so clients have to revalidate.
    let headers = [(CONTENT_TYPE, own.0), (CACHE_CONTROL, "no-cache"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, own.1).into_response()
}

fn state_of(is_well: bool, is_leaving: bool) -> ServerState {
    match (is_well, is_leaving) {
        (_, true) => ServerState {
            word: "Draining",
            class: "is-warn",
            lead: "It answers requests until it stops, or until an operator puts it back into service.",
        },
        (true, false) => ServerState { word: "Ready", class: "is-good", lead: "Everything that requests need works." },
        (false, false) => {
            ServerState { word: "Not ready", class: "is-bad", lead: "Requests fail, or wait, for the reasons below." }
        }
    }
}

fn tiles(
    AdminState { app, gauges, .. }: &AdminState,
    intervals: &[Totals],
    tree: Option<&Node>,
    held: Option<&Vec<HeldRow>>,
    now: Timestamp,
) -> Vec<Tile> {
    let minute = last_minute(intervals);
    let or_dash = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), grouped);
    let tile = |label, value, hint| Tile { label, value, hint };
    let mut tiles = vec![
        tile("Events a minute", or_dash(minute.map(|minute| minute.forwarded + minute.held)), "of this process"),
        tile("Requests a minute", or_dash(minute.map(|minute| minute.requests)), "public listeners"),
        tile("Held events", or_dash(held.map(|rows| rows.iter().map(|row| row.number).sum())), "wait for a decision"),
        tile(
            "Messages waiting",
            or_dash(tree.map(|tree| tree.children.iter().map(|child| child.queued).sum())),
            "in all mailboxes",
        ),
        tile(
            "Restarts",
            or_dash(tree.map(|tree| tree.children.iter().map(|child| child.restarts).sum())),
            "since the start",
        ),
        tile(
            "Nodes",
            grouped(1 + u64::try_from(app.nodes.seen().others.len()).unwrap_or(u64::MAX)),
            "on this database",
        ),
    ];
    if let (Upstream::Embedded { .. }, Some(log)) = (&app.upstream, gauges.last()) {
        tiles.push(tile("Events not signed yet", grouped(log.unplaced), "0 when idle"));
        // A log without new events is not signed again: then its age is no sign of a fault.
        let (value, hint) = if log.unplaced == 0 {
            ("current".to_owned(), "covers every event of the log")
        } else {
            (Moment::new(log.signed_at, now).relative(), "of the event log")
        };
        tiles.push(tile("Newest checkpoint", value, hint));
    }
    tiles
}

fn nodes(AdminState { app, .. }: &AdminState) -> Vec<NodeRow> {
    let row = |node: &domain::node::NodeRecord| {
        let (state, class) = match &node.unready {
            _ if node.is_silent() => ("silent".to_owned(), "is-bad"),
            _ if node.is_draining => ("draining".to_owned(), "is-warn"),
            Some(reason) => (format!("not ready: {reason}"), "is-bad"),
            None => ("ready".to_owned(), "is-good"),
        };
        NodeRow {
            name: node.traits.name.clone(),
            place: node.traits.operator_address.clone(),
            version: node.traits.version.clone(),
            configuration: short(&node.traits.configuration),
            state,
            class,
        }
    };
    app.nodes.seen().others.iter().map(row).collect()
}

impl Plot {
    fn of(intervals: &[Totals]) -> Self {
        let most = intervals.iter().map(|one| one.forwarded + one.held).max().unwrap_or(0);
        let first = BARS.saturating_sub(u64::try_from(intervals.len()).unwrap_or(BARS));
        // At least one unit, so that a single event is visible.
        let height = |number: u64| if number == 0 { 0 } else { (number * PLOT_HEIGHT / most.max(1)).max(1) };
        let bar = |(place, one): (u64, &Totals)| {
            let (forwarded, held) = (height(one.forwarded), height(one.held));
            let top = PLOT_HEIGHT.saturating_sub(forwarded);
            Bar { x: place * BAR_WIDTH, forwarded: (top, forwarded), held: (top.saturating_sub(held), held) }
        };
        Self { bars: (first..).zip(intervals).map(bar).collect(), most }
    }
}

impl ActorRow {
    fn of(node: &Node) -> Self {
        let (status, class) = status_words(node);
        Self {
            name: node.name.clone(),
            purpose: purpose(&node.kind),
            status,
            class,
            live: node.live,
            queued: node.queued,
            restarts: node.restarts,
            quarantined: node.quarantined,
            pace: pace_words(node),
            trouble: trouble(node),
            budget: node.budget.and_then(budget_words),
        }
    }
}

/// A hold reason in words.
fn meaning(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Unattributed => "the agent is not claimed",
        HoldReason::MalformedEnvelope => "the body is no envelope",
        HoldReason::IdentityMismatch => "the sender may not use the scope that the event names",
        HoldReason::UnknownEventType => "the registry has no such event type",
        HoldReason::LaneMismatch => "the event type belongs to another lane",
        HoldReason::PayloadInvalid => "the payload breaks its schema, or has content that its level forbids",
        HoldReason::HashMismatch => "the hash is not that of the event",
        HoldReason::ConsentExceeded => "the level is above the person's consent",
        HoldReason::UpstreamRefused => "the statistics service refused it as sent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_interval_ends_the_plot_and_one_event_is_seen() {
        let one = |forwarded, held| Totals { forwarded, held, requests: 0 };
        let plot = Plot::of(&[one(0, 0), one(900, 100), one(1, 0)]);
        let places: Vec<_> = plot.bars.iter().map(|bar| (bar.x, bar.forwarded.1, bar.held.1)).collect();
        assert_eq!(places, [(570, 0, 0), (580, 64, 7), (590, 1, 0)]);
        assert_eq!((plot.most, Plot::of(&[]).most), (1000, 0));
        assert_eq!(plot.bars[1].held.0 + plot.bars[1].held.1, plot.bars[1].forwarded.0, "one on the other");
    }

    #[test]
    fn a_server_that_stops_is_draining_even_if_it_fails() {
        assert_eq!(
            [(true, false), (false, false), (false, true)].map(|(well, leaves)| state_of(well, leaves).word),
            ["Ready", "Not ready", "Draining"]
        );
    }
}
