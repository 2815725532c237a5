//! Imports: the lines of an export become memories again (`docs/protocol/knowledge.md#import`).
//!
//! Each line is stored by itself, and a line that was stored before changes nothing, so an interrupted import is repeated from its beginning.

use std::collections::HashSet;

use domain::Timestamp;
use domain::ids::{MemoryId, SpaceId};
use domain::memory::TITLE_CHARS_MAX;
use domain::space::AccessType;
use knowledge::prepare::ItemPosition;
use knowledge::{KnownText, MemoryDraft};
use store::memory::{Put, Restored};
use wire::knowledge::Memory;

use super::access::KnowledgeAccess;
use super::memories::Memories;
use super::refusal::Refusal;
use super::spaces::LISTED_MAX;
use async_recursion::async_recursion as boxed;

/// One import: its party, and the spaces that it may write to.
#[derive(Debug)]
pub struct Import {
    memories: Memories,
    access: KnowledgeAccess,
    writable: HashSet<SpaceId>,
    /// The space of a line without a space that exists here; `None` if the key does not cover it.
    default: Option<SpaceId>,
}

/// The outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// The memory was created.
    Created(MemoryId),
    /// The account had the memory before; it is unchanged, and linked to the spaces of the line.
    Existing(MemoryId),
}

/// Why a line was not imported.
#[derive(Debug)]
pub struct LineFault {
    /// Machine-readable reason.
    pub code: String,
    /// Explanation for a person.
    pub message: String,
}

/// The outcome of a line, or why the import cannot continue.
pub type LineResult = Result<Result<Imported, LineFault>, Refusal>;

impl LineFault {
    fn invalid(message: impl Into<String>) -> Self {
        Self { code: "invalid_request".to_owned(), message: message.into() }
    }
}

impl Memories {
    /// Begins an import of `lines` lines.
    #[boxed]
    pub async fn import(&self, access: KnowledgeAccess, lines: usize) -> Result<Import, Refusal> {
        let most = self.limits.import_lines_max;
        if !(1..=most).contains(&lines) {
            let rule = format!("an import has 1 to {most} lines, and this one has {lines}: send it in several parts");
            return Err(Refusal::invalid("", rule));
        }
        let spaces = self.ports.store.spaces_of_account(&access.account, LISTED_MAX).await?;
        let may = |space: &domain::space::Space| space.access >= AccessType::Edit && access.covers(space.id);
        let writable = spaces.iter().filter(|space| may(space)).map(|space| space.id).collect();
        let default = match access.to_write(&[], &self.ports).await {
            Ok(default) => default.first().copied(),
            Err(Refusal::SpaceForbidden) => None,
            Err(other) => return Err(other),
        };
        Ok(Import { memories: self.clone(), access, writable, default })
    }
}

impl Import {
    /// The party that imports.
    pub fn access(&self) -> &KnowledgeAccess {
        &self.access
    }

    /// Stores the memory of one line.
    #[boxed]
    pub async fn line(&self, text: &str) -> LineResult {
        let line: Memory = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(error) => return Ok(Err(LineFault::invalid(format!("the line is no exported memory: {error}")))),
        };
        let most = self.memories.limits.text_bytes_max;
        if line.content.len() > most {
            let message = format!("the text has {} bytes, and at most {most} are accepted", line.content.len());
            return Ok(Err(LineFault { code: "too_large".to_owned(), message }));
        }
        let mut spaces: Vec<SpaceId> =
            line.spaces.iter().copied().filter(|space| self.writable.contains(space)).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces.truncate(self.memories.limits.spaces_max);
        if spaces.is_empty() {
            spaces.extend(self.default);
        }
        if spaces.is_empty() {
            let message = "the API key covers no space of the line, and not the default space".to_owned();
            return Ok(Err(LineFault { code: "space_forbidden".to_owned(), message }));
        }
        let tags: Vec<String> = line.tags.iter().map(ToString::to_string).collect();
        let tags = match self.memories.tags_of(&tags) {
            Ok(tags) => tags,
            Err(Refusal::Invalid { rule, .. }) => return Ok(Err(LineFault::invalid(format!("tags: {rule}")))),
            Err(other) => return Err(other),
        };
        let now = self.memories.ports.clock.now();
        let created_at = line.created_at.min(now);
        let updated_at = line.updated_at.clamp(created_at, now);
        let (id, title) = (line.id, line.title.clone());
        let mut draft = match self.memories.pipeline.prepare_text(known(line)).await {
            Ok(draft) => draft,
            Err(fault) => return Ok(Err(LineFault { code: fault.fault.to_string(), message: fault.message })),
        };
        // A title of an export is kept as it is, also if it has blanks that an added one would lose.
        if (1..=TITLE_CHARS_MAX).contains(&title.chars().count()) && !title.chars().any(char::is_control) {
            draft.title = title;
        }
        self.store(draft, id, spaces, (created_at, updated_at), tags).await
    }

    async fn store(
        &self,
        draft: MemoryDraft,
        id: MemoryId,
        spaces: Vec<SpaceId>,
        (created_at, updated_at): (Timestamp, Timestamp),
        tags: Vec<domain::memory::Tag>,
    ) -> LineResult {
        let Memories { ports, limits, .. } = &self.memories;
        let new = || MemoryId::from(ports.rng.uuid_v7(created_at));
        let other_id = new();
        // Lists are in the order of the ids, so an id has to be as old as its memory.
        let id = if millis(id) == created_at.timestamp_millis() { id } else { other_id };
        let (store, account, within) = (ports.store.clone(), self.access.account.clone(), self.access.within.clone());
        let quota = limits.quota;
        let other_id = new();
        let write = async move {
            let place = ItemPosition { account: &account, spaces: &spaces, key_spaces: within.as_deref() };
            let restored = Restored { created_at, updated_at, tags: &tags, other_id };
            draft.restore(&store, id, place, quota, &restored).await
        };
        Ok(match actors::detached(write).await?? {
            Put::Created(id) => Ok(Imported::Created(id)),
            Put::Existing(id) | Put::Updated(id) => Ok(Imported::Existing(id)),
            Put::QuotaExceeded => Err(LineFault {
                code: "quota_exceeded".to_owned(),
                message: "the account keeps as much as it may: delete something first".to_owned(),
            }),
        })
    }
}

/// The text of a line. The URL of a note is its own, at the server of the export.
fn known(line: Memory) -> KnownText {
    let is_own = line.url.ends_with(&format!("/v1/memories/{}", line.id));
    KnownText {
        kind: line.kind,
        title: Some(line.title).filter(|title| !title.is_empty()),
        url: Some(line.url).filter(|url| !is_own && !url.is_empty()),
        content: line.content,
    }
}

/// The time in an id of version 7, in milliseconds (RFC 9562, section 5.7).
fn millis(id: MemoryId) -> i64 {
    i64::try_from(id.as_uuid().as_u128() >> 80).unwrap_or(i64::MAX)
}
