//! The matrix of endpoint × credential (`docs/protocol/authentication.md`), generated from the table that the router is built from.

use api::{Accepts, routes};
use reqwest::Method;
use serde_json::json;

use blackbox::browser::Browser;
use blackbox::client::Credential;
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

/// The credentials of each route of the specification, written by hand; the table in the code must be equal. `account_key` is an addition:
/// an API key with the scope `account`, which reads and changes nothing.
const SPECIFIED: &[(&str, &str, &[&str])] = &[
    ("POST", "/api/v1/agent-auth/identity", &[]),
    ("POST", "/api/v1/agent-auth/claim", &[]),
    ("POST", "/api/v1/agent-auth/token", &[]),
    ("POST", "/api/v1/agent-auth/revoke", &[]),
    ("POST", "/api/v1/agent-auth/claim/complete", &["account", "session"]),
    ("POST", "/api/v1/device/code", &["machine"]),
    ("POST", "/api/v1/device/approve", &["account", "session"]),
    ("POST", "/api/v1/device/token", &[]),
    ("POST", "/api/v1/a2a", &[]),
    ("POST", "/api/v1/mcp", &[]),
    ("GET", "/api/v1/account/summary", &["account", "session", "account_key"]),
    ("GET", "/api/v1/account/computers", &["account", "session", "account_key"]),
    ("GET", "/api/v1/usage/bar", &["machine", "account", "session", "account_key"]),
    ("GET", "/api/v1/activity", &["machine", "account", "session", "account_key"]),
    ("GET", "/api/v1/audit/verify", &["machine", "account", "session", "account_key"]),
    ("GET", "/api/v1/consent", &["machine", "account", "session", "account_key"]),
    ("POST", "/api/v1/consent", &["machine", "account", "session"]),
    ("POST", "/api/v1/consent/pause", &["machine", "account", "session"]),
    ("DELETE", "/api/v1/consent/pause", &["machine", "account", "session"]),
    // Additions: objects that an agent may read but not create, since they would outlive the agent.
    ("GET", "/api/v1/keys", &["account", "session"]),
    ("POST", "/api/v1/keys", &["session"]),
    ("DELETE", "/api/v1/keys/{id}", &["session"]),
    // An agent revokes only itself, and signs no session out.
    ("DELETE", "/api/v1/agents/{id}", &["account", "session"]),
    ("GET", "/api/v1/sessions", &["account", "session"]),
    ("DELETE", "/api/v1/sessions/{id}", &["session"]),
    ("POST", "/api/v1/events", &["machine", "account", "session", "pre_claim"]),
];

fn kinds() -> [(&'static str, Accepts); 6] {
    [
        ("account", Accepts::ACCOUNT),
        ("session", Accepts::SESSION),
        ("machine", Accepts::MACHINE),
        ("pre_claim", Accepts::PRE_CLAIM),
        ("account_key", Accepts::ACCOUNT_KEY),
        ("key", Accepts::API_KEY),
    ]
}

#[test]
fn a_key_of_the_account_only_reads() {
    let accepting: Vec<_> = routes().into_iter().filter(|route| route.accepts.includes(Accepts::ACCOUNT_KEY)).collect();
    assert_eq!(accepting.len(), 9);
    assert!(accepting.iter().all(|route| route.method == Method::GET));
    assert!(api::knowledge_routes().iter().all(|route| !route.accepts.includes(Accepts::ACCOUNT_KEY)));
}

#[test]
fn the_route_table_has_the_credentials_of_the_specification() {
    for (method, path, accepted) in SPECIFIED {
        let route = routes().into_iter().find(|route| route.method.as_str() == *method && route.path == *path);
        let route = route.unwrap_or_else(|| panic!("{method} {path} is missing"));
        for (name, kind) in kinds() {
            assert_eq!(route.accepts.includes(kind), accepted.contains(&name), "{method} {path} and {name}");
        }
    }
}

on_sqlite! {
    async fn a_request_has_one_credential(world: World) {
        let person = world.person("ada@example.com").await;
        let (agent, machine) = (world.agent_of(&person).await, world.attached_machine(&person).await);
        let Credential::Bearer(token) = &agent.token else { unreachable!() };
        let both = [format!("Bearer {token}"), format!("Bearer {}", machine.secret)];
        for (first, second) in [(&both[0], &both[1]), (&both[1], &both[0]), (&both[0], &both[0])] {
            let request = world.request(Method::GET, "/api/v1/usage/bar", &Credential::None);
            let request = request.header("authorization", first).header("authorization", second);
            let refused = world.send(request).await;
            refused.refused(401, "unauthorized");
            assert!(refused.header("www-authenticate").unwrap().contains("invalid_token"));
        }
    }
}

on_each_database! {
    async fn every_route_accepts_only_its_credentials(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let machine = world.attached_machine(&person).await;
        let (_, pre_claim) = world.unclaimed().await;
        let reader = world.key(&person, json!({ "name": "reader", "scopes": ["account"] })).await;
        let librarian = world.key(&person, json!({ "name": "librarian", "scopes": ["search", "write", "settings"] })).await;
        let credentials = [
            (Accepts::ACCOUNT, agent.token.clone()),
            (Accepts::SESSION, person.cookie.clone()),
            (Accepts::MACHINE, Credential::from(&machine)),
            (Accepts::PRE_CLAIM, pre_claim),
            (Accepts::ACCOUNT_KEY, reader),
            (Accepts::API_KEY, librarian),
        ];
        let bad = [
            (Credential::None, "unauthorized"),
            (Credential::Bearer("at_unknown".into()), "unauthorized"),
            (Credential::Bearer("nonsense".into()), "unauthorized"),
            (Credential::Bearer(format!("msk_{}", "A".repeat(43))), "machine_unknown"),
            (Credential::Cookie("attache.session_token=ses_unknown".into()), "unauthorized"),
        ];
        let mut checked = 0;
        for route in routes() {
            // Unknown ids: an accepted request then fails for another reason than its credential.
            let path = route.path.replace("{id}", "019b76da-a800-7a67-8a14-94a3f41b0634")
                .replace("{machine_uuid}", "019b76da-a800-7a67-8a14-94a3f41b0634");
            let ask = async |credential: &Credential| {
                let request = world.request(route.method.clone(), &path, credential);
                world.send(if route.method == Method::POST { request.json(&json!({})) } else { request }).await
            };
            let open = route.accepts == Accepts::NONE;
            for (kind, credential) in &credentials {
                let response = ask(credential).await;
                let accepted = open || route.accepts.includes(*kind);
                assert_eq!(response.status != 401, accepted, "{} {path} with {kind:?}: {}", route.method, response.status);
                if !accepted {
                    response.refused(401, "unauthorized");
                }
                checked += 1;
            }
            for (credential, code) in &bad {
                let response = ask(credential).await;
                if open {
                    assert_ne!(response.status, 401, "{} {path}", route.method);
                    continue;
                }
                response.refused(401, code);
                let challenge = response.header("www-authenticate").unwrap();
                let metadata = format!("resource_metadata=\"{}/.well-known/oauth-protected-resource\"", world.url);
                assert!(challenge.starts_with("Bearer ") && challenge.contains(&metadata), "{challenge}");
                // A cookie counts only on routes that accept sessions.
                let sent = match credential {
                    Credential::None => false,
                    Credential::Bearer(_) => true,
                    Credential::Cookie(_) => route.accepts.includes(Accepts::SESSION),
                };
                assert_eq!(challenge.contains("error=\"invalid_token\""), sent, "{challenge}");
                checked += 1;
            }
        }
        assert!(checked > 60, "{checked}");
    }
}

on_sqlite! {
    async fn with_an_authorization_header_the_cookie_is_ignored(world: World) {
        let person = world.person("ada@example.com").await;
        let Credential::Cookie(pair) = &person.cookie else { unreachable!() };
        let request = world.request(Method::GET, "/api/v1/activity", &person.cookie);
        assert_eq!(world.send(request).await.status, 200);
        let request = world.request(Method::GET, "/api/v1/activity", &Credential::Bearer("nonsense".into())).header("cookie", pair);
        world.send(request).await.refused(401, "unauthorized");
        let request = world.request(Method::GET, "/api/v1/activity", &person.cookie).header("authorization", "Basic eDp5");
        world.send(request).await.refused(401, "unauthorized");
    }

    async fn www_authenticate_names_an_error_only_if_a_token_was_sent(world: World) {
        for (path, header) in ["/api/v1/activity", "/v1/spaces"].into_iter().flat_map(|path| {
            ["Bearer", "Bearer ", "Basic eDp5", "Token at_x"].map(|header| (path, header))
        }) {
            let request = world.request(Method::GET, path, &Credential::None).header("authorization", header);
            let response = world.send(request).await;
            response.refused(401, "unauthorized");
            let challenge = response.header("www-authenticate").unwrap();
            assert!(challenge.contains("resource_metadata=") && !challenge.contains("error="), "{header:?}: {challenge}");
        }
    }

    async fn a_session_expires_when_idle_and_is_extended_by_use(world: World) {
        let day = std::time::Duration::from_hours(24);
        let (person, other) = (Browser::new(&world), Browser::new(&world));
        person.sign_in("ada@example.com").await;
        other.sign_in("bob@example.com").await;
        for _ in 0..4 {
            world.advance(2 * day);
            assert_eq!(world.activity(person.credential(), "").await.status, 200);
        }
        world.activity(other.credential(), "").await.refused(401, "unauthorized");
        world.advance(7 * day);
        world.activity(person.credential(), "").await.refused(401, "unauthorized");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csrf_cookie_requests_of_another_site_are_refused() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let agent = world.agent_of(&person).await;
    let body = json!({ "claim_attempt_token": "cat_x", "user_code": "123456" });
    let path = "/api/v1/agent-auth/claim/complete";
    let post = || world.request(Method::POST, path, &person.cookie);

    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        world.send(post().header(name, value).json(&body)).await.refused(403, "cross_site_request");
    }
    world
        .send(post().header("content-type", "text/plain").body(body.to_string()))
        .await
        .refused(403, "cross_site_request");
    world
        .send(post().header("origin", &world.url).header("sec-fetch-site", "same-origin").json(&body))
        .await
        .refused(400, "expired_token");
    // A DELETE has no body with a content type, so only the origin decides.
    let delete = world.request(Method::DELETE, &format!("/api/v1/agents/{}", agent.id), &person.cookie);
    world.send(delete.header("origin", "https://evil.example")).await.refused(403, "cross_site_request");
    // Browsers never add bearer tokens to requests by themselves.
    let bearer = world.request(Method::POST, path, &agent.token).header("origin", "https://evil.example");
    world.send(bearer.json(&body)).await.refused(400, "expired_token");
}
