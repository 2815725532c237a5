//! Parses `Content-Type` headers.
//!
//! The parser is lenient: web servers send values such as `text/html;` and `text/plain; charset=`, which the grammar of RFC 9110 and
//! crates that follow it reject. A page must not be lost for that.

/// Longest charset label that is kept.
const LABEL_BYTES_MAX: usize = 40;

/// The media type in lower case without parameters; empty if the header is.
pub fn essence(header: &str) -> String {
    let (essence, _) = header.split_once(';').unwrap_or((header, ""));
    essence.trim().to_ascii_lowercase()
}

/// The charset parameter in lower case, if it can be a label.
pub fn charset(header: &str) -> Option<String> {
    let parameters = header.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset")).find_map(|(_, value)| {
        let label = value.trim().trim_matches('"');
        let is_label =
            (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic());
        is_label.then(|| label.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_parameters_do_not_hide_the_type() {
        for header in ["text/html", "Text/HTML;", " text/html ; charset=", "text/html; =; x", "text/html;charset=\"\""]
        {
            assert_eq!((essence(header).as_str(), charset(header)), ("text/html", None), "{header}");
        }
        assert_eq!(charset("text/html; x=y; Charset=\"UTF-8\"").as_deref(), Some("utf-8"));
        assert_eq!(charset("text/html; charset=; charset=latin1").as_deref(), Some("latin1"));
        assert_eq!((essence(""), charset("charset=utf-8")), (String::new(), None));
    }
}
