//! An endpoint of webhooks, with faults.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use app::config::Settings;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;

use crate::eventually;

/// Switches webhooks on, to receivers on this machine.
pub fn permit(settings: &mut Settings) {
    let webhooks = &mut settings.webhooks;
    webhooks.enabled = true;
    webhooks.allow_http = true;
    webhooks.allow_private = vec!["127.0.0.0/8".parse().unwrap_or_else(|error| panic!("{error}"))];
    webhooks.ports = (1..=u16::MAX).collect();
    webhooks.look_every = Duration::from_millis(20);
}

/// A running receiver, which keeps its requests. Clones share it.
#[derive(Clone, Default)]
pub struct Receiver {
    received: Arc<Mutex<Vec<Received>>>,
    requests: Arc<Mutex<HashMap<String, usize>>>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// The path, without its slash.
    pub path: String,
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// `webhook-signature`.
    pub signature: String,
    /// The body, byte for byte.
    pub body: String,
}

impl Received {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Receiver {
    /// Starts on a free loopback port; returns its address too.
    pub async fn start() -> (Self, SocketAddr) {
        let receiver = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/{*path}", post(take)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (receiver, address)
    }

    /// The requests of a path.
    pub fn at(&self, path: &str) -> Vec<Received> {
        self.received.lock().unwrap().iter().filter(|one| one.path == path).cloned().collect()
    }

    /// Waits until a path has this number of requests.
    pub async fn wait(&self, path: &str, count: usize) -> Vec<Received> {
        eventually(&format!("{count} requests to {path}"), async || {
            let found = self.at(path);
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

async fn take(
    State(receiver): State<Receiver>,
    Path(path): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let one = Received {
        path: path.clone(),
        id: value("webhook-id"),
        timestamp: value("webhook-timestamp"),
        signature: value("webhook-signature"),
        body,
    };
    receiver.received.lock().unwrap().push(one);
    let before = {
        let mut requests = receiver.requests.lock().unwrap();
        let count = requests.entry(path.clone()).or_default();
        *count += 1;
        *count - 1
    };
    match path.as_str() {
        "soon" if before == 0 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "broken" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "busy" if before == 0 => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "3600")]).into_response(),
        "moved" => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/target")]).into_response(),
        "gone" => StatusCode::GONE.into_response(),
        "silent" => std::future::pending().await,
        "slow" => {
            tokio::time::sleep(Duration::from_millis(700)).await;
            StatusCode::NO_CONTENT.into_response()
        }
        "endless" => {
            let chunks = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 65_536]));
            Response::new(axum::body::Body::from_stream(chunks))
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}
