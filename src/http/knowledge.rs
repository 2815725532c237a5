//! The knowledge API (`docs/protocol/knowledge.md` and `docs/decisions/0035-api-keys.md` and `docs/decisions/0036-spaces.md`).
//!
//! Every request has a key, `Authorization: Bearer ak_…`. What the key may do and where is [`KnowledgeAccess`]'s to say, for keys and for people
//! on their pages alike.

pub mod batch;
pub mod error;
pub mod large;
pub mod memories;
pub mod places;
pub mod search;
pub mod settings;
pub mod spaces;
pub mod stream;

use std::marker::PhantomData;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use domain::api_key::ApiKeyScope;
use serde::de::{DeserializeOwned, IgnoredAny};

use self::error::KnowledgeError;
use super::auth::{Caller, Challenge};
use super::body;
use super::error::{ApiError, Code};
use crate::app::App;
use crate::knowledge::KnowledgeAccess;
use crate::knowledge::credential::Credential;

/// Whoever presented a good key with the scope `S`. It is asked for before anything of the body is read.
#[derive(Debug)]
pub struct KnowledgeKey<S>(pub KnowledgeAccess, PhantomData<S>);

/// A scope, as the type of a handler's argument says it.
pub trait KeyScope {
    /// The scope.
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

impl<S: KeyScope> FromRequestParts<App> for KnowledgeKey<S> {
    type Rejection = KnowledgeError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, KnowledgeError> {
        let Caller::Key(key) = Caller::from_request_parts(parts, app).await? else {
            return Err(Challenge::for_key(app).to(Code::Unauthorized).into());
        };
        if !key.scopes.contains(&S::SCOPE) {
            return Err(ApiError::new(Code::InsufficientScope).with("scope", S::SCOPE.as_str().into()).into());
        }
        let credential = Credential::Key(key.id, key.account.clone());
        let may_publish = key.spaces.is_none() || key.scopes.contains(&ApiKeyScope::Settings);
        Ok(Self(KnowledgeAccess { account: key.account, within: key.spaces, may_publish, credential }, PhantomData))
    }
}

/// A JSON body: 415 when it says to be something else, 400 `invalid_json` when it is none, 400 `invalid_request` when it does not fit.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = KnowledgeError;

    async fn from_request(request: Request, app: &App) -> Result<Self, KnowledgeError> {
        says_json(&request)?;
        let (parts, body) = request.into_parts();
        parse(&body::read(&parts, body, app).await?).map(Self)
    }
}

/// 415 unless the body says to be JSON, or says nothing.
fn says_json(request: &Request) -> Result<(), KnowledgeError> {
    let Some(kind) = request.headers().get(CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Code::UnsupportedMediaType.into()) }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, KnowledgeError> {
    let text = std::str::from_utf8(bytes).map_err(|_| Code::InvalidJson)?;
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Err(Code::InvalidJson.into());
    }
    Ok(body::json(bytes)?)
}
