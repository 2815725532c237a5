//! The floor of streams: a handler that sends prepared messages.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::options::Result;

/// The file in the floor's folder: a list of pairs of message id and data.
pub const FILE: &str = "messages.json";

type Messages = Arc<Vec<(String, String)>>;

/// Streams the messages of a file on every path.
pub fn router(file: &Path) -> Result<Router> {
    let messages: Messages = Arc::new(serde_json::from_slice(&std::fs::read(file)?)?);
    Ok(Router::new().fallback(stream_messages).with_state(messages))
}

async fn stream_messages(State(messages): State<Messages>) -> Response {
    let mut next = 0;
    let events = stream::iter(std::iter::from_fn(move || {
        let (id, data) = messages.get(next)?;
        next += 1;
        Some(Ok::<_, Infallible>(Event::default().id(id).data(data)))
    }));
    Sse::new(events).into_response()
}
