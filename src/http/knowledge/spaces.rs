//! Spaces: made, listed, changed.

use axum::extract::State;
use domain::api_key::ApiKeyScope;
use domain::ids::SpaceId;
use domain::space::{Space, SpaceName, split_name};
use store::space::{SpaceChange, SpaceCreate};
use wire::knowledge::{Owner, SpaceChanged, SpaceCreated, SpaceRequest, Spaces};

use super::error::KnowledgeResult;
use super::{Json, KnowledgeKey, ToSearch, ToWrite};
use crate::app::App;
use crate::http::body;
use crate::http::error::{ApiError, Code};
use crate::http::named::Named;
use crate::knowledge::KnowledgeAccess;

/// Spaces that are listed.
pub const SPACES_LISTED_MAX: usize = 1000;

/// `POST /v1/spaces/create`: `{message, space}`
pub async fn create(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToWrite>,
    Json(body): Json<SpaceRequest>,
) -> KnowledgeResult {
    let name = name("spaceName", &body.space_name)?;
    // A key for certain spaces would make one that it cannot reach.
    if reader.within.is_some() {
        return Err(Code::SpaceForbidden.into());
    }
    let space = make(&app, &reader, name, body.is_public.unwrap_or(false)).await?;
    let message = "Space created successfully".to_owned();
    Ok(body::answer(&SpaceCreated { message, space: described(&space) })?)
}

/// `GET /v1/spaces`: `{spaces: […]}`, the default first, then the newest.
pub async fn list(State(app): State<App>, KnowledgeKey(reader, _): KnowledgeKey<ToSearch>) -> KnowledgeResult {
    let spaces = app.store.spaces_of_account(&reader.account, SPACES_LISTED_MAX).await?;
    let spaces = spaces.iter().filter(|space| reader.covers(space.id)).map(described).collect();
    Ok(body::answer(&Spaces { spaces })?)
}

/// `PATCH /v1/spaces/{id}`: `{space}`. Only the owner changes name and publicity; every member may set the mark. A key for
/// certain spaces makes one public only with the scope `settings`.
pub async fn change(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
    Json(body): Json<wire::knowledge::SpaceChange>,
) -> KnowledgeResult {
    let id: SpaceId = id.parse().map_err(|_| Code::NotFound)?;
    if !reader.covers(id) {
        return Err(Code::NotFound.into());
    }
    if body.is_public == Some(true) && !reader.may_publish {
        return Err(ApiError::new(Code::InsufficientScope).with("scope", ApiKeyScope::Settings.as_str().into()).into());
    }
    let name = body.space_name.as_deref().map(|text| name("spaceName", text)).transpose()?;
    let change = SpaceChange { name, is_public: body.is_public };
    let space = change_as(&app, &reader, id, change, body.is_favorite).await?;
    Ok(body::answer(&SpaceChanged { space: described(&space) })?)
}

/// Changes a space as far as the reader's account may.
pub async fn change_as(
    app: &App,
    reader: &KnowledgeAccess,
    id: SpaceId,
    change: SpaceChange,
    is_favorite: Option<bool>,
) -> Result<Space, ApiError> {
    let (store, account) = (app.store.clone(), reader.account.clone());
    let space = actors::detached(async move {
        if (change.name.is_some() || change.is_public.is_some()) && !store.space_change(id, &account, &change).await? {
            return Ok(None);
        }
        if let Some(favorite) = is_favorite
            && !store.space_favor(id, &account, favorite).await?
        {
            return Ok(None);
        }
        Ok::<_, store::StoreError>(store.spaces_readable(&[id], &account).await?.pop())
    });
    space.await??.ok_or_else(|| Code::NotFound.into())
}

/// Makes a space of the reader's account.
pub async fn make(app: &App, reader: &KnowledgeAccess, name: SpaceName, is_public: bool) -> Result<Space, ApiError> {
    let (store, account, now) = (app.store.clone(), reader.account.clone(), app.clock.now());
    let id: SpaceId = app.rng.uuid_v7(now).into();
    let spaces_max = app.settings.knowledge.spaces_per_account_max;
    let made = actors::detached(async move {
        let made = store.space_create(id, &account, &name, is_public, spaces_max, now).await?;
        let space = store.spaces_readable(&[id], &account).await?.pop();
        Ok::<_, store::StoreError>((made, space))
    });
    match made.await?? {
        (SpaceCreate::Created, Some(space)) => Ok(space),
        _ => {
            Err(ApiError::invalid("", format!("the account has made {spaces_max} spaces, which is as many as it may")))
        }
    }
}

fn name(path: &str, text: &str) -> Result<SpaceName, ApiError> {
    text.parse().map_err(|error| ApiError::invalid(path, format!("{error}")))
}

/// A space, as the specification has it.
pub fn described(space: &Space) -> wire::knowledge::Space {
    let (first_name, last_name) = split_name(space.owner_name.as_deref());
    wire::knowledge::Space {
        id: space.id,
        name: space.name.as_str().to_owned(),
        is_public: space.is_public,
        is_favorite: space.is_favorite,
        owner: Owner { first_name, last_name },
        access_type: space.access,
        created_at: space.created_at,
    }
}
