//! Prepares one item of a batch for storage: fetches, extracts and filters it, splits it into passages and embeds them
//! (`docs/decisions/0040-batches-and-streams.md` and `docs/decisions/0041-duplicates.md`).
//!
//! Nothing is written here. The worker of the batch commits the result, so an item may be prepared twice and is stored once.

use std::sync::Arc;

use domain::batch::{Item, ItemOutcome};
use domain::filter::{FilterSettings, FilterVerdict, VerdictBy};
use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::item::Fault;
use domain::memory::{MemoryType, ModelId, normalised, note_digest, note_title, short_title};
use domain::web_url::WebUrl;
use domain::{Digest, Timestamp};
use store::memory::{ChunkPut, MemoryPut, Put};
use store::{Store, StoreError};

use crate::backfill::text_of;
use crate::chunk::{ChunkSettings, chunks};
use crate::embed::{EmbedError, Embedder};
use crate::extract::{Extracted, Extractor, Source};
use crate::fetch::{FetchError, Fetcher};
use crate::filter::{Candidate, Filter};

/// The way of an item. Clones share every limit.
#[derive(Debug, Clone)]
pub struct Pipeline(Arc<PipelineStages>);

/// What an item passes.
#[derive(Debug)]
pub struct PipelineStages {
    /// From the web.
    pub fetcher: Arc<Fetcher>,
    /// From bytes to Markdown.
    pub extractor: Extractor,
    /// What is left out.
    pub filter: Filter,
    /// From Markdown to passages.
    pub chunk: ChunkSettings,
    /// From passages to vectors.
    pub embedder: Embedder,
}

/// What is to become of an item.
#[derive(Debug, Clone)]
pub enum Prepared {
    /// It is to be kept.
    Memory(Box<Draft>),
    /// It cannot be kept.
    NotStored(ItemOutcome),
    /// The account's settings leave it out.
    Dropped {
        /// What is told.
        outcome: ItemOutcome,
        /// What was about: an address, or a title.
        subject: String,
        /// Why.
        verdict: FilterVerdict,
    },
}

/// A memory that is not kept yet.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What it is.
    pub kind: MemoryType,
    /// What it is called.
    pub title: String,
    /// Where it is from; nowhere for notes.
    pub url: Option<String>,
    /// Its text, as Markdown.
    pub content: String,
    /// What makes two of them the same.
    pub dedupe: Digest,
    /// Its passages, each with its vector unless there is none now.
    pub passages: Vec<(String, Option<Vec<f32>>)>,
    /// Whose vectors these are.
    pub model: Option<ModelId>,
    /// The address that the client wrote.
    pub given_url: Option<String>,
    /// The title that the client gave.
    pub given_title: Option<String>,
    /// What a filter said of it; worth keeping when a filter was asked and could not say.
    pub verdict: Option<FilterVerdict>,
}

/// Where a memory is to be kept, and how far its sender reaches.
#[derive(Debug, Clone, Copy)]
pub struct ItemPosition<'a> {
    /// For which account.
    pub account: &'a UserAccountId,
    /// In which spaces.
    pub spaces: &'a [SpaceId],
    /// The spaces that the sender's key covers; all of them when absent.
    pub key_spaces: Option<&'a [SpaceId]>,
}

impl Draft {
    /// What is told when it cannot be kept after all: of what the client wrote, as in every other error.
    pub fn refused(&self, error: Fault, message: &str) -> ItemOutcome {
        let (url, title) = (self.given_url.clone(), self.given_title.clone());
        ItemOutcome::Error { url, title, error, message: message.to_owned() }
    }

    /// Keeps it; `None` when the account keeps as much as it may. The same draft twice is the same memory.
    pub async fn put(
        &self,
        store: &Store,
        id: MemoryId,
        place: ItemPosition<'_>,
        memories_max: u32,
        now: Timestamp,
    ) -> Result<Option<MemoryId>, StoreError> {
        let chunks: Vec<ChunkPut<'_>> =
            self.passages.iter().map(|(content, vector)| ChunkPut { content, vector: vector.as_deref() }).collect();
        let ItemPosition { account, spaces, key_spaces } = place;
        let put = MemoryPut {
            id,
            account,
            kind: self.kind,
            title: &self.title,
            url: self.url.as_deref(),
            content: &self.content,
            dedupe: self.dedupe,
            chunks: &chunks,
            model: self.model.as_ref(),
            spaces,
            key_spaces,
            memories_max,
        };
        Ok(match store.memory_put(&put, now).await? {
            Put::Created(id) | Put::Existing(id) | Put::Updated(id) => Some(id),
            Put::QuotaExceeded => None,
        })
    }

    /// What a verdict about it is filed under.
    pub fn subject(&self) -> &str {
        self.url.as_deref().unwrap_or(&self.title)
    }
}

impl Pipeline {
    /// The stations in their order.
    pub fn new(stations: PipelineStages) -> Self {
        Self(Arc::new(stations))
    }

    /// The stations.
    pub fn stations(&self) -> &PipelineStages {
        &self.0
    }

    /// Prepares an item of `account`. Dropping the future cancels the steps that have not begun.
    pub async fn prepare(&self, account: &UserAccountId, item: &Item, wanted: &FilterSettings) -> Prepared {
        let raw = match item {
            Item::Url(url) => self.page(account, url).await,
            Item::Note { content, title, kind } => note(content, title.as_deref(), *kind),
        };
        match raw {
            Ok(raw) => self.keep(item, raw, wanted).await,
            Err(ItemFailure::Fault(fault, message)) => Prepared::NotStored(ItemOutcome::error(item, fault, message)),
            Err(ItemFailure::Skipped(reason)) => Prepared::NotStored(ItemOutcome::Skipped {
                url: item.url().map(str::to_owned),
                reason: reason.to_owned(),
            }),
        }
    }

    async fn page(&self, account: &UserAccountId, url: &str) -> Result<Raw, ItemFailure> {
        let fault = |fault: Fault, why: &dyn std::error::Error| ItemFailure::Fault(fault, why.to_string());
        let url: WebUrl = url.parse().map_err(|error| fault(Fault::InvalidUrl, &error))?;
        let fetched = self.0.fetcher.fetch(&url).await.map_err(|error: FetchError| match error.fault() {
            Some(code) => fault(code, &error),
            None => ItemFailure::Skipped("robots_disallowed"),
        })?;
        let source = Source {
            media_type: fetched.media_type.as_str().to_owned(),
            charset: fetched.charset,
            url: Some(fetched.url.as_str().to_owned()),
            body: fetched.body,
        };
        let extracted = self.0.extractor.extract(source, account).await;
        let Extracted { title, markdown, kind } = extracted.map_err(|error| fault(error.fault(), &error))?;
        let canonical = url.canonical();
        Ok(Raw {
            kind,
            title: title.unwrap_or_else(|| url.host_str().to_owned()),
            dedupe: Digest::of(canonical.as_str().as_bytes()),
            url: Some(canonical.as_str().to_owned()),
            content: markdown,
        })
    }

    async fn keep(&self, item: &Item, raw: Raw, wanted: &FilterSettings) -> Prepared {
        let PipelineStages { filter, chunk, .. } = &*self.0;
        let candidate = Candidate { title: Some(&raw.title), url: raw.url.as_deref(), markdown: &raw.content };
        let verdict = if wanted.is_active() { Some(filter.judge(wanted, candidate).await) } else { None };
        if let Some(verdict) = verdict.as_ref().filter(|verdict| !verdict.keep) {
            let (url, reason) = (item.url().map(str::to_owned), "filtered".to_owned());
            let subject = raw.url.unwrap_or(raw.title);
            return Prepared::Dropped {
                outcome: ItemOutcome::Skipped { url, reason },
                subject,
                verdict: verdict.clone(),
            };
        }
        let (settings, content) = (chunk.clone(), raw.content);
        // Long texts keep a processor busy, and others wait on these threads.
        let cut = tokio::task::spawn_blocking(move || (chunks(&content, &settings), content)).await;
        let (texts, content) = match cut {
            Ok((Ok(texts), content)) if !texts.is_empty() => (texts, content),
            Ok((Ok(_), _)) => {
                return Prepared::NotStored(ItemOutcome::error(item, Fault::EmptyContent, "there is no text in it"));
            }
            Ok((Err(error), _)) => {
                return Prepared::NotStored(ItemOutcome::error(item, Fault::TooLarge, error.to_string()));
            }
            Err(_panic) => {
                return Prepared::NotStored(ItemOutcome::error(
                    item,
                    Fault::ExtractFailed,
                    "its text could not be cut",
                ));
            }
        };
        let (model, passages) = self.embed(&raw.title, texts).await;
        Prepared::Memory(Box::new(Draft {
            kind: raw.kind,
            title: raw.title,
            url: raw.url,
            content,
            dedupe: raw.dedupe,
            passages,
            model,
            given_url: item.url().map(str::to_owned),
            given_title: item.title().map(str::to_owned),
            verdict: verdict.filter(|verdict| verdict.by == VerdictBy::Unfiltered),
        }))
    }

    /// Passages that get no vector now are found by their words, and get one later.
    async fn embed(&self, title: &str, texts: Vec<String>) -> (Option<ModelId>, Vec<(String, Option<Vec<f32>>)>) {
        let embedder = &self.0.embedder;
        let without = |texts: Vec<String>| texts.into_iter().map(|text| (text, None)).collect();
        let Some(model) = embedder.model() else { return (None, without(texts)) };
        match embedder.embed(texts.iter().map(|text| text_of(title, text)).collect()).await {
            Ok(vectors) => (Some(model.clone()), texts.into_iter().zip(vectors.into_iter().map(Some)).collect()),
            Err(error) => {
                if !matches!(error, EmbedError::Off) {
                    tracing::warn!(error = domain::reasons(&error), "passages are kept without vectors for now");
                }
                (None, without(texts))
            }
        }
    }
}

/// An item after it was read, before anything was decided.
struct Raw {
    kind: MemoryType,
    title: String,
    url: Option<String>,
    content: String,
    dedupe: Digest,
}

/// Why an item goes no further.
enum ItemFailure {
    Fault(Fault, String),
    Skipped(&'static str),
}

fn note(content: &str, title: Option<&str>, kind: MemoryType) -> Result<Raw, ItemFailure> {
    let content = normalised(content);
    if !content.chars().any(char::is_alphanumeric) {
        return Err(ItemFailure::Fault(Fault::EmptyContent, "there is no text in it".to_owned()));
    }
    let title = title.and_then(short_title).or_else(|| note_title(&content)).unwrap_or_default();
    Ok(Raw { kind, title, url: None, dedupe: note_digest(&content), content })
}
