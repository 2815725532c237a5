//! What new content has to be before it is kept.

use axum::extract::State;
use axum::response::Response;
use domain::filter::{FilterChange, FilterSettings, FilterUpdate};
use wire::knowledge::{Settings, SettingsChanged};

use super::error::Answer;
use super::{Json, Key, ToSet};
use crate::house::House;
use crate::http::body;
use crate::http::error::ApiError;
use crate::knowledge::Reader;

/// `PUT /v1/settings`: replaces them all; `{message, settings, warnings}`.
pub async fn replace(State(house): State<House>, Key(reader, _): Key<ToSet>, Json(body): Json<FilterUpdate>) -> Answer {
    Ok(changed(&house, set(&house, &reader, body).await?)?)
}

/// `GET /v1/settings`: `{settings, warnings}`
pub async fn show(State(house): State<House>, Key(reader, _): Key<ToSet>) -> Answer {
    let settings = house.store.filter_settings(&reader.account).await?;
    Ok(body::answer(&Settings { warnings: warnings(&house, &settings), settings })?)
}

/// `PATCH /v1/settings`: changes some; what is absent stays, `null` clears. `{message, settings, warnings}`
pub async fn change(State(house): State<House>, Key(reader, _): Key<ToSet>, Json(body): Json<FilterChange>) -> Answer {
    let (store, account, now) = (house.store.clone(), reader.account.clone(), house.clock.now());
    let work = async move { store.filter_settings_change(&account, |known| within_bounds(body.of(known)), now).await };
    Ok(changed(&house, actors::detached(work).await???)?)
}

/// Replaces the settings of the reader's account, within every bound.
pub async fn set(house: &House, reader: &Reader, update: FilterUpdate) -> Result<FilterSettings, ApiError> {
    let settings = within_bounds(update)?;
    let (store, account, now) = (house.store.clone(), reader.account.clone(), house.clock.now());
    let kept = settings.clone();
    actors::detached(async move { store.filter_settings_set(&account, &kept, now).await }).await??;
    Ok(settings)
}

fn within_bounds(update: FilterUpdate) -> Result<FilterSettings, ApiError> {
    FilterSettings::try_from(update)
        .map_err(|issues| ApiError::issues(issues.into_iter().map(|issue| (issue.path, issue.message))))
}

fn changed(house: &House, settings: FilterSettings) -> Result<Response, ApiError> {
    let message = "Settings updated successfully".to_owned();
    body::answer(&SettingsChanged { message, warnings: warnings(house, &settings), settings })
}

fn warnings(house: &House, settings: &FilterSettings) -> Vec<String> {
    settings.warnings(house.has_language_model()).into_iter().map(str::to_owned).collect()
}
