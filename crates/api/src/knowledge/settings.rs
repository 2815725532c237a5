//! Filter settings: the rules that new content has to meet.

use app::services::knowledge::Filters;
use axum::extract::State;
use axum::response::Response;
use domain::filter::{FilterChange, FilterSettings, FilterUpdate};
use wire::knowledge::{Settings, SettingsChanged};

use super::error::KnowledgeResult;
use super::{Json, KnowledgeKey, ToSet};
use crate::body;
use crate::error::ApiError;

/// `PUT /v1/settings`: replaces all settings; `{message, settings, warnings}`.
pub async fn replace(
    State(filters): State<Filters>,
    KnowledgeKey(access, _): KnowledgeKey<ToSet>,
    Json(body): Json<FilterUpdate>,
) -> KnowledgeResult {
    Ok(changed(&filters, filters.replace(&access, body).await?)?)
}

/// `GET /v1/settings`: `{settings, warnings}`
pub async fn show(State(filters): State<Filters>, KnowledgeKey(access, _): KnowledgeKey<ToSet>) -> KnowledgeResult {
    let settings = filters.find(&access.account).await?;
    Ok(body::answer(&Settings { warnings: warnings(&filters, &settings), settings })?)
}

/// `PATCH /v1/settings`: changes some settings; absent members stay, `null` clears. `{message, settings, warnings}`
pub async fn change(
    State(filters): State<Filters>,
    KnowledgeKey(access, _): KnowledgeKey<ToSet>,
    Json(body): Json<FilterChange>,
) -> KnowledgeResult {
    Ok(changed(&filters, filters.change(&access, body).await?)?)
}

fn changed(filters: &Filters, settings: FilterSettings) -> Result<Response, ApiError> {
    let message = "Settings updated successfully".to_owned();
    body::answer(&SettingsChanged { message, warnings: warnings(filters, &settings), settings })
}

fn warnings(filters: &Filters, settings: &FilterSettings) -> Vec<String> {
    filters.warnings(settings).into_iter().map(str::to_owned).collect()
}
