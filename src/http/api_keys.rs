//! Keys of the knowledge API (`docs/decisions/0035-api-keys.md`).

use std::collections::HashSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::Timestamp;
use domain::api_key::{ApiKey, ApiKeyName, ApiKeyScope, SPACES_MAX, scopes_of};
use domain::ids::{ApiKeyId, SpaceId, UserAccountId};
use domain::secret::{Secret, SecretKind};
use store::api_key::KeyCreate;
use store::{Store, StoreError};
use wire::Done;
use wire::account::{KeyRequest, Keys};

use super::auth::{Caller, require_recent_sign_in};
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use crate::app::App;
use crate::http::named::Named;

/// Keys that are listed, ended ones included.
pub const KEYS_LISTED_MAX: usize = 500;

/// `POST /api/v1/keys`: 201 `{id, key, name, scopes, spaces, created_at, expires_at, …}`; the key is shown this once.
pub async fn create(State(app): State<App>, caller: Caller, JsonBody(body): JsonBody<KeyRequest>) -> ApiResult {
    require_recent_sign_in(&caller, &app)?;
    let account = caller.require_account()?.clone();
    let KeyRequest { name, scopes, spaces, expires_at } = body;
    let name = name.parse().map_err(|error| ApiError::invalid("name", format!("{error}")))?;
    if spaces.as_ref().is_some_and(|spaces| spaces.is_empty() || spaces.len() > SPACES_MAX) {
        let rule = format!("must name 1 to {SPACES_MAX} spaces; leave it out for all of them");
        return Err(ApiError::invalid("spaces", rule));
    }
    if let Some(spaces) = &spaces
        && let Some(at) = first_unreadable(&app.store, &account, spaces).await?
    {
        return Err(ApiError::invalid(&format!("spaces[{at}]"), "must be a space that the account may read"));
    }
    let now = app.clock.now();
    if expires_at.is_some_and(|end| end <= now) {
        return Err(ApiError::invalid("expires_at", "must be in the future; leave it out for a key without an end"));
    }
    let id = app.rng.uuid_v7(now).into();
    let new = NewKey { id, account, name, scopes, spaces, expires_at };
    let (key, secret) = make(&app, new).await?.ok_or(Code::TooManyKeys)?;
    let answer = body::answer(&wire::account::NewKey { about: described(&key), key: secret })?;
    Ok((StatusCode::CREATED, answer).into_response())
}

/// `GET /api/v1/keys`: `{keys: […]}`, newest first and revoked ones last, without the keys themselves.
pub async fn list(State(app): State<App>, caller: Caller) -> ApiResult {
    let keys = app.store.api_keys_of_account(caller.require_account()?, KEYS_LISTED_MAX).await?;
    body::answer(&Keys { keys: keys.iter().map(described).collect() })
}

/// `DELETE /api/v1/keys/{id}`: ends a key of the caller's account for ever.
pub async fn revoke(State(app): State<App>, caller: Caller, Named(id): Named) -> ApiResult {
    let account = caller.require_account()?.clone();
    // A foreign key and one that never was look the same.
    let id: ApiKeyId = id.parse().map_err(|_| Code::NotFound)?;
    if end(&app, id, account).await? { body::answer(&Done::OK) } else { Err(Code::NotFound.into()) }
}

/// The place of the first of `spaces` that an account may not read, if there is one.
pub async fn first_unreadable(
    store: &Store,
    account: &UserAccountId,
    spaces: &[SpaceId],
) -> Result<Option<usize>, StoreError> {
    let readable = store.spaces_readable(spaces, account).await?;
    Ok(spaces.iter().position(|named| readable.iter().all(|space| space.id != *named)))
}

/// A key that is asked for.
#[derive(Debug)]
pub struct NewKey {
    /// Its id; the same id twice is the same request twice.
    pub id: ApiKeyId,
    /// Whose.
    pub account: UserAccountId,
    /// What its owner calls it.
    pub name: ApiKeyName,
    /// What it opens; everything when none is named.
    pub scopes: Vec<ApiKeyScope>,
    /// Where; everywhere when absent.
    pub spaces: Option<Vec<SpaceId>>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

/// Makes a key; `None` when the account has too many. A request that came before is refused: its key was shown then.
pub async fn make(app: &App, new: NewKey) -> Result<Option<(ApiKey, Secret)>, ApiError> {
    let secret = Secret::mint(SecretKind::ApiKey, &app.rng);
    let key = ApiKey {
        id: new.id,
        account: new.account,
        name: new.name,
        scopes: scopes_of(&new.scopes),
        spaces: new.spaces.map(once),
        created_at: app.clock.now(),
        expires_at: new.expires_at,
        last_used_at: None,
        revoked_at: None,
    };
    let (store, kept, hash) = (app.store.clone(), key.clone(), secret.hash());
    let keys_max = app.settings.api_keys.per_account_max;
    match actors::detached(async move { store.api_key_create(&kept, &hash, keys_max).await }).await?? {
        KeyCreate::Created => Ok(Some((key, secret))),
        KeyCreate::TooMany => Ok(None),
        KeyCreate::AlreadyMade => Err(Code::KeyAlreadyMade.into()),
    }
}

/// Each space once, in the order in which they were named.
fn once(spaces: Vec<SpaceId>) -> Vec<SpaceId> {
    let mut seen = HashSet::new();
    spaces.into_iter().filter(|space| seen.insert(*space)).collect()
}

/// Ends a key of an account; `false` when it has none such.
pub async fn end(app: &App, id: ApiKeyId, account: UserAccountId) -> Result<bool, ApiError> {
    let (store, now) = (app.store.clone(), app.clock.now());
    Ok(actors::detached(async move { store.api_key_revoke(id, Some(&account), now).await }).await??)
}

/// A key as answers and lists show it.
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
