//! What commands print: for people by default, one JSON value with `--json`.

use std::io::{self, Write};

use serde_json::Value;

/// Prints one line to standard output. A reader that went away is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Prints one line to standard error, for a person who looks on.
pub fn aside(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints to standard error.
pub fn complain(reason: &str) {
    let _ = writeln!(io::stderr().lock(), "attache: {reason}");
}

/// Prints `value` as JSON, or `human` for a person.
pub fn show(json: bool, value: &Value, human: impl FnOnce() -> String) {
    if json { say(&format!("{value:#}")) } else { say(&human()) }
}

/// Prints a list: as a JSON array, or as a table with the members of `columns`.
pub fn list(json: bool, rows: &[Value], columns: &[&str]) {
    if json {
        say(&format!("{:#}", Value::from(rows)));
    } else if rows.is_empty() {
        say("nothing there");
    } else {
        say(&table(rows, columns));
    }
}

fn table(rows: &[Value], columns: &[&str]) -> String {
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|name| (*name).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|name| cell(row.get(*name))).collect()));
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let pad = |line: Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.into_iter().map(pad).collect::<Vec<_>>().join("\n")
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_aligned_columns_and_dashes_for_nothing() {
        let rows = [json!({ "id": "a", "count": 12, "note": null }), json!({ "id": "long", "count": 3 })];
        assert_eq!(table(&rows, &["id", "count", "note"]), "id    count  note\na     12     -\nlong  3      -");
    }
}
