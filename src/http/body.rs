//! Reading bodies: bounded in bytes and in time, and with errors that say where the fault is.

use actors::Trouble;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use super::BODY_BYTES_HARD_MAX;
use super::error::{Answer, ApiError, Code};
use crate::house::House;

/// The bytes as they came.
#[derive(Debug)]
pub struct RawBody(pub Bytes);

impl FromRequest<House> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, house: &House) -> Result<Self, ApiError> {
        read(request.into_body(), BODY_BYTES_HARD_MAX, house.settings.http.body_deadline).await.map(Self)
    }
}

/// Reads a body of at most `bytes_max`, within a deadline.
pub async fn read(body: Body, bytes_max: usize, deadline: Duration) -> Result<Bytes, ApiError> {
    let limited = Limited::new(body, bytes_max);
    match tokio::time::timeout(deadline, limited.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::new(Code::PayloadTooLarge).with("bytes_max", bytes_max.into()))
        }
        Ok(Err(_)) => Err(ApiError::unavailable("body_unreadable", Duration::from_secs(1))),
        Err(_) => Err(ApiError::unavailable("body_too_slow", Duration::from_secs(1))),
    }
}

/// An answer of this body. Its members stand in alphabetical order, in whatever order the type has them.
pub fn answer(body: &impl Serialize) -> Answer {
    let body = serde_json::to_value(body).map_err(|error| Trouble::Internal(error.to_string()))?;
    Ok(axum::Json(body).into_response())
}

/// A JSON object. What does not fit is 400 `invalid_request` with `issues: [{path, message}]`.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<House> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, house: &House) -> Result<Self, ApiError> {
        let RawBody(bytes) = RawBody::from_request(request, house).await?;
        json(&bytes).map(Self)
    }
}

/// Reads a JSON object, none of whose members stands twice, and names the place of the first fault.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| fault(&error))?;
    deserializer.end().map_err(|error| ApiError::invalid("", error.to_string()))?;
    // A list of the members in their order would be taken for the object.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::invalid("", "expected an object"));
    }
    // Types know when one of their members comes twice; maps keep the last, and nobody could tell which one was meant.
    let Once = serde_json::from_slice(bytes).map_err(|error| ApiError::invalid("", error.to_string()))?;
    Ok(value)
}

/// What does not fit into a type, and where.
pub fn fault(error: &serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    let path = error.path().to_string();
    ApiError::invalid(if matches!(path.as_str(), "." | "?") { "" } else { &path }, error.inner().to_string())
}

/// Any object, each of whose members stands in it once.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut seen = HashSet::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
                    if let Some(name) = seen.replace(name) {
                        return Err(serde::de::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                }
                Ok(Once)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// The parameters of an `application/x-www-form-urlencoded` body (RFC 6749, appendix B). Unknown ones are ignored, one that is sent
/// twice is refused (section 3.2).
#[derive(Debug)]
pub struct FormBody(Vec<(String, String)>);

impl FromRequest<House> for FormBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, house: &House) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let form = kind.eq_ignore_ascii_case("application/x-www-form-urlencoded");
        let RawBody(bytes) = RawBody::from_request(request, house).await?;
        if !form && !bytes.is_empty() {
            return Err(ApiError::invalid("", "the body must be application/x-www-form-urlencoded"));
        }
        let pairs = serde_urlencoded::from_bytes(&bytes);
        pairs.map(Self).map_err(|error| ApiError::invalid("", format!("the form cannot be read: {error}")))
    }
}

impl FormBody {
    /// A parameter; empty counts as absent (RFC 6749, section 3.2).
    pub fn get(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let value = values.next();
        if values.next().is_some() {
            return Err(ApiError::invalid(name, "must not be sent twice"));
        }
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// A parameter that must be there.
    pub fn require(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name)?.ok_or_else(|| ApiError::invalid(name, "is required"))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Example {
        #[expect(dead_code, reason = "only its reading is of interest")]
        list: Vec<u8>,
    }

    #[test]
    fn a_fault_in_json_is_named_with_its_place() {
        let fault = |text: &str| {
            let error = json::<Example>(text.as_bytes()).unwrap_err();
            assert_eq!(error.code(), Code::InvalidRequest);
            format!("{error:?}")
        };
        assert!(fault(r#"{"list": [1, "x"]}"#).contains("list[1]"));
        assert!(fault("{}").contains("missing field"));
        assert!(fault(r#"{"list": []} x"#).contains("trailing"));
        assert!(fault("[[1]]").contains("expected an object"));
        assert!(!fault("{").contains('?'));
        assert!(json::<Example>(br#" {"list": [1]}"#).is_ok());
        assert!(json::<Example>(br#"{"list": [1], "a": {"b": 1}, "c": {"b": 1}}"#).is_ok());
    }

    #[test]
    fn no_member_stands_twice_whatever_is_read() {
        for twice in [r#"{"a": 1, "a": 1}"#, r#"{"a": 1, "b": [], "\u0061": {}}"#] {
            let error = json::<serde_json::Value>(twice.as_bytes()).unwrap_err();
            assert!(error.first_issue().unwrap().starts_with("duplicate field `a`"), "{error:?}");
        }
        for other in ["null", "1", "\"a\"", "[]"] {
            assert_eq!(json::<serde_json::Value>(other.as_bytes()).unwrap_err().code(), Code::InvalidRequest);
        }
    }

    #[test]
    fn a_form_parameter_is_there_once_or_refused() {
        let form = FormBody(vec![
            ("a".into(), "1".into()),
            ("b".into(), String::new()),
            ("c".into(), "1".into()),
            ("c".into(), "2".into()),
        ]);
        assert_eq!(form.get("a").unwrap(), Some("1"));
        assert_eq!(form.get("b").unwrap(), None);
        assert!(form.get("c").is_err());
        assert!(form.require("d").is_err());
    }
}
