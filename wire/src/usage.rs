//! How much is left (specification, *`UsageBar`*).

use domain::Timestamp;
use domain::usage::{PercentLeft, Plan};
use serde::{Deserialize, Serialize};

use crate::form;

/// `GET /api/v1/usage/bar`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageBar {
    /// What was paid for.
    pub plan: Plan,
    /// Events of the lane `memory`.
    pub memory: Measure,
    /// Retrospectives.
    pub retrospective: Measure,
    /// Purchased balance, in US cents.
    pub balance_cents: i64,
    /// Where to add to it.
    pub top_up_url: String,
}

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// From 0 to 100, one decimal, rounded down.
    pub percent_left: PercentLeft,
    /// When it is 100 again.
    #[serde(with = "form::moment")]
    pub reset_at: Timestamp,
}
