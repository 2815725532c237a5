//! JSON-RPC 2.0: messages and responses of the guide endpoints and of the MCP server of the knowledge API.

mod message;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use self::message::{RpcMessage, is_version_2, read};

/// A JSON-RPC error with its HTTP status.
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
    /// The body is JSON, but not a request.
    pub const INVALID_REQUEST: Self = Self::new(StatusCode::BAD_REQUEST, -32600, "Invalid Request");
    /// The method is not supported.
    pub const METHOD_NOT_FOUND: Self = Self::new(StatusCode::OK, -32601, "Method not found");

    /// No resource has the URI of the request.
    pub fn no_resource(uri: &str) -> Self {
        Self { data: Some(json!({ "uri": uri })), ..Self::new(StatusCode::OK, -32002, "Resource not found") }
    }

    /// The server cannot answer at this time; `why` is returned as `data`.
    pub fn internal(why: &str) -> Self {
        Self { data: Some(json!(why)), ..Self::new(StatusCode::OK, -32603, "Internal error") }
    }

    /// Invalid parameters; `why` is returned as `data`.
    pub fn invalid_params(why: &str) -> Self {
        Self { data: Some(json!(why)), ..Self::new(StatusCode::OK, -32602, "Invalid params") }
    }

    /// The client uses an unsupported protocol version. The code is the one that later versions of MCP assigned to this case.
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let data = json!({ "supported": supported, "requested": requested });
        Self { data: Some(data), ..Self::new(StatusCode::BAD_REQUEST, -32022, "Unsupported protocol version") }
    }

    const fn new(status: StatusCode, code: i32, message: &'static str) -> Self {
        Self { status, code, message, data: None }
    }
}

/// The response to the request with this id; the id is returned byte for byte.
pub fn answer(id: &RawValue, outcome: Result<Value, RpcError>) -> Response {
    let (status, result, error) = match outcome {
        Ok(result) => (StatusCode::OK, Some(result), None),
        Err(RpcError { status, code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            (status, None, Some(error))
        }
    };
    (status, axum::Json(Reply { error, id, jsonrpc: "2.0", result })).into_response()
}

#[derive(Serialize)]
struct Reply<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    id: &'a RawValue,
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
}

/// The members of an object as raw JSON; of duplicates, the last one. Values are only parsed on access, so that large numbers, unpaired
/// surrogates and deep nesting in other members cause no error.
#[derive(Debug, Default)]
pub struct Members<'b>(BTreeMap<Vec<u8>, &'b RawValue>);

impl<'b> Members<'b> {
    /// Parses an object; `None` for other values.
    pub fn of(text: &'b RawValue) -> Option<Self> {
        serde_json::from_str(text.get()).ok()
    }

    /// A member as raw JSON.
    pub fn get(&self, name: &str) -> Option<&'b RawValue> {
        self.0.get(name.as_bytes()).copied()
    }

    /// A string member. A string with unpaired surrogates equals no known name and is returned as it was written.
    pub fn text(&self, name: &str) -> Option<Cow<'b, str>> {
        let written = self.get(name)?.get();
        let read = || serde_json::from_str(written).map_or(Cow::Borrowed(written), Cow::Owned);
        written.starts_with('"').then(read)
    }

    /// The member `id`, if it is a string or a number.
    pub fn id(&self) -> Option<&'b RawValue> {
        self.get("id").filter(|id| id.get().starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9')))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

/// A member's name as bytes, because a JSON name may contain unpaired surrogates.
struct Name(Vec<u8>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Name, E> {
                Ok(Name(name.to_vec()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}
