//! API keys of the knowledge API (`docs/decisions/0020-keys-and-spaces.md`).

use std::sync::Arc;

use app::config::Urls;
use app::services::Ports;
use app::services::api_keys::{ApiKeys, CreateRefusal, NewKey};
use app::services::confirmation::RecentSignIn;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::api_key::{ApiKey, SPACES_MAX};
use domain::ids::ApiKeyId;
use wire::Done;
use wire::account::{KeyRequest, Keys};

use super::auth::{Caller, sign_in_again, unauthorized};
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use super::named::Named;

/// `POST /api/v1/keys`: 201 `{id, key, name, scopes, spaces, created_at, expires_at, …}`. Only this response contains the key.
pub async fn create(
    State(keys): State<ApiKeys>,
    State(recent): State<RecentSignIn>,
    State(ports): State<Ports>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    JsonBody(body): JsonBody<KeyRequest>,
) -> ApiResult {
    let (_, with) = caller.decides().ok_or_else(|| unauthorized(Code::Unauthorized, true, &urls))?;
    let recently = recent.check(with).map_err(|again| sign_in_again(again, &urls))?;
    let account = caller.require_account()?.clone();
    let KeyRequest { name, scopes, spaces, expires_at } = body;
    let name = name.parse().map_err(|error| ApiError::invalid("name", format!("{error}")))?;
    let id = ports.rng.uuid_v7(ports.clock.now()).into();
    let (key, secret) = keys.create(NewKey { id, account, name, scopes, spaces, expires_at }, recently).await?;
    let answer = body::answer(&wire::account::NewKey { about: described(&key), key: secret })?;
    Ok((StatusCode::CREATED, answer).into_response())
}

impl From<CreateRefusal> for ApiError {
    fn from(refusal: CreateRefusal) -> Self {
        match refusal {
            CreateRefusal::NoScopes => Self::invalid("scopes", "must name one at least; leave it out for all of them"),
            CreateRefusal::SpaceCount => {
                let rule = format!("must name 1 to {SPACES_MAX} spaces; leave it out for all of them");
                Self::invalid("spaces", rule)
            }
            CreateRefusal::SpaceUnreadable { at } => {
                Self::invalid(&format!("spaces[{at}]"), "must be a space that the account may read")
            }
            CreateRefusal::Expired => {
                Self::invalid("expires_at", "must be in the future; leave it out for a key without an end")
            }
            CreateRefusal::TooMany => Code::TooManyKeys.into(),
            CreateRefusal::AlreadyCreated => Code::KeyAlreadyMade.into(),
            CreateRefusal::Infra(error) => error.into(),
        }
    }
}

/// `GET /api/v1/keys`: `{keys: […]}`, newest first and revoked ones last, without the secrets.
pub async fn list(State(keys): State<ApiKeys>, caller: Caller) -> ApiResult {
    let keys = keys.list(caller.require_account()?).await?;
    body::answer(&Keys { keys: keys.iter().map(described).collect() })
}

/// `DELETE /api/v1/keys/{id}`: revokes a key of the caller's account permanently.
pub async fn revoke(State(keys): State<ApiKeys>, caller: Caller, Named(id): Named) -> ApiResult {
    let account = caller.require_account()?.clone();
    // A key of another account is refused like an unknown one.
    let id: ApiKeyId = id.parse().map_err(|_| Code::NotFound)?;
    if keys.revoke(id, account).await? { body::answer(&Done::OK) } else { Err(Code::NotFound.into()) }
}

/// A key in responses and lists, without its secret.
pub fn described(key: &ApiKey) -> wire::account::Key {
    wire::account::Key {
        id: key.id,
        name: key.name.as_str().to_owned(),
        scopes: key.scopes.clone(),
        spaces: key.spaces.clone(),
        created_at: key.created_at,
        expires_at: key.expires_at,
        last_used_at: key.last_used_at,
        revoked_at: key.revoked_at,
    }
}
