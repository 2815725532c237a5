//! Feeds of notifications, for feed readers (`docs/protocol/feeds.md`).

use std::sync::Arc;

use app::services::feeds::{FeedRefusal, Feeds};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::secret::Secret;

use super::client::ClientAddress;
use super::error::{ApiError, Code};
use super::limits::RateLimiters;
use super::named::Named;
use super::state::HttpState;

/// `GET /feeds/{token}`: the document, or 304 if the reader has it.
pub async fn show(
    State(state): State<HttpState>,
    State(feeds): State<Feeds>,
    State(limits): State<Arc<RateLimiters>>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    Named(token): Named,
) -> Result<Response, ApiError> {
    limits.link_read(address)?;
    let token = Secret::presented(token);
    let (feed, entries) = feeds.read(&token).await?;
    Ok((state.browser.feed)(&state, &headers, &token, &feed, &entries))
}

impl From<FeedRefusal> for ApiError {
    fn from(refusal: FeedRefusal) -> Self {
        match refusal {
            FeedRefusal::Off | FeedRefusal::NotFound => Code::NotFound.into(),
            FeedRefusal::NoKinds => Self::invalid("kinds", "must name at least one kind"),
            FeedRefusal::AlreadyThere => Self::invalid("feed", "the account has one already"),
            FeedRefusal::Infra(error) => error.into(),
        }
    }
}
