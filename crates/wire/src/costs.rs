//! Tokens and costs of models (`docs/protocol/sessions.md#costs`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/v1/usage/costs`: tokens and costs by day, agent kind, project and model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Costs {
    /// The day on which the prices were read, `2026-01-31`.
    pub prices_as_of: String,
    /// The first UTC day.
    pub first_day: String,
    /// The last UTC day.
    pub last_day: String,
    /// Sum of the rows with a price, in millionths of a US dollar.
    pub total_microdollars: i64,
    /// Names of the models without a price; `null` for answers that name no model.
    pub unpriced_models: Vec<Option<String>>,
    /// The rows, the newest day first.
    pub rows: Vec<CostRow>,
    /// Whether earlier rows are missing, because there are more than 10,000.
    pub truncated: bool,
}

/// Tokens and costs of one day, agent kind, project and model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CostRow {
    /// The UTC day of receipt, `2026-01-31`.
    pub day: String,
    /// Agent kind.
    pub agent_id: String,
    /// The project; `null` if the events name none.
    #[schema(required = true)]
    pub project_id: Option<String>,
    /// The model; `null` if the events name none.
    #[schema(required = true)]
    pub model: Option<String>,
    /// Number of answers.
    pub calls: i64,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that the model wrote.
    pub output_tokens: i64,
    /// Costs in millionths of a US dollar; `null` without a price.
    #[schema(required = true)]
    pub cost_microdollars: Option<i64>,
}
