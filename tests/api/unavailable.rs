//! 424: every endpoint returns it, with `Retry-After`, while a dependency is unavailable, and for each limit of the server
//! (`docs/protocol/errors.md#reasons-of-424-and-503`).

use std::time::Duration;

use actors::upstream::Upstream;
use api::connection::Connection;
use api::{knowledge_routes, routes};
use app::config::Settings;
use domain::secret::{Secret, SecretKind};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use store::Pool;
use store::pool::{scalar, script};

use blackbox::client::{Credential, Response, attempt_of};
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::{on_each_database, on_sqlite};

/// The reason of a complete 424, or 503 of the knowledge API; otherwise the response.
fn unavailable(response: &Response, status: u16) -> Result<String, String> {
    let shown = format!("{} {}", response.status, String::from_utf8_lossy(&response.body));
    let wait = response.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    if response.status != status || wait.is_none_or(|wait| wait == 0) {
        return Err(format!("{shown} {wait:?}"));
    }
    let body = response.json();
    let is_complete = body["error"] == "temporarily_unavailable" && body["retryable"] == true;
    body["reason"].as_str().filter(|_| is_complete).map(str::to_owned).ok_or(shown)
}

/// Renames all tables, so that every statement fails.
async fn hide_tables(pool: &Pool) {
    const SQLITE: &str =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'words%'";
    const POSTGRES: &str = "SELECT schemaname || '\".\"' || tablename || ' ' || tablename FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    let names: Vec<String> = scalar(if pool.is_postgres() { POSTGRES } else { SQLITE }).fetch_all(pool).await.unwrap();
    for name in names {
        let (qualified, name) = name.split_once(' ').unwrap_or((&name, &name));
        let sql: &'static str = format!("ALTER TABLE \"{qualified}\" RENAME TO \"{name}_hidden\"").leak();
        script(sql).execute(pool.writer()).await.unwrap();
    }
}

/// The ids that requests may contain.
struct Facts {
    person: Credential,
    machine: Machine,
    user_code: String,
    device_code: String,
    claim: Value,
    assertion: String,
}

impl Facts {
    async fn new(world: &World) -> Self {
        let ada = world.person("ada@example.com").await;
        let (machine, asking) = (world.attached_machine(&ada).await, world.machine().await);
        let code = world.device_code(&asking).await.expect(200);
        let claim =
            world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let (registered, _) = world.unclaimed().await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (user_code, device_code) = (text(&code["user_code"]), text(&code["device_code"]));
        Self {
            person: ada.cookie,
            machine,
            user_code,
            device_code,
            claim,
            assertion: text(&registered["identity_assertion"]),
        }
    }

    /// A request that would succeed, or be refused because of the rows of the database.
    fn request(&self, world: &World, method: &Method, path: &str) -> RequestBuilder {
        let id = world.rng().uuid_v7(world.clock().now()).to_string();
        let query = match path {
            "/api/v1/audit/verify" => format!("?event_id={id}"),
            "/api/v1/audit/consistency" => "?from=1&to=1".to_owned(),
            _ => String::new(),
        };
        let token = Secret::mint(SecretKind::Feed, world.rng()).expose().to_owned();
        let filled = path.replace("{id}", &id).replace("{machine_uuid}", &self.machine.uuid).replace("{token}", &token);
        let filled = filled.replace("{part}/{*path}", "p0/checkpoint");
        let filled = filled.replace("{*path}", if path.starts_with("/log/") { "0/000" } else { "api/v1/events" });
        let by_machine = ["/api/v1/device/code", "/api/v1/events"].contains(&path)
            || (method == Method::GET && path.starts_with("/api/v1/machines/"));
        let credential = if by_machine { Credential::from(&self.machine) } else { self.person.clone() };
        let request = world.request(method.clone(), &format!("{filled}{query}"), &credential);
        let request = request.header("origin", &world.url).header("sec-fetch-site", "same-origin");
        let Some(body) = self.body(world, method, path) else { return request };
        if ["/api/v1/agent-auth/token", "/api/v1/agent-auth/revoke"].contains(&path) {
            let form = serde_urlencoded::to_string(body.as_object().unwrap()).unwrap();
            return request.header("content-type", "application/x-www-form-urlencoded").body(form);
        }
        request.json(&body)
    }

    fn body(&self, world: &World, method: &Method, path: &str) -> Option<Value> {
        let Self { machine, user_code, device_code, claim, assertion, .. } = self;
        let (jwt_bearer, device_grant) =
            ("urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:device_code");
        Some(match (method.as_str(), path) {
            ("PATCH", "/api/v1/webhooks/{id}") => json!({ "enabled": false }),
            ("PATCH", _) => json!({ "label": "Desk" }),
            ("GET" | "DELETE", _) => return None,
            (_, "/api/v1/agent-auth/identity") => json!({ "type": "anonymous" }),
            (_, "/api/v1/agent-auth/claim") => json!({ "claim_token": claim["claim_token"] }),
            (_, "/api/v1/agent-auth/claim/complete") => {
                json!({ "claim_attempt_token": attempt_of(&claim["claim"]), "user_code": claim["claim"]["user_code"] })
            }
            (_, "/api/v1/agent-auth/token") => json!({ "grant_type": jwt_bearer, "assertion": assertion }),
            (_, "/api/v1/agent-auth/revoke") => {
                json!({ "token": Secret::mint(SecretKind::AccessToken, world.rng()).expose() })
            }
            (_, "/api/v1/device/code") => json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid }),
            (_, "/api/v1/device/approve" | "/api/v1/device/deny") => json!({ "user_code": user_code }),
            (_, "/api/v1/device/token") => json!({ "device_code": device_code, "grant_type": device_grant }),
            (_, "/api/v1/machines") => {
                json!({ "user_cuid": world.rng().cuid2(), "machine_uuid": world.rng().uuid_v7(world.clock().now()) })
            }
            (_, "/api/v1/consent") => json!({ "level": "full" }),
            (_, "/api/v1/events") => Chain::new(machine).next(),
            (_, "/api/v1/keys") => json!({ "name": "Desk" }),
            (_, "/api/v1/webhooks") => json!({ "url": "https://pager.example.com/", "kinds": ["event.held"] }),
            _ => json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
        })
    }
}

/// Routes that need no database: texts, and keys that the server has in memory.
fn needs_no_database(path: &str) -> bool {
    let texts = [
        "/",
        "/openapi.json",
        "/llms.txt",
        "/llms-full.txt",
        "/auth.md",
        "/api/v1/a2a",
        "/api/v1/mcp",
        "/api/v1/events/registry",
    ];
    texts.contains(&path) || path.starts_with("/.well-known/")
}

/// Limits of one address are 1.
fn narrow(settings: &mut Settings) {
    settings.limits.registrations_per_minute = 1;
    settings.limits.claim_starts_per_minute = 1;
    settings.limits.code_guesses_per_minute = 1;
    settings.limits.link_reads_per_minute = 1;
}

on_each_database! {
    async fn every_endpoint_is_424_while_the_databases_refuse_every_statement(world: World) {
        let world = world.restart_with(|settings| {
            (settings.feeds.enabled, settings.webhooks.enabled) = (true, true);
            settings.http.requests_max = 64;
        })
        .await;
        let facts = Facts::new(&world).await;
        hide_tables(world.server.app.store.pool()).await;
        // On PostgreSQL, the tables of the log are in the same database.
        let Upstream::Embedded { log, .. } = &world.server.app.upstream else { panic!("an external service") };
        if !log.first().pool().is_postgres() {
            hide_tables(log.first().pool()).await;
        }
        let mut wrong = Vec::new();
        for route in routes() {
            let what = format!("{} {}", route.method, route.path);
            let response = world.send(facts.request(&world, &route.method, route.path)).await;
            match unavailable(&response, 424) {
                _ if needs_no_database(route.path) && response.status < 400 => {}
                // The actor of a lookup crashes with its statement and is restarted.
                Ok(reason) if ["store_unavailable", "upstream_unavailable", "crashed", "not_running"].contains(&reason.as_str()) => {}
                other => wrong.push(format!("{what}: {other:?}")),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

on_sqlite! {
    async fn each_limit_of_an_address_or_a_sender_is_424_with_its_reason(world: World) {
        let facts = Facts::new(&world).await;
        let (unattached, person) = (world.machine().await, facts.person.clone());
        let world = world.restart_with(|settings| {
            narrow(settings);
            settings.feeds.enabled = true;
            settings.devices.codes_per_hour = 1;
            settings.events.unattached.events_per_day = 1;
        })
        .await;
        // Each limit permits one request.
        let post = |path: &str, credential: &Credential, body: Value| {
            world.request(Method::POST, path, credential).json(&body)
        };
        let (anonymous, none) = (json!({ "type": "anonymous" }), Credential::None);
        let claim = json!({ "claim_token": facts.claim["claim_token"] });
        let code = json!({ "user_cuid": unattached.user_cuid, "machine_uuid": unattached.uuid });
        let complete = json!({ "claim_attempt_token": attempt_of(&facts.claim["claim"]), "user_code": "000000" });
        let mut chain = Chain::new(&unattached);
        let feed = format!("/feeds/{}", Secret::mint(SecretKind::Feed, world.rng()).expose());
        let machine = Credential::from(&unattached);
        let cases: [(&str, RequestBuilder, RequestBuilder); 8] = [
            ("too_many_registrations", post("/api/v1/agent-auth/identity", &none, anonymous.clone()), post("/api/v1/agent-auth/identity", &none, anonymous)),
            ("too_many_claims", post("/api/v1/agent-auth/claim", &none, claim.clone()), post("/api/v1/agent-auth/claim", &none, claim)),
            ("too_many_codes", post("/api/v1/device/code", &machine, code.clone()), post("/api/v1/device/code", &machine, code)),
            ("too_many_guesses", post("/api/v1/device/approve", &person, json!({ "user_code": "BBBB-BBBB" })), post("/api/v1/device/approve", &person, json!({ "user_code": "BBBB-BBBB" }))),
            ("too_many_guesses", post("/api/v1/device/deny", &person, json!({ "user_code": "BBBB-BBBB" })), post("/api/v1/device/deny", &person, json!({ "user_code": "BBBB-BBBB" }))),
            ("too_many_guesses", post("/api/v1/agent-auth/claim/complete", &person, complete.clone()), post("/api/v1/agent-auth/claim/complete", &person, complete)),
            ("quota_exceeded", post("/api/v1/events", &machine, chain.next()), post("/api/v1/events", &machine, chain.next())),
            ("too_many_link_reads", world.request(Method::GET, &feed, &none), world.request(Method::GET, &feed, &none)),
        ];
        let mut seen: Vec<&str> = Vec::new();
        for (reason, first, second) in cases {
            let first = world.send(first).await;
            // A guess of another route has used this one's place.
            assert_eq!(first.status == 424, seen.contains(&reason), "{reason}: {first:?}");
            assert_eq!(unavailable(&world.send(second).await, 424).as_deref(), Ok(reason));
            seen.push(reason);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_and_page_is_refused_while_the_server_is_overloaded() {
    let world = World::with(|settings| settings.http.requests_max = 1).await;
    let other = Connection::new(world.server.address);
    let place = other.enter(&world.server.http.gate).unwrap();
    let api = routes().into_iter().chain(knowledge_routes()).map(|route| (route.method, route.path));
    let pages = web::routes().into_iter().map(|page| (page.method, page.path));
    for (method, path) in api.chain(pages) {
        let status = if path.starts_with("/v1/") { 503 } else { 424 };
        let response = world.send(world.request(method, &path.replace(['{', '}', '*'], ""), &Credential::None)).await;
        assert_eq!(unavailable(&response, status).as_deref(), Ok("overloaded"), "{path}");
    }
    drop(place);
    world.get("/llms.txt", &Credential::None).await;
}

/// A lock stands for the silence: it is held the table longer than a statement may wait (`database.lock_timeout`).
#[tokio::test(flavor = "multi_thread")]
async fn a_start_outlasts_a_database_that_does_not_answer() {
    let Some(world) = World::on_postgres().await else { return };
    let url = world.server.app.settings.database.url.clone().unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut lock = connection.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE installation IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let starting = world.beside();
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        lock.rollback().await.unwrap();
    };
    let (second, ()) = tokio::join!(starting, releasing);
    let ada = second.person("ada@example.com").await;
    second.attached_machine(&ada).await;
}
