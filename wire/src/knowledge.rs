//! Spaces, batches, search, settings and memories (`docs/protocol/knowledge.md`, `docs/decisions/0040-batches-and-streams.md` and
//! `docs/decisions/0036-spaces.md`).

use domain::Timestamp;
use domain::filter::FilterSettings;
use domain::ids::{MemoryId, SpaceId};
use domain::memory::MemoryType;
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
    /// Whether any valid key may read it; `false` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
}

/// The response to `POST /v1/spaces/create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceCreated {
    /// Text for a person.
    pub message: String,
    /// The new space.
    pub space: Space,
}

/// The body of `PATCH /v1/spaces/{id}`; absent members are unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpaceChange {
    /// New name, 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::name_or_null, required = false)]
    pub space_name: Option<String>,
    /// Whether any valid key may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
    /// Whether the space is a favorite of the caller's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_favorite: Option<bool>,
}

/// The response to `PATCH /v1/spaces/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceChanged {
    /// The space after the change.
    pub space: Space,
}

/// `GET /v1/spaces`: the default space first, then newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spaces {
    /// Spaces that the account owns or that are shared with it.
    pub spaces: Vec<Space>,
}

/// A set of memories with its own readers (`docs/protocol/knowledge.md#spaces`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Space {
    /// Id of the space.
    #[schema(value_type = schema::UuidV7)]
    pub id: SpaceId,
    /// Name of the space.
    pub name: String,
    /// Whether any valid key may read it.
    pub is_public: bool,
    /// Whether the space is a favorite of the caller's account.
    pub is_favorite: bool,
    /// Name of the owner.
    pub owner: Owner,
    /// Access of the caller's account to the space.
    #[schema(value_type = schema::AccessType)]
    pub access_type: AccessType,
    /// Time of the space's creation.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
}

/// The owner of a space; both members are empty if the name is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// All words of the name but the last; the name itself if it is one word.
    pub first_name: String,
    /// The last word of the name; empty if the name is one word.
    pub last_name: String,
}

/// Maximum size of a query in bytes. The attributes below require literals; a test compares them with these constants.
pub const QUERY_BYTES_MAX: usize = 4096;
/// Maximum number of results that one search may request.
pub const SEARCH_LIMIT_MAX: u32 = 50;
/// Number of results when a search requests none.
pub const SEARCH_LIMIT: u32 = 10;
/// Maximum number of spaces that one search may name.
pub const SEARCH_SPACES_MAX: usize = 50;

/// The body of `POST /v1/search`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchRequest {
    /// Text to search for, 1 to 4096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, min_length = 1, max_length = 4096)]
    pub query: Option<String>,
    /// Maximum number of results, 1 to 50; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 50, default = 10)]
    pub limit: Option<f64>,
    /// Minimum similarity of a result, 0 to 1; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub threshold: Option<f64>,
    /// Spaces to search; all memories that the key may read when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 50)]
    pub spaces: Option<Vec<Uuid>>,
}

/// The response to `POST /v1/search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchResults {
    /// The memories that were found, in descending order of similarity.
    pub results: Vec<SearchResult>,
}

/// A memory that was found (`docs/protocol/knowledge.md#search`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    /// Id of the memory.
    #[schema(value_type = schema::UuidV7)]
    pub id: MemoryId,
    /// Title of the memory.
    pub title: String,
    /// URL of the page; for a note, the URL of the memory.
    pub url: String,
    /// Beginning of the content, at most 100,000 characters.
    pub content: String,
    /// Similarity of the best chunk, 0 to 1, with four decimals.
    #[schema(minimum = 0, maximum = 1)]
    pub similarity: f64,
    /// Time at which the memory was added.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Kind of the memory.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// The best chunks in descending order of similarity, at most 5.
    pub chunks: Vec<Chunk>,
}

/// A chunk of a memory that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chunk {
    /// Text of the chunk.
    pub content: String,
    /// Similarity of the chunk, 0 to 1, with four decimals.
    #[schema(minimum = 0, maximum = 1)]
    pub similarity: f64,
}

/// The body of `POST /v1/batch-add`; at most 600 URLs and notes together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// URLs of pages to fetch and add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<Vec<String>>,
    /// Notes to add.
    #[serde(default, deserialize_with = "form::objects_or_none", skip_serializing_if = "Option::is_none")]
    pub contents: Option<Vec<Note>>,
    /// Ids of the spaces that the new memories belong to; the account's default space when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<Vec<Uuid>>,
}

/// A note of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Note {
    /// Text of the note, at most 1 MiB.
    pub content: String,
    /// Title of the note; its first line when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of the memory; `note` when absent.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::MemoryType>)]
    pub kind: Option<MemoryType>,
}

/// A message of the stream of a batch: the object after `data:`. A client ignores types that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum BatchMessage {
    /// Number of finished items.
    Progress {
        /// Number of items with an outcome.
        processed: u64,
        /// Number of items of the batch.
        total: u64,
    },
    /// An item was added and is searchable.
    Success {
        /// Id of the memory.
        #[schema(value_type = schema::UuidV7)]
        id: MemoryId,
        /// URL of the page; for a note, the URL of the memory.
        url: String,
    },
    /// An item could not be added. With `fatal` the stream ends: the batch cannot continue, or, with the error `unauthorized`, the
    /// credential of this stream was revoked or expired, and the batch continues.
    Error {
        /// Index of the item among the URLs and then the notes, from 0.
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
        /// Explanation of the error for a person.
        message: String,
        /// Whether the stream ends here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fatal: bool,
    },
    /// An item was left out by the account's filter or by the `robots.txt` of its site.
    Skipped {
        /// Index of the item among the URLs and then the notes, from 0.
        index: u64,
        /// URL of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        url: Option<String>,
        /// `filtered` or `robots_disallowed`.
        reason: String,
    },
    /// Every item has an outcome; the stream ends.
    Complete,
    /// A type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// The response header of a stream that names its batch.
pub const X_BATCH_ID: &str = "x-batch-id";

/// The response to `PUT` and `PATCH /v1/settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsChanged {
    /// Text for a person.
    pub message: String,
    /// The settings after the change.
    #[schema(value_type = schema::FilterSettings)]
    pub settings: FilterSettings,
    /// Stored settings that have no effect, with the reason.
    pub warnings: Vec<String>,
}

/// `GET /v1/settings`: the account's filter settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// The stored settings.
    #[schema(value_type = schema::FilterSettings)]
    pub settings: FilterSettings,
    /// Stored settings that have no effect, with the reason.
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
    /// URL of the page; for a note, the URL of the memory.
    pub url: String,
    /// The whole content.
    pub content: String,
    /// Time at which the memory was added.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub updated_at: Timestamp,
    /// Kind of the memory.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// Spaces that contain the memory, as far as the key may access them.
    #[schema(value_type = Vec<schema::UuidV7>)]
    pub spaces: Vec<SpaceId>,
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
