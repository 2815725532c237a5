//! Audit proofs and the public endpoints of the log (`docs/protocol/audit.md` and `docs/decisions/0012-tree-and-proofs.md`).

use std::sync::Arc;

use actors::upstream::Upstream;
use app::config::Urls;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use domain::ids::EventId;
use domain::log_part::LogPart;
use proofs::merkle::tile::TilePath;
use serde::Deserialize;
use store::Store;

use super::activity::scope;
use super::auth::Caller;
use super::error::{ApiResult, Code};
use super::named::Named;
use super::passed;
use super::query::ApiQuery;

/// The query of `verify`.
#[derive(Debug, Deserialize)]
pub struct Which {
    event_id: Option<String>,
}

/// `GET /api/v1/audit/verify?event_id=`: the proof, passed through unchanged.
pub async fn verify(
    State(store): State<Store>,
    State(upstream): State<Upstream>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ApiQuery(Which { event_id }): ApiQuery<Which>,
) -> ApiResult {
    let event_id = event_id.filter(|id| !id.is_empty()).ok_or(Code::MissingEventId)?;
    let event_id: EventId = event_id.parse().map_err(|_| Code::InvalidEventId)?;
    let scope = scope(&caller, &store, &urls).await?;
    let proof = upstream.proof(&scope, event_id).await;
    proof.map(passed::response).map_err(|error| passed::unreachable(&error))
}

/// `GET /api/v1/audit/checkpoint` and `GET /log/checkpoint`: the newest signed tree head, a C2SP note in text/plain.
pub async fn checkpoint(State(upstream): State<Upstream>, ApiQuery(OfLog { log }): ApiQuery<OfLog>) -> ApiResult {
    upstream
        .checkpoint(part_of(&upstream, log.as_deref())?)
        .await
        .map(passed::response)
        .map_err(|error| passed::unreachable(&error))
}

/// The query of `consistency`; read by the statistics service.
#[derive(Debug, Deserialize)]
pub struct Range {
    from: Option<String>,
    to: Option<String>,
    log: Option<String>,
}

/// The query of `checkpoint`.
#[derive(Debug, Deserialize)]
pub struct OfLog {
    log: Option<String>,
}

/// The part of the log that a request names; the first one without a name.
fn part_of(upstream: &Upstream, log: Option<&str>) -> Result<LogPart, Code> {
    let part = log.map_or(Ok(LogPart::FIRST), str::parse).map_err(|_| Code::NotFound)?;
    let is_known = part.is_first() || upstream.logs().is_some_and(|logs| logs.slot(part).is_some());
    is_known.then_some(part).ok_or(Code::NotFound)
}

/// `GET /api/v1/audit/consistency?from&to`: proves that the smaller tree is a prefix of the larger.
pub async fn consistency(State(upstream): State<Upstream>, ApiQuery(range): ApiQuery<Range>) -> ApiResult {
    let proof = upstream
        .consistency(part_of(&upstream, range.log.as_deref())?, range.from.as_deref(), range.to.as_deref())
        .await;
    proof.map(passed::response).map_err(|error| passed::unreachable(&error))
}

/// `GET /api/v1/audit/keys`: `{keys: [{vkey, active_from, retired_at}]}`.
pub async fn keys(State(upstream): State<Upstream>) -> ApiResult {
    upstream.keys().await.map(passed::response).map_err(|error| passed::unreachable(&error))
}

/// A signed hash of the tree never changes, neither in a full tile nor in a partial one.
const NEVER_CHANGES: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// `GET /log/tile/<L>/<N>[.p/<W>]`: hashes of the signed tree, in the layout of C2SP `tlog-tiles`. Entries are not served: a leaf names a
/// computer and its agent.
pub async fn tile(State(upstream): State<Upstream>, Named(path): Named) -> ApiResult {
    tile_of(&upstream, LogPart::FIRST, &path).await
}

/// `GET /log/p<P>/checkpoint` and `GET /log/p<P>/tile/<L>/<N>[.p/<W>]`: the same of a further part.
pub async fn of_part(
    State(upstream): State<Upstream>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> ApiResult {
    let Path((part, path)) = path.map_err(|_| Code::NotFound)?;
    let part = part.strip_prefix('p').ok_or(Code::NotFound)?;
    let part = part_of(&upstream, Some(part))?;
    match path.strip_prefix("tile/") {
        Some(tile) => tile_of(&upstream, part, tile).await,
        None if path == "checkpoint" => {
            upstream.checkpoint(part).await.map(passed::response).map_err(|error| passed::unreachable(&error))
        }
        None => Err(Code::NotFound.into()),
    }
}

async fn tile_of(upstream: &Upstream, part: LogPart, path: &str) -> ApiResult {
    let wanted: TilePath = path.parse().map_err(|_| Code::NotFound)?;
    let tile = upstream.tile(part, wanted).await.map_err(|error| passed::unreachable(&error))?;
    let is_found = tile.status.is_success();
    let mut response = passed::response(tile);
    if is_found {
        response.headers_mut().insert(CACHE_CONTROL, NEVER_CHANGES);
    }
    Ok(response)
}
