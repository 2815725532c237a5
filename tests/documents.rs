//! The documents: links and citations refer to existing headings, and documents only name existing tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

fn root() -> PathBuf {
    // Not the folder in which this was built: build products may be shared by several checkouts.
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
}

/// Files of the project with one of these extensions. Hidden folders, build products and the packages of other tools are left out.
fn files(extensions: &[&str]) -> BTreeSet<PathBuf> {
    fn visit(folder: &Path, extensions: &[&str], found: &mut BTreeSet<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if !path.is_dir() {
                let extension = path.extension().and_then(|extension| extension.to_str());
                found.extend(extension.is_some_and(|it| extensions.contains(&it)).then(|| path.clone()));
            } else if !name.starts_with('.') && name != "node_modules" && name != "target" {
                visit(&path, extensions, found);
            }
        }
    }
    let mut found = BTreeSet::new();
    visit(&root(), extensions, &mut found);
    found
}

/// The links of a Markdown file, and the anchors of its headings as GitHub and docs.rs form them.
#[derive(Default)]
struct Document {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Document {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let heading = heading.take().unwrap_or_default();
                    let lower = heading.to_lowercase();
                    let kept = lower.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
                    document.anchors.insert(kept.collect::<String>().replace(' ', "-"));
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&part);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                _ => {}
            }
        }
        document
    }
}

/// `folder/../file` without the detour.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn documents() -> BTreeMap<PathBuf, Document> {
    files(&["md"]).into_iter().map(|path| (plain(&path), Document::read(&path))).collect()
}

/// The fault of a broken link in a file; `None` for a valid link.
fn fault(documents: &BTreeMap<PathBuf, Document>, from: &Path, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let to = if file.is_empty() { from.to_owned() } else { plain(&from.parent().unwrap().join(file)) };
    if !to.exists() {
        return Some("no such file".to_owned());
    }
    let anchor = anchor.filter(|_| to.extension().is_some_and(|extension| extension == "md"))?;
    let document = documents.get(&to)?;
    (!document.anchors.contains(anchor)).then(|| "no such heading".to_owned())
}

#[test]
fn every_link_of_a_document_resolves() {
    let documents = documents();
    let mut faults = Vec::new();
    for (path, document) in &documents {
        for link in document.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            faults.extend(fault(&documents, path, link).map(|fault| format!("{}: {link}: {fault}", path.display())));
        }
    }
    assert!(documents.len() > 70 && faults.is_empty(), "{} documents\n{}", documents.len(), faults.join("\n"));
}

#[test]
fn every_citation_of_a_document_in_the_code_resolves() {
    let documents = documents();
    let mut faults = Vec::new();
    let own = Path::new(file!()).file_name().unwrap();
    for path in files(&["rs", "sql", "toml"]).iter().filter(|path| path.file_name() != Some(own)) {
        let text = std::fs::read_to_string(path).unwrap();
        for (place, _) in text.match_indices("docs/") {
            let is_path = |letter: char| letter.is_alphanumeric() || "/-_.#".contains(letter);
            // `https://www.postgresql.org/docs/current/` is no document of this project.
            if text[..place].ends_with(is_path) {
                continue;
            }
            let cited = text[place..].split(|letter| !is_path(letter)).next().unwrap_or_default().trim_end_matches('.');
            if cited.contains(".md") {
                let from = root().join("README.md");
                faults.extend(
                    fault(&documents, &from, cited).map(|fault| format!("{}: {cited}: {fault}", path.display())),
                );
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_decision_is_in_the_index_and_cited_elsewhere() {
    let folder = root().join("docs/decisions");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let is_elsewhere = |path: &&PathBuf| !path.starts_with(&folder);
    let others: String = files(&["rs", "sql", "toml", "md"])
        .iter()
        .filter(is_elsewhere)
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut decisions = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            decisions += 1;
            assert!(index.contains(&format!("]({name})")), "docs/decisions/README.md does not list {name}");
            assert!(others.contains(&format!("decisions/{name}")), "no code and no document cites {name}");
        }
    }
    assert!(decisions > 30, "{decisions} decisions");
}

#[test]
fn every_test_that_a_document_names_exists() {
    let (mut named, mut faults) = (0, Vec::new());
    for path in files(&["md"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        // `file.rs::name`, and `::name` for another of the same file.
        let mut file = String::new();
        for code in text.split('`').skip(1).step_by(2) {
            let is_source = |of: &str| Path::new(of).extension().is_some_and(|extension| extension == "rs");
            let Some((of, name)) = code.split_once("::").filter(|(of, _)| of.is_empty() || is_source(of)) else {
                continue;
            };
            if !of.is_empty() {
                of.clone_into(&mut file);
            }
            if !file.is_empty() {
                named += 1;
                let source = std::fs::read_to_string(root().join(&file)).unwrap_or_default();
                if !source.contains(&format!("fn {name}(")) {
                    faults.push(format!("{}: {file}::{name}", path.display()));
                }
            }
        }
    }
    assert!(named > 100 && faults.is_empty(), "{named} named\n{}", faults.join("\n"));
}

/// Tables of the protocol with rows that need a test, and the columns that identify a row. The rows of other tables are members and
/// parameters, which `/openapi.json` describes and every black-box test checks.
const ROWS_WITH_TESTS: [(&str, &str, &[usize]); 19] = [
    ("README.md", "Account and agent API", &[0]),
    ("README.md", "Knowledge API", &[0]),
    ("authentication.md", "Schemes", &[0]),
    ("agents.md", "Registration states", &[0, 1]),
    ("computers.md", "Device flow", &[0, 1]),
    ("computers.md", "Approve", &[1, 2]),
    ("events.md", "Held reasons", &[1]),
    ("events.md", "Quotas of held events", &[0]),
    ("chain.md", "Malformed texts", &[0]),
    ("audit.md", "Watching the log", &[0]),
    ("batches.md", "Item errors", &[0]),
    ("errors.md", "Codes", &[0]),
    ("errors.md", "Reasons of 424 and 503", &[0]),
    ("errors.md", "Knowledge API errors", &[0, 1]),
    ("limits.md", "Protocol limits", &[0]),
    ("limits.md", "Requests and connections", &[0]),
    ("limits.md", "Agents, computers and accounts", &[0]),
    ("limits.md", "Batches", &[0]),
    ("limits.md", "Search", &[0]),
];

/// The cells of each row of the tables below each heading, without the rows of titles.
fn rows(text: &str) -> Vec<(&str, Vec<Vec<&str>>)> {
    let mut sections: Vec<(&str, Vec<Vec<&str>>)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some((_, heading)) = line.split_once("# ").filter(|(level, _)| level.chars().all(|sign| sign == '#')) {
            sections.push((heading, Vec::new()));
        } else if let (Some(row), Some((_, rows))) = (line.strip_prefix("| "), sections.last_mut())
            && !lines.peek().is_some_and(|next| next.starts_with("|---"))
        {
            rows.push(row.trim_end_matches(" |").split(" | ").collect());
        }
    }
    sections
}

#[test]
fn every_row_of_the_protocol_names_its_tests() {
    let table = std::fs::read_to_string(root().join("tests/README.md")).unwrap();
    let named: BTreeMap<&str, Vec<Vec<&str>>> = rows(&table).into_iter().collect();
    let (mut wanted, mut faults) = (0, Vec::new());
    for path in files(&["md"]).iter().filter(|path| path.parent().unwrap().ends_with("docs/protocol")) {
        let file = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let tests: BTreeMap<&str, &str> =
            named.get(file).into_iter().flatten().filter_map(|row| Some((*row.first()?, *row.get(1)?))).collect();
        let mut check = |row: &str| {
            wanted += 1;
            // `none: …` says why there is no test.
            if !tests.get(row).is_some_and(|tests| tests.contains(".rs::") || tests.starts_with("none: ")) {
                faults.push(format!("{file}: {row}"));
            }
        };
        // The first heading is the title of the file.
        for (heading, rows) in rows(&text).iter().skip(1) {
            if file != "README.md" {
                let kept = heading.to_lowercase().replace(' ', "-");
                let anchor: String =
                    kept.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect();
                check(&format!("[{heading}](../docs/protocol/{file}#{anchor})"));
            }
            for (_, _, columns) in ROWS_WITH_TESTS.iter().filter(|(of, table, _)| (*of, *table) == (file, *heading)) {
                for row in rows {
                    check(&columns.iter().map(|column| row[*column]).collect::<Vec<_>>().join(" / "));
                }
            }
        }
    }
    assert!(wanted > 300 && faults.is_empty(), "{wanted} rows; without a test:\n{}", faults.join("\n"));
}
