//! Checks whether a browser's request comes from a page of this server.
//!
//! A browser adds cookies to requests that a foreign page triggers. It sends the origin of a request in `Origin` and `Sec-Fetch-Site`; a
//! header that occurs twice, or is no text, counts as foreign. Four policies:
//!
//! - [`allows_json`]: requests with JSON bodies, from browsers and from programs that send cookies. A program sends neither header, and has
//!   no foreign pages.
//! - [`allows_form`]: forms of pages of this server, which foreign pages can imitate. One of the headers is required.
//! - [`allows_program`]: requests without credentials that only programs send, without an origin.
//! - [`allows_guess`]: links that look something up and count it. If a person opens the link directly, the browser sends `none`.

use std::net::IpAddr;
use std::sync::Arc;

use app::config::{HttpSettings, Urls};
use axum::http::header::{AsHeaderName, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};

use super::{head, media_type};

/// The facts about this server that the policies need.
#[derive(Debug)]
pub struct OriginPolicy {
    urls: Arc<Urls>,
    /// Whether `http.base_url` is set. Otherwise the host name that the browser used is accepted, too.
    has_base_url: bool,
    /// The address of the public listener.
    bound: IpAddr,
}

impl OriginPolicy {
    /// The policy of a server with these settings and URLs.
    pub fn new(settings: &HttpSettings, urls: Arc<Urls>) -> Self {
        Self { urls, has_base_url: settings.base_url.is_some(), bound: settings.bind.ip().to_canonical() }
    }

    fn own(&self) -> &str {
        self.urls.origin()
    }
}

/// The value of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said<'h> {
    Nothing,
    Once(&'h str),
    /// The header occurs more than once, or is no text.
    Unclear,
}

impl<'h> Said<'h> {
    fn of(headers: &'h HeaderMap, name: impl AsHeaderName) -> Self {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Nothing,
            (Some(value), None) => value.to_str().map_or(Self::Unclear, Self::Once),
            (Some(_), Some(_)) => Self::Unclear,
        }
    }
}

/// Where a request comes from.
#[derive(Debug)]
struct Source<'h> {
    site: Said<'h>,
    origin: Said<'h>,
}

impl<'h> Source<'h> {
    fn of(headers: &'h HeaderMap) -> Self {
        Self { site: Said::of(headers, "sec-fetch-site"), origin: Said::of(headers, ORIGIN) }
    }
}

/// Whether a request with a cookie and a JSON body is allowed. Requests with safe methods always are.
pub fn allows_json(parts: &Parts, policy: &OriginPolicy) -> bool {
    if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return true;
    }
    let Source { site, origin } = Source::of(&parts.headers);
    let is_ours = matches!(site, Said::Nothing | Said::Once("same-origin" | "none"))
        && (origin == Said::Nothing || origin == Said::Once(policy.own()));
    // Browsers send three content types across origins without a preflight request; JSON is not among these types.
    let is_json = match Said::of(&parts.headers, CONTENT_TYPE) {
        Said::Once(kind) => media_type::is(kind, "application/json"),
        Said::Nothing | Said::Unclear => false,
    };
    let has_no_body = parts.method == Method::DELETE;
    is_ours && (is_json || has_no_body)
}

/// Whether a page of this server sent the form.
pub fn allows_form(parts: &Parts, policy: &OriginPolicy) -> bool {
    let Source { site, origin } = Source::of(&parts.headers);
    let site_fits = matches!(site, Said::Nothing | Said::Once("same-origin"));
    let origin_fits = match origin {
        Said::Nothing => true,
        Said::Once(origin) => {
            let host = Said::of(&parts.headers, HOST);
            origin == policy.own() || (!policy.has_base_url && is_where_it_was_sent(origin, host, policy))
        }
        Said::Unclear => false,
    };
    site_fits && origin_fits && (site, origin) != (Said::Nothing, Said::Nothing)
}

/// Without a base URL the server is reachable under several host names, and the browser sends the one that it used. A foreign name may
/// resolve to this server too (DNS rebinding). On loopback the valid names are known; elsewhere only `http.base_url` identifies them.
fn is_where_it_was_sent(origin: &str, host: Said<'_>, policy: &OriginPolicy) -> bool {
    let Said::Once(host) = host else { return false };
    let is_known = !policy.bound.is_loopback() || head::is_loopback(head::without_port(host));
    is_known && origin.strip_prefix("http://") == Some(host)
}

/// Whether a request that only programs send comes from no foreign page: a foreign page could make a browser on this network send it
/// (DNS rebinding).
pub fn allows_program(headers: &HeaderMap, policy: &OriginPolicy) -> bool {
    let origin = Said::of(headers, ORIGIN);
    origin == Said::Nothing || origin == Said::Once(policy.own())
}

/// Whether a link that looks up a code was followed from a page of this server, or opened directly. Browsers send this over https and on
/// this machine. Without the header, the link must contain the mark that only this server's pages have: `is_signed`.
pub fn allows_guess(headers: &HeaderMap, is_signed: bool) -> bool {
    is_signed || matches!(Said::of(headers, "sec-fetch-site"), Said::Once("same-origin" | "none"))
}

/// Whether the browser sends the site that its requests come from; it then does so after a redirect, too.
pub fn names_site(headers: &HeaderMap) -> bool {
    Said::of(headers, "sec-fetch-site") != Said::Nothing
}
