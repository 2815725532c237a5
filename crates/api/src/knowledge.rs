//! The knowledge API (`docs/protocol/knowledge.md` and `docs/decisions/0020-keys-and-spaces.md`).
//!
//! Every request has a key, `Authorization: Bearer ak_…`. [`KnowledgeAccess`] contains the rights of a key, and of a person
//! on a page.

pub mod batch;
pub mod error;
mod idempotency;
pub mod import;
pub mod key;
pub mod large;
pub mod mcp;
pub mod memories;
pub mod places;
pub mod search;
pub mod settings;
pub mod spaces;
pub mod stream;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use actors::intake::QUOTA_EXCEEDED;
use app::config::Urls;
use app::services::knowledge::credential::Credential;
use app::services::knowledge::{KnowledgeAccess, Refusal};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use domain::api_key::{ApiKey, ApiKeyScope};
use serde::de::DeserializeOwned;

use self::error::KnowledgeError;
use super::auth::{Authenticator, Caller, Challenge};
use super::body::{self, BodyReader};
use super::error::{ApiError, Code};
use super::media_type;
use super::query::ApiQuery;

/// `Retry-After` when the account has reached its quota.
const QUOTA_PAUSE: Duration = Duration::from_hours(1);

/// A valid API key with the scope `K`. It is checked before the body is read.
#[derive(Debug)]
pub struct KnowledgeKey<S>(pub KnowledgeAccess, PhantomData<S>);

/// A scope as a type, for the argument of a handler.
pub trait KeyScope {
    /// The required scope of the key.
    const SCOPE: ApiKeyScope;
}

/// [`ApiKeyScope::Search`]
#[derive(Debug)]
pub struct ToSearch;

/// [`ApiKeyScope::Write`]
#[derive(Debug)]
pub struct ToWrite;

/// [`ApiKeyScope::Settings`]
#[derive(Debug)]
pub struct ToSet;

impl KeyScope for ToSearch {
    const SCOPE: ApiKeyScope = ApiKeyScope::Search;
}

impl KeyScope for ToWrite {
    const SCOPE: ApiKeyScope = ApiKeyScope::Write;
}

impl KeyScope for ToSet {
    const SCOPE: ApiKeyScope = ApiKeyScope::Settings;
}

impl<K: KeyScope, S: Send + Sync> FromRequestParts<S> for KnowledgeKey<K>
where
    Arc<Authenticator>: FromRef<S>,
    Arc<Urls>: FromRef<S>,
{
    type Rejection = KnowledgeError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, KnowledgeError> {
        let AnyKey(key) = AnyKey::from_request_parts(parts, state).await?;
        if !key.scopes.contains(&K::SCOPE) {
            return Err(ApiError::new(Code::InsufficientScope).with("scope", K::SCOPE.as_str().into()).into());
        }
        Ok(Self(access_of(key), PhantomData))
    }
}

/// A valid API key with any scopes, which the handler checks itself. It is checked before the body is read.
#[derive(Debug)]
pub struct AnyKey(pub ApiKey);

impl<S: Send + Sync> FromRequestParts<S> for AnyKey
where
    Arc<Authenticator>: FromRef<S>,
    Arc<Urls>: FromRef<S>,
{
    type Rejection = KnowledgeError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, KnowledgeError> {
        let Caller::Key(key) = Caller::from_request_parts(parts, state).await? else {
            return Err(Challenge::for_key(&Arc::<Urls>::from_ref(state)).to(Code::Unauthorized).into());
        };
        Ok(Self(key))
    }
}

fn access_of(key: ApiKey) -> KnowledgeAccess {
    let credential = Credential::Key(key.id, key.account.clone());
    let may_publish = key.spaces.is_none() || key.scopes.contains(&ApiKeyScope::Settings);
    KnowledgeAccess { account: key.account, within: key.spaces, may_publish, credential }
}

/// The parameters of a URL, with errors of the knowledge API.
#[derive(Debug)]
pub struct KnowledgeQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for KnowledgeQuery<T> {
    type Rejection = KnowledgeError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, KnowledgeError> {
        let ApiQuery(query) = ApiQuery::from_request_parts(parts, state).await?;
        Ok(Self(query))
    }
}

/// A JSON body: 415 for another media type, 400 `invalid_json` for invalid JSON, 400 `invalid_request` for a body of the wrong form.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T>
where
    Arc<BodyReader>: FromRef<S>,
{
    type Rejection = KnowledgeError;

    async fn from_request(request: Request, state: &S) -> Result<Self, KnowledgeError> {
        says_json(&request)?;
        let (parts, body) = request.into_parts();
        parse(&Arc::<BodyReader>::from_ref(state).read(&parts, body).await?).map(Self)
    }
}

/// 415 unless `Content-Type` is JSON or missing.
fn says_json(request: &Request) -> Result<(), KnowledgeError> {
    let Some(kind) = request.headers().get(CONTENT_TYPE) else { return Ok(()) };
    let is_json = media_type::is(kind.to_str().unwrap_or_default(), "application/json");
    if is_json { Ok(()) } else { Err(Code::UnsupportedMediaType.into()) }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, KnowledgeError> {
    Ok(body::json_or_invalid_json(bytes)?)
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid { path, rule } => Self::invalid(&path, rule),
            Refusal::Filter(issues) => Self::issues(issues.into_iter().map(|issue| (issue.path, issue.message))),
            Refusal::SpaceForbidden => Code::SpaceForbidden.into(),
            Refusal::NotFound => Code::NotFound.into(),
            Refusal::KeyReused => Code::IdempotencyKeyReused.into(),
            Refusal::TooManyBatches { retry_after } => Self::rate_limited(retry_after),
            Refusal::QuotaExceeded => Self::rate_limited(QUOTA_PAUSE).because(QUOTA_EXCEEDED),
            Refusal::Infra(error) => error.into(),
        }
    }
}
