//! Browsers that signed in before. What strangers elsewhere do to an address must not keep its owner out, so a browser that once signed in
//! with it asks for codes within a budget of its own (`signin.codes_per_hour`).
//!
//! The browser keeps a name that we gave it and marks of the last addresses with which it signed in, sealed. Whoever has it can ask for codes,
//! as anybody can; it signs nobody in.

use std::net::IpAddr;

use actors::signin::Asker;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::ids::Email;

use crate::house::House;
use crate::web::cookie::Cookie;

/// What addresses are marked for.
const PURPOSE: &str = "known address";

/// Characters of a mark: 132 bits.
const MARK_CHARS: usize = 22;

/// Addresses of one browser.
const ADDRESSES_MAX: usize = 5;

/// Who asks for a code for this address.
pub(super) fn asker(headers: &HeaderMap, email: &Email, address: IpAddr, house: &House) -> Asker {
    let known = Known::of(headers, house).filter(|known| known.marks.contains(&mark(email, house)));
    known.map_or(Asker::Stranger(address), |known| Asker::Known(known.browser))
}

/// Remembers in the browser that it signed in with this address.
pub(super) fn remember(response: &mut Response, headers: &HeaderMap, email: &Email, house: &House) {
    let new = || Known { browser: BASE64_URL_SAFE_NO_PAD.encode(house.chance.bytes::<16>()), marks: Vec::new() };
    let mut known = Known::of(headers, house).unwrap_or_else(new);
    let mark = mark(email, house);
    known.marks.retain(|other| *other != mark);
    known.marks.insert(0, mark);
    known.marks.truncate(ADDRESSES_MAX);
    Cookie::Known.set(response, &known.written(), house);
}

struct Known {
    browser: String,
    marks: Vec<String>,
}

impl Known {
    fn of(headers: &HeaderMap, house: &House) -> Option<Self> {
        let value = Cookie::Known.read(headers, house)?;
        let mut parts = value.expose().split('.').map(str::to_owned);
        Some(Self { browser: parts.next()?, marks: parts.collect() })
    }

    fn written(&self) -> String {
        [std::slice::from_ref(&self.browser), &self.marks].concat().join(".")
    }
}

fn mark(email: &Email, house: &House) -> String {
    let mut mark = house.seal.mark(PURPOSE, email.as_str());
    mark.truncate(MARK_CHARS);
    mark
}
