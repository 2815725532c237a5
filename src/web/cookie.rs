//! Cookies that our pages set: out of the reach of scripts, sent to us alone, and over https only when that is how we are reached.

use axum::http::HeaderValue;
use axum::http::header::SET_COOKIE;
use axum::response::Response;

use crate::house::House;

/// One of our cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookie {
    /// The session.
    Session,
    /// The ticket of a browser that waits for its code.
    Ticket,
    /// What a browser has to bring back from an OpenID provider.
    Provider,
}

impl Cookie {
    /// The part of the name after `http.auth_name`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Session => "session_token",
            Self::Ticket => "signin",
            Self::Provider => "oidc",
        }
    }

    /// How long the browser keeps it, in seconds.
    fn seconds(self) -> u64 {
        match self {
            // As long as browsers allow: the store knows when a session ends, and it slides.
            Self::Session => 400 * 24 * 60 * 60,
            // Longer than a code works, so that a late one is told from none.
            Self::Ticket => 60 * 60,
            Self::Provider => 10 * 60,
        }
    }

    /// The whole name: the `__Secure-` form when people reach us over https.
    pub fn name(self, house: &House) -> String {
        let secure = if is_secure(house) { "__Secure-" } else { "" };
        format!("{secure}{}.{}", house.settings.http.auth_name, self.suffix())
    }

    /// Sets it with an answer.
    pub fn set(self, response: &mut Response, value: &str, house: &House) {
        self.write(response, value, self.seconds(), house);
    }

    /// Takes it back.
    pub fn clear(self, response: &mut Response, house: &House) {
        self.write(response, "", 0, house);
    }

    fn write(self, response: &mut Response, value: &str, seconds: u64, house: &House) {
        let secure = if is_secure(house) { "; Secure" } else { "" };
        let name = self.name(house);
        let line = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        // Values are base64url.
        if let Ok(line) = HeaderValue::from_str(&line) {
            response.headers_mut().append(SET_COOKIE, line);
        }
    }
}

fn is_secure(house: &House) -> bool {
    house.base_url.starts_with("https://")
}
