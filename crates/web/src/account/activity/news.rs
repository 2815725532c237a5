//! The number of events that arrived since a page was shown. An open, visible page requests it every few seconds.

use app::services::activity::browse::{Activity, PageOf};
use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;

use super::computers::Computers;
use super::filter::FilterQuery;
use crate::account::AccountOwner;
use crate::{PageError, PageQuery, PageResult, Site};

/// Maximum count; a larger number is reported as `more`.
const COUNT_MAX: u16 = 100;

/// `?after=…`: id of the newest event of the page; empty if it has none.
#[derive(Debug, Deserialize)]
pub struct AfterQuery {
    after: Option<String>,
}

/// `GET /account/activity/new`: `{count, more}`
pub async fn count(
    State(site): State<Site>,
    State(activity): State<Activity>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<FilterQuery>,
    PageQuery(AfterQuery { after }): PageQuery<AfterQuery>,
) -> PageResult {
    let page_error = PageError::of(&site);
    let scope = activity.scope(&owner.account).await.map_err(&page_error)?;
    let computers = Computers::of(&site, &owner.account, &scope).await?;
    let page = activity.search(&scope, &query.filter(), &computers, PageOf::new(None, COUNT_MAX)).await;
    let entries = page.map(|page| page.entries).unwrap_or_default();
    let after = after.unwrap_or_default();
    let count = entries.iter().position(|(entry, _)| entry.event_id == after).unwrap_or(entries.len());
    let more = count >= usize::from(COUNT_MAX);
    Ok(([(CACHE_CONTROL, "no-store")], Json(json!({ "count": count, "more": more }))).into_response())
}
