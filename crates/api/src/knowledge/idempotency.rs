//! The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): a repeated request has the effect of a single one.

use actors::ingest::Repeatable;
use axum::http::{HeaderMap, HeaderName};
use domain::Digest;

use crate::error::ApiError;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Maximum length of a key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The key of a request with this body; `None` without the header. The draft writes keys in quotation marks; many clients leave them out.
pub(super) fn repeatable(headers: &HeaderMap, body: &[u8]) -> Result<Option<Repeatable>, ApiError> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let key = key.to_str().unwrap_or_default().trim();
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    let is_plain = key.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\');
    if keys.next().is_some() || !is_plain || !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        let rule =
            format!("must be one key of 1 to {KEY_BYTES_MAX} ASCII characters without quotation marks and backslashes");
        return Err(ApiError::invalid("Idempotency-Key", rule));
    }
    Ok(Some(Repeatable { key: Some(key.to_owned()), body: Digest::of(body) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_with_and_without_its_quotation_marks() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
            }
            repeatable(&headers, b"body")
                .map(|repeat| repeat.and_then(|repeat| repeat.key))
                .map_err(|error| error.code())
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["8e03978e"]), Ok(Some("8e03978e".into())));
        assert_eq!(read(&["\"8e03978e\""]), Ok(Some("8e03978e".into())));
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        for wrong in [&[""][..], &["\"\""], &["\""], &["a\"b"], &["a", "b"], &[long.as_str()]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
