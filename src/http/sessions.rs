//! The browsers in which a person is signed in.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use domain::clock::date_time;
use domain::ids::{PersonId, SessionId};
use serde_json::{Value, json};

use super::auth::{Caller, unauthorized};
use super::error::{Answer, ApiError, Code};
use crate::house::House;

/// Sessions that are listed; a person with more has other worries.
const ROWS_MAX: usize = 100;

/// `GET /api/v1/sessions`: `{sessions: [{id, created_at, expires_at, via, address, user_agent, current}]}`, newest first.
pub async fn list(State(house): State<House>, caller: Caller) -> Answer {
    let person = person(&caller, &house)?;
    let current = match caller {
        Caller::Session { session, .. } => Some(session),
        _ => None,
    };
    let sessions = house.store.sessions_of_person(person, house.clock.now(), ROWS_MAX).await?;
    let sessions: Vec<Value> = sessions
        .into_iter()
        .map(|session| {
            json!({
                "id": session.id,
                "created_at": date_time(session.created_at),
                "expires_at": date_time(session.expires_at),
                "via": session.via.to_string(),
                "address": session.address,
                "user_agent": session.user_agent,
                "current": current == Some(session.id),
            })
        })
        .collect();
    Ok(axum::Json(json!({ "sessions": sessions })).into_response())
}

/// `DELETE /api/v1/sessions/{id}`: signs one of the caller's browsers out.
pub async fn revoke(State(house): State<House>, caller: Caller, Path(id): Path<String>) -> Answer {
    let person = person(&caller, &house)?;
    // A foreign session and one that never was look the same.
    let id: SessionId = id.parse().map_err(|_| Code::NotFound)?;
    let (store, now) = (house.store.clone(), house.clock.now());
    if actors::detached(async move { store.session_revoke_by_id(id, person, now).await }).await?? {
        Ok(axum::Json(json!({ "ok": true })).into_response())
    } else {
        Err(Code::NotFound.into())
    }
}

fn person(caller: &Caller, house: &House) -> Result<PersonId, ApiError> {
    match caller {
        Caller::Session { person, .. } | Caller::Account { person, .. } => Ok(*person),
        _ => Err(unauthorized(Code::Unauthorized, true, house)),
    }
}
