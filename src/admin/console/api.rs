//! Requests of the pages to the operator's API, in the name of the signed-in operator.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt as _;
use wire::ops::OperatorError;

use super::sessions::ConsoleOperator;
use crate::admin::ops::{IDEMPOTENCY_KEY, Insider};

/// The operator's API, called within the process.
#[derive(Debug, Clone)]
pub struct ConsoleApi(Router);

/// A refusal of the API.
#[derive(Debug)]
pub struct Refused {
    /// Status of the response.
    pub status: StatusCode,
    /// Body of the response.
    pub error: OperatorError,
}

impl ConsoleApi {
    /// The API with these routes.
    pub fn new(routes: Router) -> Self {
        Self(routes)
    }

    /// Reads a route.
    pub async fn get<T: DeserializeOwned>(&self, operator: &ConsoleOperator, route: &str) -> Result<T, Refused> {
        self.call(operator, &Method::GET, route, None).await
    }

    /// Sends a request and returns the body of the answer.
    pub async fn call<T: DeserializeOwned>(
        &self,
        operator: &ConsoleOperator,
        method: &Method,
        route: &str,
        body: Option<&Value>,
    ) -> Result<T, Refused> {
        self.call_once(operator, method, route, (body, None)).await
    }

    /// The same with an `Idempotency-Key`: a repeated request changes nothing, and has the first answer.
    pub async fn call_once<T: DeserializeOwned>(
        &self,
        operator: &ConsoleOperator,
        method: &Method,
        route: &str,
        (body, key): (Option<&Value>, Option<&str>),
    ) -> Result<T, Refused> {
        let body_text = body.map_or_else(String::new, Value::to_string);
        let request = Request::builder().method(method.clone()).uri(route).header(CONTENT_TYPE, "application/json");
        let request = request.extension(Insider { by: operator.author(), role: operator.role });
        let request = request.extension(operator.peer.clone());
        let request = key.into_iter().fold(request, |request, key| request.header(IDEMPOTENCY_KEY, key));
        let request = request.body(Body::from(body_text)).map_err(|error| Refused::unreadable(&error))?;
        let Ok(response) = self.0.clone().oneshot(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.map_err(|error| Refused::unreadable(&error))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| Refused::unreadable(&error));
        }
        let error = serde_json::from_slice(&bytes).map_err(|error| Refused::unreadable(&error))?;
        Err(Refused { status, error })
    }
}

impl Refused {
    fn unreadable(error: &(dyn std::error::Error + 'static)) -> Self {
        let detail = format!("the answer cannot be read: {}", domain::reasons(error));
        let error = OperatorError { error: "unreadable".to_owned(), detail, problems: Vec::new(), act_id: None };
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, error }
    }

    /// The detail with the problems, a line each.
    pub fn lines(&self) -> Vec<String> {
        std::iter::once(self.error.detail.clone()).chain(self.error.problems.iter().cloned()).collect()
    }
}
