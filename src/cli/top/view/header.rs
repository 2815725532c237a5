//! The first two lines: nodes, pauses, drains and overrides; order, filter and age of the data.

use std::time::Duration;

use domain::Timestamp;
use ratatui::text::{Line, Span};
use textwrap::core::display_width;
use wire::ops::{NodeEntry, ServicePauseEntry};

use super::palette::{FAINT, Palette};
use crate::cli::top::act::target;
use crate::cli::top::model::TopModel;
use crate::cli::top::snapshot::Snapshot;
use crate::cli::top::text::{brief, cut, minute};
use commands::moment::short;

/// Age from which data is called old: three readings.
const OLD: Duration = Duration::from_secs(4);

/// Separator of two statements.
const BETWEEN: &str = " · ";

/// The words for a pause.
type PauseWords = fn(&ServicePauseEntry, Timestamp) -> String;

/// Pauses with less and less about them.
const FORMS: [PauseWords; 4] = [
    |pause, now| {
        let (until, reason) = (minute(&pause.until, now), pause.reason.as_str());
        format!("{} until {until} by {} ({reason})", paused(pause), pause.set_by)
    },
    |pause, now| format!("{} until {} by {}", paused(pause), minute(&pause.until, now), pause.set_by),
    |pause, now| format!("{} until {}", paused(pause), minute(&pause.until, now)),
    |pause, _| paused(pause),
];

/// The first line. It names each pause, with as much about it as fits.
pub fn first(snapshot: Option<&Snapshot>, width: usize, palette: Palette) -> Line<'static> {
    let Some(snapshot) = snapshot else { return Line::from(cut("attache top: the first answer is awaited", width)) };
    let overrides = match snapshot.cluster.overrides.len() {
        0 => String::new(),
        1 => format!("{BETWEEN}1 override"),
        number => format!("{BETWEEN}{number} overrides"),
    };
    // At least half of the line is for pauses.
    let nodes = cut(&nodes(snapshot), width / 2);
    let left = width.saturating_sub(display_width(&nodes) + display_width(BETWEEN) + display_width(&overrides));
    let (pauses, style) = match snapshot.cluster.pauses.as_slice() {
        [] => ("nothing paused".to_owned(), FAINT),
        pauses => (named(pauses, left, snapshot.at), palette.warning()),
    };
    let is_ready = |node: &NodeEntry| node.status == "ready";
    let state = if snapshot.cluster.nodes.iter().all(is_ready) { palette.good() } else { palette.bad() };
    Line::from(vec![
        Span::styled(nodes, state),
        Span::raw(BETWEEN),
        Span::styled(pauses, style),
        Span::styled(overrides, palette.warning()),
    ])
}

/// The nodes that are shown with their states, and each other one that is not ready.
fn nodes(snapshot: &Snapshot) -> String {
    let is_shown = |node: &&NodeEntry| snapshot.trees.iter().any(|tree| tree.answer.id == node.id);
    let named = |node: &NodeEntry| format!("{} {}", node.name, node.status);
    let (shown, others): (Vec<&NodeEntry>, Vec<&NodeEntry>) = snapshot.cluster.nodes.iter().partition(is_shown);
    let (ready, unready): (Vec<&NodeEntry>, Vec<&NodeEntry>) = shown.iter().partition(|node| node.status == "ready");
    let mut parts: Vec<String> = match shown.as_slice() {
        // A server adds its row a moment after its start.
        [] => snapshot.trees.iter().map(|tree| tree.answer.node.clone()).collect(),
        [one] => vec![named(one)],
        all => {
            let number = format!("{} of {} nodes ready", ready.len(), all.len());
            [number].into_iter().chain(unready.into_iter().map(named)).collect()
        }
    };
    parts.extend(others.into_iter().filter(|node| node.status != "ready").map(named));
    parts.join(", ")
}

/// The pauses with who, until when and why; with less about each if that is too long.
fn named(pauses: &[ServicePauseEntry], width: usize, now: Timestamp) -> String {
    let number = if pauses.len() == 1 { "PAUSED".to_owned() } else { format!("{} PAUSED:", pauses.len()) };
    let written = |words: PauseWords| {
        let parts: Vec<String> = pauses.iter().map(|pause| words(pause, now)).collect();
        format!("{number} {}", parts.join(", "))
    };
    let texts = FORMS.map(written);
    let fitting = texts.iter().position(|text| display_width(text) <= width).unwrap_or(FORMS.len() - 1);
    // The reason is the end of a single pause, so that a part of it can be shown.
    let place = if fitting == 1 && pauses.len() == 1 { 0 } else { fitting };
    cut(&texts[place], width)
}

/// The part with its scope; of an actor the kind and the end of the key.
fn paused(pause: &ServicePauseEntry) -> String {
    match pause.scope.split_once(':') {
        Some((kind, key)) if pause.part == "actor" => format!("{kind}:{}", short(key)),
        _ => target(pause),
    }
}

/// The second line: order, filter, and the age of the data.
pub fn second(model: &TopModel, age: Option<Duration>, width: usize, palette: Palette) -> Line<'static> {
    if let Some(fault) = &model.fault {
        let age = age.map(|age| format!("data of {} ago: ", since(age))).unwrap_or_default();
        return Line::styled(cut(&format!("{age}{fault}"), width), palette.bad());
    }
    let Some(snapshot) = &model.snapshot else { return Line::default() };
    let time = match age.filter(|age| *age > OLD) {
        Some(age) => format!("data of {} ago, the next answer is awaited", since(age)),
        None => snapshot.at.format("%H:%M:%S UTC").to_string(),
    };
    let filter = if model.filter.is_empty() { String::new() } else { format!("{BETWEEN}filter: {}", model.filter) };
    let left = format!("by {}{filter}{BETWEEN}{} actors{BETWEEN}{time}", model.order.name(), model.actors());
    let problems = snapshot.problems.iter().chain(&snapshot.cluster.differences);
    let problems: Vec<&str> = [""].into_iter().chain(problems.map(String::as_str)).collect();
    let problems = problems.join(BETWEEN);
    let rest = width.saturating_sub(display_width(&left));
    let left = Span::styled(cut(&left, width), FAINT);
    Line::from(vec![left, Span::styled(cut(&problems, rest), palette.bad())])
}

fn since(age: Duration) -> String {
    brief(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}
