//! Bodies of the routes of rules (`docs/protocol/rules.md`).

use domain::Timestamp;
use domain::ids::RuleId;
use domain::lane::Lane;
use domain::registry::Tone;
use domain::rule::Novelty;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// The body of `POST /api/v1/rules`. Every member from `event_type` to `first_time` that is present restricts the events; at least one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleRequest {
    /// Name of the rule.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// An event type, or the beginning of types and `*`, such as `security.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub event_type: Option<String>,
    /// The lane of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Lane>)]
    pub lane: Option<Lane>,
    /// How the work of the event went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RuleTone>)]
    pub tone: Option<Tone>,
    /// The event has a tool, a project or a computer that no earlier event of the account had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Novelty>)]
    pub first_time: Option<Novelty>,
    /// Number of matching events within an hour, 2 to 100,000. Without it, each matching event counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 2, maximum = 100_000)]
    pub at_least: Option<u32>,
    /// Whether the owner gets a mail; `true` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<bool>,
    /// Whether webhooks and the feed of the account get the notification `rule.matched`; `true` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<bool>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleEntry {
    /// Id of the rule.
    #[schema(value_type = schema::UuidV7)]
    pub id: RuleId,
    /// Name of the rule.
    pub name: String,
    /// The event type, or the beginning of types and `*`.
    #[schema(required = true)]
    pub event_type: Option<String>,
    /// The lane of the event.
    #[schema(value_type = Option<schema::Lane>, required = true)]
    pub lane: Option<Lane>,
    /// How the work of the event went.
    #[schema(value_type = Option<schema::RuleTone>, required = true)]
    pub tone: Option<Tone>,
    /// The property with a new value.
    #[schema(value_type = Option<schema::Novelty>, required = true)]
    pub first_time: Option<Novelty>,
    /// Number of matching events within an hour.
    #[schema(required = true)]
    pub at_least: Option<u32>,
    /// Whether the owner gets a mail.
    pub mail: bool,
    /// Whether webhooks and the feed of the account get the notification.
    pub notify: bool,
    /// Time of creation.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time of the last message.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_message_at: Option<Timestamp>,
    /// Number of events that the next message reports.
    pub waiting_events: u64,
}

/// `GET /api/v1/rules`, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleList {
    /// The rules.
    pub rules: Vec<RuleEntry>,
    /// The weekly digest.
    pub digest: DigestEntry,
}

/// The body of `PUT /api/v1/digest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DigestRequest {
    /// Whether the owner gets a mail about each week.
    pub enabled: bool,
}

/// The weekly digest of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestEntry {
    /// Whether the owner gets a mail about each week.
    pub enabled: bool,
    /// Time of the next one.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub next_at: Option<Timestamp>,
}
