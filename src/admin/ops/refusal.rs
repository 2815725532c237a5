//! Errors of the operator's API.

use std::time::Duration;

use app::ReloadRefusal;
use app::keys::ReleaseRefusal;
use app::overrides::OverrideRefusal;
use app::pauses::PauseRefusal;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::EventId;
use domain::node_order::OrderAnswer;
use serde_json::json;
use store::StoreError;
use wire::ops::OperatorError;

/// Time after which a client may repeat a request that could not be answered.
const RETRY: Duration = Duration::from_secs(1);

/// A refused request. Its response has it as an extension, so that the id of the act can be added.
#[derive(Debug, Clone)]
pub struct Refusal(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    status: StatusCode,
    body: OperatorError,
    retry_after: Option<Duration>,
    challenge: Option<&'static str>,
}

impl Refusal {
    /// A refusal with a code, and a detail for people.
    pub fn new(status: StatusCode, error: &str, detail: impl Into<String>) -> Self {
        let body = OperatorError { error: error.to_owned(), detail: detail.into(), problems: Vec::new(), act_id: None };
        Self(Box::new(Parts { status, body, retry_after: None, challenge: None }))
    }

    /// 404 for an object that does not exist.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 422: the request cannot be carried out as it is.
    pub fn invalid(error: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error, detail)
    }

    /// 401 with the challenge of RFC 6750.
    pub fn unauthorized(challenge: &'static str, detail: &str) -> Self {
        let mut refusal = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        refusal.0.challenge = Some(challenge);
        refusal
    }

    /// 424 for a fault of the server.
    pub fn fault(error: &(dyn std::error::Error + 'static)) -> Self {
        let error = domain::reasons(error);
        tracing::warn!(error, "a request of an operator failed");
        let mut refusal = Self::new(StatusCode::FAILED_DEPENDENCY, "temporarily_unavailable", error);
        refusal.0.retry_after = Some(RETRY);
        refusal
    }

    /// A refusal of what may be possible soon.
    pub fn later(mut self) -> Self {
        self.0.retry_after = Some(RETRY);
        self
    }

    /// The refusal as the answer to an order.
    pub fn answer(&self) -> OrderAnswer {
        OrderAnswer { status: self.0.status.as_u16(), body: json!(self.0.body) }
    }

    /// The refusal of another node.
    pub fn of(OrderAnswer { status, body }: OrderAnswer) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut refusal = Self::new(status, "refused", "the node refused it");
        if let Ok(body) = serde_json::from_value(body) {
            refusal.0.body = body;
        }
        refusal.0.retry_after = (status == StatusCode::FAILED_DEPENDENCY).then_some(RETRY);
        refusal
    }

    fn with_problems(mut self, problems: Vec<String>) -> Self {
        self.0.body.problems = problems;
        self
    }

    /// Names the recorded act.
    #[must_use]
    pub fn of_act(mut self, id: EventId) -> Self {
        self.0.body.act_id = Some(id);
        self
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::fault(&error)
    }
}

impl From<OverrideRefusal> for Refusal {
    fn from(refusal: OverrideRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            OverrideRefusal::Invalid(problems) => {
                let problems = problems.0.iter().map(ToString::to_string).collect();
                Self::invalid("configuration_invalid", "the value breaks a rule").with_problems(problems)
            }
            OverrideRefusal::NotLive { .. } => Self::invalid("not_live", detail),
            OverrideRefusal::TooLong(_) => Self::invalid("override_too_long", detail),
            OverrideRefusal::Taken(_) => Self::new(StatusCode::CONFLICT, "already_overridden", detail),
            OverrideRefusal::Absent => Self::new(StatusCode::NOT_FOUND, "no_override", detail),
            OverrideRefusal::Store(error) => Self::fault(&error),
        }
    }
}

impl From<PauseRefusal> for Refusal {
    fn from(refusal: PauseRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            PauseRefusal::Scope { .. } => Self::invalid("scope_not_possible", detail),
            PauseRefusal::Length(_) => Self::invalid("pause_too_long", detail),
            PauseRefusal::Taken(_) => Self::new(StatusCode::CONFLICT, "already_paused", detail),
            PauseRefusal::Absent => Self::not_found(detail),
            PauseRefusal::Store(error) => Self::fault(&error),
        }
    }
}

impl From<ReleaseRefusal> for Refusal {
    fn from(refusal: ReleaseRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            ReleaseRefusal::NotQuarantined(_) => Self::new(StatusCode::NOT_FOUND, "not_quarantined", detail),
            ReleaseRefusal::Store(error) => Self::fault(&error),
        }
    }
}

impl From<ReloadRefusal> for Refusal {
    fn from(refusal: ReloadRefusal) -> Self {
        match &refusal {
            ReloadRefusal::Invalid(_) => {
                let detail = "the configuration has mistakes, so nothing has changed";
                Self::invalid("configuration_invalid", detail).with_problems(refusal.problems())
            }
            ReloadRefusal::Fault(fault) => Self::fault(fault),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.0.status, axum::Json(&self.0.body)).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.0.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if let Some(challenge) = self.0.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response.extensions_mut().insert(self);
        response
    }
}
