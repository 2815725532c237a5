//! Spaces, batches and memories as rows of the pages.

use std::collections::HashMap;

use app::services::knowledge::batches::BatchSummary;
use app::services::knowledge::memories::Memory;
use domain::Timestamp;
use domain::ids::SpaceId;
use domain::space::{AccessType, DEFAULT_NAME, Space};

use super::SpaceLink;
use super::found::titled;
use crate::Moment;
use crate::account::AccountOwner;
use crate::markdown::plain;

/// A space that a person may read.
pub(super) struct SpaceRow {
    pub space: Space,
    /// The owner, if it is another person.
    pub owner: Option<String>,
}

impl SpaceRow {
    /// The spaces of a person, favourites first, and the name of the default space.
    pub(super) fn all(spaces: Vec<Space>, owner: &AccountOwner) -> (Vec<Self>, String) {
        let mut rows: Vec<Self> = spaces.into_iter().map(|space| Self::of(space, owner)).collect();
        let default = rows.iter().find(|row| row.is_default());
        let default = default.map_or(DEFAULT_NAME, |row| row.space.name.as_str()).to_owned();
        rows.sort_by_key(|row| !row.space.is_favorite);
        (rows, default)
    }

    fn of(space: Space, owner: &AccountOwner) -> Self {
        let others = space.owner != owner.account;
        let name = others.then(|| space.owner_name.clone().unwrap_or_else(|| "another person".into()));
        Self { space, owner: name }
    }

    /// Whether this is the default space, for items without a named space.
    pub(super) fn is_default(&self) -> bool {
        self.space.is_default && self.owner.is_none()
    }

    pub(super) fn is_writable(&self) -> bool {
        self.space.access >= AccessType::Edit
    }
}

/// A batch of the last day.
pub(super) struct BatchRow {
    pub id: String,
    pub total: usize,
    pub processed: usize,
    pub is_running: bool,
    pub created: Moment,
}

impl BatchRow {
    pub(super) fn of(batch: &BatchSummary, now: Timestamp) -> Self {
        Self {
            id: batch.id.to_string(),
            total: batch.total,
            processed: batch.processed,
            is_running: batch.is_running,
            created: Moment::new(batch.created_at, now),
        }
    }
}

/// A memory in a list.
pub(super) struct MemoryRow {
    pub id: String,
    pub title: String,
    /// "note", or the host of a page.
    pub source: String,
    pub added: Moment,
    pub spaces: Vec<SpaceLink>,
    pub tags: Vec<String>,
    /// The first words of the text.
    pub excerpt: String,
    /// Whether the person may change it.
    pub is_ours: bool,
}

/// Names of spaces by their ids.
pub(super) type SpaceNames = HashMap<SpaceId, String>;

/// The names of the spaces in these rows.
pub(super) fn names(rows: &[SpaceRow]) -> SpaceNames {
    rows.iter().map(|row| (row.space.id, row.space.name.as_str().to_owned())).collect()
}

impl MemoryRow {
    pub(super) fn of(memory: Memory, names: &SpaceNames, owner: &AccountOwner, now: Timestamp) -> Self {
        let (words, title) = (plain(&memory.content), titled(memory.title));
        Self {
            id: memory.id.to_string(),
            source: source(memory.kind.as_str(), memory.url.as_deref()),
            added: Moment::new(memory.created_at, now),
            spaces: linked(&memory.spaces, names),
            tags: memory.tags.iter().map(ToString::to_string).collect(),
            // The title of a note without one is its first words.
            excerpt: words.strip_prefix(&title).unwrap_or(&words).trim_start().to_owned(),
            title,
            is_ours: memory.account == owner.account,
        }
    }
}

/// Links to the spaces in `names`, in the order of the memory.
pub(super) fn linked(spaces: &[SpaceId], names: &SpaceNames) -> Vec<SpaceLink> {
    let link = |id: &SpaceId| Some(SpaceLink { id: id.to_string(), name: names.get(id)?.clone() });
    spaces.iter().filter_map(link).collect()
}

/// The source of a memory in a word.
pub(super) fn source(kind: &str, url: Option<&str>) -> String {
    let host = url.and_then(|url| url.split_once("://")).map(|(_, rest)| rest.split(['/', '?', '#']).next());
    match host.flatten() {
        Some(host) if !host.is_empty() => host.strip_prefix("www.").unwrap_or(host).to_owned(),
        _ => kind.to_owned(),
    }
}
