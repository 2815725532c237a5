//! Browser sessions of a person.

use std::sync::Arc;

use app::config::Urls;
use app::services::sessions::Sessions;
use axum::extract::State;
use domain::ids::{PersonId, SessionId};
use wire::Done;
use wire::account::Session;

use super::auth::{Caller, unauthorized};
use super::body;
use super::error::{ApiError, ApiResult, Code};
use super::named::Named;

/// `GET /api/v1/sessions`: `{sessions: [{id, created_at, expires_at, via, address, user_agent, current}]}`, newest first.
pub async fn list(State(sessions): State<Sessions>, State(urls): State<Arc<Urls>>, caller: Caller) -> ApiResult {
    let person = person(&caller, &urls)?;
    let current = match caller {
        Caller::Session { session, .. } => Some(session),
        _ => None,
    };
    let sessions = sessions.list(person).await?;
    let session = |session: store::session::Session| Session {
        id: session.id,
        created_at: session.created_at,
        expires_at: session.expires_at,
        via: session.via.to_string(),
        address: session.address,
        user_agent: session.user_agent,
        current: current == Some(session.id),
    };
    body::answer(&wire::account::Sessions { sessions: sessions.into_iter().map(session).collect() })
}

/// `DELETE /api/v1/sessions/{id}`: signs out a browser of the caller.
pub async fn revoke(
    State(sessions): State<Sessions>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    Named(id): Named,
) -> ApiResult {
    let person = person(&caller, &urls)?;
    // A session of another person is refused like an unknown one.
    let id: SessionId = id.parse().map_err(|_| Code::NotFound)?;
    if sessions.end(id, person).await? { body::answer(&Done::OK) } else { Err(Code::NotFound.into()) }
}

fn person(caller: &Caller, urls: &Urls) -> Result<PersonId, ApiError> {
    match caller {
        Caller::Session { person, .. } | Caller::Account { person, .. } => Ok(*person),
        _ => Err(unauthorized(Code::Unauthorized, true, urls)),
    }
}
