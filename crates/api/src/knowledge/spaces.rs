//! Spaces: create, list, change, delete.

use app::services::knowledge::Spaces;
use app::services::knowledge::spaces::{Contents, DeletedSpace};
use axum::extract::State;
use domain::api_key::ApiKeyScope;
use domain::ids::SpaceId;
use domain::space::{Space, SpaceName, split_name};
use serde::Deserialize;
use store::space::SpaceChange;
use wire::knowledge::{Owner, SpaceChanged, SpaceCreated, SpaceDeleted, SpaceRequest};

use super::error::KnowledgeResult;
use super::{Json, KnowledgeKey, KnowledgeQuery, ToSearch, ToWrite};
use crate::body;
use crate::error::{ApiError, Code};
use crate::named::Named;

/// `POST /v1/spaces/create`: `{message, space}`
pub async fn create(
    State(spaces): State<Spaces>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Json(body): Json<SpaceRequest>,
) -> KnowledgeResult {
    let name = name("spaceName", &body.space_name)?;
    let space = spaces.create(&access, name, body.is_public.unwrap_or(false)).await?;
    let message = "Space created successfully".to_owned();
    Ok(body::answer(&SpaceCreated { message, space: described(&space) })?)
}

/// `GET /v1/spaces`: `{spaces: […]}`, the default first, then the newest.
pub async fn list(State(spaces): State<Spaces>, KnowledgeKey(access, _): KnowledgeKey<ToSearch>) -> KnowledgeResult {
    let spaces = spaces.list(&access.account).await?;
    let spaces = spaces.iter().filter(|space| access.covers(space.id)).map(described).collect();
    Ok(body::answer(&wire::knowledge::Spaces { spaces })?)
}

/// `PATCH /v1/spaces/{id}`: `{space}`. Only the owner changes name and publicity; every member may mark the space as a favourite. A key for
/// certain spaces makes one public only with the scope `settings`.
pub async fn change(
    State(spaces): State<Spaces>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
    Json(body): Json<wire::knowledge::SpaceChange>,
) -> KnowledgeResult {
    let id: SpaceId = id.parse().map_err(|_| Code::NotFound)?;
    if !access.covers(id) {
        return Err(Code::NotFound.into());
    }
    if body.is_public == Some(true) && !access.may_publish {
        return Err(ApiError::new(Code::InsufficientScope).with("scope", ApiKeyScope::Settings.as_str().into()).into());
    }
    let name = body.space_name.as_deref().map(|text| name("spaceName", text)).transpose()?;
    let change = SpaceChange { name, is_public: body.is_public };
    let space = spaces.change(&access, id, change, body.is_favorite).await?;
    Ok(body::answer(&SpaceChanged { space: described(&space) })?)
}

/// `?memories=`: what becomes of memories that are in no other space.
#[derive(Debug, Deserialize)]
pub struct DeleteParameters {
    memories: Option<String>,
}

/// `DELETE /v1/spaces/{id}`: `{ok, moved, deleted}`. Only the owner, with a key that is not limited to spaces.
pub async fn delete(
    State(spaces): State<Spaces>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
    KnowledgeQuery(query): KnowledgeQuery<DeleteParameters>,
) -> KnowledgeResult {
    let id: SpaceId = id.parse().map_err(|_| Code::NotFound)?;
    let contents = match query.memories.as_deref() {
        None | Some("move") => Contents::Move,
        Some("delete") => Contents::Delete,
        Some(_) => return Err(ApiError::invalid("memories", "must be move or delete").into()),
    };
    let DeletedSpace { moved, deleted } = spaces.delete(&access, id, contents).await?;
    Ok(body::answer(&SpaceDeleted { ok: true, moved, deleted })?)
}

fn name(path: &str, text: &str) -> Result<SpaceName, ApiError> {
    text.parse().map_err(|error| ApiError::invalid(path, format!("{error}")))
}

/// A space in the form of the protocol.
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
