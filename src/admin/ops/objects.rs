//! `POST /ops/v1/batches/{id}/cancel` and the other changes of single objects.

use app::App;
use app::objects::ObjectChange;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::routing::{MethodRouter, post};
use domain::ids::EventId;
use store::StoreError;
use wire::ops::ObjectChanged;

use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::only_reason;
use super::state::OpsState;

/// The handler of a change.
pub fn changes(change: ObjectChange) -> MethodRouter<OpsState> {
    type Requested = Extension<RequestedAct>;
    post(
        move |State(app): State<App>, Path(id): Path<String>, Extension(requested): Requested, bytes: Bytes| async move {
            carry_out(app, change, &id, &requested, &bytes).await
        },
    )
}

async fn carry_out(
    app: App,
    change: ObjectChange,
    id: &str,
    requested: &RequestedAct,
    bytes: &Bytes,
) -> Result<Json<ObjectChanged>, Refusal> {
    let why = only_reason(bytes)?;
    let absent = || Refusal::not_found(change.refusal());
    // Ids of all objects have one form.
    let id = id.parse::<EventId>().map_err(|_| absent())?.as_uuid();
    let act = requested.act().on(change.object(), id).because(Some(why));
    let target = act.target.clone().unwrap_or_default();
    let acting = requested.acting(&app, act);
    let (give_up_after, now) = (app.live.get().webhooks.give_up_after, app.clock.now());
    let changed = acting.settle(change.apply(&acting.store, id, give_up_after, now).await).await;
    if !changed.map_err(StoreError::from)? {
        return Err(absent());
    }
    app.hint_changed(change, id);
    Ok(Json(ObjectChanged { target, act_id: acting.id }))
}
