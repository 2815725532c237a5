//! A request body as a JSON-RPC message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Members, RpcError};

/// A message of a client.
#[derive(Debug)]
pub enum RpcMessage<'b> {
    /// A request, which gets a response.
    Request {
        /// Its id, byte for byte.
        id: &'b RawValue,
        /// Name of the method.
        method: Cow<'b, str>,
        /// Parameters of the method.
        params: Option<&'b RawValue>,
    },
    /// A notification or a response; it is accepted and ignored.
    Silent,
}

/// Reads a body: −32700 if it is not JSON, −32600 with the id if it is not a message.
pub fn read(body: &[u8]) -> Result<RpcMessage<'_>, (Option<&RawValue>, RpcError)> {
    let message = serde_json::from_slice(body).map_err(|_| (None, RpcError::PARSE))?;
    let Some(members) = Members::of(message) else { return Err((None, RpcError::INVALID_REQUEST)) };
    let is_response = members.get("result").or(members.get("error")).is_some();
    match (members.get("method"), members.text("method"), members.get("id"), members.id()) {
        (_, Some(method), _, Some(id)) => Ok(RpcMessage::Request { id, method, params: members.get("params") }),
        (_, Some(_), None, _) => Ok(RpcMessage::Silent),
        (None, ..) if is_response => Ok(RpcMessage::Silent),
        (.., id) => Err((id, RpcError::INVALID_REQUEST)),
    }
}

/// Whether the member `jsonrpc` is absent or `2.0`. The guide endpoints take any other value too.
pub fn is_version_2(body: &[u8]) -> bool {
    let members = serde_json::from_slice(body).ok().and_then(Members::of);
    members.is_none_or(|members| members.get("jsonrpc").is_none_or(|version| version.get() == "\"2.0\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_request_or_silent_or_wrong() {
        let id = |body: &str| match read(body.as_bytes()) {
            Ok(RpcMessage::Request { id, method, .. }) if method == "ping" => id.get().to_owned(),
            other => panic!("{body}: {other:?}"),
        };
        assert_eq!(id(r#"{"id": 1, "method": "ping"}"#), "1");
        assert_eq!(id(r#"{"id": "a", "method": "p\u0069ng", "extra": 1}"#), r#""a""#);
        for silent in [
            r#"{"method": "notifications/initialized"}"#,
            r#"{"method": "ping"}"#,
            r#"{"id": 1, "result": {}}"#,
            r#"{"id": 1, "error": {"code": 1, "message": "no"}}"#,
        ] {
            assert!(matches!(read(silent.as_bytes()), Ok(RpcMessage::Silent)), "{silent}");
        }
        let refused = |body: &str| {
            let (id, error) = read(body.as_bytes()).unwrap_err();
            (id.map(|id| id.get().to_owned()), error == RpcError::PARSE)
        };
        for (wrong, id) in [
            ("[]", None),
            ("1", None),
            ("{}", None),
            (r#"{"id": null, "method": "ping"}"#, None),
            (r#"{"id": [], "method": "ping"}"#, None),
            (r#"{"id": 1}"#, Some("1")),
            (r#"{"id": 1, "method": 2, "result": {}}"#, Some("1")),
        ] {
            assert_eq!(refused(wrong), (id.map(str::to_owned), false), "{wrong}");
        }
        for garbage in ["", "{", "{} x", "\u{feff}{}"] {
            assert_eq!(refused(garbage), (None, true), "{garbage}");
        }
    }
}
