//! The credentials of operations.

use serde_json::{Value, json};

use crate::config::{Settings, Urls};
use crate::http::accepts::Accepts;
use crate::http::route::Route;

/// The credentials that a route takes, by the specification's names of them (*Authentication*).
const SCHEMES: [(Accepts, &str); 5] = [
    (Accepts::ACCOUNT, "accountBearer"),
    (Accepts::SESSION, "sessionCookie"),
    (Accepts::MACHINE, "machineBearer"),
    (Accepts::PRE_CLAIM, "preClaimBearer"),
    (Accepts::API_KEY, "apiKey"),
];

/// Any one of them will do.
pub(super) fn security<S>(route: &Route<S>) -> Value {
    let accepted = SCHEMES.iter().filter(|(kind, _)| route.accepts.includes(*kind));
    accepted.map(|(_, name)| json!({ *name: [] })).collect()
}

pub(super) fn security_schemes(settings: &Settings, urls: &Urls) -> Value {
    let bearer = |what: &str| json!({ "type": "http", "scheme": "bearer", "description": what });
    let secure = if urls.base.starts_with("https:") { "__Secure-" } else { "" };
    let cookie = format!("{secure}{}.session_token", settings.http.auth_name);
    json!({
        "accountBearer": bearer("The access token of a claimed agent, `at_…`."),
        "machineBearer": bearer("A computer's secret, `msk_…`."),
        "preClaimBearer": bearer("The access token of an agent that nobody has claimed, `at_…`; its events are held."),
        "apiKey": bearer("A key of the knowledge API, `ak_…`."),
        "enrolmentKey": bearer("The key that an operator gives out for registering computers, where registering takes one."),
        "sessionCookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookie,
            "description": "A signed-in browser. What changes something has to say `Content-Type: application/json` \
                and to come from a page of ours.",
        },
    })
}
