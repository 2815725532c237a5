//! The cookies of the pages: not readable by scripts, sent to this server only, and over https only if the base URL is https.
//!
//! | cookie | name over https | value |
//! |---|---|---|
//! | session | `__Secure-<auth_name>.session_token` | a secret; the store contains its hash |
//! | ticket, provider, known, flash, undo | `__Host-<auth_name>.<suffix>` | sealed by the server, each for its purpose |
//!
//! Browsers accept a name with a prefix only over https, and `__Host-` only from the host itself. So the server reads no name without a
//! prefix over https; over plain http, which has no such protection, names have no prefix. The server ignores a name that occurs twice,
//! because another party set it too.

use app::config::Urls;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use domain::secret::Secret;

use super::seal::Seal;

/// A cookie of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookie {
    /// The secret of a browser session.
    Session,
    /// The ticket of a browser that waits for its code.
    Ticket,
    /// State of a sign-in at an OpenID provider.
    Provider,
    /// Marks of the addresses with which a browser signed in.
    Known,
    /// A message for the next page.
    Flash,
    /// The inverse of the last change of consent.
    Undo,
}

impl Cookie {
    /// The part of the name after `http.auth_name`.
    fn suffix(self) -> &'static str {
        match self {
            Self::Session => "session_token",
            Self::Ticket => "signin",
            Self::Provider => "oidc",
            Self::Known => "known",
            Self::Flash => "flash",
            Self::Undo => "undo",
        }
    }

    /// `Max-Age` in seconds.
    fn seconds(self) -> u64 {
        /// The maximum that browsers allow.
        const LONGEST: u64 = 400 * 24 * 60 * 60;
        match self {
            // The store contains the end of a session, which each use extends.
            Self::Session | Self::Known => LONGEST,
            // Longer than the validity of a code, so that an expired code is distinguished from a missing one.
            Self::Ticket => 60 * 60,
            Self::Provider | Self::Undo => 10 * 60,
            // The next page is the one that the response redirects to.
            Self::Flash => 60,
        }
    }

    /// Prefix of `http.auth_name` over https.
    fn prefix(self) -> &'static str {
        // The name of the session cookie is the specification's.
        if self == Self::Session { "__Secure-" } else { "__Host-" }
    }
}

/// Reads and writes the cookies of this server.
#[derive(Debug)]
pub struct Cookies {
    /// Middle of the names (`http.auth_name`).
    auth_name: String,
    is_https: bool,
    seal: Seal,
}

impl Cookies {
    /// Cookies for a server with these URLs.
    pub fn new(auth_name: &str, urls: &Urls, seal: Seal) -> Self {
        Self { auth_name: auth_name.to_owned(), is_https: urls.is_https(), seal }
    }

    /// The value of a cookie in a request. `None` also if the name occurs twice, or if the seal is not valid for this cookie.
    pub fn read(&self, cookie: Cookie, headers: &HeaderMap) -> Option<Secret> {
        let suffix = cookie.suffix();
        let value = found(headers, cookie.prefix(), &self.auth_name, suffix, self.is_https)?;
        let value = if cookie == Cookie::Session { value } else { self.seal.open(suffix, value)? };
        Some(Secret::presented(value))
    }

    /// Sets a cookie with a response.
    pub fn set(&self, cookie: Cookie, response: &mut Response, value: &str) {
        let value = if cookie == Cookie::Session { value.to_owned() } else { self.seal.seal(cookie.suffix(), value) };
        self.write(cookie, response, &value, cookie.seconds());
    }

    /// Deletes a cookie with a response.
    pub fn clear(&self, cookie: Cookie, response: &mut Response) {
        self.write(cookie, response, "", 0);
    }

    fn write(&self, cookie: Cookie, response: &mut Response, value: &str, seconds: u64) {
        let (prefix, secure) = if self.is_https { (cookie.prefix(), "; Secure") } else { ("", "") };
        let name = format!("{prefix}{}.{}", self.auth_name, cookie.suffix());
        let line = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        // Values are base64url with dots.
        if let Ok(line) = HeaderValue::from_str(&line) {
            response.headers_mut().append(SET_COOKIE, line);
        }
    }
}

/// The value of a cookie: by its name with the prefix, or over plain http without it.
fn found<'h>(headers: &'h HeaderMap, prefix: &str, auth_name: &str, suffix: &str, is_secure: bool) -> Option<&'h str> {
    let is_plain = |name: &str| name.strip_prefix(auth_name).and_then(|rest| rest.strip_prefix('.')) == Some(suffix);
    let is_prefixed = |name: &str| name.strip_prefix(prefix).is_some_and(is_plain);
    let prefixed = only(headers, is_prefixed);
    if is_secure || prefixed != Ok(None) {
        return prefixed.ok().flatten();
    }
    only(headers, is_plain).ok().flatten()
}

/// The one cookie with a matching name; an error if several match.
fn only(headers: &HeaderMap, fits: impl Fn(&str) -> bool) -> Result<Option<&str>, Several> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(name, _)| fits(name)).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Several),
    }
}

/// More than one cookie of a name.
#[derive(Debug, PartialEq, Eq)]
struct Several;

#[cfg(test)]
mod tests {
    use super::*;

    fn session(text: &str, is_secure: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, text.parse().unwrap());
        found(&headers, "__Secure-", "attache", "session_token", is_secure).map(str::to_owned)
    }

    #[test]
    fn over_https_only_the_prefixed_name_is_read() {
        assert_eq!(session("__Secure-attache.session_token=b", true).as_deref(), Some("b"));
        assert_eq!(session("attache.session_token=a; __Secure-attache.session_token=b", true).as_deref(), Some("b"));
        assert_eq!(session("attache.session_token=a", true), None);
    }

    #[test]
    fn over_plain_http_the_prefixed_name_wins() {
        assert_eq!(session("attache.session_token=a; __Secure-attache.session_token=b", false).as_deref(), Some("b"));
        assert_eq!(session("x=1; attache.session_token=a", false).as_deref(), Some("a"));
        assert_eq!(session("attache.session_token=a;__Secure-attache.session_token=", false).as_deref(), Some(""));
        for other in ["other.session_token=a", "attachesession_token=a", "attache.session_tokens=a", "attache."] {
            assert_eq!(session(other, false), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_not_read() {
        assert_eq!(session("attache.session_token=a; attache.session_token=b", false), None);
        for secure in [true, false] {
            let twice = "__Secure-attache.session_token=a; __Secure-attache.session_token=a; attache.session_token=c";
            assert_eq!(session(twice, secure), None);
        }
    }

    #[test]
    fn cookie_soak() {
        let words = &["attache.session_token=", "__Secure-", "__Host-", ";", "; ", "=", "\"", ",", "\t", "\u{e9}"];
        fuzz::run("cookie", words, |text| {
            let Ok(value) = axum::http::HeaderValue::from_bytes(text) else { return };
            let headers = HeaderMap::from_iter([(COOKIE, value)]);
            for is_secure in [true, false] {
                let Some(secret) = found(&headers, "__Secure-", "attache", "session_token", is_secure) else {
                    continue;
                };
                let secret = secret.as_bytes();
                assert!(!secret.contains(&b';'), "a value of two cookies");
                let is_sent = secret.is_empty() || text.windows(secret.len()).any(|part| part == secret);
                assert!(is_sent, "a value that was not sent");
            }
        });
    }
}
