//! What a body is: what the web server says, or where it says nothing useful, what its first bytes look like.

use reqwest::header::HeaderValue;

/// A media type with the one parameter that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType {
    /// `type/subtype`, in lower case.
    pub essence: String,
    /// `charset`.
    pub charset: Option<String>,
}

impl MediaType {
    /// What the header says; `None` when it says nothing, or nothing useful.
    pub fn declared(header: Option<&HeaderValue>) -> Option<Self> {
        let mut parts = header?.to_str().ok()?.split(';');
        let essence = parts.next()?.trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then(|| value.to_owned())
        });
        let useful =
            essence.contains('/') && essence != "application/octet-stream" && essence != "application/x-unknown";
        useful.then_some(Self { essence, charset })
    }

    /// Whether content of this type is read.
    pub fn is_read(&self) -> bool {
        const READ: [&str; 9] = [
            "text/html",
            "application/xhtml+xml",
            "text/plain",
            "text/markdown",
            "text/x-markdown",
            "application/json",
            "text/xml",
            "application/xml",
            "application/pdf",
        ];
        READ.contains(&self.essence.as_str()) || self.essence.ends_with("+json") || self.essence.ends_with("+xml")
    }

    /// What was declared, or what the body looks like; `None` when it is nothing that is read.
    pub fn settled(declared: Option<Self>, body: &[u8]) -> Option<Self> {
        declared.or_else(|| sniffed(body).map(|essence| Self { essence: essence.to_owned(), charset: None }))
    }
}

fn sniffed(body: &[u8]) -> Option<&'static str> {
    const LOOKED_AT: usize = 1024;
    if body.starts_with(b"%PDF-") {
        return Some("application/pdf");
    }
    let head = &body[..body.len().min(LOOKED_AT)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character that was cut in two at the end is no fault.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    if text.contains('\0') {
        return None;
    }
    let start = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| start.starts_with(tag));
    Some(if html { "text/html" } else { "text/plain" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &'static str) -> Option<MediaType> {
        MediaType::declared(Some(&HeaderValue::from_static(text)))
    }

    #[test]
    fn the_header_is_read_whatever_its_form() {
        let html = declared("Text/HTML; boundary=x; Charset=\"ISO-8859-1\"").unwrap();
        assert_eq!((html.essence.as_str(), html.charset.as_deref()), ("text/html", Some("ISO-8859-1")));
        assert!(html.is_read());
        for (text, is_read) in [("application/atom+xml", true), ("application/ld+json", true), ("image/png", false)] {
            assert_eq!(declared(text).unwrap().is_read(), is_read, "{text}");
        }
        for nothing in ["", "html", "application/octet-stream"] {
            assert_eq!(declared(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_says_nothing_is_looked_at() {
        let settled = |body: &[u8]| MediaType::settled(None, body).map(|media| media.essence);
        assert_eq!(settled(b"%PDF-1.7 \xff").as_deref(), Some("application/pdf"));
        assert_eq!(settled(b"\xef\xbb\xbf \n<!DOCTYPE html><p>").as_deref(), Some("text/html"));
        assert_eq!(settled("plain é".as_bytes()).as_deref(), Some("text/plain"));
        assert_eq!(settled(&[b"x".repeat(1023), "é".as_bytes().to_vec()].concat()).as_deref(), Some("text/plain"));
        assert_eq!(settled(b"\x89PNG\r\n"), None);
        assert_eq!(settled(b"GIF\0"), None);
    }
}
