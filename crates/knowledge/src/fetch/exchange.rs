//! One request and its response.

use std::time::Duration;

use bytes::Bytes;
use domain::web_url::WebUrl;
use domain::{Timestamp, retry_after};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::FetchError;
use super::body::Body;
use super::budget::Budget;
use super::failure::{FailedAttempt, Retry};
use super::media_type::{ContentType, MediaType, SNIFFED_BYTES};
use super::settings::FetchSettings;

/// Maximum size of a `robots.txt` that is read (RFC 9309, section 2.5 requires at least this).
const ROBOTS_BYTES_MAX: usize = 500 * 1024;

const ACCEPT: HeaderValue = HeaderValue::from_static(
    "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/pdf;q=0.9,application/json;q=0.8,application/xml;q=0.8,*/*;q=0.1",
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchKind {
    /// A page of a supported type, complete.
    Page,
    /// A `robots.txt` of any media type, truncated at the limit.
    Robots,
}

#[derive(Debug)]
pub(super) enum FetchResponse {
    /// The `Location` of a redirect.
    Redirect(String),
    Content(Content),
}

#[derive(Debug)]
pub(super) struct Content {
    pub(super) media_type: MediaType,
    pub(super) charset: Option<String>,
    pub(super) body: Bytes,
}

/// Maximum size of the names and values of a response's head, in bytes: pages send a few kilobytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Sends one request. The caller has checked the host, or the client's resolver checks it.
pub(super) async fn exchange(
    http: &reqwest::Client,
    url: &WebUrl,
    wanted: FetchKind,
    settings: &FetchSettings,
    now: impl Fn() -> Timestamp,
    budget: &mut Budget,
) -> Result<FetchResponse, FailedAttempt> {
    let request = http.get(url.as_url().clone()).header(header::ACCEPT, ACCEPT).header(header::ACCEPT_ENCODING, "gzip");
    let head_timeout = settings.connect_timeout + settings.stall_timeout;
    let response = budget.spend(head_timeout, request.send()).await?.map_err(|error| FailedAttempt::from(&error))?;
    if head_bytes(response.headers()) > HEAD_BYTES_MAX {
        return Err(FetchError::HeadTooLarge.into());
    }
    let status = response.status();
    if let Some(location) = location(status, response.headers()) {
        return Ok(FetchResponse::Redirect(location));
    }
    if !status.is_success() {
        let delay =
            response.headers().get(header::RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, now()));
        return Err(refused(status, delay, settings.retry_after_max));
    }
    if wanted == FetchKind::Robots {
        let body = Body::open(response, usize::MAX, settings.stall_timeout)?;
        let body = body.beginning(ROBOTS_BYTES_MAX, budget).await?;
        return Ok(FetchResponse::Content(Content { media_type: MediaType::Plain, charset: None, body }));
    }
    let named = response
        .headers()
        .get(header::CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let ContentType { media_type, charset } = ContentType::parse(named.as_deref())?;
    let mut body = Body::open(response, settings.body_bytes_max, settings.stall_timeout)?;
    let media_type = match media_type {
        Some(media_type) => media_type,
        None => MediaType::sniff(body.read(SNIFFED_BYTES, budget).await?).ok_or(FetchError::UnknownType)?,
    };
    let body = body.whole(settings.body_bytes_max, budget).await?;
    Ok(FetchResponse::Content(Content { media_type, charset, body }))
}

fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

fn location(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let leads_on = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = headers.get(header::LOCATION).filter(|_| leads_on)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

fn refused(status: StatusCode, retry_after: Option<Duration>, retry_after_max: Duration) -> FailedAttempt {
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    let error = if is_busy { FetchError::HostBusy } else { FetchError::Status(status.as_u16()) };
    match retry_after {
        Some(pause) if is_busy || status == StatusCode::SERVICE_UNAVAILABLE => {
            if pause > retry_after_max {
                FetchError::HostBusy.into()
            } else {
                FailedAttempt { error, again: Retry::AfterPause(pause) }
            }
        }
        _ if is_busy || status.is_server_error() => FailedAttempt { error, again: Retry::Soon },
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_whether_another_try_may_help() {
        let seconds = Duration::from_secs;
        let judged = |status: u16, pause: Option<u64>| {
            let failure = refused(StatusCode::from_u16(status).unwrap(), pause.map(seconds), seconds(30));
            (failure.error, failure.again)
        };
        assert_eq!(judged(404, Some(1)), (FetchError::Status(404), Retry::Never));
        assert_eq!(judged(500, None), (FetchError::Status(500), Retry::Soon));
        assert_eq!(judged(503, None), (FetchError::Status(503), Retry::Soon));
        assert_eq!(judged(503, Some(3)), (FetchError::Status(503), Retry::AfterPause(seconds(3))));
        assert_eq!(judged(503, Some(31)), (FetchError::HostBusy, Retry::Never));
        assert_eq!(judged(429, None), (FetchError::HostBusy, Retry::Soon));
        assert_eq!(judged(429, Some(30)), (FetchError::HostBusy, Retry::AfterPause(seconds(30))));
        assert_eq!(judged(429, Some(31)), (FetchError::HostBusy, Retry::Never));
        assert_eq!(judged(300, None), (FetchError::Status(300), Retry::Never));
    }
}
