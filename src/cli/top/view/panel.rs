//! The lower panel: the selected row on one line, or a prompt; and the line of keys.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use textwrap::core::display_width;

use super::detail::summary;
use super::palette::{FAINT, Palette, SELECTED};
use crate::cli::top::model::{Notice, TopModel};
use crate::cli::top::prompt::{Choice, Prompt, ReasonInput, Reload};
use crate::cli::top::text::{cut, end_of, wrapped};

/// Keys of the rows with their effects, most important first.
const KEYS: [(&str, &str); 11] = [
    ("?", "help"),
    ("Q", "end"),
    ("Enter", "detail"),
    ("q", "quarantine"),
    ("r", "restart"),
    ("p", "pause"),
    ("d", "drain"),
    ("/", "filter"),
    ("s", "order"),
    ("l", "level"),
    ("R", "reload"),
];

/// The help. Each line fits a window of 60 columns.
pub const HELP: [&str; 13] = [
    "↑ ↓ j k PgUp PgDn Home End   select a row",
    "Enter     show all data of the row, or hide them",
    "s         sort by depth, age, rate or crashes",
    "/         show rows with a text; Esc shows all",
    "r         restart the actor, or the actor of the key",
    "q         quarantine the key for 1h, or release it",
    "p         pause a part of the service for 1h, or end a pause",
    "d         drain the node of the row, or undrain it",
    "l  t      set its log level for 10m; show events for 1m",
    "R         reload its configuration, after a look at it",
    "Q Ctrl-C  end",
    "/min, Wait+handle: messages a minute and their 99th",
    "percentiles in one to two minutes, or the last pass",
];

/// The lines above the line of keys.
pub fn lines(model: &TopModel, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let styled = |text: &str, style: Style| {
        wrapped(text, width).into_iter().map(|line| Line::styled(line, style)).collect::<Vec<_>>()
    };
    let mut lines = match &model.prompt {
        // The detail has the same.
        Prompt::None if model.notice.is_some() || model.has_detail => Vec::new(),
        Prompt::Help => Vec::new(),
        Prompt::None => {
            vec![Line::from(model.selected_row().map(|row| cut(&summary(row), width)).unwrap_or_default())]
        }
        Prompt::Filter => vec![input("Filter: ", &model.filter, width, palette)],
        Prompt::Choice(choice) => options(choice, width, palette),
        Prompt::Reason(ReasonInput { act, text, mistake }) => {
            let mut lines = styled(&act.sentence(), palette.strong());
            lines.extend(mistake.iter().flat_map(|mistake| styled(mistake, palette.bad())));
            lines.push(input("Reason: ", text, width, palette));
            lines
        }
        Prompt::Confirm(Reload { changes, .. }) => styled(changes, Style::new()),
        Prompt::Waiting(what) => styled(&format!("sent: {what}"), FAINT),
    };
    if let Some(Notice { text, is_bad }) = &model.notice {
        lines.extend(styled(text, if *is_bad { palette.bad() } else { palette.good() }));
    }
    lines
}

fn options(Choice { title, options, selected }: &Choice, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let option = |(place, (words, _)): (usize, &(String, _))| {
        let (mark, style) = if place == *selected { ("▸ ", SELECTED) } else { ("  ", Style::new()) };
        Line::styled(cut(&format!("{mark}{words}"), width), style)
    };
    let title = Line::styled(cut(title, width), palette.strong());
    std::iter::once(title).chain(options.iter().enumerate().map(option)).collect()
}

/// An input line with its end in view, and a mark in place of the cursor.
fn input(label: &'static str, text: &str, width: usize, palette: Palette) -> Line<'static> {
    let text = end_of(text, width.saturating_sub(label.len() + 1));
    Line::from(vec![Span::styled(label, palette.strong()), Span::raw(text), Span::styled("▏", palette.strong())])
}

/// The keys that have an effect now, as many as fit.
pub fn keys(model: &TopModel, width: usize, palette: Palette) -> Line<'static> {
    let is_refused = model.notice.as_ref().is_some_and(|notice| notice.is_bad);
    let keys: &[(&str, &str)] = match &model.prompt {
        Prompt::None if is_refused => &[("Enter", "close"), ("Ctrl-C", "end")],
        Prompt::None => &KEYS,
        Prompt::Help => &[("any key", "closes the help")],
        Prompt::Filter => &[("Enter", "keep"), ("Esc", "show all rows"), ("Ctrl-U", "clear")],
        Prompt::Choice(_) => &[("↑ ↓", "select"), ("Enter", "next"), ("Esc", "cancel")],
        Prompt::Reason(_) => &[("Enter", "do it"), ("Esc", "cancel"), ("Ctrl-U", "clear")],
        Prompt::Confirm(_) => &[("Enter", "reload"), ("Esc", "cancel")],
        Prompt::Waiting(_) => &[("Ctrl-C", "end without the answer")],
    };
    let (mut spans, mut left) = (Vec::new(), width + 1);
    for (key, words) in keys {
        let needed = display_width(key) + display_width(words) + 2;
        if needed <= left {
            left -= needed;
            spans.extend([Span::styled(*key, palette.strong()), Span::raw(format!(" {words} "))]);
        }
    }
    Line::from(spans)
}
