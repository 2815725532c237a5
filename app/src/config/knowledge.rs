//! `[knowledge]`: the knowledge API, composed of the settings of its stages.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::actors::ingest::BatchSettings;
use knowledge::chunk::ChunkSettings;
use knowledge::embed::EmbeddingSettings;
use knowledge::extract::ExtractSettings;
use knowledge::fetch::FetchSettings;
use knowledge::filter::LlmSettings;
use serde::{Deserialize, Serialize};

/// The argument with which this program, or `knowledge.worker`, is started to extract the text of pages and PDFs.
pub const EXTRACT_WORKER: &str = "extract-worker";

/// `[knowledge]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeSettings {
    /// A listener of its own for the knowledge API; otherwise it shares the public one.
    pub bind: Option<SocketAddr>,
    /// How clients reach the knowledge API, without a slash at the end; `http.base_url`, or the listener of its own, when it is not set.
    pub base_url: Option<String>,
    /// Spaces that one account may make; its default space is not counted.
    pub spaces_per_account_max: u32,
    /// Memories that one account may keep.
    pub memories_per_account_max: u32,
    /// Program that reads pages and PDFs, started with the argument `extract-worker`; this very program when it is not set.
    pub worker: Option<PathBuf>,
    /// Pause between two looks for passages that have no vector yet.
    #[serde(with = "humantime_serde")]
    pub embed_missing_every: Duration,
    /// `[knowledge.batch]`: limits of batches.
    pub batch: BatchSettings,
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
            worker: None,
            embed_missing_every: Duration::from_secs(5),
            batch: BatchSettings::default(),
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
        fn below<F: ToString, R: ToString>(name: &str, found: Vec<(F, R)>) -> Vec<(String, String)> {
            found.into_iter().map(|(field, rule)| (format!("{name}.{}", field.to_string()), rule.to_string())).collect()
        }
        let mut found = below("batch", self.batch.problems());
        found.extend(below("fetch", self.fetch.problems()));
        found.extend(below("extract", self.extract.problems()));
        found.extend(below("llm", self.llm.problems()));
        found.extend(below("chunk", self.chunk.problems()));
        found.extend(below("embedding", self.embedding.problems()));
        found.extend(below("search", self.search.problems()));
        if self.embed_missing_every.is_zero() {
            found.push(("embed_missing_every".to_owned(), "must be longer than 0s".to_owned()));
        }
        if self.base_url.as_ref().is_some_and(|url| url.ends_with('/')) {
            found.push(("base_url".to_owned(), "must not end with a slash".to_owned()));
        }
        found
    }
}
