//! Imports: the lines of an export become memories again (`docs/protocol/knowledge.md#import`).
//!
//! The lines are checked at once and become a batch, which stores its items one after the other. A line that was stored before changes
//! nothing, so an import can be repeated.

use std::collections::HashSet;

use domain::batch::{ImportedMemory, Item};
use domain::ids::{MemoryId, SpaceId};
use domain::item::Fault;
use domain::space::AccessType;
use wire::knowledge::Memory;

use super::access::KnowledgeAccess;
use super::memories::Memories;
use super::refusal::Refusal;
use super::spaces::LISTED_MAX;

/// Lines that are parsed before other tasks get a turn.
const PARSED_AT_ONCE: usize = 16;

/// The items of a batch, checked.
#[derive(Debug)]
pub struct ImportLines {
    /// An item for each line.
    pub items: Vec<Item>,
    /// The target spaces.
    pub spaces: Vec<SpaceId>,
}

/// The spaces that an import may write to.
struct Writable {
    spaces: HashSet<SpaceId>,
    /// The space for lines without an existing space; `None` if the key does not cover it.
    default: Option<SpaceId>,
}

struct LineFault {
    error: Fault,
    message: String,
}

impl LineFault {
    fn invalid(message: impl Into<String>) -> Self {
        Self { error: Fault::InvalidRequest, message: message.into() }
    }
}

impl Memories {
    /// Checks the lines of an import. A line that is not a memory becomes an item with its fault.
    #[boxed]
    pub async fn lines(&self, access: &KnowledgeAccess, text: &str) -> Result<ImportLines, Refusal> {
        let lines: Vec<&str> = text.split('\n').filter(|line| !line.trim_ascii().is_empty()).collect();
        let most = self.limits.get().import_lines_max;
        if !(1..=most).contains(&lines.len()) {
            let count = lines.len();
            let rule = format!("an import has 1 to {most} lines, and this one has {count}: send it in several parts");
            return Err(Refusal::invalid("", rule));
        }
        let writable = self.writable(access).await?;
        let mut items = Vec::with_capacity(lines.len());
        for (nth, line) in lines.into_iter().enumerate() {
            if nth % PARSED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            items.push(match self.memory_of(line, &writable) {
                Ok(memory) => Item::Memory(Box::new(memory)),
                Err(LineFault { error, message }) => Item::Faulty { error, message },
            });
        }
        let spaces = items.iter().flat_map(|item| match item {
            Item::Memory(memory) => memory.spaces.as_slice(),
            _ => &[],
        });
        let mut spaces: Vec<SpaceId> = spaces.copied().collect();
        spaces.sort_unstable();
        spaces.dedup();
        Ok(ImportLines { items, spaces })
    }

    async fn writable(&self, access: &KnowledgeAccess) -> Result<Writable, Refusal> {
        let spaces = self.ports.store.spaces_of_account(&access.account, LISTED_MAX).await?;
        let may = |space: &domain::space::Space| space.access >= AccessType::Edit && access.covers(space.id);
        let spaces = spaces.iter().filter(|space| may(space)).map(|space| space.id).collect();
        let default = match access.to_write(&[], &self.ports).await {
            Ok(default) => default.first().copied(),
            Err(Refusal::SpaceForbidden) => None,
            Err(other) => return Err(other),
        };
        Ok(Writable { spaces, default })
    }

    fn memory_of(&self, text: &str, writable: &Writable) -> Result<ImportedMemory, LineFault> {
        let line: Memory = serde_json::from_str(text).map_err(|error| {
            let reason = domain::brief(&error.to_string());
            LineFault::invalid(format!("the line is no exported memory: {reason}"))
        })?;
        let most = self.limits.get().text_bytes_max;
        if line.content.len() > most {
            let message = format!("the text has {} bytes, and at most {most} are accepted", line.content.len());
            return Err(LineFault { error: Fault::TooLarge, message });
        }
        let mut spaces: Vec<SpaceId> =
            line.spaces.iter().copied().filter(|space| writable.spaces.contains(space)).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces.truncate(self.limits.get().spaces_max);
        if spaces.is_empty() {
            spaces.extend(writable.default);
        }
        if spaces.is_empty() {
            let message = "the API key covers no space of the line, and not the default space".to_owned();
            return Err(LineFault { error: Fault::SpaceForbidden, message });
        }
        let tags: Vec<String> = line.tags.iter().map(ToString::to_string).collect();
        let tags = self.tags_of(&tags).map_err(|refusal| match refusal {
            Refusal::Invalid { rule, .. } => LineFault::invalid(format!("tags: {rule}")),
            other => LineFault::invalid(format!("tags: {other}")),
        })?;
        let now = self.ports.clock.now();
        let created_at = line.created_at.min(now);
        let updated_at = line.updated_at.clamp(created_at, now);
        let new = || MemoryId::from(self.ports.rng.uuid_v7(created_at));
        let (other_id, newer_id) = (new(), new());
        // Lists are ordered by id, so an id must be as old as its memory.
        let id = if millis(line.id) == created_at.timestamp_millis() { line.id } else { newer_id };
        // The URL of a note is the note's own URL at the exporting server.
        let is_own = line.url.ends_with(&format!("/v1/memories/{}", line.id));
        Ok(ImportedMemory {
            id,
            other_id,
            kind: line.kind,
            title: line.title,
            url: Some(line.url).filter(|url| !is_own && !url.is_empty()),
            content: line.content,
            created_at,
            updated_at,
            tags,
            spaces,
        })
    }
}

/// The time in an id of version 7, in milliseconds (RFC 9562, section 5.7).
fn millis(id: MemoryId) -> i64 {
    i64::try_from(id.as_uuid().as_u128() >> 80).unwrap_or(i64::MAX)
}
