//! What commands print: for people by default, one JSON value with `--json`.

use std::io::{self, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use domain::foreign::{escaped, visible};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

/// Prints one line to standard output. A reader that went away is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Whether nobody can read standard output any more. A file, for one, is always there.
pub fn is_unread() -> bool {
    let (output, now) = (io::stdout(), Timespec::default());
    let mut watched = [PollFd::new(&output, PollFlags::empty())];
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().contains(PollFlags::ERR)
}

/// Prints one line to standard error, for a person who looks on.
pub fn aside(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints a JSON value over several lines.
pub fn say_json(value: &Value) {
    say(&layout(value));
}

/// Prints a JSON value in one line.
pub fn say_json_line(value: &Value) {
    say(&escaped(&value.to_string()));
}

/// JSON as it is printed: over several lines, with everything escaped that a terminal would obey.
pub fn layout(value: &Value) -> String {
    escaped(&format!("{value:#}"))
}

/// Prints to standard error.
pub fn complain(reason: &str) {
    let _ = writeln!(io::stderr().lock(), "attache: {reason}");
}

/// Prints `value` as JSON, or `human` for a person.
pub fn show(json: bool, value: &Value, human: impl FnOnce() -> String) {
    if json { say_json(value) } else { say(&human()) }
}

/// Tells what is going on: where a person reads, or beside the JSON.
pub fn tell(json: bool, line: &str) {
    if json {
        aside(line);
    } else {
        say(line);
    }
}

/// Prints a list: as a JSON array, or as a table with the members of `columns`.
pub fn list(json: bool, rows: &[Value], columns: &[&str]) {
    if json {
        say_json(&Value::from(rows));
    } else if rows.is_empty() {
        say("nothing there");
    } else {
        let cells = rows.iter().map(|row| columns.iter().map(|name| cell(row.get(*name))).collect());
        say(&table(columns, cells));
    }
}

/// Columns under their names; what does not fit the terminal is broken into lines.
pub fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    // An id that is broken over lines can be copied by nobody.
    let is_id = |text: &String| uuid::Uuid::try_parse(text).is_ok();
    let has_ids = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(is_id));
    let unbroken: Vec<bool> = (0..columns.len()).map(has_ids).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
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
    fn what_others_wrote_does_nothing_to_the_terminal() {
        let rows = [vec!["a\u{1b}]0;owned\u{7}\nb\u{9b}2J".to_owned()]];
        assert_eq!(table(&["type"], rows), "type\na ]0;owned  b 2J");
    }

    #[test]
    fn json_is_printed_without_what_a_terminal_obeys() {
        let value = serde_json::json!({ "name": "\u{9b}2J\u{202e}" });
        assert_eq!(layout(&value), "{\n  \"name\": \"\\u009b2J\\u202e\"\n}");
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        assert_eq!([None, Some(&Value::Null), Some(&12.into())].map(cell), ["-", "-", "12"]);
    }
}
