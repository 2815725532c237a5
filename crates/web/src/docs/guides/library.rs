//! The guides, by reader.

use std::sync::LazyLock;

use url::Url;

use crate::markdown::{self, Document, DocumentSection};

/// The guides of this binary. The first request reads them.
pub static LIBRARY: LazyLock<Library> = LazyLock::new(Library::read);

/// The texts of documents, each with its name: its path in `docs` without `.md`.
macro_rules! documents {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../../docs/", $name, ".md")))),*]
    };
}

/// For each reader the documents in the order of the page. Documents about the code are not among them.
const GROUPS: [(&str, &[(&str, &str)]); 4] = [
    ("Start here", documents!["first-hour", "connect", "command-line", "glossary"]),
    ("Agents and programs", documents!["agents", "memory", "hooks", "otlp", "exit-codes"]),
    ("Running a server", documents!["operations", "tuning", "growth", "scale", "promises", "threat-model"]),
    (
        "Protocol",
        documents![
            "protocol/README",
            "protocol/conventions",
            "protocol/authentication",
            "protocol/agents",
            "protocol/computers",
            "protocol/consent",
            "protocol/events",
            "protocol/chain",
            "protocol/audit",
            "protocol/receipts",
            "protocol/sessions",
            "protocol/rules",
            "protocol/account",
            "protocol/webhooks",
            "protocol/feeds",
            "protocol/knowledge",
            "protocol/batches",
            "protocol/mcp",
            "protocol/guides",
            "protocol/errors",
            "protocol/limits",
            "protocol/upstream",
        ],
    ),
];

/// Name of the guide that is the file of settings itself.
const SETTINGS: &str = "settings";

/// The guides of one version, by reader.
#[derive(Debug)]
pub struct Library(Vec<GuideGroup>);

/// The guides for one reader.
#[derive(Debug)]
pub struct GuideGroup {
    /// Name of the group.
    pub name: &'static str,
    /// Its guides, in the order of the page.
    pub guides: Vec<Guide>,
}

/// A document as a page.
#[derive(Debug)]
pub struct Guide {
    /// Its path below `/docs/guides/`.
    pub name: &'static str,
    /// HTML below the title.
    pub html: String,
    sections: Vec<DocumentSection>,
}

impl Library {
    fn read() -> Self {
        let mut groups = Vec::from(GROUPS.map(|(name, documents)| GuideGroup {
            name,
            guides: documents.iter().map(|(name, text)| Guide::read(name, text)).collect(),
        }));
        let settings = format!("# Settings\n\n```toml\n{}```\n", include_str!("../../../../../config.toml"));
        groups[2].guides.insert(1, Guide::read(SETTINGS, &settings));
        Self(groups)
    }

    /// The guides by reader, in the order of the page.
    pub fn groups(&self) -> &[GuideGroup] {
        &self.0
    }

    /// The guide of a name.
    pub fn guide(&self, name: &str) -> Option<&Guide> {
        self.guides().find(|guide| guide.name == name)
    }

    /// All sections with their guides.
    pub fn sections(&self) -> impl Iterator<Item = (&Guide, &DocumentSection)> {
        self.guides().flat_map(|guide| guide.sections.iter().map(move |section| (guide, section)))
    }

    fn guides(&self) -> impl Iterator<Item = &Guide> {
        self.0.iter().flat_map(|group| &group.guides)
    }
}

impl Guide {
    fn read(name: &'static str, text: &str) -> Self {
        let Document { html, sections } = markdown::document(text, |link| target(name, link));
        Self { name, html, sections }
    }

    /// The title, which is its first heading.
    pub fn title(&self) -> &str {
        self.sections.first().map_or("", |section| &section.heading)
    }

    /// The id of the title.
    pub fn anchor(&self) -> &str {
        self.sections.first().map_or("", |section| &section.anchor)
    }

    /// The first sentence below the title, up to its colon.
    pub fn opening(&self) -> &str {
        let text = self.sections.first().map_or("", |section| &section.text);
        let end = [". ", ": "].iter().filter_map(|mark| text.find(mark)).min();
        text[..end.unwrap_or(text.len())].trim_end_matches('.')
    }

    /// The headings of the second level with their ids.
    pub fn headings(&self) -> impl Iterator<Item = (&str, &str)> {
        let headings = self.sections.iter().filter(|section| section.level == 2);
        headings.map(|section| (&section.heading[..], &section.anchor[..]))
    }
}

/// The target of a link in a guide, relative to the page of the guide: another guide, a part of this one, or another server. Other files
/// of the project are not served.
fn target(guide: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with('#') {
        return Some(link.to_owned());
    }
    let folder = Url::parse("https://project.invalid/docs/").ok()?;
    let url = folder.join(guide).and_then(|page| page.join(link)).ok()?;
    let file = url.path().trim_start_matches('/');
    let name = match file.strip_prefix("docs/").and_then(|file| file.strip_suffix(".md")) {
        Some(name) => GROUPS.iter().flat_map(|(_, documents)| *documents).find(|(known, _)| *known == name)?.0,
        None if file == "config.toml" => SETTINGS,
        None => return None,
    };
    let up = "../".repeat(guide.matches('/').count());
    let fragment = url.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
    Some(format!("{up}{name}{fragment}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_link_leads_to_a_guide_to_this_page_or_to_another_server() {
        for (guide, link, expected) in [
            ("agents", "operations.md#health", Some("operations#health")),
            ("agents", "protocol/events.md", Some("protocol/events")),
            ("protocol/events", "chain.md#rules", Some("../protocol/chain#rules")),
            ("protocol/events", "../hooks.md", Some("../hooks")),
            ("operations", "../config.toml", Some("settings")),
            ("operations", "#keys", Some("#keys")),
            ("operations", "https://example.com/a.md", Some("https://example.com/a.md")),
            ("operations", "decisions/0001-credentials.md", None),
            ("operations", "../CHANGELOG.md", None),
        ] {
            assert_eq!(target(guide, link).as_deref(), expected, "{guide}: {link}");
        }
    }

    #[test]
    fn every_document_but_those_about_the_code_is_a_guide() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut files = BTreeSet::new();
        for folder in ["", "protocol/"] {
            for entry in std::fs::read_dir(docs.join(folder)).unwrap() {
                let file = entry.unwrap().file_name().into_string().unwrap();
                files.extend(file.strip_suffix(".md").map(|name| format!("{folder}{name}")));
            }
        }
        let guides: BTreeSet<String> = LIBRARY.guides().map(|guide| guide.name.to_owned()).collect();
        let missing: Vec<&String> = files.difference(&guides).collect();
        assert_eq!(missing, ["README", "releasing"]);
        for guide in LIBRARY.guides() {
            assert!(!guide.title().is_empty() && !guide.html.is_empty(), "{}", guide.name);
        }
    }

    #[test]
    fn the_target_of_every_link_exists() {
        for guide in LIBRARY.guides() {
            for link in guide.html.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let (name, anchor) = link.split_once('#').unwrap_or((link, ""));
                if name.contains("://") || link.contains("&#") {
                    continue;
                }
                let to = if name.is_empty() { guide } else { LIBRARY.guide(name.trim_start_matches("../")).unwrap() };
                let is_there = anchor.is_empty() || to.sections.iter().any(|section| section.anchor == anchor);
                assert!(is_there, "{}: {link}", guide.name);
            }
        }
    }
}
