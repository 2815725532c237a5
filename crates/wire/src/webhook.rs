//! Bodies of the webhook routes (`docs/protocol/webhooks.md`).

use domain::Timestamp;
use domain::ids::WebhookId;
use domain::webhook::{DisabledWhy, NotificationKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// The body of `POST /api/v1/webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// URL that notifications are sent to.
    #[schema(max_length = 2048)]
    pub url: String,
    /// Kinds of notification.
    #[schema(value_type = Vec<schema::NotificationKind>, min_items = 1)]
    pub kinds: Vec<NotificationKind>,
    /// The owner's words about the endpoint.
    #[serde(default, deserialize_with = "form::or_default", skip_serializing_if = "String::is_empty")]
    #[schema(value_type = Option<String>, max_length = 200)]
    pub description: String,
    /// Whether it gets notifications; `true` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// The body of `PATCH /api/v1/webhooks/{id}`. Absent members stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookChange {
    /// New URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048)]
    pub url: Option<String>,
    /// New kinds of notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::NotificationKind>>, min_items = 1)]
    pub kinds: Option<Vec<NotificationKind>>,
    /// New description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
    /// Whether it gets notifications. Enabling forgets its failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// An endpoint, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEntry {
    /// Id of the endpoint.
    #[schema(value_type = schema::UuidV7)]
    pub id: WebhookId,
    /// URL that notifications are sent to.
    pub url: String,
    /// The owner's words about the endpoint.
    pub description: String,
    /// Kinds of notification.
    #[schema(value_type = Vec<schema::NotificationKind>)]
    pub kinds: Vec<NotificationKind>,
    /// Whether it gets notifications.
    pub enabled: bool,
    /// Time of creation.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time at which it was disabled.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub disabled_at: Option<Timestamp>,
    /// Why it is disabled.
    #[schema(value_type = Option<schema::WebhookDisabledReason>, required = true)]
    pub disabled_reason: Option<DisabledWhy>,
    /// The first failure after the last success.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub failing_since: Option<Timestamp>,
    /// Number of notifications that were dropped because too many waited.
    #[serde(default)]
    #[schema(required = true)]
    pub dropped: u64,
    /// Until when a replaced secret signs too.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub old_secret_until: Option<Timestamp>,
}

/// An endpoint with its new secret, which is returned only in this response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookWithSecret {
    /// The members of every endpoint.
    #[serde(flatten)]
    pub about: WebhookEntry,
    /// The key of the signatures: `whsec_` and base64.
    #[schema(min_length = 1)]
    pub secret: String,
}

/// `GET /api/v1/webhooks`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookList {
    /// The endpoints.
    pub webhooks: Vec<WebhookEntry>,
}

/// `GET /api/v1/webhooks/{id}/deliveries`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deliveries {
    /// The deliveries.
    pub deliveries: Vec<WebhookDelivery>,
}

/// One notification to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookDelivery {
    /// The value of the header `webhook-id`.
    pub id: String,
    /// Kind of the notification.
    pub kind: String,
    /// `waiting`, `delivered` or `failed`.
    pub state: String,
    /// Time of the fact.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Number of tries.
    pub tries: u32,
    /// Time of the last try.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_try_at: Option<Timestamp>,
    /// Time of the next try.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub next_try_at: Option<Timestamp>,
    /// HTTP status of the last try.
    #[schema(required = true)]
    pub status: Option<u16>,
    /// Why the last try failed.
    #[schema(required = true)]
    pub error: Option<String>,
}
