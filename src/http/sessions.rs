//! The browsers in which a person is signed in.

use axum::extract::State;
use domain::ids::{PersonId, SessionId};
use wire::Done;
use wire::account::{Session, Sessions};

use super::auth::{Caller, unauthorized};
use super::body;
use super::error::{ApiError, ApiResult, Code};
use crate::app::App;
use crate::http::named::Named;

/// Sessions that are listed; a person with more has other worries.
const ROWS_MAX: usize = 100;

/// `GET /api/v1/sessions`: `{sessions: [{id, created_at, expires_at, via, address, user_agent, current}]}`, newest first.
pub async fn list(State(app): State<App>, caller: Caller) -> ApiResult {
    let person = person(&caller, &app)?;
    let current = match caller {
        Caller::Session { session, .. } => Some(session),
        _ => None,
    };
    let sessions = app.store.sessions_of_person(person, app.clock.now(), ROWS_MAX).await?;
    let session = |session: store::session::Session| Session {
        id: session.id,
        created_at: session.created_at,
        expires_at: session.expires_at,
        via: session.via.to_string(),
        address: session.address,
        user_agent: session.user_agent,
        current: current == Some(session.id),
    };
    body::answer(&Sessions { sessions: sessions.into_iter().map(session).collect() })
}

/// `DELETE /api/v1/sessions/{id}`: signs one of the caller's browsers out.
pub async fn revoke(State(app): State<App>, caller: Caller, Named(id): Named) -> ApiResult {
    let person = person(&caller, &app)?;
    // A foreign session and one that never was look the same.
    let id: SessionId = id.parse().map_err(|_| Code::NotFound)?;
    let (store, now) = (app.store.clone(), app.clock.now());
    if actors::detached(async move { store.session_revoke_by_id(id, person, now).await }).await?? {
        body::answer(&Done::OK)
    } else {
        Err(Code::NotFound.into())
    }
}

fn person(caller: &Caller, app: &App) -> Result<PersonId, ApiError> {
    match caller {
        Caller::Session { person, .. } | Caller::Account { person, .. } => Ok(*person),
        _ => Err(unauthorized(Code::Unauthorized, true, app)),
    }
}
