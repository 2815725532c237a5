//! The columns that fit a width, and their cells.

use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row as TableRow};

use super::palette::Palette;
use crate::admin::words::{micros, took};
use crate::cli::top::row::TopRow;
use crate::cli::top::text::{brief, cut};
use commands::moment::short;

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopColumn {
    Node,
    Actor,
    State,
    Live,
    Waiting,
    Age,
    Rate,
    Pace,
    Restarts,
    Quarantined,
    Trouble,
}

use TopColumn::{Actor, Age, Live, Node, Pace, Quarantined, Rate, Restarts, State, Trouble, Waiting};

/// The columns in their order on the screen.
const ORDER: [TopColumn; 11] = [Node, Actor, State, Live, Waiting, Age, Rate, Pace, Restarts, Quarantined, Trouble];

/// The columns in the order in which they get space.
const IMPORTANCE: [TopColumn; 11] =
    [Actor, Node, State, Waiting, Restarts, Rate, Age, Pace, Live, Trouble, Quarantined];

/// Width of the mark of the selected row.
pub const MARK: u16 = 2;

/// Width of a name with a whole key.
const KEY: u16 = 38;

/// Width up to which an error is more useful than a whole key.
const TROUBLE: u16 = 60;

impl TopColumn {
    fn heading(self) -> &'static str {
        match self {
            Node => "Node",
            Actor => "Actor",
            State => "State",
            Live => "Live",
            Waiting => "Waiting",
            Age => "Age",
            Rate => "/min",
            Pace => "Wait+handle",
            Restarts => "Restarts",
            Quarantined => "Quarantined",
            Trouble => "Trouble",
        }
    }

    /// Smallest width with which it is shown.
    fn width(self) -> u16 {
        match self {
            Actor => 16,
            State | Pace | Quarantined => 11,
            Node | Restarts => 10,
            Waiting => 7,
            Rate => 6,
            Live | Age => 5,
            Trouble => 20,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Live | Waiting | Age | Rate | Pace | Quarantined)
    }

    fn text(self, row: &TopRow, width: u16) -> String {
        let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        match self {
            Node => row.node.clone(),
            Actor => match &row.id.key {
                Some(key) if usize::from(width) >= key.len() + 2 => format!("  {key}"),
                Some(key) => format!("  {}", short(key)),
                None => row.id.actor.clone(),
            },
            State if usize::from(width) < row.state.len() => row.state.split(' ').next().unwrap_or_default().to_owned(),
            State => row.state.to_owned(),
            Live => row.live.map(|live| live.to_string()).unwrap_or_default(),
            Waiting => number(row.queued),
            Age => row.unmoved_ms.filter(|_| row.queued > 0).map(brief).unwrap_or_default(),
            Rate => row.times.map(|times| thousands(times.handled_per_minute)).unwrap_or_default(),
            Pace => pace(row),
            Restarts => restarts(row),
            Quarantined => number(row.quarantined),
            Trouble => row.trouble.clone().unwrap_or_default(),
        }
    }
}

/// A number in at most six characters up to ten thousand millions.
fn thousands(number: u64) -> String {
    if number < 1_000_000 { number.to_string() } else { format!("{} M", number / 1_000_000) }
}

/// The 99th percentiles of wait and handling, or the time of the last pass.
fn pace(row: &TopRow) -> String {
    let close = |text: String| text.replace(' ', "");
    let pass = row.pass.map(|pass| format!("pass {}", close(took(pass))));
    let times = row.times.map(|times| close(format!("{}+{}", micros(times.wait_p99_us), micros(times.handler_p99_us))));
    pass.or(times).unwrap_or_default()
}

fn restarts(row: &TopRow) -> String {
    match (row.crashes, row.restarts_left) {
        (0, None) => String::new(),
        (1, _) if row.id.key.is_some() => "1 crash".to_owned(),
        (number, _) if row.id.key.is_some() => format!("{number} crashes"),
        (number, Some(left)) => format!("{number} ({left} left)"),
        (number, None) => number.to_string(),
    }
}

/// The columns for a table of this width, with their widths.
pub fn fitting(width: u16, has_nodes: bool) -> Vec<(TopColumn, u16)> {
    let mut left = width.saturating_sub(MARK) + 1;
    let mut columns = Vec::new();
    for column in IMPORTANCE.into_iter().filter(|column| has_nodes || *column != Node) {
        if column.width() < left {
            left -= column.width() + 1;
            columns.push((column, column.width()));
        }
    }
    columns.sort_by_key(|(column, _)| ORDER.iter().position(|other| other == column));
    let has_trouble = columns.iter().any(|(column, _)| *column == Trouble);
    let beyond = left.saturating_sub(TROUBLE - Trouble.width()).min(KEY - Actor.width());
    let for_actor = if has_trouble { beyond } else { left };
    for (column, width) in &mut columns {
        match column {
            Actor => *width += for_actor,
            Trouble => *width += left - for_actor,
            _ => {}
        }
    }
    columns
}

/// The widths as the table takes them.
pub fn constraints(columns: &[(TopColumn, u16)]) -> Vec<Constraint> {
    columns.iter().map(|(_, width)| Constraint::Length(*width)).collect()
}

/// The line of headings.
pub fn headings(columns: &[(TopColumn, u16)], palette: Palette) -> TableRow<'static> {
    let heading = |(column, width): &(TopColumn, u16)| aligned(*column, cut(column.heading(), usize::from(*width)));
    TableRow::new(columns.iter().map(heading).map(Cell::from)).style(palette.strong())
}

/// The line of a row.
pub fn line(row: &TopRow, columns: &[(TopColumn, u16)], palette: Palette) -> TableRow<'static> {
    let cell = |(column, width): &(TopColumn, u16)| {
        let style = match column {
            State if row.state == "running" => palette.good(),
            State => palette.bad(),
            Restarts | Trouble | Quarantined => palette.warning(),
            Actor if row.is_troubled() => palette.warning(),
            _ => Style::new(),
        };
        Cell::from(aligned(*column, cut(&column.text(row, *width), usize::from(*width))).style(style))
    };
    TableRow::new(columns.iter().map(cell))
}

fn aligned(column: TopColumn, text: String) -> Line<'static> {
    let line = Line::from(text);
    if column.is_number() { line.right_aligned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: u16, has_nodes: bool) -> Vec<TopColumn> {
        let columns = fitting(width, has_nodes);
        let sum: u16 = columns.iter().map(|(_, width)| width + 1).sum();
        assert_eq!(sum + MARK - 1, width, "all space is used: {columns:?}");
        columns.into_iter().map(|(column, _)| column).collect()
    }

    #[test]
    fn less_important_columns_leave_a_narrow_table() {
        assert_eq!(shown(80, false), [Actor, State, Live, Waiting, Age, Rate, Pace, Restarts]);
        assert_eq!(shown(80, true), [Node, Actor, State, Live, Waiting, Age, Rate, Restarts]);
        assert_eq!(shown(60, false), [Actor, State, Waiting, Rate, Restarts]);
        assert_eq!(shown(60, true), [Node, Actor, State, Waiting, Restarts]);
        assert_eq!(shown(120, true).last(), Some(&Trouble));
        assert_eq!(shown(120, false).len(), 10);
    }

    #[test]
    fn a_wide_table_has_whole_keys_and_long_errors() {
        let columns = fitting(200, false);
        let width = |wanted| columns.iter().find(|(column, _)| *column == wanted).unwrap().1;
        assert_eq!((width(Actor), width(Trouble)), (KEY, 85));
    }
}
