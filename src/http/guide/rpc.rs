//! JSON-RPC 2.0 as both guide endpoints answer it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An error of JSON-RPC, with the status under which it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    status: StatusCode,
    code: i32,
    message: &'static str,
    data: Option<Value>,
}

impl RpcError {
    /// The body is not JSON.
    pub const PARSE: Self = Self::new(StatusCode::BAD_REQUEST, -32700, "Parse error");
    /// The body is JSON, but no request.
    pub const INVALID_REQUEST: Self = Self::new(StatusCode::BAD_REQUEST, -32600, "Invalid Request");
    /// A method that we do not have.
    pub const METHOD_NOT_FOUND: Self = Self::new(StatusCode::OK, -32601, "Method not found");

    /// Parameters that do not fit, and what does not.
    pub fn invalid_params(why: &str) -> Self {
        Self { data: Some(json!(why)), ..Self::new(StatusCode::OK, -32602, "Invalid params") }
    }

    /// The client speaks a version that we do not; with the number that later versions of MCP gave this case, so that their clients
    /// know what to do.
    pub fn unsupported_version(requested: &str, supported: &str) -> Self {
        let data = json!({ "supported": [supported], "requested": requested });
        Self { data: Some(data), ..Self::new(StatusCode::BAD_REQUEST, -32022, "Unsupported protocol version") }
    }

    const fn new(status: StatusCode, code: i32, message: &'static str) -> Self {
        Self { status, code, message, data: None }
    }
}

/// The answer to the request with this id.
pub fn answer(id: &Value, outcome: Result<Value, RpcError>) -> Response {
    match outcome {
        Ok(result) => axum::Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
        Err(RpcError { status, code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            (status, axum::Json(json!({ "jsonrpc": "2.0", "id": id, "error": error }))).into_response()
        }
    }
}
