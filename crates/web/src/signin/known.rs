//! Browsers that signed in before. Code requests by others for an address must not lock out its owner, so a browser that once signed in
//! with it has a separate quota of codes (`signin.codes_per_hour`).
//!
//! A sealed cookie in the browser contains a name from the server and marks of the last addresses with which the browser signed in. The
//! cookie only allows code requests, which every client may make; it is no credential.

use std::net::IpAddr;

use actors::signin::Asker;
use api::cookie::Cookie;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::ids::Email;

use super::pages::SignInPages;

/// Purpose of the address marks.
const PURPOSE: &str = "known address";

/// Characters of a mark: 132 bits.
const MARK_CHARS: usize = 22;

/// Maximum number of addresses of one browser.
const ADDRESSES_MAX: usize = 5;

/// The sender of a code request for this email address: a known browser, or a stranger with a network address.
pub(super) fn asker(headers: &HeaderMap, email: &Email, address: IpAddr, pages: &SignInPages) -> Asker {
    let record = Known::of(headers, pages).filter(|record| record.marks.contains(&mark(email, pages)));
    record.map_or(Asker::Stranger(address), |record| Asker::Known(record.browser))
}

/// Adds a mark of this address to the browser's cookie.
pub(super) fn remember(response: &mut Response, headers: &HeaderMap, email: &Email, pages: &SignInPages) {
    let new =
        || Known { browser: BASE64_URL_SAFE_NO_PAD.encode(pages.site.ports.rng.bytes::<16>()), marks: Vec::new() };
    let mut record = Known::of(headers, pages).unwrap_or_else(new);
    let mark = mark(email, pages);
    record.marks.retain(|other| *other != mark);
    record.marks.insert(0, mark);
    record.marks.truncate(ADDRESSES_MAX);
    pages.cookies.set(Cookie::Known, response, &record.written());
}

struct Known {
    browser: String,
    marks: Vec<String>,
}

impl Known {
    fn of(headers: &HeaderMap, pages: &SignInPages) -> Option<Self> {
        let value = pages.cookies.read(Cookie::Known, headers)?;
        let mut parts = value.expose().split('.').map(str::to_owned);
        Some(Self { browser: parts.next()?, marks: parts.collect() })
    }

    fn written(&self) -> String {
        [std::slice::from_ref(&self.browser), &self.marks].concat().join(".")
    }
}

fn mark(email: &Email, pages: &SignInPages) -> String {
    let mut mark = pages.seal.mark(PURPOSE, email.as_str());
    mark.truncate(MARK_CHARS);
    mark
}
