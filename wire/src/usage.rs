//! How much is left (`docs/protocol/account.md#usage-bar`).

use domain::Timestamp;
use domain::usage::{PercentLeft, Plan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/usage/bar`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageBar {
    /// What was paid for.
    #[schema(value_type = schema::Plan)]
    pub plan: Plan,
    /// Events of the lane `memory`.
    pub memory: Measure,
    /// Retrospectives.
    pub retrospective: Measure,
    /// Purchased balance, in US cents.
    pub balance_cents: i64,
    /// Where to add to it.
    #[schema(schema_with = schema::uri)]
    pub top_up_url: String,
}

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Measure {
    /// From 0 to 100, one decimal, rounded down.
    #[schema(value_type = f64, minimum = 0, maximum = 100)]
    pub percent_left: PercentLeft,
    /// When it is 100 again.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub reset_at: Timestamp,
}
