//! The usage bar (`docs/protocol/account.md#usage-bar`).

use domain::Timestamp;
use domain::usage::{PercentLeft, Plan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/usage/bar`: plan, remaining quotas and balance of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageBar {
    /// The plan of the account.
    #[schema(value_type = schema::Plan)]
    pub plan: Plan,
    /// Events of the lane `memory` in the current window.
    pub memory: Measure,
    /// Retrospectives, events of type `rsi.retrospective_completed`, in the current window.
    pub retrospective: Measure,
    /// Purchased balance, in US cents.
    pub balance_cents: i64,
    /// The page on which balance is purchased.
    #[schema(schema_with = schema::uri)]
    pub top_up_url: String,
}

/// The remainder of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Measure {
    /// Percentage that is left, 0 to 100, with one decimal, rounded down.
    #[schema(value_type = f64, minimum = 0, maximum = 100)]
    pub percent_left: PercentLeft,
    /// End of the current window, at which the percentage returns to 100.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub reset_at: Timestamp,
}
