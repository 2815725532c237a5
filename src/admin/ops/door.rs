//! Who asks, and whether the role suffices. A request that is an act leaves one record, also if it is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::connection::{Connection, Peer};
use api::error::ApiError;
use api::limits::RateLimiters;
use app::App;
use app::acts::Acting;
use app::config::AdminSettings;
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::act::{ActAuthor, ActDoor, ActKind, ActOutcome, OperatorAct};
use domain::ids::EventId;
use domain::operator::OperatorRole;
use domain::secret::Secret;

use super::once::{self, RunningActs};
use super::refusal::Refusal;

/// The operator who signed in at a page of this listener. Requests from outside have no such extension.
#[derive(Debug, Clone)]
pub struct Insider {
    pub by: ActAuthor,
    pub role: OperatorRole,
}

/// The way to one route.
#[derive(Debug, Clone)]
pub struct Entrance {
    pub app: App,
    pub limits: Arc<RateLimiters>,
    pub path: &'static str,
    pub role: OperatorRole,
    pub act: Option<ActKind>,
    pub running: RunningActs,
}

/// The act that a request is.
#[derive(Debug, Clone)]
pub struct RequestedAct {
    /// Its id in the record.
    pub id: EventId,
    act: OperatorAct,
    is_recorded: Arc<AtomicBool>,
    /// It is a dry run, which is no act even if it is refused.
    is_dry_run: Arc<AtomicBool>,
}

impl RequestedAct {
    /// The act without its object. The caller records it, and notes that with [`RequestedAct::set_recorded`].
    pub fn act(&self) -> OperatorAct {
        self.act.clone()
    }

    /// Prepares the record of the act with its object.
    pub fn acting(&self, app: &App, act: OperatorAct) -> Acting {
        self.set_recorded();
        Acting::with_id(self.id, &app.store, app.clock.now(), act)
    }

    /// Notes whether the request changes nothing.
    pub fn set_dry_run(&self, is_dry_run: bool) {
        self.is_dry_run.store(is_dry_run, Ordering::Relaxed);
    }

    /// Notes that somebody records the act.
    pub fn set_recorded(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }
}

/// Without operators the listener has no such routes.
pub async fn is_there(State(app): State<App>, request: Request, next: Next) -> Response {
    if Peer::of(&request).0.uid().is_none() && app.live.get().admin.operator.is_empty() {
        return Refusal::not_found("this listener has no operators ([[admin.operator]])").into_response();
    }
    next.run(request).await
}

/// Lets a request of an operator with the role pass.
pub async fn enter(State(entrance): State<Entrance>, mut request: Request, next: Next) -> Response {
    let Entrance { app, limits, role, act, .. } = &entrance;
    let Peer(peer) = Peer::of(&request);
    let admin = &app.live.get().admin;
    let counted = |refusal: Refusal| limits.operator_failure(peer.address()).map(|()| refusal);
    let passed = match request.extensions().get::<Insider>() {
        Some(Insider { by, role }) => Ok((by.clone(), *role)),
        None => identified(admin, &peer, request.headers()).map_err(counted),
    };
    let (by, own) = match passed {
        Ok(found) => found,
        Err(refusal) => return answer(refusal),
    };
    let by_network = by.door != ActDoor::Socket;
    let refusal = refusal(admin, own, *role, act.is_some() && by_network).map(counted);
    let Some(kind) = act else {
        request.extensions_mut().insert(by);
        return match refusal {
            None => next.run(request).await,
            Some(refusal) => answer(refusal),
        };
    };
    let id = app.rng.uuid_v7(app.clock.now()).into();
    let act = OperatorAct::new(*kind, by, app::host_name());
    let requested = RequestedAct { id, act, is_recorded: Arc::default(), is_dry_run: Arc::default() };
    match refusal {
        // A client that disconnects ends no change, and a repeated request finds its answer.
        None => actors::detached(carried_out(entrance, requested, request, next))
            .await
            .unwrap_or_else(|error| Refusal::fault(&error).into_response()),
        Some(Ok(refusal)) => with_record(app, &requested, refusal.into_response()).await,
        // Acts are kept forever, so an address adds only some refused ones a minute.
        Some(Err(too_many)) => too_many.into_response(),
    }
}

/// The answer to a request that is an act.
async fn carried_out(entrance: Entrance, requested: RequestedAct, request: Request, next: Next) -> Response {
    let Entrance { app, path, running, .. } = entrance;
    let (mut parts, body) = request.into_parts();
    let object = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(parameters) => once::object_of(path, &parameters),
        Err(error) => return Refusal::not_found(error.to_string()).into_response(),
    };
    parts.extensions.insert(requested.clone());
    let request = Request::from_parts(parts, body);
    let (request, begun) = match once::begin(&app, &requested.act.by, requested.id, request).await {
        Ok(begun) => begun,
        Err(response) => return response,
    };
    let act = running.begin(object);
    let response = match &act {
        Some(_) => next.run(request).await,
        None => once::in_progress().into_response(),
    };
    let response = with_record(&app, &requested, response).await;
    match begun {
        Some(begun) => once::end(&app, &begun, response).await,
        None => response,
    }
}

fn answer(refusal: Result<Refusal, ApiError>) -> Response {
    refusal.map_or_else(ApiError::into_response, Refusal::into_response)
}

/// Records an act that was refused before it had an object, and names the recorded act in the response.
async fn with_record(app: &App, requested: &RequestedAct, response: Response) -> Response {
    let status = response.status();
    let refusal = match response.extensions().get::<Refusal>() {
        Some(refusal) => refusal.clone(),
        None if status.is_success() => return response,
        None => Refusal::new(status, "invalid_request", "the request cannot be read: a body has 64 KiB at most"),
    };
    if requested.is_dry_run.load(Ordering::Relaxed) {
        return response;
    }
    if !requested.is_recorded.load(Ordering::Relaxed) {
        let acting = requested.acting(app, requested.act());
        if let Err(error) = acting.record(ActOutcome::Refused).await {
            return Refusal::fault(&error).into_response();
        }
    }
    refusal.of_act(requested.id).into_response()
}

/// The operator of a request with the role.
fn identified(
    admin: &AdminSettings,
    peer: &Connection,
    headers: &HeaderMap,
) -> Result<(ActAuthor, OperatorRole), Refusal> {
    if let Some(uid) = peer.uid() {
        let by = ActAuthor { uid: Some(uid), ..ActAuthor::at(ActDoor::Socket) };
        if let Some(operator) = admin.operator_of_uid(uid) {
            return Ok((ActAuthor { operator: Some(operator.name.clone()), ..by }, operator.role));
        }
        let is_owner = uid == 0 || uid == rustix::process::geteuid().as_raw();
        let detail = "no [[admin.operator]] has the user id of this process";
        let stranger = || Refusal::new(StatusCode::FORBIDDEN, "no_operator", detail);
        return is_owner.then_some((by, OperatorRole::Admin)).ok_or_else(stranger);
    }
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(header) = header else {
        return Err(Refusal::unauthorized("Bearer", "a token is needed: Authorization: Bearer opr_…"));
    };
    let token = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let token = token.map(|(_, token)| Secret::presented(token.trim()).hash());
    let operator = token.and_then(|hash| admin.operator_of_token(hash.as_bytes()));
    let unknown = || Refusal::unauthorized("Bearer error=\"invalid_token\"", "no operator has this token");
    let operator = operator.ok_or_else(unknown)?;
    let (name, from) = (Some(operator.name.clone()), Some(peer.address()));
    Ok((ActAuthor { operator: name, from, ..ActAuthor::at(ActDoor::Token) }, operator.role))
}

/// Why an operator with the role `own` may not use a route for `needed`; `changes`: whether it is a change through the network.
fn refusal(admin: &AdminSettings, own: OperatorRole, needed: OperatorRole, changes: bool) -> Option<Refusal> {
    if own < needed {
        let detail = format!("the role {} is needed, this operator has {}", needed.as_str(), own.as_str());
        return Some(Refusal::new(StatusCode::FORBIDDEN, "role_needed", detail));
    }
    let detail = "this listener allows no changes (admin.changes); the operator's socket does";
    (changes && !admin.changes).then(|| Refusal::new(StatusCode::FORBIDDEN, "changes_are_off", detail))
}
