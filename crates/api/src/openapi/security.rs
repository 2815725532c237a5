//! The credentials of operations.

use app::config::{Settings, Urls};
use serde_json::{Value, json};

use crate::accepts::Accepts;
use crate::route::Route;

/// The credentials that a route accepts, with their names in the specification (*Authentication*).
const SCHEMES: [(Accepts, &str); 6] = [
    (Accepts::ACCOUNT, "accountBearer"),
    (Accepts::SESSION, "sessionCookie"),
    (Accepts::MACHINE, "machineBearer"),
    (Accepts::PRE_CLAIM, "preClaimBearer"),
    (Accepts::API_KEY, "apiKey"),
    (Accepts::ACCOUNT_KEY, "apiKey"),
];

/// Security requirements of a route: one of its credentials.
pub(super) fn security<S>(route: &Route<S>) -> Value {
    let accepted = SCHEMES.iter().filter(|(kind, _)| route.accepts.includes(*kind));
    accepted.map(|(_, name)| json!({ *name: [] })).collect()
}

pub(super) fn security_schemes(settings: &Settings, urls: &Urls) -> Value {
    let bearer = |what: &str| json!({ "type": "http", "scheme": "bearer", "description": what });
    let secure = if urls.base.starts_with("https:") { "__Secure-" } else { "" };
    let cookie = format!("{secure}{}.session_token", settings.http.auth_name);
    json!({
        "accountBearer": bearer("Access token of a claimed agent, `at_…`."),
        "machineBearer": bearer("Machine secret of a computer, `msk_…`."),
        "preClaimBearer": bearer("Access token of an unclaimed agent, `at_…`; its events are held."),
        "apiKey": bearer("API key, `ak_…`: for the knowledge API, and with the scope `account` for reading the account."),
        "enrolmentKey": bearer("Enrolment key for registering computers, if the server requires one."),
        "sessionCookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookie,
            "description": "Session of a signed-in browser. Requests that change something need `Content-Type: application/json` \
             and the server's own origin.",
        },
    })
}
