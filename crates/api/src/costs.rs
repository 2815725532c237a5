//! Tokens and costs of models (`docs/protocol/sessions.md#costs`).

use std::sync::Arc;

use app::config::Urls;
use app::services::agent_sessions::AgentSessions;
use app::services::agent_sessions::costs::{COST_DAYS_MAX, ModelCostRow};
use axum::extract::State;
use domain::Clock;
use domain::usage::Day;
use serde::Deserialize;
use store::Store;

use super::activity::scope;
use super::agent_sessions::refused;
use super::auth::Caller;
use super::body;
use super::error::{ApiError, ApiResult};
use super::query::ApiQuery;

const DAYS_DEFAULT: u16 = 30;

/// `?days`
#[derive(Debug, Deserialize)]
pub struct CostParameters {
    days: Option<String>,
}

/// `GET /api/v1/usage/costs`
pub async fn show(
    State(sessions): State<AgentSessions>,
    State(store): State<Store>,
    State(urls): State<Arc<Urls>>,
    State(clock): State<Clock>,
    caller: Caller,
    ApiQuery(CostParameters { days }): ApiQuery<CostParameters>,
) -> ApiResult {
    let days =
        days.map_or(Some(DAYS_DEFAULT), |text| text.parse().ok()).filter(|days| (1..=COST_DAYS_MAX).contains(days));
    let days = days.ok_or_else(|| ApiError::invalid("days", format!("expected a number from 1 to {COST_DAYS_MAX}")))?;
    let scope = scope(&caller, &store, &urls).await?;
    let costs = sessions.costs(&scope, Day::of(clock.now()), days).await.map_err(refused)?;
    body::answer(&wire::costs::Costs {
        prices_as_of: costs.prices_as_of,
        first_day: costs.first.to_string(),
        last_day: costs.last.to_string(),
        total_microdollars: costs.total.0,
        unpriced_models: costs.unpriced.into_iter().map(named).collect(),
        rows: costs.rows.into_iter().map(row).collect(),
        truncated: costs.is_cut,
    })
}

fn row(ModelCostRow { used, cost }: ModelCostRow) -> wire::costs::CostRow {
    wire::costs::CostRow {
        day: used.day.to_string(),
        agent_id: used.agent,
        project_id: named(used.project),
        model: named(used.used.model),
        calls: used.used.calls,
        input_tokens: used.used.input_tokens,
        output_tokens: used.used.output_tokens,
        cost_microdollars: cost.map(|cost| cost.0),
    }
}

fn named(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
