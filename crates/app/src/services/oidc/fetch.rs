//! Requests to a provider, with limits. Error messages contain neither URLs nor text of a response, which identify people.

use reqwest::header::ACCEPT;
use reqwest::{RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;

/// Maximum size of a response of a provider, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Why there is no response that can be used.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum FetchError {
    #[error("no answer: {0}")]
    Http(&'static str),
    #[error("no answer: it took too long")]
    TooLong,
    #[error("the answer is too large")]
    TooLarge,
    #[error("the answer cannot be read")]
    Unreadable,
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        match error {
            error if error.is_timeout() => Self::TooLong,
            error if error.is_connect() => Self::Http("no connection"),
            _ => Self::Http("the connection broke"),
        }
    }
}

/// The status and the body of a response.
#[derive(Debug)]
pub(super) struct Fetched {
    pub status: StatusCode,
    body: Vec<u8>,
}

impl Fetched {
    /// The JSON of a successful response.
    pub fn success<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        if self.status == StatusCode::OK { self.json() } else { Err(FetchError::Unreadable) }
    }

    /// The JSON of any response.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        serde_json::from_slice(&self.body).map_err(|_| FetchError::Unreadable)
    }
}

/// Sends a request and reads its response.
pub(super) async fn fetch(request: RequestBuilder) -> Result<Fetched, FetchError> {
    let mut response = request.header(ACCEPT, "application/json").send().await?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Fetched { status: response.status(), body })
}
