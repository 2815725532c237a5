//! Output of commands: text by default, one JSON value with `--json`.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use domain::Clock;
use domain::foreign::{escaped, visible};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::moment;

/// Prints one line to standard output. Write errors are ignored, so that a closed pipe does not fail the command.
pub fn print(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Whether the reader of standard output has closed its end of the pipe; false for files and terminals.
pub fn is_unread() -> bool {
    let (output, now) = (io::stdout(), Timespec::default());
    let mut watched = [PollFd::new(&output, PollFlags::empty())];
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().contains(PollFlags::ERR)
}

/// Prints one line of progress to standard error.
pub fn print_to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints a JSON value on several lines.
pub fn print_json(value: &Value) {
    print(&layout(value));
}

/// Prints a JSON value on one line.
pub fn print_json_line(value: &Value) {
    print(&json_line(value));
}

/// JSON on one line, with control characters escaped so that a terminal does not interpret them.
pub fn json_line(value: &Value) -> String {
    escaped(&value.to_string())
}

/// JSON on several lines, with control characters escaped so that a terminal does not interpret them.
pub fn layout(value: &Value) -> String {
    escaped(&format!("{value:#}"))
}

/// Prints an error message to standard error.
pub fn print_error(reason: &str) {
    let _ = writeln!(io::stderr().lock(), "attache: {reason}");
}

/// Prints `value` as JSON, or the text of `human`.
pub fn show(json: bool, value: &Value, human: impl FnOnce() -> String) {
    if json { print_json(value) } else { print(&human()) }
}

/// Prints progress: to standard output, or with `json` to standard error.
pub fn print_progress(json: bool, line: &str) {
    if json {
        print_to_stderr(line);
    } else {
        print(line);
    }
}

/// Prints a list: as a JSON array, or as a table with the members of `columns`. The first column has whole ids, which other commands take;
/// elsewhere ids are short. Times are relative.
pub fn list(json: bool, rows: &[Value], columns: &[&str]) {
    if json {
        print_json(&Value::from(rows));
    } else if rows.is_empty() {
        print("(none)");
    } else {
        let now = Clock::system().now();
        let shown = |nth: usize, text: String| if nth == 0 { text } else { moment::short(&moment::near(&text, now)) };
        let cells = rows
            .iter()
            .map(|row| columns.iter().enumerate().map(|(nth, name)| shown(nth, cell(row.get(*name)))).collect());
        let headers: Vec<&str> = columns.iter().map(|name| name.strip_suffix("_at").unwrap_or(name)).collect();
        print(&table(&headers, cells));
    }
}

/// A table with a header; cells that are too wide for the terminal are wrapped.
pub fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let width = io::stdout().is_terminal().then(|| u16::try_from(textwrap::termwidth()).unwrap_or(u16::MAX));
    table_within(columns, rows, width)
}

/// A table with a header, each row on one line.
pub fn wide_table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    table_within(columns, rows, None)
}

fn table_within(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>, width: Option<u16>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    // A wrapped id cannot be copied.
    let is_id = |text: &String| uuid::Uuid::try_parse(text).is_ok();
    let has_ids = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(is_id));
    let unbroken: Vec<bool> = (0..columns.len()).map(has_ids).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    table.set_header(columns.to_vec()).add_rows(rows);
    for (column, unbroken) in table.column_iter_mut().zip(unbroken) {
        column.set_padding((0, 2));
        if unbroken {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_aligned_columns() {
        let rows = [["a", "12", "-"], ["long", "3", "-"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["id", "count", "note"], rows), "id    count  note\na     12     -\nlong  3      -");
    }

    #[test]
    fn control_characters_in_cells_are_replaced() {
        let rows = [vec!["a\u{1b}]0;owned\u{7}\nb\u{9b}2J".to_owned()]];
        assert_eq!(table(&["type"], rows), "type\na ]0;owned  b 2J");
    }

    #[test]
    fn control_characters_in_json_are_escaped() {
        let value = serde_json::json!({ "name": "\u{9b}2J\u{202e}" });
        assert_eq!(layout(&value), "{\n  \"name\": \"\\u009b2J\\u202e\"\n}");
    }

    #[test]
    fn an_absent_value_is_a_dash() {
        assert_eq!([None, Some(&Value::Null), Some(&12.into())].map(cell), ["-", "-", "12"]);
    }
}
