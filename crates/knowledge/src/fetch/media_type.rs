//! Media type of a response, from its header or from its first bytes.

use super::FetchError;
use extract::content_type;

/// The supported media types (`docs/decisions/0025-from-url-to-text.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum MediaType {
    /// `text/html`.
    #[strum(serialize = "text/html")]
    Html,
    /// `application/xhtml+xml`.
    #[strum(serialize = "application/xhtml+xml")]
    Xhtml,
    /// `text/plain`.
    #[strum(serialize = "text/plain")]
    Plain,
    /// `text/markdown`.
    #[strum(serialize = "text/markdown")]
    Markdown,
    /// `application/json`, and every `application/…+json`.
    #[strum(serialize = "application/json")]
    Json,
    /// `application/xml`, and every `application/…+xml`, such as feeds.
    #[strum(serialize = "application/xml")]
    Xml,
    /// `application/pdf`.
    #[strum(serialize = "application/pdf")]
    Pdf,
}

impl MediaType {
    /// The essence of the type, without parameters.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Detects the type from the first bytes of a body; `None` if it is not supported.
    pub(super) fn sniff(body: &[u8]) -> Option<Self> {
        let head = &body[..body.len().min(SNIFFED_BYTES)];
        if head.windows(5).any(|window| window == b"%PDF-") {
            return Some(Self::Pdf);
        }
        let has_wide_mark = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
        let text = match std::str::from_utf8(head) {
            Ok(text) => text,
            Err(fault) if fault.error_len().is_none() => std::str::from_utf8(&head[..fault.valid_up_to()]).ok()?,
            Err(_) => return has_wide_mark.then_some(Self::Plain),
        };
        let lower = text.to_ascii_lowercase();
        if ["<!doctype html", "<html", "<head", "<body"].iter().any(|mark| lower.contains(mark)) {
            return Some(Self::Html);
        }
        if lower.trim_start_matches('\u{feff}').trim_start().starts_with("<?xml") {
            return Some(Self::Xml);
        }
        let is_binary = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}');
        (!text.contains(is_binary)).then_some(Self::Plain)
    }
}

/// Number of bytes that detection reads.
pub(super) const SNIFFED_BYTES: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContentType {
    /// `None` if the header names no type, so that it must be detected.
    pub(super) media_type: Option<MediaType>,
    pub(super) charset: Option<String>,
}

impl ContentType {
    /// Parses the header. Rejects an unsupported type before the body is read.
    pub(super) fn parse(header: Option<&str>) -> Result<Self, FetchError> {
        // Without a header, the type is detected.
        let header = header.unwrap_or_default();
        let essence = content_type::essence(header);
        let media_type = match essence.as_str() {
            "" | "application/octet-stream" | "binary/octet-stream" | "application/x-unknown" | "unknown/unknown" => {
                None
            }
            "text/html" => Some(MediaType::Html),
            "application/xhtml+xml" => Some(MediaType::Xhtml),
            "text/plain" => Some(MediaType::Plain),
            "text/markdown" | "text/x-markdown" => Some(MediaType::Markdown),
            "application/json" | "text/json" => Some(MediaType::Json),
            "application/xml" | "text/xml" => Some(MediaType::Xml),
            "application/pdf" | "application/x-pdf" => Some(MediaType::Pdf),
            other if other.starts_with("application/") && other.ends_with("+json") => Some(MediaType::Json),
            other if other.starts_with("application/") && other.ends_with("+xml") => Some(MediaType::Xml),
            other => return Err(unsupported(other)),
        };
        Ok(Self { media_type, charset: content_type::charset(header) })
    }
}

/// The type comes from the server, so the message repeats it only if it is a plain token.
fn unsupported(essence: &str) -> FetchError {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte);
    if essence.len() <= 80 && essence.contains('/') && essence.bytes().all(token) {
        FetchError::UnsupportedType(essence.to_owned())
    } else {
        FetchError::UnknownType
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_type_and_charset() {
        let parse = |header| ContentType::parse(Some(header)).map(|parsed| (parsed.media_type, parsed.charset));
        let utf8 = Some("utf-8".to_owned());
        assert_eq!(parse("text/html; charset=UTF-8"), Ok((Some(MediaType::Html), utf8.clone())));
        assert_eq!(parse("Text/HTML;x=y ; Charset=\"utf-8\""), Ok((Some(MediaType::Html), utf8)));
        assert_eq!(parse("text/plain;charset="), Ok((Some(MediaType::Plain), None)));
        assert_eq!(parse("application/ld+json"), Ok((Some(MediaType::Json), None)));
        assert_eq!(parse("application/atom+xml"), Ok((Some(MediaType::Xml), None)));
        assert_eq!(parse("application/octet-stream"), Ok((None, None)));
        assert_eq!(ContentType::parse(None).unwrap().media_type, None);
        assert_eq!(parse("image/svg+xml"), Err(FetchError::UnsupportedType("image/svg+xml".into())));
        assert_eq!(parse("video/mp4; codecs=x"), Err(FetchError::UnsupportedType("video/mp4".into())));
        assert_eq!(parse("<script>"), Err(FetchError::UnknownType));
    }

    #[test]
    fn the_first_bytes_decide_without_a_header() {
        let cut = "é".repeat(600);
        for (body, expected) in [
            (b"%PDF-1.7\n\xff\xfe".as_slice(), Some(MediaType::Pdf)),
            (b"\xef\xbb\xbf  <!DOCTYPE html><p>", Some(MediaType::Html)),
            (b"<!-- x --><HTML lang=de>", Some(MediaType::Html)),
            (b"\n<?xml version='1.0'?><rss>", Some(MediaType::Xml)),
            (b"Just words.\n", Some(MediaType::Plain)),
            (&cut.as_bytes()[..1025], Some(MediaType::Plain)),
            (b"\xff\xfeh\0i\0", Some(MediaType::Plain)),
            (b"", Some(MediaType::Plain)),
            (b"\x7fELF\x02\x01\x01\0", None),
            (b"\x89PNG\r\n\x1a\n", None),
            (b"PK\x03\x04", None),
        ] {
            assert_eq!(MediaType::sniff(body), expected, "{body:?}");
        }
    }
}
