//! What new content has to be before it is kept.

use axum::extract::State;
use axum::response::Response;
use domain::filter::{FilterChange, FilterSettings, FilterUpdate};
use wire::knowledge::{Settings, SettingsChanged};

use super::error::KnowledgeResult;
use super::{Json, KnowledgeKey, ToSet};
use crate::app::App;
use crate::http::body;
use crate::http::error::ApiError;
use crate::knowledge::KnowledgeAccess;

/// `PUT /v1/settings`: replaces them all; `{message, settings, warnings}`.
pub async fn replace(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToSet>,
    Json(body): Json<FilterUpdate>,
) -> KnowledgeResult {
    Ok(changed(&app, set(&app, &reader, body).await?)?)
}

/// `GET /v1/settings`: `{settings, warnings}`
pub async fn show(State(app): State<App>, KnowledgeKey(reader, _): KnowledgeKey<ToSet>) -> KnowledgeResult {
    let settings = app.store.filter_settings(&reader.account).await?;
    Ok(body::answer(&Settings { warnings: warnings(&app, &settings), settings })?)
}

/// `PATCH /v1/settings`: changes some; what is absent stays, `null` clears. `{message, settings, warnings}`
pub async fn change(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToSet>,
    Json(body): Json<FilterChange>,
) -> KnowledgeResult {
    let (store, account, now) = (app.store.clone(), reader.account.clone(), app.clock.now());
    let work = async move { store.filter_settings_change(&account, |known| within_bounds(body.of(known)), now).await };
    Ok(changed(&app, actors::detached(work).await???)?)
}

/// Replaces the settings of the reader's account, within every bound.
pub async fn set(app: &App, reader: &KnowledgeAccess, update: FilterUpdate) -> Result<FilterSettings, ApiError> {
    let settings = within_bounds(update)?;
    let (store, account, now) = (app.store.clone(), reader.account.clone(), app.clock.now());
    let kept = settings.clone();
    actors::detached(async move { store.filter_settings_set(&account, &kept, now).await }).await??;
    Ok(settings)
}

fn within_bounds(update: FilterUpdate) -> Result<FilterSettings, ApiError> {
    FilterSettings::try_from(update)
        .map_err(|issues| ApiError::issues(issues.into_iter().map(|issue| (issue.path, issue.message))))
}

fn changed(app: &App, settings: FilterSettings) -> Result<Response, ApiError> {
    let message = "Settings updated successfully".to_owned();
    body::answer(&SettingsChanged { message, warnings: warnings(app, &settings), settings })
}

fn warnings(app: &App, settings: &FilterSettings) -> Vec<String> {
    settings.warnings(app.has_language_model()).into_iter().map(str::to_owned).collect()
}
