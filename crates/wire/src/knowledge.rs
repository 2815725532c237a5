//! Spaces, batches, search, settings and memories (`docs/protocol/knowledge.md` and
//! `docs/decisions/0024-batches.md` and `docs/decisions/0020-keys-and-spaces.md`).

use domain::Timestamp;
use domain::filter::FilterSettings;
use domain::ids::{MemoryId, SpaceId};
use domain::memory::{MemoryType, Tag};
use domain::space::AccessType;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{form, schema};

/// The body of `POST /v1/spaces/create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceRequest {
    /// Name of the space, 1 to 100 characters.
    #[schema(schema_with = schema::name)]
    pub space_name: String,
    /// Whether every valid API key may read the space; `false` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
}

/// Response to a new space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceCreated {
    /// Message for a person.
    pub message: String,
    /// The new space.
    pub space: Space,
}

/// Body of `PATCH /v1/spaces/{id}`. Absent members do not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpaceChange {
    /// New name of the space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::name_or_null, required = false)]
    pub space_name: Option<String>,
    /// Whether every valid API key may read the space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
    /// Whether the caller's account marks the space as a favourite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_favorite: Option<bool>,
}

/// Response to a changed space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceChanged {
    /// The space after the change.
    pub space: Space,
}

/// `GET /v1/spaces`: the default space first, then the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spaces {
    /// The spaces that the caller may read.
    pub spaces: Vec<Space>,
}

/// A set of memories (`docs/protocol/knowledge.md#spaces`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Space {
    /// Id of the space.
    #[schema(value_type = schema::UuidV7)]
    pub id: SpaceId,
    /// Name of the space.
    pub name: String,
    /// Whether every valid API key may read the space.
    pub is_public: bool,
    /// Whether the caller's account marked the space as a favourite.
    pub is_favorite: bool,
    /// Owner of the space.
    pub owner: Owner,
    /// Access of the caller's account.
    #[schema(value_type = schema::AccessType)]
    pub access_type: AccessType,
    /// Time of creation.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
}

/// Owner of a space; members are empty if the name is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// First names.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
}

/// Maximum length of a query, in bytes. Attributes require literals; a test compares them with these constants.
pub const QUERY_BYTES_MAX: usize = 4096;
/// Maximum number of documents per search.
pub const SEARCH_LIMIT_MAX: u32 = 50;
/// Default number of documents.
pub const SEARCH_LIMIT: u32 = 10;
/// Maximum number of spaces per search.
pub const SEARCH_SPACES_MAX: usize = 50;

/// The body of `POST /v1/search`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchRequest {
    /// Query, 1 to 4096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, min_length = 1, max_length = 4096)]
    pub query: Option<String>,
    /// Maximum number of documents, 1 to 50; default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 50, default = 10)]
    pub limit: Option<f64>,
    /// Minimum similarity, 0 to 1; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub threshold: Option<f64>,
    /// Spaces to search; default is the whole account of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 50)]
    pub spaces: Option<Vec<Uuid>>,
}

/// Result of a search, most similar first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchResults {
    /// The documents, most similar first.
    pub results: Vec<SearchResult>,
}

/// A document of a search result (`docs/protocol/knowledge.md#search`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    /// Id of the memory.
    #[schema(value_type = schema::UuidV7)]
    pub id: MemoryId,
    /// Title of the memory.
    pub title: String,
    /// URL of the page, or of the note in attache.
    pub url: String,
    /// Start of the content, at most 100,000 characters.
    pub content: String,
    /// Similarity of the best chunk: 0 to 1, with four decimals.
    #[schema(minimum = 0, maximum = 1)]
    pub similarity: f64,
    /// Time of addition.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Type of the memory.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// The best chunks, at most 5, best first.
    pub chunks: Vec<Chunk>,
}

/// A chunk of a search result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chunk {
    /// Text of the chunk.
    pub content: String,
    /// Similarity: 0 to 1, with four decimals.
    #[schema(minimum = 0, maximum = 1)]
    pub similarity: f64,
}

/// Body of `POST /v1/batch-add`, with at most 600 URLs and notes in total.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// URLs of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<Vec<String>>,
    /// Notes to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Vec<Note>>,
    /// Spaces to add to; the account's default space if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<Vec<Uuid>>,
}

/// A note of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Note {
    /// Text of the note, at most 1 MiB.
    pub content: String,
    /// Title of the note; derived from the text if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Type of the note; default `note`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::MemoryType>)]
    pub kind: Option<MemoryType>,
}

/// A message of a batch's stream, in `data:`. Clients ignore unknown types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum BatchMessage {
    /// Progress of the batch.
    Progress {
        /// Number of items with an outcome.
        processed: u64,
        /// Number of items in the batch.
        total: u64,
    },
    /// An item was added and is searchable.
    Success {
        /// Id of the memory.
        #[schema(value_type = schema::UuidV7)]
        id: MemoryId,
        /// URL of the page, or of the note in attache.
        url: String,
        /// Index of the item: URLs first, then notes, from 0. A server before this member leaves it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = u64)]
        index: Option<u64>,
    },
    /// An item was not added. With `fatal`, the stream ends: the batch cannot continue, or, with `unauthorized`, the
    /// credential of this stream was revoked or expired, while the batch continues.
    Error {
        /// Index of the item: URLs first, then notes, from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = u64)]
        index: Option<u64>,
        /// URL of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        url: Option<String>,
        /// Title of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        title: Option<String>,
        /// Error code, such as `http_404`.
        error: String,
        /// Explanation for a person.
        message: String,
        /// Whether this message ends the stream.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fatal: bool,
    },
    /// An item was left out: by the account's filter, or by the site's robots.txt.
    Skipped {
        /// Index of the item.
        index: u64,
        /// URL of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        url: Option<String>,
        /// `filtered` or `robots_disallowed`.
        reason: String,
    },
    /// Every item has an outcome.
    Complete,
    /// A message type of a newer server.
    #[serde(other)]
    Unknown,
}

/// Response header with the id of the batch.
pub const X_BATCH_ID: &str = "x-batch-id";

/// Response of `PUT` and `PATCH /v1/settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsChanged {
    /// Message for a person.
    pub message: String,
    /// The settings after the change.
    #[schema(value_type = schema::FilterSettings)]
    pub settings: FilterSettings,
    /// Settings without effect, and why.
    pub warnings: Vec<String>,
}

/// `GET /v1/settings`: the account's filter settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// The current settings.
    #[schema(value_type = schema::FilterSettings)]
    pub settings: FilterSettings,
    /// Settings without effect, and why.
    pub warnings: Vec<String>,
}

/// `GET /v1/memories/{id}`, and a line of `GET /v1/export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Id of the memory.
    #[schema(value_type = schema::UuidV7)]
    pub id: MemoryId,
    /// Title of the memory.
    pub title: String,
    /// URL of the page, or of the note in attache.
    pub url: String,
    /// The whole content.
    pub content: String,
    /// Time of addition.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub updated_at: Timestamp,
    /// Type of the memory.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// Spaces of the memory, as far as the API key covers them.
    #[schema(value_type = Vec<schema::UuidV7>)]
    pub spaces: Vec<SpaceId>,
    /// Tags of the memory, sorted.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub tags: Vec<Tag>,
}

/// Maximum number of memories on a page of `GET /v1/memories`.
pub const MEMORIES_LIMIT_MAX: usize = 100;
/// Default number of memories on a page.
pub const MEMORIES_LIMIT: usize = 50;
/// Characters of a memory's text in a list.
pub const EXCERPT_CHARS: u32 = 300;

/// `GET /v1/memories`: a page, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryList {
    /// The memories of this page, newest first.
    pub memories: Vec<MemoryEntry>,
    /// `cursor` of the next page; null on the last one.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

/// A memory in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryEntry {
    /// Id of the memory.
    #[schema(value_type = schema::UuidV7)]
    pub id: MemoryId,
    /// Title of the memory.
    pub title: String,
    /// URL of the page, or of the note in attache.
    pub url: String,
    /// The first 300 characters of the text.
    pub excerpt: String,
    /// Time of addition.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub updated_at: Timestamp,
    /// Type of the memory.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// Spaces of the memory, as far as the API key covers them.
    #[schema(value_type = Vec<schema::UuidV7>)]
    pub spaces: Vec<SpaceId>,
    /// Tags of the memory, sorted.
    #[schema(value_type = Vec<String>)]
    pub tags: Vec<Tag>,
}

/// Body of `PATCH /v1/memories/{id}`. Absent members do not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryChange {
    /// New title, 1 to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub title: Option<String>,
    /// New text of a memory without a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// All tags, each of 1 to 50 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// All spaces that the API key covers, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<Vec<Uuid>>,
}

/// Response of `DELETE /v1/spaces/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceDeleted {
    /// Always true.
    pub ok: bool,
    /// Memories that moved to the default space.
    pub moved: u64,
    /// Memories that were deleted.
    pub deleted: u64,
}

/// A line of the response of `POST /v1/import`. Clients ignore unknown types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ImportMessage {
    /// The memory is stored and searchable.
    Success {
        /// Index of the line, from 0.
        index: u64,
        /// Id of the memory. It differs from the id in the line only if another account has a memory with that id.
        #[schema(value_type = schema::UuidV7)]
        id: MemoryId,
        /// Whether the account had the memory before; it was not changed then.
        existing: bool,
    },
    /// The line was not imported.
    Error {
        /// Index of the line, from 0.
        index: u64,
        /// Error code, such as `invalid_request` or `quota_exceeded`.
        error: String,
        /// Explanation for a person.
        message: String,
    },
    /// Every line has an outcome. A response without it is incomplete: repeat the request.
    Complete {
        /// Memories that were created.
        created: u64,
        /// Memories that the account had before.
        existing: u64,
        /// Lines that were not imported.
        failed: u64,
    },
    /// A message type of a newer server.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_described_limits_of_a_search_are_those_that_are_enforced() {
        let schema = serde_json::to_value(<SearchRequest as utoipa::PartialSchema>::schema()).unwrap();
        let of = |member: &str, rule: &str| schema["properties"][member][rule].as_f64();
        assert_eq!(of("query", "maxLength"), u32::try_from(QUERY_BYTES_MAX).ok().map(f64::from));
        assert_eq!(
            (of("limit", "maximum"), of("limit", "default")),
            (Some(SEARCH_LIMIT_MAX.into()), Some(SEARCH_LIMIT.into()))
        );
        assert_eq!(of("spaces", "maxItems"), u32::try_from(SEARCH_SPACES_MAX).ok().map(f64::from));
    }
}
