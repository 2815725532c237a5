//! The media type of a body.

/// Whether the value of a `Content-Type` is this media type. Parameters, even invalid ones, and case are ignored.
pub fn is(content_type: &str, media_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_case_do_not_count() {
        for json in ["application/json", "Application/JSON; charset=utf-8", " application/json ;", "application/json;x"]
        {
            assert!(is(json, "application/json"), "{json}");
        }
        for other in ["", "text/plain", "application/jsonp", "application / json", "; application/json"] {
            assert!(!is(other, "application/json"), "{other}");
        }
    }
}
