//! Passwords in URLs, also those with characters that should have been escaped: `redis://:p@ss/w#rd@cache:6379`.

use std::ops::Range;

use super::value;
use super::view::QUOTE;

/// The text before the authority of a URL.
pub const TRIGGER: &str = "://";

/// Longest URL that is looked at.
const URL_BYTES_MAX: usize = 2048;

/// The password of a URL; `begin` is the offset after `://`.
pub fn password(view: &[u8], begin: usize) -> Option<Range<usize>> {
    let rest = view.get(begin..)?;
    let is_end =
        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b',' | &QUOTE);
    let length = rest.iter().take(URL_BYTES_MAX).position(is_end).unwrap_or(rest.len().min(URL_BYTES_MAX));
    let url = rest.get(..length)?;
    let colon = url.iter().position(|byte| matches!(byte, b':' | b'/' | b'@' | b'?' | b'#' | b'['))?;
    match url.get(colon) {
        Some(b':') => {}
        // A token in place of the user.
        Some(b'@') if url.get(..colon).is_some_and(|user| user.len() >= 20 && value::is_random(user)) => {
            return Some(begin..begin + colon);
        }
        _ => return None,
    }
    let path = url.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(url.len());
    // A fragment does not follow a host.
    let at = url.get(..path)?.iter().rposition(|byte| *byte == b'@').filter(|_| url.get(path) != Some(&b'#'));
    // Otherwise a character of the password ends the authority. A port before it is not a password.
    let of_password = || {
        let is_port = url.get(colon + 1..path)?.iter().all(u8::is_ascii_digit);
        let user = url.get(..colon)?;
        let last = url.iter().rposition(|byte| *byte == b'@')?;
        let is_password = !is_port && !user.contains(&b'.') && url.get(last + 1..).is_some_and(is_host);
        is_password.then_some(last)
    };
    let at = at.or_else(of_password)?;
    let password =
        url.get(colon + 1..at).filter(|password| !password.is_empty() && !value::is_placeholder(password))?;
    Some(begin + colon + 1..begin + colon + 1 + password.len())
}

/// Whether a text starts with a host, and optionally a port.
fn is_host(text: &[u8]) -> bool {
    let host = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')).count();
    host > 0 && text.get(host).is_none_or(|byte| matches!(byte, b':' | b'/' | b'?' | b'#' | b')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str) -> Option<&str> {
        let begin = url.find(TRIGGER).unwrap() + TRIGGER.len();
        password(url.as_bytes(), begin).and_then(|part| url.get(part))
    }

    #[test]
    fn a_password_is_found_with_any_characters_and_without_a_user() {
        assert_eq!(found("postgres://ada:lovelace1815@db/x?a=b"), Some("lovelace1815"));
        assert_eq!(found("redis://:hunter22@cache:6379/0"), Some("hunter22"));
        assert_eq!(found("amqp://ada:p@ss#w/o?rd@mq.example.com:5672/"), Some("p@ss#w/o?rd"));
        assert_eq!(found("postgres://ada:p/ss@db"), Some("p/ss"));
        assert_eq!(found("postgres://ada:p@ss@db/x"), Some("p@ss"));
        let token = "d7c1f0a4b2e96835d7c1f0a4b2e96835d7c1f0a4";
        assert_eq!(found(&format!("https://{token}@example.com/a")), Some(token));
    }

    #[test]
    fn ports_paths_and_placeholders_are_no_passwords() {
        for url in [
            "https://example.com:8080/a@b",
            "https://example.com/a:b@c",
            "http://[::1]:80/@x",
            "https://registry.npmjs.org:443/@scope/pkg",
            "https://ada@example.com/",
            "postgres://ada:${PASSWORD}@db/x",
            "postgres://ada:password@db/x",
            "file:///a:b@c",
            "https://github.com:ada/x",
        ] {
            assert_eq!(found(url), None, "{url}");
        }
    }
}
