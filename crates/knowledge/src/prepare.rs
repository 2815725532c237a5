//! Prepares one item of a batch for storage: fetches, extracts and filters it, splits it into chunks and embeds them
//! (`docs/decisions/0024-batches.md` and `docs/decisions/0021-memories.md`).
//!
//! Writes nothing. The worker of the batch stores the result, so an item can be prepared twice and is still stored
//! once.

use std::sync::Arc;

use domain::batch::{ImportedMemory, Item, ItemOutcome};
use domain::filter::{FilterSettings, FilterVerdict, VerdictBy};
use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::item::Fault;
use domain::memory::{MemoryType, ModelId, TITLE_CHARS_MAX, normalised, note_digest, note_title, short_title};
use domain::web_url::WebUrl;
use domain::{Digest, Timestamp};
use store::memory::{ChunkPut, MemoryPut, MemoryQuota, Put, Restored};
use store::{Store, StoreError};

use crate::backfill::text_of;
use crate::chunk::{ChunkSettings, chunks};
use crate::embed::{EmbedError, Embedder};
use crate::fetch::{FetchError, Fetcher};
use crate::filter::{Candidate, Filter};
use extract::{Extracted, Extractor, RawContent};

/// Prepares items. Clones share all limits.
#[derive(Debug, Clone)]
pub struct Pipeline(Arc<PipelineStages>);

/// The steps of preparing an item.
#[derive(Debug)]
pub struct PipelineStages {
    /// Fetches a URL.
    pub fetcher: Arc<Fetcher>,
    /// Converts bytes to Markdown.
    pub extractor: Extractor,
    /// Decides whether to keep the content.
    pub filter: Filter,
    /// How Markdown is split into chunks.
    pub chunk: ChunkSettings,
    /// Embeds chunks.
    pub embedder: Embedder,
}

/// Result of preparing an item.
#[derive(Debug, Clone)]
pub enum Prepared {
    /// The item is ready to be stored.
    Memory(Box<MemoryDraft>),
    /// A memory of an export is ready to be stored.
    Imported {
        /// The memory with its chunks.
        draft: Box<MemoryDraft>,
        /// The memory without its text.
        memory: Box<ImportedMemory>,
    },
    /// The item failed or was skipped.
    NotStored(ItemOutcome),
    /// The account's filter dropped the item.
    Dropped {
        /// The outcome for the stream.
        outcome: ItemOutcome,
        /// URL or title, for the verdict log.
        subject: String,
        /// The verdict of the filter.
        verdict: FilterVerdict,
    },
}

/// A memory that is ready to be stored.
#[derive(Debug, Clone)]
pub struct MemoryDraft {
    /// `page` or `document` for URLs, the client's type for notes.
    pub kind: MemoryType,
    /// Title from the content or the client.
    pub title: String,
    /// Canonical URL; `None` for notes.
    pub url: Option<String>,
    /// Text as Markdown.
    pub content: String,
    /// Key by which duplicates are found.
    pub dedupe: Digest,
    /// Chunks with their vectors; `None` where embedding failed.
    pub chunks: Vec<(String, Option<Vec<f32>>)>,
    /// Model of the vectors.
    pub model: Option<ModelId>,
    /// URL as the client wrote it.
    pub given_url: Option<String>,
    /// Title as the client wrote it.
    pub given_title: Option<String>,
    /// The verdict, if the filter was active but could not decide.
    pub verdict: Option<FilterVerdict>,
}

/// Chunks of a stored text that are embedded while the request waits, as a few pages have.
pub const EMBEDDED_AT_ONCE: usize = 64;

/// A text of a memory that was stored before.
#[derive(Debug, Clone)]
pub struct KnownText {
    /// Its type.
    pub kind: MemoryType,
    /// Its title; derived from the text, or the host of the URL, if absent.
    pub title: Option<String>,
    /// The URL of a page.
    pub url: Option<String>,
    /// Text as Markdown.
    pub content: String,
}

/// Why a text cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TextFault {
    /// Machine-readable reason.
    pub fault: Fault,
    /// Explanation for a person.
    pub message: String,
}

impl TextFault {
    fn of(fault: Fault, why: &(dyn std::error::Error + 'static)) -> Self {
        Self { fault, message: domain::reasons(why) }
    }
}

/// Where to store a memory, and the access of its sender.
#[derive(Debug, Clone, Copy)]
pub struct ItemPosition<'a> {
    /// The account to store it in.
    pub account: &'a UserAccountId,
    /// The spaces to add it to.
    pub spaces: &'a [SpaceId],
    /// The spaces of the sender's API key; `None` if the key is not limited.
    pub key_spaces: Option<&'a [SpaceId]>,
}

impl MemoryDraft {
    /// The error outcome if storing fails, with URL and title as the client wrote them.
    pub fn refused(&self, error: Fault, message: &str) -> ItemOutcome {
        let (url, title) = (self.given_url.clone(), self.given_title.clone());
        ItemOutcome::Error { url, title, error, message: message.to_owned() }
    }

    /// Stores a draft of an export with its id, times and tags.
    pub async fn restore(
        &self,
        store: &Store,
        id: MemoryId,
        place: ItemPosition<'_>,
        quota: MemoryQuota,
        restored: &Restored<'_>,
    ) -> Result<Put, StoreError> {
        let chunks = self.chunks();
        store.memory_import(&self.as_put(id, place, &chunks, quota), restored).await
    }

    /// The chunks as rows.
    pub fn chunks(&self) -> Vec<ChunkPut<'_>> {
        self.chunks.iter().map(|(content, vector)| ChunkPut { content, vector: vector.as_deref() }).collect()
    }

    fn as_put<'a>(
        &'a self,
        id: MemoryId,
        ItemPosition { account, spaces, key_spaces }: ItemPosition<'a>,
        chunks: &'a [ChunkPut<'a>],
        quota: MemoryQuota,
    ) -> MemoryPut<'a> {
        MemoryPut {
            id,
            account,
            kind: self.kind,
            title: &self.title,
            url: self.url.as_deref(),
            content: &self.content,
            dedupe: self.dedupe,
            chunks,
            model: self.model.as_ref(),
            spaces,
            key_spaces,
            quota,
        }
    }

    /// Stores the draft; `None` if the account keeps as much as its quota permits. Storing the same draft twice yields the
    /// same memory.
    pub async fn put(
        &self,
        store: &Store,
        id: MemoryId,
        place: ItemPosition<'_>,
        quota: MemoryQuota,
        now: Timestamp,
    ) -> Result<Option<MemoryId>, StoreError> {
        let chunks = self.chunks();
        let put = self.as_put(id, place, &chunks, quota);
        Ok(match store.memory_put(&put, now).await? {
            Put::Created(id) | Put::Existing(id) | Put::Updated(id) => Some(id),
            Put::QuotaExceeded => None,
        })
    }

    /// URL or title, for the verdict log.
    pub fn subject(&self) -> &str {
        self.url.as_deref().unwrap_or(&self.title)
    }
}

impl Pipeline {
    /// Creates a pipeline of these stages.
    pub fn new(stages: PipelineStages) -> Self {
        Self(Arc::new(stages))
    }

    /// The stages of the pipeline.
    pub fn stages(&self) -> &PipelineStages {
        &self.0
    }

    /// Prepares an item of `account`. Dropping the future cancels the steps that have not started.
    #[boxed]
    pub async fn prepare(&self, account: &UserAccountId, item: &Item, wanted: &FilterSettings) -> Prepared {
        let raw = match item {
            Item::Url(url) => self.page(account, url).await,
            Item::Note { content, title, kind } => note(content, title.as_deref(), *kind),
            Item::Memory(memory) => return self.imported(item, memory.as_ref().clone()).await,
            Item::Faulty { error, message } => {
                return Prepared::NotStored(ItemOutcome::error(item, *error, message.as_str()));
            }
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

    async fn imported(&self, item: &Item, mut memory: ImportedMemory) -> Prepared {
        let text = KnownText {
            kind: memory.kind,
            title: Some(memory.title.clone()).filter(|title| !title.is_empty()),
            url: memory.url.clone(),
            content: std::mem::take(&mut memory.content),
        };
        match self.prepare_text(text).await {
            Ok(mut draft) => {
                // A title of an export is kept unchanged, even with blanks that an added title would lose.
                let is_title = (1..=TITLE_CHARS_MAX).contains(&memory.title.chars().count());
                if is_title && !memory.title.chars().any(char::is_control) {
                    draft.title.clone_from(&memory.title);
                }
                Prepared::Imported { draft: Box::new(draft), memory: Box::new(memory) }
            }
            Err(TextFault { fault, message }) => Prepared::NotStored(ItemOutcome::error(item, fault, message)),
        }
    }

    async fn page(&self, account: &UserAccountId, url: &str) -> Result<RawItem, ItemFailure> {
        let fault =
            |fault: Fault, why: &(dyn std::error::Error + 'static)| ItemFailure::Fault(fault, domain::reasons(why));
        let url: WebUrl = url.parse().map_err(|error| fault(Fault::InvalidUrl, &error))?;
        let fetched = self.0.fetcher.fetch(account, &url).await.map_err(|error: FetchError| match error.fault() {
            Some(code) => fault(code, &error),
            None => ItemFailure::Skipped("robots_disallowed"),
        })?;
        let source = RawContent {
            media_type: fetched.media_type.as_str().to_owned(),
            charset: fetched.charset,
            url: Some(fetched.url.as_str().to_owned()),
            body: fetched.body,
        };
        let extracted = self.0.extractor.extract(source, account).await;
        let Extracted { title, markdown, kind } = extracted.map_err(|error| fault(error.fault(), &error))?;
        let canonical = url.canonical();
        Ok(RawItem {
            kind,
            title: title.unwrap_or_else(|| url.host_str().to_owned()),
            dedupe: Digest::of(canonical.as_str().as_bytes()),
            url: Some(canonical.as_str().to_owned()),
            content: markdown,
        })
    }

    /// Prepares a text that is stored already, or comes from an export: it is neither fetched nor filtered. A text of more than
    /// [`EMBEDDED_AT_ONCE`] chunks gets its vectors later.
    #[boxed]
    pub async fn prepare_text(&self, text: KnownText) -> Result<MemoryDraft, TextFault> {
        let KnownText { kind, title, url, content } = text;
        let raw = match url {
            Some(url) => {
                let url: WebUrl = url.parse().map_err(|error| TextFault::of(Fault::InvalidUrl, &error))?;
                let canonical = url.canonical();
                let dedupe = Digest::of(canonical.as_str().as_bytes());
                let title = title.unwrap_or_else(|| url.host_str().to_owned());
                RawItem { kind, title, url: Some(canonical.as_str().to_owned()), dedupe, content }
            }
            None => match note(&content, title.as_deref(), kind) {
                Ok(raw) => raw,
                Err(ItemFailure::Fault(fault, message)) => return Err(TextFault { fault, message }),
                Err(ItemFailure::Skipped(reason)) => {
                    return Err(TextFault { fault: Fault::EmptyContent, message: reason.to_owned() });
                }
            },
        };
        let (texts, content) = self.cut(raw.content).await?;
        let (model, chunks) = if texts.len() > EMBEDDED_AT_ONCE {
            (None, texts.into_iter().map(|text| (text, None)).collect())
        } else {
            self.embed(&raw.title, texts).await
        };
        Ok(MemoryDraft {
            kind: raw.kind,
            title: raw.title,
            given_url: None,
            given_title: None,
            url: raw.url,
            content,
            dedupe: raw.dedupe,
            chunks,
            model,
            verdict: None,
        })
    }

    /// Divides a text into chunks, at least one.
    async fn cut(&self, content: String) -> Result<(Vec<String>, String), TextFault> {
        let settings = self.0.chunk.clone();
        let fault = |fault: Fault, message: &str| TextFault { fault, message: message.to_owned() };
        // Splitting a long text is too slow for an async thread.
        match tokio::task::spawn_blocking(move || (chunks(&content, &settings), content)).await {
            Ok((Ok(texts), content)) if !texts.is_empty() => Ok((texts, content)),
            Ok((Ok(_), _)) => Err(fault(Fault::EmptyContent, "there is no text in it")),
            Ok((Err(error), _)) => Err(TextFault::of(Fault::TooLarge, &error)),
            Err(_panic) => Err(fault(Fault::ExtractFailed, "its text could not be cut")),
        }
    }

    async fn keep(&self, item: &Item, raw: RawItem, wanted: &FilterSettings) -> Prepared {
        let filter = &self.0.filter;
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
        let (texts, content) = match self.cut(raw.content).await {
            Ok(cut) => cut,
            Err(TextFault { fault, message }) => {
                return Prepared::NotStored(ItemOutcome::error(item, fault, message));
            }
        };
        let (model, chunks) = self.embed(&raw.title, texts).await;
        Prepared::Memory(Box::new(MemoryDraft {
            kind: raw.kind,
            title: raw.title,
            url: raw.url,
            content,
            dedupe: raw.dedupe,
            chunks,
            model,
            given_url: item.url().map(str::to_owned),
            given_title: item.title().map(str::to_owned),
            verdict: verdict.filter(|verdict| verdict.by == VerdictBy::Unfiltered),
        }))
    }

    /// Chunks without a vector are found by their words, and embedded later by [`crate::backfill`].
    async fn embed(&self, title: &str, texts: Vec<String>) -> (Option<ModelId>, Vec<(String, Option<Vec<f32>>)>) {
        let embedder = &self.0.embedder;
        let without = |texts: Vec<String>| texts.into_iter().map(|text| (text, None)).collect();
        let Some(model) = embedder.model() else { return (None, without(texts)) };
        match embedder.embed(texts.iter().map(|text| text_of(title, text)).collect()).await {
            Ok(vectors) => (Some(model.clone()), texts.into_iter().zip(vectors.into_iter().map(Some)).collect()),
            Err(error) => {
                if !matches!(error, EmbedError::Off) {
                    tracing::warn!(error = domain::reasons(&error), "chunks are kept without vectors for now");
                }
                (None, without(texts))
            }
        }
    }
}

/// An item before it is filtered and split.
struct RawItem {
    kind: MemoryType,
    title: String,
    url: Option<String>,
    content: String,
    dedupe: Digest,
}

/// Why an item cannot be prepared.
enum ItemFailure {
    Fault(Fault, String),
    Skipped(&'static str),
}

fn note(content: &str, title: Option<&str>, kind: MemoryType) -> Result<RawItem, ItemFailure> {
    let content = normalised(content);
    if !content.chars().any(char::is_alphanumeric) {
        return Err(ItemFailure::Fault(Fault::EmptyContent, "there is no text in it".to_owned()));
    }
    // A note with a word has a title.
    let title = title.and_then(short_title).or_else(|| note_title(&content)).unwrap_or_default();
    Ok(RawItem { kind, title, url: None, dedupe: note_digest(&content), content })
}
