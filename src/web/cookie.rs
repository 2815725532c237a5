//! Cookies that our pages set: out of the reach of scripts, sent to us alone, and over https only when that is how we are reached.
//!
//! | cookie | name over https | value |
//! |---|---|---|
//! | session | `__Secure-<auth_name>.session_token` | a secret whose hash is in the store |
//! | ticket, provider, known | `__Host-<auth_name>.<suffix>` | sealed by the server, each for its purpose |
//!
//! Browsers let only https set names with a prefix, and `__Host-` only the host itself. So over https no name without one is read; over
//! plain http, which has no such protection, ours have none. A name that occurs twice was set by another party too, and is ignored.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use domain::secret::Secret;

use crate::app::App;

/// One of our cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookie {
    /// The session.
    Session,
    /// The ticket of a browser that waits for its code.
    Ticket,
    /// What a browser has to bring back from an OpenID provider.
    Provider,
    /// With which addresses a browser signed in.
    Known,
}

impl Cookie {
    /// The part of the name after `http.auth_name`.
    fn suffix(self) -> &'static str {
        match self {
            Self::Session => "session_token",
            Self::Ticket => "signin",
            Self::Provider => "oidc",
            Self::Known => "known",
        }
    }

    /// How long the browser keeps it, in seconds.
    fn seconds(self) -> u64 {
        /// As long as browsers allow.
        const LONGEST: u64 = 400 * 24 * 60 * 60;
        match self {
            // The store contains the end of a session, which slides.
            Self::Session | Self::Known => LONGEST,
            // Longer than a code works, so that a late one is told from none.
            Self::Ticket => 60 * 60,
            Self::Provider => 10 * 60,
        }
    }

    /// Prefix of `http.auth_name` over https.
    fn prefix(self) -> &'static str {
        // The name of the session cookie is the specification's.
        if self == Self::Session { "__Secure-" } else { "__Host-" }
    }

    fn name(self, app: &App) -> String {
        let prefix = if is_secure(app) { self.prefix() } else { "" };
        format!("{prefix}{}.{}", app.settings.http.auth_name, self.suffix())
    }

    /// Its value among the cookies of a request; none that comes twice, or was not sealed for this purpose.
    pub fn read(self, headers: &HeaderMap, app: &App) -> Option<Secret> {
        let auth_name = &app.settings.http.auth_name;
        let value = found(headers, self.prefix(), auth_name, self.suffix(), is_secure(app))?;
        let value = if self == Self::Session { value } else { app.seal.open(self.suffix(), value)? };
        Some(Secret::presented(value))
    }

    /// Sets it with an answer.
    pub fn set(self, response: &mut Response, value: &str, app: &App) {
        let value = if self == Self::Session { value.to_owned() } else { app.seal.seal(self.suffix(), value) };
        self.write(response, &value, self.seconds(), app);
    }

    /// Takes it back.
    pub fn clear(self, response: &mut Response, app: &App) {
        self.write(response, "", 0, app);
    }

    fn write(self, response: &mut Response, value: &str, seconds: u64, app: &App) {
        let secure = if is_secure(app) { "; Secure" } else { "" };
        let name = self.name(app);
        let line = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        // Values are base64url with dots.
        if let Ok(line) = HeaderValue::from_str(&line) {
            response.headers_mut().append(SET_COOKIE, line);
        }
    }
}

/// The value of a cookie of ours: by its name with the prefix, or where people reach us over plain http without one.
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

fn is_secure(app: &App) -> bool {
    app.base_url.starts_with("https://")
}

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
