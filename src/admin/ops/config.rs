//! `/ops/v1/config…`: the settings of this node, their places, and overrides.

use app::App;
use app::config::shown::shown;
use app::effect::effect;
use app::overrides::{self, NewOverride};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use domain::act::ActOutcome;
use serde::Deserialize;
use serde_json::Value;
use store::setting::SettingOverride;
use wire::ops::{OverrideEntry, OverrideList, OverrideRemoved, OverrideRequest, ReloadRequest, SettingList};

use super::door::RequestedAct;
use super::orders::carry_out;
use super::refusal::Refusal;
use super::request::{LASTS, OpsQuery, TREE_DEADLINE, body, lasting, reason};
use super::state::OpsState;

/// The query of `GET /ops/v1/config`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    path: Option<String>,
}

/// `GET /ops/v1/config`: the settings of this node.
pub async fn show(
    State(app): State<App>,
    OpsQuery(Section { path }): OpsQuery<Section>,
) -> Result<Json<SettingList>, Refusal> {
    let (configured, in_force, overrides) = (app.live.configured(), app.live.get(), app.live.overrides());
    let settings = shown(path.as_deref(), &configured, &in_force, &overrides.values());
    let settings = settings.map_err(|error| Refusal::fault(&error))?;
    if settings.is_empty() {
        return Err(Refusal::not_found("no setting has this path"));
    }
    Ok(Json(SettingList { settings }))
}

/// `POST /ops/v1/config/reload`: reads the configuration of a node again.
pub async fn reload(
    State(state): State<OpsState>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let ReloadRequest { node, reason: why, dry_run } = body(&bytes)?;
    requested.set_dry_run(dry_run);
    let act = requested.act().because(Some(reason(why.as_deref())?));
    carry_out(state, &requested, node.as_deref(), (act, dry_run)).await
}

/// `GET /ops/v1/config/overrides`: the overrides in force.
pub async fn overrides(State(app): State<App>) -> Result<Json<OverrideList>, Refusal> {
    let overrides = overrides::list(&app.store, app.clock.now()).await?;
    Ok(Json(OverrideList { overrides }))
}

/// `PUT /ops/v1/config/overrides/{path}`: overrides a live setting.
pub async fn set(
    State(app): State<App>,
    Path(path): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<OverrideEntry>, Refusal> {
    let OverrideRequest { value, reason: why, node, lasts, until_unset, replace, dry_run } = body(&bytes)?;
    requested.set_dry_run(dry_run);
    let why = reason(why.as_deref())?;
    let lasts = match lasting(lasts.as_deref())? {
        Some(_) if until_unset => {
            return Err(Refusal::invalid("invalid_request", "for and until_unset exclude each other"));
        }
        Some(lasts) => Some(lasts),
        None => (!until_unset).then_some(LASTS),
    };
    let now = app.clock.now();
    let mut act = requested.act().on("setting", overrides::target(&path, node.as_deref())).because(Some(why));
    let until = lasts.map(|lasts| now + lasts);
    if let Some(until) = until {
        act = act.until(until);
    }
    // A text is read as in the environment: TOML, or plain text.
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let new = NewOverride { path: &path, text: &text, node: node.as_deref(), lasts };
    let in_force = app.store.setting_overrides(now).await?;
    let checked = new.check(&in_force, app.live.configured().named.as_deref(), app.live.get().admin.override_max);
    let acting = requested.acting(&app, act);
    let value = match checked {
        Ok(value) => value,
        Err(refusal) if dry_run => return Err(refusal.into()),
        Err(refusal) => {
            acting.record(ActOutcome::Refused).await?;
            return Err(refusal.into());
        }
    };
    let effect = effect_of(&app, &path, &value).await;
    let new = SettingOverride { path, node, value, until, set_by: acting.author.clone() };
    if dry_run {
        return Ok(Json(OverrideEntry { effect, ..overrides::described(&new) }));
    }
    overrides::set(&acting, &new, replace, now).await?;
    Ok(Json(OverrideEntry { effect, act_id: Some(acting.id), ..overrides::described(&new) }))
}

/// The effect of a value on the present numbers of this node; `None` if its actors do not answer.
async fn effect_of(app: &App, path: &str, value: &Value) -> Option<String> {
    let tree = app.root.tree(TREE_DEADLINE).await.ok()?;
    let (configured, in_force, overrides) = (app.live.configured(), app.live.get(), app.live.overrides());
    let before = shown(Some(path), &configured, &in_force, &overrides.values()).ok()?;
    let before = before.into_iter().find(|entry| entry.path == path)?;
    Some(effect(path, &before.value, value, &tree))
}

/// The query of `DELETE /ops/v1/config/overrides/{path}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removal {
    node: Option<String>,
    reason: Option<String>,
}

/// `DELETE /ops/v1/config/overrides/{path}`: removes an override.
pub async fn unset(
    State(app): State<App>,
    Path(path): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    OpsQuery(Removal { node, reason: why }): OpsQuery<Removal>,
) -> Result<Json<OverrideRemoved>, Refusal> {
    let why = reason(why.as_deref())?;
    let act = requested.act().on("setting", overrides::target(&path, node.as_deref())).because(Some(why));
    let acting = requested.acting(&app, act);
    overrides::unset(&acting, &path, node.as_deref(), app.clock.now()).await?;
    Ok(Json(OverrideRemoved { path, node, act_id: acting.id }))
}
