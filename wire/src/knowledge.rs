//! Spaces, batches, search, settings and memories (`docs/protocol/knowledge.md` and `docs/decisions/0040-batches-and-streams.md` and `docs/decisions/0036-spaces.md`).

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
    /// 1 to 100 characters.
    #[schema(schema_with = schema::name)]
    pub space_name: String,
    /// Whether any valid key may read it; `false` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceCreated {
    /// For a person.
    pub message: String,
    /// The space.
    pub space: Space,
}

/// The body of `PATCH /v1/spaces/{id}`; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpaceChange {
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::name_or_null, required = false)]
    pub space_name: Option<String>,
    /// Whether any valid key may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
    /// Whether the caller's account marked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_favorite: Option<bool>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceChanged {
    /// The space as it is now.
    pub space: Space,
}

/// `GET /v1/spaces`: the default first, then the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spaces {
    /// The spaces.
    pub spaces: Vec<Space>,
}

/// Where memories are put (`docs/protocol/knowledge.md#spaces`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Space {
    /// Its id.
    #[schema(value_type = schema::UuidV7)]
    pub id: SpaceId,
    /// Its name.
    pub name: String,
    /// Whether any valid key may read it.
    pub is_public: bool,
    /// Whether the caller's account marked it.
    pub is_favorite: bool,
    /// Whose it is.
    pub owner: Owner,
    /// What the caller's account may do there.
    #[schema(value_type = schema::AccessType)]
    pub access_type: AccessType,
    /// When it was made.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
}

/// The owner of a space; empty where the name is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// All but the last name.
    pub first_name: String,
    /// The last name.
    pub last_name: String,
}

/// Bytes of a search's query. The attributes below want literals; a test compares them with these constants.
pub const QUERY_BYTES_MAX: usize = 4096;
/// Documents that one search may ask for.
pub const SEARCH_LIMIT_MAX: u32 = 50;
/// Documents when none are asked for.
pub const SEARCH_LIMIT: u32 = 10;
/// Spaces that one search may name.
pub const SEARCH_SPACES_MAX: usize = 50;

/// The body of `POST /v1/search`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchRequest {
    /// 1 to 4096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, min_length = 1, max_length = 4096)]
    pub query: Option<String>,
    /// Documents, 1 to 50; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 50, default = 10)]
    pub limit: Option<f64>,
    /// The least similarity, 0 to 1; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub threshold: Option<f64>,
    /// Where; everything of the key's account when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 50)]
    pub spaces: Option<Vec<Uuid>>,
}

/// The answer to it, most similar first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchResults {
    /// The documents.
    pub results: Vec<SearchResult>,
}

/// A document that was found (`docs/protocol/knowledge.md#search`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    /// The memory.
    #[schema(value_type = schema::UuidV7)]
    pub id: MemoryId,
    /// Its title.
    pub title: String,
    /// Its page, or the note itself.
    pub url: String,
    /// Its beginning, at most 100,000 characters.
    pub content: String,
    /// 0 to 1, four decimals, of the best passage.
    #[schema(minimum = 0, maximum = 1)]
    pub similarity: f64,
    /// When it was added.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// What it is.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// The best passages, at most 5, best first.
    pub chunks: Vec<Chunk>,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chunk {
    /// Its words.
    pub content: String,
    /// 0 to 1, four decimals.
    #[schema(minimum = 0, maximum = 1)]
    pub similarity: f64,
}

/// The body of `POST /v1/batch-add`; at most 600 addresses and notes together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// Addresses of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<Vec<String>>,
    /// Notes.
    #[serde(default, deserialize_with = "form::objects_or_none", skip_serializing_if = "Option::is_none")]
    pub contents: Option<Vec<Note>>,
    /// Where to put them; the account's default space when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<Vec<Uuid>>,
}

/// A note of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Note {
    /// Its text, at most 1 MiB.
    pub content: String,
    /// Its title; its first line when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is; `note` when absent.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::MemoryType>)]
    pub kind: Option<MemoryType>,
}

/// A message of the stream that tells a batch, the object behind `data:`. A client ignores types that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum BatchMessage {
    /// How far it is.
    Progress {
        /// Items with an outcome.
        processed: u64,
        /// Items.
        total: u64,
    },
    /// An item can be found now.
    Success {
        /// The memory.
        #[schema(value_type = schema::UuidV7)]
        id: MemoryId,
        /// Its page, or the note itself.
        url: String,
    },
    /// An item could not be added. With `fatal` the stream ends: the batch cannot go on, or, with `unauthorized`, the credential of this
    /// stream was revoked or expired, and the batch goes on.
    Error {
        /// The item's place among the addresses and then the notes, from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = u64)]
        index: Option<u64>,
        /// Its address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        url: Option<String>,
        /// Its title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        title: Option<String>,
        /// Why, in one word, `http_404` for instance.
        error: String,
        /// Why, in a sentence.
        message: String,
        /// Whether the stream ends here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fatal: bool,
    },
    /// An item was left out by the account's filter.
    Skipped {
        /// The item's place.
        index: u64,
        /// Its address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = String)]
        url: Option<String>,
        /// Why.
        reason: String,
    },
    /// Every item has its outcome.
    Complete,
    /// A type of a newer server.
    #[serde(other)]
    Unknown,
}

/// The header of a stream that names its batch.
pub const X_BATCH_ID: &str = "x-batch-id";

/// `PUT` and `PATCH /v1/settings`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsChanged {
    /// For a person.
    pub message: String,
    /// The settings as they are now.
    #[schema(value_type = schema::FilterSettings)]
    pub settings: FilterSettings,
    /// What the account should know about them.
    pub warnings: Vec<String>,
}

/// `GET /v1/settings`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// The settings.
    #[schema(value_type = schema::FilterSettings)]
    pub settings: FilterSettings,
    /// What the account should know about them.
    pub warnings: Vec<String>,
}

/// `GET /v1/memories/{id}`, and a line of `GET /v1/export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Its id.
    #[schema(value_type = schema::UuidV7)]
    pub id: MemoryId,
    /// Its title.
    pub title: String,
    /// Its page, or the note itself.
    pub url: String,
    /// All of it.
    pub content: String,
    /// When it was added.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub updated_at: Timestamp,
    /// What it is.
    #[serde(rename = "type")]
    #[schema(value_type = schema::MemoryType)]
    pub kind: MemoryType,
    /// Where it is, as far as the key reaches.
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
