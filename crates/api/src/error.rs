//! Every error that a client can see: one code, one status, one shape (`docs/protocol/errors.md`).
//!
//! The body is `{error: <code>, …}`. A temporary failure is always 424 `{error: temporarily_unavailable, retryable: true, reason}` with
//! `Retry-After`, and only this file creates it.

use std::time::Duration;

use actors::{InfraError, Unavailable};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::clock::date_time;
use domain::service_pause::Paused;
use serde_json::{Value, json};
use store::StoreError;

/// The codes. In the specification each has exactly one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the codes are the specification's words and documented there")]
pub enum Code {
    // docs/protocol/errors.md
    InvalidRequest,
    UnsupportedIdentityType,
    ExpiredToken,
    EmailMismatch,
    WrongCode,
    Unauthorized,
    MachineUnknown,
    UnsupportedGrantType,
    InvalidGrant,
    AuthorizationPending,
    InvalidJson,
    MachineMismatch,
    MachineNotRegistered,
    CuidAlreadyClaimed,
    PersonBoundToOtherAccount,
    MachineAlreadyClaimed,
    UserNotFound,
    CodeConsumed,
    AccessDenied,
    SlowDown,
    InvalidLimit,
    CursorTooLong,
    LaneNotInEnum,
    MachineUuidMismatch,
    MachineNotOwned,
    NoLinkedCuid,
    ConsentAuditForwardFailed,
    MissingEventId,
    InvalidEventId,
    TemporarilyUnavailable,
    // additions, for routes and conditions that the specification does not contain
    CrossSiteRequest,
    AccountRequired,
    SessionRequired,
    RegistrationClosed,
    NotFound,
    MethodNotAllowed,
    MachineAlreadyRegistered,
    TooManyKeys,
    KeyAlreadyMade,
    TooManyWebhooks,
    WebhookDisabled,
    EmbeddedLogRequired,
    TooManyRules,
    PayloadTooLarge,
    UnsupportedContentEncoding,
    UnsupportedMediaType,
    // the knowledge API, for which the specification has no codes (`docs/decisions/0009-errors-and-limits.md`)
    SpaceForbidden,
    InsufficientScope,
    RateLimited,
    IdempotencyKeyReused,
}

impl Code {
    /// The code as it is written in bodies, with its status.
    fn written(self) -> (&'static str, StatusCode) {
        match self {
            Self::InvalidRequest => ("invalid_request", StatusCode::BAD_REQUEST),
            Self::UnsupportedIdentityType => ("unsupported_identity_type", StatusCode::BAD_REQUEST),
            Self::ExpiredToken => ("expired_token", StatusCode::BAD_REQUEST),
            Self::EmailMismatch => ("email_mismatch", StatusCode::FORBIDDEN),
            Self::WrongCode => ("wrong_code", StatusCode::BAD_REQUEST),
            Self::Unauthorized => ("unauthorized", StatusCode::UNAUTHORIZED),
            Self::MachineUnknown => ("machine_unknown", StatusCode::UNAUTHORIZED),
            Self::UnsupportedGrantType => ("unsupported_grant_type", StatusCode::BAD_REQUEST),
            Self::InvalidGrant => ("invalid_grant", StatusCode::BAD_REQUEST),
            Self::AuthorizationPending => ("authorization_pending", StatusCode::BAD_REQUEST),
            Self::InvalidJson => ("invalid_json", StatusCode::BAD_REQUEST),
            Self::MachineMismatch => ("machine_mismatch", StatusCode::FORBIDDEN),
            Self::MachineNotRegistered => ("machine_not_registered", StatusCode::CONFLICT),
            Self::CuidAlreadyClaimed => ("cuid_already_claimed", StatusCode::CONFLICT),
            Self::PersonBoundToOtherAccount => ("person_bound_to_other_account", StatusCode::CONFLICT),
            Self::MachineAlreadyClaimed => ("machine_already_claimed", StatusCode::CONFLICT),
            Self::UserNotFound => ("user_not_found", StatusCode::NOT_FOUND),
            Self::CodeConsumed => ("code_consumed", StatusCode::GONE),
            Self::AccessDenied => ("access_denied", StatusCode::BAD_REQUEST),
            Self::SlowDown => ("slow_down", StatusCode::BAD_REQUEST),
            Self::InvalidLimit => ("invalid_limit", StatusCode::BAD_REQUEST),
            Self::CursorTooLong => ("cursor_too_long", StatusCode::BAD_REQUEST),
            Self::LaneNotInEnum => ("lane_not_in_enum", StatusCode::BAD_REQUEST),
            Self::MachineUuidMismatch => ("machine_uuid_mismatch", StatusCode::BAD_REQUEST),
            Self::MachineNotOwned => ("machine_not_owned", StatusCode::FORBIDDEN),
            Self::NoLinkedCuid => ("no_linked_cuid", StatusCode::CONFLICT),
            Self::ConsentAuditForwardFailed => ("consent_audit_forward_failed", StatusCode::BAD_GATEWAY),
            Self::MissingEventId => ("missing_event_id", StatusCode::BAD_REQUEST),
            Self::InvalidEventId => ("invalid_event_id", StatusCode::BAD_REQUEST),
            Self::TemporarilyUnavailable => ("temporarily_unavailable", StatusCode::FAILED_DEPENDENCY),
            Self::CrossSiteRequest => ("cross_site_request", StatusCode::FORBIDDEN),
            Self::AccountRequired => ("account_required", StatusCode::FORBIDDEN),
            Self::SessionRequired => ("session_required", StatusCode::FORBIDDEN),
            Self::RegistrationClosed => ("registration_closed", StatusCode::FORBIDDEN),
            Self::NotFound => ("not_found", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed => ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED),
            Self::MachineAlreadyRegistered => ("machine_already_registered", StatusCode::CONFLICT),
            Self::TooManyKeys => ("too_many_keys", StatusCode::CONFLICT),
            Self::KeyAlreadyMade => ("key_already_made", StatusCode::CONFLICT),
            Self::TooManyWebhooks => ("too_many_webhooks", StatusCode::CONFLICT),
            Self::WebhookDisabled => ("webhook_disabled", StatusCode::CONFLICT),
            Self::EmbeddedLogRequired => ("embedded_log_required", StatusCode::NOT_IMPLEMENTED),
            Self::TooManyRules => ("too_many_rules", StatusCode::CONFLICT),
            Self::PayloadTooLarge => ("payload_too_large", StatusCode::PAYLOAD_TOO_LARGE),
            Self::UnsupportedContentEncoding => ("unsupported_content_encoding", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::UnsupportedMediaType => ("unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::SpaceForbidden => ("space_forbidden", StatusCode::FORBIDDEN),
            Self::InsufficientScope => ("insufficient_scope", StatusCode::FORBIDDEN),
            Self::RateLimited => ("rate_limited", StatusCode::TOO_MANY_REQUESTS),
            Self::IdempotencyKeyReused => ("idempotency_key_reused", StatusCode::UNPROCESSABLE_ENTITY),
        }
    }

    /// The HTTP status of the code.
    pub fn status(self) -> StatusCode {
        self.written().1
    }

    /// The code in the body of the error.
    pub fn as_str(self) -> &'static str {
        self.written().0
    }
}

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    reason: Option<&'static str>,
    members: Vec<(&'static str, Value)>,
    headers: Vec<(HeaderName, HeaderValue)>,
    paused: Option<Paused>,
}

impl ApiError {
    /// An error with a code and no further members.
    pub fn new(code: Code) -> Self {
        Self { code, reason: None, members: Vec::new(), headers: Vec::new(), paused: None }
    }

    /// 400 `invalid_request` with the place and the description of one fault.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        Self::issues([(path.to_owned(), message.into())])
    }

    /// 424: try again, but not before `retry_after`.
    pub fn unavailable(reason: &'static str, retry_after: Duration) -> Self {
        Self::new(Code::TemporarilyUnavailable).with("retryable", json!(true)).because(reason).retry_after(retry_after)
    }

    /// 400 `invalid_request` with all faults, as pairs of place and rule.
    pub fn issues(issues: impl IntoIterator<Item = (String, String)>) -> Self {
        // Path and message may quote the request, which may be long.
        let issue = |(path, message): (String, String)| json!({ "path": shortened(path, ISSUE_PATH_MAX), "message": shortened(message, ISSUE_MESSAGE_MAX) });
        Self::new(Code::InvalidRequest).with("issues", issues.into_iter().map(issue).collect())
    }

    /// 429: the account exceeds its own limit.
    pub fn rate_limited(retry_after: Duration) -> Self {
        Self::new(Code::RateLimited).retry_after(retry_after)
    }

    /// Adds the member `reason`, which is also the label of the counted refusal.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }.with("reason", json!(reason))
    }

    /// Sets `Retry-After`, rounded up to whole seconds.
    fn retry_after(self, after: Duration) -> Self {
        let seconds = after.as_millis().div_ceil(1000).max(1);
        self.header(RETRY_AFTER, HeaderValue::from_str(&seconds.to_string()).unwrap_or(HeaderValue::from_static("1")))
    }

    /// Adds a member to the body, or replaces it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.members.retain(|(known, _)| *known != name);
        self.members.push((name, value));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The additional headers.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.headers.iter().cloned()
    }

    /// The error code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The reason of a temporary failure.
    pub fn reason(&self) -> Option<&'static str> {
        self.reason
    }

    /// The pause that refused the request.
    pub fn paused(&self) -> Option<Paused> {
        self.paused
    }

    /// Counts the refusal, as [`IntoResponse`] does. Pages and tools call it, because they present an error in another form.
    pub fn count(&self) {
        // A poll that waits for a person is no refusal.
        if self.code != Code::AuthorizationPending {
            count_refusal(self.reason.unwrap_or(self.code.as_str()));
        }
    }

    /// The first fault of a request that was refused as invalid.
    pub fn first_issue(&self) -> Option<String> {
        let (_, issues) = self.members.iter().find(|(name, _)| *name == "issues")?;
        let issue = issues.get(0)?;
        let (path, message) = (issue["path"].as_str()?, issue["message"].as_str()?);
        Some(if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") })
    }

    /// The response with another status.
    pub fn answered_as(self, status: StatusCode) -> Response {
        let mut response = self.into_response();
        *response.status_mut() = status;
        response
    }
}

impl From<Code> for ApiError {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl From<Unavailable> for ApiError {
    fn from(refusal: Unavailable) -> Self {
        Self::unavailable(refusal.reason(), refusal.retry_after())
    }
}

impl From<Paused> for ApiError {
    fn from(paused: Paused) -> Self {
        let refused = Self::unavailable(Paused::REASON, paused.retry_after);
        Self { paused: Some(paused), ..refused }.with("paused_until", json!(date_time(paused.until)))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = domain::reasons(&error), "the store could not answer a request");
        Self::unavailable("store_unavailable", Duration::from_secs(1))
    }
}

impl From<InfraError> for ApiError {
    fn from(trouble: InfraError) -> Self {
        match trouble {
            InfraError::Store(error) => error.into(),
            InfraError::Group(_) => Self::unavailable("store_unavailable", Duration::from_secs(1)),
            InfraError::Unavailable(refusal) => refusal.into(),
            InfraError::Paused(paused) => paused.into(),
            InfraError::Internal(detail) => {
                tracing::error!(error = detail, "a request could not be answered");
                Self::unavailable("internal", Duration::from_secs(5))
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.count();
        let (code, status) = self.code.written();
        let mut response = Response::new(Body::from(written(code, self.members)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

/// Reasons of 424 and 503, as `docs/protocol/errors.md` lists them.
pub const REASONS: [&str; 24] = [
    "overloaded",
    "too_many_connections",
    "too_many_bodies",
    "timed_out",
    "crashed",
    "not_running",
    "quarantined",
    "draining",
    "paused",
    "store_unavailable",
    "upstream_unavailable",
    "held_quota_exceeded",
    "quota_exceeded",
    "body_too_slow",
    "body_unreadable",
    "too_many_registrations",
    "too_many_claims",
    "too_many_guesses",
    "too_many_sign_ins",
    "too_many_link_reads",
    "too_many_failures",
    "too_many_codes",
    "too_many_streams",
    "internal",
];

/// Counts a refused request by its reason, or by its code if it has none.
pub fn count_refusal(reason: &'static str) {
    metrics::counter!("attache_refusals_total", "reason" => reason).increment(1);
}

/// Creates all series with 0: the function `increase()` of Prometheus does not count the first value of a series.
pub(super) fn begin_counting() {
    for reason in REASONS {
        metrics::counter!("attache_refusals_total", "reason" => reason).absolute(0);
    }
}

/// The body of an error, with its members in alphabetical order. Codes and names need no escapes.
fn written(code: &'static str, mut members: Vec<(&'static str, Value)>) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    members.retain(|(name, _)| *name != "error");
    members.push(("error", code.into()));
    members.sort_unstable_by_key(|(name, _)| *name);
    for (place, (name, value)) in members.iter().enumerate() {
        body.extend_from_slice(if place == 0 { b"{\"" } else { b",\"" });
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(b"\":");
        // Writing a value to memory cannot fail.
        let _ = serde_json::to_writer(&mut body, value);
    }
    body.push(b'}');
    body
}

/// Maximum number of characters of an issue's path.
const ISSUE_PATH_MAX: usize = 200;

/// Maximum number of characters of an issue's message.
const ISSUE_MESSAGE_MAX: usize = 500;

fn shortened(mut text: String, chars_max: usize) -> String {
    if let Some((cut, _)) = text.char_indices().nth(chars_max) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// The result of a handler.
pub type ApiResult<T = Response> = Result<T, ApiError>;

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn the_protocol_lists_the_reasons() {
        let errors = include_str!("../../../docs/protocol/errors.md");
        let section = errors.split("## Reasons of 424 and 503").nth(1).unwrap().split("\n## ").next().unwrap();
        // Without the head of the table.
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).skip(1);
        let listed: Vec<&str> = cells.flat_map(|(reasons, _)| reasons.split("`, `")).collect();
        assert_eq!(listed, REASONS);
    }

    #[test]
    fn a_body_is_written_as_the_serialiser_writes_it() {
        let members: [&[(&'static str, Value)]; 4] = [
            &[],
            &[("interval", json!(5))],
            &[("retryable", json!(true)), ("reason", json!("a \"word\""))],
            &[("bytes_max", json!(1)), ("issues", json!([{ "path": "", "message": "é\n" }]))],
        ];
        for members in members {
            let error = members.iter().fold(ApiError::new(Code::SlowDown), |error, (name, value)| {
                error.with(name, json!(null)).with(name, value.clone())
            });
            let mut object: Map<String, Value> =
                members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            object.insert("error".to_owned(), "slow_down".into());
            assert_eq!(String::from_utf8(written("slow_down", error.members)).unwrap(), json!(object).to_string());
        }
    }
}
