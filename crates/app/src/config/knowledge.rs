//! `[knowledge]`: the knowledge API, composed of the settings of its stages.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use ::actors::ingest::BatchSettings;
use extract::ExtractSettings;
use knowledge::chunk::ChunkSettings;
use knowledge::embed::EmbeddingSettings;
use knowledge::fetch::FetchSettings;
use knowledge::filter::LlmSettings;
use serde::{Deserialize, Serialize};

/// `[knowledge]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct KnowledgeSettings {
    pub bind: Option<SocketAddr>,
    pub base_url: Option<String>,
    pub spaces_per_account_max: u32,
    pub memories_per_account_max: u32,
    pub tags_per_memory_max: usize,
    pub cors_origins: Vec<String>,
    pub worker: Option<PathBuf>,
    /// `[knowledge.database]`: a separate database of the memory.
    pub database: MemoryDatabaseSettings,
    /// `[knowledge.batch]`: limits of batches.
    pub batch: BatchSettings,
    /// `[knowledge.import]`: limits of imports.
    pub import: ImportSettings,
    /// `[knowledge.fetch]`: download of pages.
    pub fetch: FetchSettings,
    /// `[knowledge.extract]`: extraction of text.
    pub extract: ExtractSettings,
    /// `[knowledge.llm]`: the language model that filters content.
    pub llm: LlmSettings,
    /// `[knowledge.chunk]`: division into chunks.
    pub chunk: ChunkSettings,
    /// `[knowledge.embedding]`: the embedding model.
    pub embedding: EmbeddingSettings,
    /// `[knowledge.search]`: search and ranking.
    pub search: knowledge::search::Settings,
}

impl Default for KnowledgeSettings {
    fn default() -> Self {
        Self {
            bind: None,
            base_url: None,
            spaces_per_account_max: 200,
            memories_per_account_max: 100_000,
            tags_per_memory_max: 20,
            cors_origins: Vec::new(),
            worker: None,
            database: MemoryDatabaseSettings::default(),
            batch: BatchSettings::default(),
            import: ImportSettings::default(),
            fetch: FetchSettings::default(),
            extract: ExtractSettings::default(),
            llm: LlmSettings::default(),
            chunk: ChunkSettings::default(),
            embedding: EmbeddingSettings::default(),
            search: knowledge::search::Settings::default(),
        }
    }
}

impl KnowledgeSettings {
    /// Values that break a rule, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        fn below<F: ToString, R: ToString>(name: &str, faults: Vec<(F, R)>) -> Vec<(String, String)> {
            faults
                .into_iter()
                .map(|(field, rule)| (format!("{name}.{}", field.to_string()), rule.to_string()))
                .collect()
        }
        let mut faults = below("batch", self.batch.problems());
        faults.extend(below("import", self.import.problems()));
        faults.extend(below("fetch", self.fetch.problems()));
        faults.extend(below("extract", self.extract.problems()));
        faults.extend(below("llm", self.llm.problems()));
        faults.extend(below("chunk", self.chunk.problems()));
        faults.extend(below("embedding", self.embedding.problems()));
        faults.extend(below("search", self.search.problems()));
        for origin in self.cors_origins.iter().filter(|origin| !is_origin(origin)) {
            faults.push((
                "cors_origins".to_owned(),
                format!("{origin:?} is no origin such as \"https://app.example.com\""),
            ));
        }
        if self.base_url.as_ref().is_some_and(|url| url.ends_with('/')) {
            faults.push(("base_url".to_owned(), "must not end with a slash".to_owned()));
        }
        faults
    }
}

/// Whether a text is an origin as browsers send it (RFC 6454, section 6.2): scheme, host, and a port that is not the default.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    ["http", "https"].contains(&scheme)
        && !host.is_empty()
        && !host.ends_with(default_port)
        && host.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:[]".contains(&byte))
}

/// A separate database of the memory.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryDatabaseSettings {
    pub url: Option<String>,
    pub replica_url: Option<String>,
}

/// Hides the URLs, which may contain a password.
impl fmt::Debug for MemoryDatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |url: &Option<String>| url.as_ref().map(|_| "…");
        let Self { url, replica_url } = self;
        f.debug_struct("MemoryDatabaseSettings")
            .field("url", &hidden(url))
            .field("replica_url", &hidden(replica_url))
            .finish()
    }
}

/// Limits of imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ImportSettings {
    pub lines_max: usize,
    pub running_per_account_max: u32,
    pub lines_at_once_max: usize,
    pub lines_at_once_per_account_max: usize,
}

impl Default for ImportSettings {
    fn default() -> Self {
        Self { lines_max: 10_000, running_per_account_max: 1, lines_at_once_max: 8, lines_at_once_per_account_max: 4 }
    }
}

impl ImportSettings {
    fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            ("lines_max", self.lines_max == 0),
            ("running_per_account_max", self.running_per_account_max == 0),
            ("lines_at_once_max", self.lines_at_once_max == 0),
            ("lines_at_once_per_account_max", self.lines_at_once_per_account_max == 0),
        ];
        rules.into_iter().filter(|(_, is_none)| *is_none).map(|(name, _)| (name, "must be at least 1")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_send_them() {
        for origin in ["https://app.example.com", "http://localhost:5173", "http://[::1]:8080"] {
            assert!(is_origin(origin), "{origin}");
        }
        for wrong in [
            "*",
            "null",
            "app.example.com",
            "https://app.example.com/",
            "https://App.example.com",
            "https://a.example:443",
            "ftp://a",
        ] {
            let settings = KnowledgeSettings { cors_origins: vec![wrong.to_owned()], ..KnowledgeSettings::default() };
            assert_eq!(settings.problems().len(), 1, "{wrong}");
        }
    }
}
