//! Parts of requests.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::act::{ActReason, InvalidReason};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use wire::ops::ReasonRequest;

use super::refusal::Refusal;

/// Time for which an override or a pause is in force, unless the request names another.
pub const LASTS: Duration = Duration::from_hours(1);

/// Maximum size of a body, in bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Timeout of a request to the supervisor for its actors.
pub const TREE_DEADLINE: Duration = Duration::from_secs(2);

/// The query of a change without other parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithReason {
    pub reason: Option<String>,
}

/// The parameters of a URL.
pub struct OpsQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for OpsQuery<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        let read = api::query::read(parts).map(Self);
        read.map_err(|error| Refusal::invalid("invalid_query", format!("the query cannot be read: {error}")))
    }
}

/// The members of a JSON body.
pub fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid("invalid_request", format!("the body: {error}")))
}

/// The reason, which every change needs.
pub fn reason(text: Option<&str>) -> Result<ActReason, Refusal> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|error: InvalidReason| Refusal::invalid("reason_missing", error.to_string()))
}

/// The reason of a change with a body that has only this member.
pub fn only_reason(bytes: &Bytes) -> Result<ActReason, Refusal> {
    let ReasonRequest { reason: why } = body(bytes)?;
    reason(why.as_deref())
}

/// Entries of a page, and the maximum.
const LIMIT: usize = 50;
pub const LIMIT_MAX: usize = 200;

/// The parameter `limit`: the number of entries of a page.
pub fn limit(asked: Option<usize>) -> Result<usize, Refusal> {
    let limit = asked.unwrap_or(LIMIT);
    let invalid = || Refusal::invalid("invalid_query", format!("limit must be 1 to {LIMIT_MAX}"));
    (1..=LIMIT_MAX).contains(&limit).then_some(limit).ok_or_else(invalid)
}

/// Maximum number of names that a refusal lists.
const NAMES_MAX: usize = 8;

/// The names that are most like `wanted`, best first.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let likeness = |name: &&str| similar::TextDiff::from_chars(wanted, name).ratio();
    let mut names: Vec<(f32, &str)> = names.map(|name| (likeness(&name), name)).collect();
    names.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    names.into_iter().map(|(_, name)| name).take(NAMES_MAX).collect()
}

/// The member `for`: a time such as `30m`.
pub fn lasting(text: Option<&str>) -> Result<Option<Duration>, Refusal> {
    let lasts = text.map(humantime_serde::re::humantime::parse_duration).transpose();
    lasts.map_err(|error| Refusal::invalid("invalid_request", format!("for: {error}")))
}
