//! Bodies of requests that their handlers do not read to the end.
//!
//! hyper closes a connection after the response if it could not read the request body, without `Connection: close` in the response: the
//! client's next request on this connection is lost. So a body that its handler drops returns to the [connection](super::connection), which
//! discards the rest before the response is sent. If the rest is too large or late, the response contains `Connection: close`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};

use super::connection::Connection;

/// Limits for discarding the rest of a body, so that its connection can be reused.
#[derive(Debug, Clone, Copy)]
pub struct UnreadLimits {
    /// Maximum size of the rest (`http.unread_bytes_max`).
    pub bytes_max: u64,
    /// Maximum time for the rest (`http.unread_deadline`).
    pub deadline: Duration,
}

/// Wraps the body of the request: a body that is not read to its end returns to this connection.
pub fn returning(request: hyper::Request<Incoming>, connection: &Arc<Connection>) -> Request {
    if request.body().is_end_stream() {
        return request.map(Body::new);
    }
    let is_awaited = request.headers().contains_key(EXPECT);
    request.map(|body| Body::new(ReturningBody { body: Some(body), is_awaited, connection: Arc::clone(connection) }))
}

/// Discards the rest of a body; `false`: the client may still be sending it.
pub async fn discard(mut body: Incoming, limits: UnreadLimits) -> bool {
    if body.size_hint().lower() > limits.bytes_max {
        return false;
    }
    let mut bytes = 0;
    let rest = async {
        while !body.is_end_stream() {
            let Some(frame) = body.frame().await else { break };
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
            if bytes > limits.bytes_max {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(limits.deadline, rest).await.unwrap_or(false)
}

struct ReturningBody {
    /// `None` after its end.
    body: Option<Incoming>,
    /// Whether the client waits for `100 Continue`, which hyper sends when the body is read first.
    is_awaited: bool,
    connection: Arc<Connection>,
}

impl HttpBody for ReturningBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_awaited = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => {
                // The start of the next request is unknown.
                self.connection.set_lingers(true);
                self.body = None;
            }
            None => self.body = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for ReturningBody {
    fn drop(&mut self) {
        match self.body.take() {
            Some(body) if body.is_end_stream() => {}
            Some(_) if self.is_awaited => self.connection.set_lingers(true),
            Some(body) => self.connection.leave_unread(body),
            None => {}
        }
    }
}
