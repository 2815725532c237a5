//! Detects the encoding of a text.
//!
//! Servers often declare a wrong encoding, and text in another encoding is almost never valid UTF-8. The order is
//! therefore: byte order mark; valid UTF-8 with non-ASCII bytes; the header's charset; the document's declaration
//! (HTML, section 13.2.3.2; XML, appendix F); a guess.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// Bytes that are searched for a declaration. HTML requires 1024; some pages need more.
const CLAIM_BYTES_MAX: usize = 4096;

const GUESS_BYTES_MAX: usize = 256 * 1024;

/// A text declared as UTF-8 may have one invalid sequence per this many bytes.
const BROKEN_ONE_IN: usize = 500;

/// Decodes `body` and removes a byte order mark. `claims` is whether the format can declare its encoding.
pub(super) fn decode<'b>(body: &'b [u8], header: Option<&str>, claims: bool, url: Option<&str>) -> Cow<'b, str> {
    encoding(body, header, claims, url).decode(body).0
}

fn encoding(body: &[u8], header: Option<&str>, claims: bool, url: Option<&str>) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return encoding;
    }
    let proves_itself = std::str::from_utf8(body).is_ok() && !body.is_ascii();
    if proves_itself {
        return UTF_8;
    }
    let claimed = [header.and_then(label), claims.then(|| claim(body)).flatten()];
    for encoding in claimed.into_iter().flatten() {
        if encoding != UTF_8 || is_nearly_utf8(body) {
            return encoding;
        }
    }
    guess(body, url)
}

fn label(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label(name.trim_matches(['"', '\'', ' ']).as_bytes())
}

/// The encoding that the document declares. A readable declaration rules out UTF-16.
fn claim(body: &[u8]) -> Option<&'static Encoding> {
    let head = body[..body.len().min(CLAIM_BYTES_MAX)].to_ascii_lowercase();
    let xml = head.starts_with(b"<?xml").then(|| tag(&head[5..])).and_then(|tag| value(tag, b"encoding"));
    let mut rest = head.as_slice();
    let mut metas = std::iter::from_fn(|| {
        let start = find(rest, b"<meta")? + 5;
        rest = &rest[start..];
        Some(tag(rest))
    });
    let named = xml.or_else(|| metas.find_map(|meta| value(meta, b"charset")))?;
    match Encoding::for_label(named)? {
        encoding if encoding == UTF_16LE || encoding == UTF_16BE => Some(UTF_8),
        encoding if encoding == X_USER_DEFINED => Some(WINDOWS_1252),
        encoding => Some(encoding),
    }
}

fn tag(text: &[u8]) -> &[u8] {
    &text[..find(text, b">").unwrap_or(text.len())]
}

/// The value after `name =`, with or without quotes: an attribute, or a parameter within one.
fn value<'t>(tag: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let mut rest = tag;
    loop {
        rest = rest[find(rest, name)? + name.len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = value.trim_ascii_start();
            let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
            let ends = |byte: &u8| matches!(byte, b'"' | b'\'' | b';' | b'/' | b'?') || byte.is_ascii_whitespace();
            return Some(&value[..value.iter().position(ends).unwrap_or(value.len())]);
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn is_nearly_utf8(body: &[u8]) -> bool {
    let broken = body.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    broken * BROKEN_ONE_IN <= body.len()
}

fn guess(body: &[u8], url: Option<&str>) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&body[..body.len().min(GUESS_BYTES_MAX)], true);
    let host = url.and_then(|url| url::Url::parse(url).ok()).and_then(|url| url.domain().map(str::to_ascii_lowercase));
    let country = host.as_deref().and_then(|host| host.rsplit('.').find(|label| !label.is_empty()));
    detector.guess(country.map(str::as_bytes).filter(|country| country.is_ascii()), Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use encoding_rs::{BIG5, ISO_2022_JP, SHIFT_JIS, WINDOWS_1251};

    use super::*;

    const GREETING: &str = "Grüße aus Köln, schöne Möwen über den Dächern";
    const RUSSIAN: &str = "Широкая электрификация южных губерний даст мощный толчок подъёму сельского хозяйства";

    fn latin(text: &str) -> Vec<u8> {
        WINDOWS_1252.encode(text).0.into_owned()
    }

    fn decoded(body: &[u8], header: Option<&str>) -> String {
        decode(body, header, true, Some("https://example.de/")).into_owned()
    }

    #[test]
    fn byte_order_marks_decide_and_disappear() {
        let utf16: Vec<u8> =
            [0xfe, 0xff].into_iter().chain("Grüße".encode_utf16().flat_map(u16::to_be_bytes)).collect();
        assert_eq!(decoded(&utf16, Some("utf-8")), "Grüße");
        assert_eq!(decoded("\u{feff}Grüße".as_bytes(), Some("iso-8859-1")), "Grüße");
    }

    #[test]
    fn utf8_that_proves_itself_wins_over_a_wrong_claim() {
        assert_eq!(decoded(GREETING.as_bytes(), Some("iso-8859-1")), GREETING);
        assert_eq!(decoded(format!("<meta charset=latin1>{GREETING}").as_bytes(), None)[21..], *GREETING);
    }

    #[test]
    fn a_wrong_claim_of_utf8_is_not_believed() {
        assert_eq!(decoded(&latin(GREETING), Some("utf-8")), GREETING);
        let mut truncated = GREETING.repeat(20).into_bytes();
        truncated.push(0xc3);
        assert!(decoded(&truncated, Some("UTF-8")).starts_with(GREETING), "one broken character is no other encoding");
    }

    #[test]
    fn claims_are_found_where_documents_make_them() {
        for head in [
            "<meta charset=windows-1251>",
            "<META  CHARSET = 'Windows-1251' />",
            r#"<meta name=charset><meta http-equiv="Content-Type" content="text/html; charset=windows-1251">"#,
            r#"<?xml version="1.0" encoding="windows-1251"?>"#,
        ] {
            let (body, _, _) = WINDOWS_1251.encode(RUSSIAN);
            let page = [head.as_bytes(), &body].concat();
            assert_eq!(claim(&page), Some(WINDOWS_1251), "{head}");
            assert!(decoded(&page, None).ends_with(RUSSIAN), "{head}");
        }
        assert_eq!(claim(b"<meta charset=utf-16>"), Some(UTF_8));
        assert_eq!(claim(b"<meta charset=nonsense><meta charset"), None);
    }

    #[test]
    fn the_header_wins_over_the_document() {
        let (body, _, _) = SHIFT_JIS.encode("<meta charset=big5>日本語のページ");
        assert!(decoded(&body, Some("\"Shift_JIS\"")).ends_with("日本語のページ"));
        let (body, _, _) = ISO_2022_JP.encode("日本語");
        assert_eq!(decoded(&body, Some("iso-2022-jp")), "日本語");
    }

    #[test]
    fn an_undeclared_charset_is_guessed() {
        assert_eq!(decoded(&latin(GREETING), None), GREETING);
        assert_eq!(decoded(&WINDOWS_1251.encode(RUSSIAN).0, None), RUSSIAN);
        let chinese = "這是一個關於船隻的網頁,介紹各種帆船的歷史與構造。";
        assert_eq!(decoded(&BIG5.encode(chinese).0, Some("no-such-charset")), chinese);
    }
}
