//! Remaining usage of an account (`docs/protocol/account.md#usage-bar`).

use domain::Timestamp;
use domain::usage::{PercentLeft, Plan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/usage/bar`: plan, remaining quotas and balance of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageBar {
    /// Plan of the account.
    #[schema(value_type = schema::Plan)]
    pub plan: Plan,
    /// Remaining events of the lane `memory`.
    pub memory: Measure,
    /// Remaining retrospectives.
    pub retrospective: Measure,
    /// Purchased balance, in US cents.
    pub balance_cents: i64,
    /// Page on which balance can be added.
    #[schema(schema_with = schema::uri)]
    pub top_up_url: String,
    /// Limits that the server enforces, an addition to the specification; absent for a computer of an identity that belongs to an account
    /// that the computer is not attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<UsageLimits>,
}

/// Limits in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageLimits {
    /// Events of the UTC day.
    pub event_bytes: ByteLimit,
    /// Titles, URLs and texts of the memories; absent for a computer without an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<ByteLimit>,
}

/// A limit in bytes and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ByteLimit {
    /// Bytes used.
    pub used: u64,
    /// Maximum number of bytes; null for no limit.
    #[schema(required)]
    pub limit: Option<u64>,
    /// Time at which the count resets; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>)]
    pub reset_at: Option<Timestamp>,
}

/// Remaining quota of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Measure {
    /// Percent, 0 to 100 with one decimal, rounded down.
    #[schema(value_type = f64, minimum = 0, maximum = 100)]
    pub percent_left: PercentLeft,
    /// Time at which the quota resets.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub reset_at: Timestamp,
}
