//! `GET /ops/v1/acts` and `GET /ops/v1/acts/{id}`.

use app::App;
use app::acts::{ActFilter, described, shown};
use axum::Json;
use axum::extract::{Path, State};
use domain::Timestamp;
use domain::act::ActKind;
use domain::ids::EventId;
use serde::Deserialize;
use serde_json::json;
use wire::ops::{ActPage, ActShown};

use super::refusal::Refusal;
use super::request::{self, LIMIT_MAX, OpsQuery};

/// Maximum number of acts that are read for one page, which bounds the time of a rare filter.
const SEARCHED_MAX: usize = 2_000;

/// The query of a page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    act: Option<ActKind>,
    target: Option<String>,
    by: Option<String>,
    since: Option<Timestamp>,
    before: Option<EventId>,
    limit: Option<usize>,
}

/// `GET /ops/v1/acts`: acts of operators, newest first.
pub async fn list(State(app): State<App>, OpsQuery(asked): OpsQuery<Asked>) -> Result<Json<ActPage>, Refusal> {
    let Asked { act, target, by, since, mut before, limit } = asked;
    let limit = request::limit(limit)?;
    let (filter, mut acts, mut searched) = (ActFilter { act, target, by }, Vec::new(), 0);
    loop {
        let page = app.store.acts(before, LIMIT_MAX).await.map_err(|error| Refusal::fault(&error))?;
        for recorded in &page {
            if since.is_some_and(|since| recorded.done_at < since) {
                return Ok(Json(ActPage { acts, next: None }));
            }
            let entry = described(recorded).map_err(|error| Refusal::fault(&error))?;
            if filter.matches(&entry) {
                if acts.len() == limit {
                    return Ok(Json(ActPage { acts, next: before }));
                }
                acts.push(entry);
            }
            before = Some(recorded.id);
        }
        searched += page.len();
        if page.len() < LIMIT_MAX {
            return Ok(Json(ActPage { acts, next: None }));
        }
        if searched >= SEARCHED_MAX {
            return Ok(Json(ActPage { acts, next: before }));
        }
    }
}

/// `GET /ops/v1/acts/{id}`: an act with its event and its proof.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<ActShown>, Refusal> {
    let absent = || Refusal::not_found("no act has this id");
    let id: EventId = id.parse().map_err(|_| absent())?;
    let recorded = app.store.act(id).await.map_err(|error| Refusal::fault(&error))?.ok_or_else(absent)?;
    let act = shown(&recorded).map_err(|error| Refusal::fault(&error))?;
    let proof = app.act_proof(id).await.map_err(|error| Refusal::fault(&error))?;
    Ok(Json(ActShown { proof: proof.map(|proof| json!(proof)), ..act }))
}
