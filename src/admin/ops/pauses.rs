//! `/ops/v1/pauses…`: stops parts of the service for a time.

use app::App;
use app::pauses::{self, NewPause};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use domain::act::OperatorAct;
use domain::ids::EventId;
use domain::service_pause::{InvalidScope, PausedFor, ServicePart, ServicePause};
use domain::{Timestamp, UnknownName};
use wire::ops::{ServicePauseEnded, ServicePauseEntry, ServicePauseList, ServicePauseRequest};

use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::{LASTS, OpsQuery, WithReason, body, lasting, reason};

/// `GET /ops/v1/pauses`: the pauses in force.
pub async fn list(State(app): State<App>) -> Result<Json<ServicePauseList>, Refusal> {
    let pauses = pauses::list(&app.store, app.clock.now()).await?;
    Ok(Json(ServicePauseList { pauses }))
}

/// `POST /ops/v1/pauses`: pauses a part.
pub async fn begin(
    State(app): State<App>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<ServicePauseEntry>, Refusal> {
    let ServicePauseRequest { part, scope, reason: why, lasts, replace: replaces } = body(&bytes)?;
    let reason = reason(why.as_deref())?;
    let invalid = |member: &str, error: String| Refusal::invalid("invalid_request", format!("{member}: {error}"));
    let part = part.parse::<ServicePart>().map_err(|error: UnknownName| invalid("part", error.to_string()))?;
    let scope = scope.as_deref().map(str::parse::<PausedFor>).transpose();
    let scope = scope.map_err(|error: InvalidScope| invalid("scope", error.to_string()))?.unwrap_or(PausedFor::All);
    let lasts = lasting(lasts.as_deref())?.unwrap_or(LASTS);
    let (new, now) = (NewPause { part, scope, reason, lasts, replaces }, app.clock.now());
    let act = new.act(requested.act(), now);
    begin_as(&app, &requested, act, new, now).await
}

/// Begins a pause as this act.
pub async fn begin_as(
    app: &App,
    requested: &RequestedAct,
    act: OperatorAct,
    new: NewPause,
    now: Timestamp,
) -> Result<Json<ServicePauseEntry>, Refusal> {
    let acting = requested.acting(app, act);
    let lasts_max = app.live.get().admin.override_max;
    let pause = pauses::begin(&acting, new, lasts_max, now).await?;
    Ok(Json(ServicePauseEntry { act_id: Some(acting.id), ..pauses::described(&pause) }))
}

/// `DELETE /ops/v1/pauses/{id}`: ends a pause.
pub async fn end(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    OpsQuery(WithReason { reason: why }): OpsQuery<WithReason>,
) -> Result<Json<ServicePauseEnded>, Refusal> {
    let why = reason(why.as_deref())?;
    let id: EventId = id.parse().map_err(|_| Refusal::not_found("no pause has this id"))?;
    let now = app.clock.now();
    let in_force = app.store.service_pauses(now).await?;
    let pause = in_force.iter().find(|pause| pause.id == id);
    let target = pause.map_or_else(|| id.to_string(), |pause| ServicePause::target(pause.part, &pause.scope));
    let acting = requested.acting(&app, requested.act().on("pause", target).because(Some(why)));
    pauses::end(&acting, id, now).await?;
    Ok(Json(ServicePauseEnded { id, act_id: acting.id }))
}
