//! Requests to the guide endpoints.

use reqwest::Method;
use serde_json::Value;

use super::World;
use crate::client::{Credential, Response};

impl World {
    /// Sends a JSON-RPC request without a credential.
    pub async fn rpc(&self, path: &str, body: Value) -> Response {
        self.post(path, &Credential::None, &body).await
    }

    /// Sends `POST` with any body and no `Content-Type`.
    pub async fn raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.send(self.request(Method::POST, path, &Credential::None).body(body)).await
    }

    /// Sends a JSON-RPC request to the MCP endpoint with one more header.
    pub async fn mcp_with(&self, header: (&str, &str), body: Value) -> Response {
        let request = self.request(Method::POST, "/api/v1/mcp", &Credential::None);
        self.send(request.header(header.0, header.1).json(&body)).await
    }

    /// The text of a guide.
    pub async fn guide(&self, path: &str) -> String {
        String::from_utf8(self.get(path, &Credential::None).await.body.to_vec()).unwrap()
    }
}
