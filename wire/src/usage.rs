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
