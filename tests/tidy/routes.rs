//! The tables of routes in `docs/protocol/README.md` are generated, like the description of the API: a row for each route of the route
//! tables, with the summary of its operation and a link to its explanation. The test fails for a route without an explanation.
//!
//! `make schema` writes them again.

use std::fmt::Write;

use api::openapi;

use crate::{root, text};

const FILE: &str = "docs/protocol/README.md";
/// Set by `make schema`: the test writes the file instead of comparing it.
const WRITE: &str = "ATTACHE_WRITE_SCHEMA";
/// The lines around the tables.
const MARKS: [&str; 2] = ["<!-- routes -->\n", "<!-- /routes -->\n"];
/// Pages that repeat paths of routes without explaining them.
const OTHER_PAGES: [&str; 4] = ["authentication.md", "errors.md", "limits.md", "upstream.md"];

/// The routes of the specification; every other one is an addition.
const SPECIFIED: [&str; 25] = [
    "POST /api/v1/agent-auth/identity",
    "POST /api/v1/agent-auth/claim",
    "POST /api/v1/agent-auth/claim/complete",
    "POST /api/v1/agent-auth/token",
    "POST /api/v1/agent-auth/revoke",
    "GET /api/v1/account/summary",
    "GET /api/v1/account/computers",
    "GET /api/v1/usage/bar",
    "GET /api/v1/activity",
    "GET /api/v1/audit/verify",
    "GET /api/v1/consent",
    "POST /api/v1/consent",
    "POST /api/v1/events",
    "POST /api/v1/device/code",
    "POST /api/v1/device/approve",
    "POST /api/v1/device/token",
    "POST /api/v1/a2a",
    "POST /api/v1/mcp",
    "GET /auth.md",
    "GET /llms.txt",
    "GET /llms-full.txt",
    "POST /v1/search",
    "POST /v1/spaces/create",
    "POST /v1/batch-add",
    "PUT /v1/settings",
];

/// A line of a page, and the heading above it.
struct Line {
    link: String,
    text: String,
}

/// The lines of all pages that explain routes, in the order of the list of files.
fn lines() -> Vec<Line> {
    let readme = text(FILE);
    let pages = readme.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(".md](").map(|(page, _)| page));
    let mut lines = Vec::new();
    for page in pages.map(|page| format!("{page}.md")).filter(|page| !OTHER_PAGES.contains(&page.as_str())) {
        let mut link = page.clone();
        for line in text(&format!("docs/protocol/{page}")).lines() {
            if let Some(heading) = line.strip_prefix("##") {
                let heading = heading.trim_start_matches('#').trim().to_lowercase();
                let kept: String =
                    heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter)).collect();
                link = format!("{page}#{}", kept.replace(' ', "-"));
            }
            lines.push(Line { link: link.clone(), text: line.to_owned() });
        }
    }
    lines
}

/// The place that explains a route: a line that starts with its method and path, else a line that contains them, else a row of a table
/// that starts with its path.
fn place<'l>(lines: &'l [Line], method: &str, path: &str) -> Option<&'l str> {
    let (path, ends): (&str, &[&str]) = match path.split_once("{*") {
        Some((before, _)) => (before, &["<"]),
        None => (path, &["`", "?"]),
    };
    let is_exact = |text: &str, name: &str| {
        text.strip_prefix(name).is_some_and(|rest| ends.iter().any(|end| rest.starts_with(end)))
    };
    let named = format!("`{method} {path}");
    let begins =
        |line: &Line| is_exact(line.text.trim_start_matches(['|', ' ']).trim_start_matches("**(addition)** "), &named);
    let contains = |line: &Line| {
        !line.text.starts_with('-') && line.text.match_indices(&named).any(|(at, _)| is_exact(&line.text[at..], &named))
    };
    let is_row = |line: &Line| method == "GET" && is_exact(&line.text, &format!("| `{path}"));
    let found = lines.iter().find(|line| begins(line)).or_else(|| lines.iter().find(|line| contains(line)));
    found.or_else(|| lines.iter().find(|line| is_row(line))).map(|line| line.link.as_str())
}

/// The scope that a description of the knowledge API ends with.
fn scope(description: &str) -> String {
    let scope = description.rsplit_once("Scope `").and_then(|(_, rest)| rest.split_once('`'));
    scope.map_or_else(|| "any".to_owned(), |(scope, _)| format!("`{scope}`"))
}

fn generated() -> String {
    let (lines, operations) = (lines(), openapi::operations());
    let mut tables = String::new();
    for (title, routes) in [("Account and agent API", api::routes()), ("Knowledge API", api::knowledge_routes())] {
        let (scope_title, scope_line) = if title == "Knowledge API" { (" Scope |", "---|") } else { ("", "") };
        write!(
            tables,
            "\n## {title}\n\n| Method and path |{scope_title} Summary | Described in |\n|---|{scope_line}---|---|\n"
        )
        .unwrap();
        for route in routes {
            let name = format!("{} {}", route.method, route.path);
            let operation = operations.iter().find(|operation| operation.is_of(&route)).unwrap();
            let link = place(&lines, route.method.as_str(), route.path);
            let link = link.unwrap_or_else(|| {
                panic!("no page of docs/protocol explains {name}: a line has to begin with `{name}`")
            });
            let addition = if SPECIFIED.contains(&name.as_str()) { "" } else { " **(addition)**" };
            let (page, _) = link.split_once('#').unwrap_or((link, ""));
            let path = route.path.replace("{*path}", "…");
            let scope =
                if route.is_knowledge() { format!(" {} |", scope(operation.description())) } else { String::new() };
            let summary = operation.summary();
            writeln!(tables, "| {} `{path}`{addition} |{scope} {summary} | [{page}]({link}) |", route.method).unwrap();
        }
    }
    tables + "\n"
}

#[test]
fn the_tables_of_routes_are_up_to_date() {
    let file = text(FILE);
    let (before, rest) = file.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let expected = format!("{before}{}{}{}{after}", MARKS[0], generated(), MARKS[1]);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(root().join(FILE), &expected).unwrap();
    }
    assert!(text(FILE) == expected, "{FILE} differs from the route tables: run `make schema`");
}
