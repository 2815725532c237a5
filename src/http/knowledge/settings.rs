//! What new content has to be before it is kept.

use axum::extract::State;
use axum::response::IntoResponse;
use domain::filter::{FilterSettings, FilterUpdate};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::error::Answer;
use super::{Json, Key, ToSet};
use crate::house::House;
use crate::http::error::ApiError;
use crate::knowledge::Reader;

/// `PUT /v1/settings`: replaces them all; `{message, settings, warnings}`.
pub async fn replace(State(house): State<House>, Key(reader, _): Key<ToSet>, Json(body): Json<FilterUpdate>) -> Answer {
    changed(&house, &set(&house, &reader, body).await?)
}

/// `GET /v1/settings`: `{settings, warnings}`
pub async fn show(State(house): State<House>, Key(reader, _): Key<ToSet>) -> Answer {
    let settings = house.store.filter_settings(&reader.account).await?;
    let warnings = settings.warnings(house.has_language_model());
    Ok(axum::Json(json!({ "settings": settings, "warnings": warnings })).into_response())
}

/// The body of `PATCH /v1/settings`: what is absent stays, `null` clears.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PatchRequest {
    #[serde(deserialize_with = "given")]
    categories: Option<Option<Vec<String>>>,
    #[serde(deserialize_with = "given")]
    filter_prompt: Option<Option<String>>,
    #[serde(deserialize_with = "given")]
    include_items: Option<Option<Vec<String>>>,
    #[serde(deserialize_with = "given")]
    exclude_items: Option<Option<Vec<String>>>,
    #[serde(rename = "shouldLLMFilter", deserialize_with = "given")]
    should_llm_filter: Option<Option<bool>>,
}

/// Tells `null` from absence.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// `PATCH /v1/settings`: changes some; `{message, settings, warnings}`.
pub async fn change(State(house): State<House>, Key(reader, _): Key<ToSet>, Json(body): Json<PatchRequest>) -> Answer {
    let now = house.store.filter_settings(&reader.account).await?;
    let update = FilterUpdate {
        categories: body.categories.map_or(now.categories, Option::unwrap_or_default),
        filter_prompt: body.filter_prompt.unwrap_or(now.filter_prompt),
        include_items: body.include_items.map_or(now.include_items, Option::unwrap_or_default),
        exclude_items: body.exclude_items.map_or(now.exclude_items, Option::unwrap_or_default),
        should_llm_filter: body.should_llm_filter.map_or(now.should_llm_filter, Option::unwrap_or_default),
    };
    changed(&house, &set(&house, &reader, update).await?)
}

/// Replaces the settings of the reader's account, within every bound.
pub async fn set(house: &House, reader: &Reader, update: FilterUpdate) -> Result<FilterSettings, ApiError> {
    let settings = FilterSettings::try_from(update)
        .map_err(|issues| ApiError::issues(issues.into_iter().map(|issue| (issue.path, issue.message))))?;
    let (store, account, now) = (house.store.clone(), reader.account.clone(), house.clock.now());
    let kept = settings.clone();
    actors::detached(async move { store.filter_settings_set(&account, &kept, now).await }).await??;
    Ok(settings)
}

fn changed(house: &House, settings: &FilterSettings) -> Answer {
    let warnings = settings.warnings(house.has_language_model());
    let message = "Settings updated successfully";
    Ok(axum::Json(json!({ "message": message, "settings": settings, "warnings": warnings })).into_response())
}
