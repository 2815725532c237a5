//! What every route has in common: errors that are JSON, limits, ids, the operator's listener.

use std::time::Duration;

use actors::ActorKind;
use actors::upstream::Upstream;
use reqwest::Method;
use serde_json::{Value, json};
use store::Pool;
use store::pool::query;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::raw::{connect, get, response, send};
use blackbox::world::World;
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_json_errors() {
    let world = World::on_sqlite().await;
    world.get("/nothing/here", &Credential::None).await.refused(404, "not_found");
    let answer = world.get("/api/v1/events", &Credential::None).await;
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("POST"));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_pages_for_browsers_that_navigate_alone() {
    let world = World::on_sqlite().await;
    let response = async |path: &str, accept: &'static str| {
        world.send(world.request(Method::GET, path, &Credential::None).header("accept", accept)).await
    };
    for (path, status) in [("/nothing/here", 404), ("/v1/nothing", 404), ("/api/v1/events", 405)] {
        let answer = response(path, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8").await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, Some("text/html; charset=utf-8")),
            "{path}"
        );
        assert!(answer.header("content-security-policy").is_some(), "{path}");
        assert_eq!(answer.header("vary"), Some("accept"), "{path}");
        assert!(String::from_utf8_lossy(&answer.body).contains("Start page"), "{path}");
        assert_eq!(answer.header("allow"), (status == 405).then_some("POST"), "{path}");
        for accept in ["*/*", "application/json", "application/json, text/html", "text/event-stream"] {
            let answer = response(path, accept).await;
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (status, Some("application/json")),
                "{path} {accept}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn icons_and_rules_for_crawlers_are_at_their_fixed_paths() {
    let world = World::on_sqlite().await;
    let icon = world.get("/favicon.ico", &Credential::None).await;
    assert_eq!((icon.status, icon.header("content-type")), (200, Some("image/vnd.microsoft.icon")));
    assert!(icon.body.starts_with(&[0, 0, 1, 0, 2, 0]), "two pictures");
    let icon = world.get("/apple-touch-icon.png", &Credential::None).await;
    assert_eq!((icon.status, icon.header("content-type")), (200, Some("image/png")));
    let rules = world.get("/robots.txt", &Credential::None).await;
    let text = std::str::from_utf8(&rules.body).unwrap();
    assert!(text.starts_with("User-agent: *\n") && text.contains("Disallow: /account\n"), "{text}");
    assert!(!text.contains("Disallow: /docs") && !text.contains("Disallow: /\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guide_is_read_without_signing_in_and_an_unknown_one_is_not_found() {
    let world = World::on_sqlite().await;
    for (name, status, text) in [
        ("protocol/events", 200, "Event envelope"),
        ("settings", 200, "requests_max"),
        ("decisions/0001-credentials", 404, "No such guide"),
    ] {
        let page = world.get(&format!("/docs/guides/{name}"), &Credential::None).await;
        assert_eq!(page.status, status, "{name}");
        assert!(String::from_utf8_lossy(&page.body).contains(text), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_of_the_api_is_compressed_for_clients_that_accept_it() {
    let world = World::on_sqlite().await;
    let plain = world.get("/docs", &Credential::None).await;
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    let compressed = world.request(Method::GET, "/docs", &Credential::None).header("accept-encoding", "gzip");
    let compressed = world.send(compressed).await;
    assert_eq!((compressed.status, compressed.header("content-encoding")), (200, Some("gzip")));
    assert_eq!(compressed.header("vary"), Some("accept-encoding"));
    assert!(compressed.body.len() * 4 < plain.body.len(), "{} {}", compressed.body.len(), plain.body.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_last_change_is_sealed_and_shown_once() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let Credential::Cookie(session) = &person.cookie else { panic!("{person:?} has no cookie") };
    let form = world.request(Method::POST, "/signout", &person.cookie).header("origin", &world.url);
    let left = world.send(form.header("content-type", "application/x-www-form-urlencoded").body("")).await;
    assert_eq!((left.status, left.header("location")), (303, Some("/signin")));
    let lines: Vec<&str> = left.headers.get_all("set-cookie").iter().filter_map(|line| line.to_str().ok()).collect();
    let flash = lines.iter().find(|line| line.starts_with("attache.flash=")).unwrap();
    assert!(flash.contains("HttpOnly") && flash.contains("SameSite=Lax") && flash.contains("Max-Age=60"), "{flash}");
    let (pair, _) = flash.split_once(';').unwrap();
    let shown = async |cookies: String| {
        let page = world.get("/signin", &Credential::Cookie(cookies)).await;
        let text = String::from_utf8_lossy(&page.body).into_owned();
        (text.contains("You are signed out of this browser."), page.header("set-cookie").map(str::to_owned))
    };
    let (is_shown, forgotten) = shown(pair.to_owned()).await;
    assert!(
        is_shown && forgotten.is_some_and(|line| line.starts_with("attache.flash=;") && line.contains("Max-Age=0"))
    );
    // The page does not show a message that this server did not seal, or a value that was not sealed as a message.
    let (value, _) = pair.rsplit_once('.').unwrap();
    for cookies in [format!("{value}.AAAA"), format!("{pair}; {pair}"), session.replace("session_token", "flash")] {
        assert_eq!(shown(cookies).await, (false, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_request_has_the_response_of_get_without_its_body() {
    let world = World::on_sqlite().await;
    let ask = |method: Method, path: &str| world.send(world.request(method, path, &Credential::None));
    for path in ["/llms.txt", "/api/v1/audit/keys", "/api/v1/account/computers", "/nothing"] {
        let (get, head) = (ask(Method::GET, path).await, ask(Method::HEAD, path).await);
        assert_eq!(get.status, head.status, "{path}");
        assert!(!get.body.is_empty() && head.body.is_empty(), "{path}");
        for name in ["content-type", "content-length", "cache-control", "www-authenticate"] {
            assert_eq!(get.header(name), head.header(name), "{path}: {name}");
        }
        assert!(get.header("x-request-id").is_some() && head.header("x-request-id").is_some(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_parameter_that_is_not_utf_8_is_not_found() {
    let world = World::on_sqlite().await;
    let (person, key) = world.librarian("ada@example.com").await;
    let response = async |method: Method, path: &str, credential: &Credential| {
        let body = if method == Method::PATCH { json!({ "isFavorite": true }) } else { json!({}) };
        world.send(world.request(method, &path.replace("{}", "%ff"), credential).json(&body)).await
    };
    for (method, path) in [
        (Method::GET, "/v1/memories/{}"),
        (Method::DELETE, "/v1/memories/{}"),
        (Method::GET, "/v1/batch-add/{}"),
        (Method::DELETE, "/v1/batch-add/{}"),
        (Method::PATCH, "/v1/spaces/{}"),
    ] {
        let refused = response(method, path, &key).await.refused(404, "not_found");
        assert!(refused["details"].is_string(), "{refused}");
    }
    for what in ["keys", "agents", "sessions", "machines"] {
        let path = format!("/api/v1/{what}/{{}}");
        response(Method::DELETE, &path, &person.cookie).await.refused(404, "not_found");
        response(Method::DELETE, &path, &Credential::None).await.refused(401, "unauthorized");
    }
    for path in
        ["/.well-known/oauth-protected-resource/{}", "/.well-known/oauth-protected-resource/v1/{}", "/assets/{}"]
    {
        response(Method::GET, path, &Credential::None).await.refused(404, "not_found");
    }
    for path in [
        "/knowledge/memories/{}",
        "/knowledge/batches/{}",
        "/knowledge/spaces/{}",
        "/account/agents/{}/revoke",
        "/account/computers/{}/detach",
        "/account/keys/{}/revoke",
    ] {
        response(Method::GET, path, &person.cookie).await.page(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_path_is_a_page_for_browsers_and_lists_addresses_for_others() {
    let world = World::on_sqlite().await;
    let answer = world.get("/", &Credential::None).await;
    let text = std::str::from_utf8(&answer.body).unwrap();
    assert!(answer.status == 200 && text.contains(&format!("{}/api/v1/agent-auth/identity", world.url)), "{text}");
    let browser = world.request(Method::GET, "/", &Credential::None).header("accept", "text/html,*/*;q=0.8");
    let answer = world.send(browser).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(answer.header("vary"), Some("accept"));
    assert!(String::from_utf8_lossy(&answer.body).contains("/signin"));
    let person = world.person("ada@example.com").await;
    let browser = world.request(Method::GET, "/", &person.cookie).header("accept", "text/html,*/*;q=0.8");
    let answer = world.send(browser).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/account")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_query_is_invalid_request() {
    let world = World::on_sqlite().await;
    let refused = world.get("/api/v1/audit/consistency?from=1&from=2", &Credential::None).await;
    let refused = refused.refused(400, "invalid_request");
    assert!(refused["issues"][0]["message"].as_str().unwrap().contains("from"), "{refused}");
    let person = world.person("ada@example.com").await;
    for path in [
        "/claim?attempt=a&attempt=b",
        "/device?user_code=a&user_code=b",
        "/signin?next=a&next=b",
        "/signin/code?fault=a&fault=b",
        "/account/activity?lane=a&lane=b",
        "/knowledge?q=a&q=b",
        "/knowledge/search?q=a&q=b",
        "/knowledge/library?cursor=a&cursor=b",
    ] {
        let answer = world.get(path, &person.cookie).await;
        assert_eq!((answer.status, answer.header("content-type")), (400, Some("text/html; charset=utf-8")), "{path}");
        assert!(String::from_utf8_lossy(&answer.body).contains("Invalid address"), "{path}");
        assert!(answer.header("content-security-policy").is_some(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_json_members_are_refused_by_every_route() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let machine = world.attached_machine(&person).await;
    let bearer: Credential = (&machine).into();
    let none = Credential::None;
    for (path, credential, body) in [
        ("/api/v1/consent", &person.cookie, r#"{"level": "off", "level": "full"}"#),
        ("/api/v1/consent", &bearer, r#"{"level": "off", "\u006cevel": "full"}"#),
        ("/api/v1/agent-auth/identity", &none, r#"{"type": "anonymous", "type": "service_auth"}"#),
        ("/api/v1/agent-auth/claim", &none, r#"{"claim_token": "a", "claim_token": "b"}"#),
        ("/api/v1/agent-auth/claim/complete", &person.cookie, r#"{"user_code": "1", "user_code": "2"}"#),
        ("/api/v1/machines", &none, r#"{"user_cuid": "aa", "user_cuid": "bb"}"#),
        ("/api/v1/device/token", &none, r#"{"device_code": "a", "device_code": "b"}"#),
    ] {
        let request = world.request(Method::POST, path, credential).header("content-type", "application/json");
        let refused = world.send(request.body(body)).await.refused(400, "invalid_request");
        assert_eq!(refused["issues"][0]["message"], "must not be sent twice", "{path}: {refused}");
    }
    let levels = world.get("/api/v1/consent", &person.cookie).await.expect(200);
    assert_eq!(levels["levels"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn error_messages_do_not_echo_the_request() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let long = "x".repeat(500_000);
    let bodies = [
        ("/api/v1/consent", serde_json::json!({ "level": "off", long.clone(): 1 })),
        ("/api/v1/consent", serde_json::json!({ "level": long })),
        ("/api/v1/keys", serde_json::json!({ "name": "a", "scopes": [long] })),
        ("/api/v1/machines", serde_json::json!({ "machine_uuid": long, "user_cuid": "a" })),
    ];
    for (path, body) in bodies {
        let answer = world.post(path, &person.cookie, &body).await;
        answer.refused(400, "invalid_request");
        assert!(answer.body.len() < 5000, "{path}: {}", answer.body.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_has_a_request_id() {
    let world = World::on_sqlite().await;
    let made = world.get("/nothing", &Credential::None).await;
    assert!(made.header("x-request-id").is_some_and(|id| id.len() == 36));
    let request = || world.request(Method::GET, "/nothing", &Credential::None);
    let kept = world.send(request().header("x-request-id", "mine-1")).await;
    assert_eq!(kept.header("x-request-id"), Some("mine-1"));
    let odd = world.send(request().header("x-request-id", "not a \"word\"")).await;
    assert_ne!(odd.header("x-request-id"), Some("not a \"word\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_and_oversized_bodies_are_refused_on_every_route() {
    let world = World::on_sqlite().await;
    let post = |path: &str| world.request(Method::POST, path, &Credential::None);
    for path in ["/api/v1/agent-auth/identity", "/api/v1/agent-auth/token", "/api/v1/machines"] {
        let compressed = post(path).header("content-encoding", "gzip").body("x");
        world.send(compressed).await.refused(415, "unsupported_content_encoding");
        let huge = post(path).header("content-type", "application/x-www-form-urlencoded").body(vec![b'a'; 1_048_577]);
        world.send(huge).await.refused(413, "payload_too_large");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_of_request_heads_and_bodies_are_enforced() {
    let world = World::with(|settings| {
        settings.http.head_deadline = Duration::from_millis(200);
        settings.http.body_deadline = Duration::from_millis(200);
    })
    .await;
    let ending = async |text: &str| {
        let mut stream = TcpStream::connect(world.server.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    };
    let cut_head = ending("GET /nothing HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    assert!(cut_head.is_empty() || cut_head.starts_with("HTTP/1.1 408"), "{cut_head}");
    let cut_body = ending(
        "POST /api/v1/agent-auth/identity HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{",
    )
    .await;
    assert!(cut_body.starts_with("HTTP/1.1 424") && cut_body.contains("body_too_slow"), "{cut_body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_has_a_longer_deadline_than_a_head() {
    let world = World::with(|settings| {
        settings.http.head_deadline = Duration::from_millis(200);
        settings.http.idle_deadline = Duration::from_secs(3);
    })
    .await;
    let mut stream = connect([127, 0, 0, 1], world.server.address).await;
    stream.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut stream).await.0, 404);
    // Longer than a head may take.
    tokio::time::sleep(Duration::from_millis(600)).await;
    stream.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut stream).await.0, 404);
    // The deadline of a head counts from its first byte.
    let mut cut = connect([127, 0, 0, 1], world.server.address).await;
    cut.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut cut).await.0, 404);
    cut.write_all(b"GET /nothing HT").await.unwrap();
    assert_eq!(response(&mut cut).await, (0, String::new()), "and closed");
    // The other connection is closed without a word, too, when it was idle for long enough.
    assert_eq!(response(&mut stream).await, (0, String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_earlier_while_places_are_scarce() {
    let world = World::with(|settings| {
        settings.http.head_deadline = Duration::from_millis(300);
        settings.http.idle_deadline = Duration::from_hours(1);
        settings.http.connections_max = 1;
    })
    .await;
    let mut idle = connect([127, 0, 0, 1], world.server.address).await;
    idle.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut idle).await.0, 404);
    // The only place is free again.
    assert_eq!(send([127, 0, 0, 1], world.server.address, &get("/nothing")).await.0, 404);
    assert_eq!(response(&mut idle).await, (0, String::new()));
}

/// Status and body of `GET /readyz`.
pub async fn readiness(world: &World) -> (u16, Value) {
    let response = reqwest::get(format!("http://{}/readyz", world.server.admin_address)).await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn run(pool: &Pool, sql: &'static str) {
    query(sql).execute(pool.writer()).await.unwrap();
}

on_each_database! {
    async fn readiness_names_the_component_that_fails(world: World) {
        let pool = world.server.app.store.pool();
        let machine = world.machine().await;
        assert_eq!(readiness(&world).await.0, 200);
        // Writes still work: their probe needs another table.
        run(pool, "ALTER TABLE machines RENAME TO gone").await;
        let body = eventually("it is unready", async || {
                let (status, body) = readiness(&world).await;
                (status == 503).then_some(body)
            })
            .await;
        let failing = body["failing"].as_array().unwrap();
        assert_eq!((failing.len(), &failing[0]["part"], &body["store"]), (1, &json!("reads"), &json!("failing")), "{body}");
        assert!(failing[0]["reason"].as_str().unwrap().contains("machines"), "{body}");
        let refused = world.event(&machine, &Chain::new(&machine).next()).await;
        assert_eq!(refused.refused(424, "temporarily_unavailable")["reason"], "store_unavailable", "nothing crashed");
        run(pool, "ALTER TABLE gone RENAME TO machines").await;
        eventually("it is ready again", async || (readiness(&world).await.0 == 200).then_some(()))
            .await;

        let Upstream::Embedded { log, .. } = &world.server.app.upstream else { panic!("an external service") };
        run(log.first().pool(), "ALTER TABLE tree RENAME TO gone").await;
        let body = eventually("it is unready", async || {
                let (_, body) = readiness(&world).await;
                body["failing"].as_array().unwrap().iter().any(|failing| failing["part"] == "log").then_some(body)
            })
            .await;
        assert_eq!((&body["status"], &body["upstream"]), (&json!("unready"), &json!("degraded")), "{body}");
        run(log.first().pool(), "ALTER TABLE gone RENAME TO tree").await;
        eventually("it is ready again", async || (readiness(&world).await.0 == 200).then_some(()))
            .await;
    }

    async fn a_failed_append_degrades_readiness_only_for_a_while(world: World) {
        let machine = eventually("a computer of the first part", async || {
                let machine = world.machine().await;
                world.part_of(&machine).await.is_first().then_some(machine)
            })
            .await;
        let log = world.log_of(&machine).await;
        run(log.pool(), "ALTER TABLE events RENAME TO gone").await;
        world.event(&machine, &Chain::new(&machine).next()).await.refused(424, "temporarily_unavailable");
        let (status, body) = readiness(&world).await;
        assert_eq!((status, &body["upstream"], &body["failing"][0]["part"]), (503, &json!("degraded"), &json!("log")), "{body}");
        run(log.pool(), "ALTER TABLE gone RENAME TO events").await;
        // No later event shows that appends succeed again.
        world.advance(Duration::from_mins(1));
        eventually("it is ready again", async || (readiness(&world).await.0 == 200).then_some(()))
            .await;
        let (_, body) = readiness(&world).await;
        assert_eq!((&body["upstream"], &body["degraded"]), (&json!("ok"), &json!([])), "{body}");
    }

    async fn health_reports_each_component(world: World) {
        let admin = |path: &str| format!("http://{}{path}", world.server.admin_address);
        let get = async |path: &str| {
            let response = reqwest::get(admin(path)).await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        };
        assert_eq!(get("/healthz").await, (200, json!({ "status": "ok" }).to_string()));
        let (status, body) = get("/readyz").await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["status"], &body["store"], &body["actors"]), (200, &json!("ready"), &json!("ok"), &json!("ok")));
        world.get("/nothing", &Credential::None).await;
        let (status, metrics) = get("/metrics").await;
        assert_eq!(status, 200);
        assert!(metrics.contains(r#"attache_http_requests_total{method="GET",route="unmatched",status="404"}"#), "{metrics}");
        world.server.app.store.writable().await.unwrap();
        let (_, metrics) = get("/metrics").await;
        let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let unexplained: Vec<&str> = families.filter(|family| !metrics.contains(&format!("# HELP {family} "))).collect();
        assert!(unexplained.is_empty(), "{unexplained:?}");
        assert!(metrics.contains(&format!("attache_build_info{{version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{metrics}");
        assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
        assert!(metrics.contains(r#"attache_store_seconds_count{operation="write_heartbeat"}"#), "{metrics}");
        let (status, tree) = get("/actors").await;
        assert_eq!(status, 200);
        // With SQLite, each request looks up its credential itself.
        assert_eq!(tree.contains("\"lookup\""), world.server.app.store.pool().is_postgres(), "{tree}");
        let tree: serde_json::Value = serde_json::from_str(&tree).unwrap();
        let kinds: Vec<_> = tree["children"].as_array().unwrap().iter().map(|child| child["kind"].as_str().unwrap()).collect();
        // Further parts have their numbers in the names.
        let kinds: Vec<_> = kinds.into_iter().filter(|kind| !kind.ends_with(|last: char| last.is_ascii_digit())).collect();
        let runs = |kind: &&ActorKind| match **kind {
            ActorKind::Lookup => world.server.app.store.pool().is_postgres(),
            ActorKind::Parts => !world.server.app.settings.log.part.is_empty(),
            ActorKind::Memory => world.server.app.store.is_memory_apart(),
            // They need the address of a witness, the URL of an archive, and `webhooks.enabled`.
            ActorKind::Witness | ActorKind::Archive | ActorKind::Webhook => false,
            _ => true,
        };
        let expected = ActorKind::ALL.iter().filter(runs);
        assert_eq!(kinds, expected.map(|kind| kind.name()).collect::<Vec<_>>(), "each kind runs, in start order");
    }
}

on_sqlite! {
    async fn the_page_of_the_operator_shows_the_values_of_the_json_routes(world: World) {
        let admin = |path: &str| format!("http://{}{path}", world.server.admin_address);
        let machine = world.machine().await;
        world.event(&machine, &json!([1])).await.held("malformed_envelope");
        let response = reqwest::get(admin("/")).await.unwrap();
        assert_eq!(response.status(), 200);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        let (policy, cache) = (header("content-security-policy"), header("cache-control"));
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"), "{policy}");
        assert_eq!((cache.as_str(), header("content-type").as_str()), ("no-store", "text/html; charset=utf-8"));
        let page = response.text().await.unwrap();
        let kinds = ActorKind::ALL.iter().filter(|kind| !matches!(kind, ActorKind::Lookup | ActorKind::Parts | ActorKind::Memory | ActorKind::Witness | ActorKind::Archive | ActorKind::Webhook));
        for kind in kinds {
            assert!(page.contains(&format!(">{}<", kind.name())), "{kind}: {page}");
        }
        for words in ["Ready", "Held events", "malformed_envelope", "the body is no envelope", "No other server"] {
            assert!(page.contains(words), "{words}: {page}");
        }
        let assets = page.split('"').filter(|text| text.starts_with("/assets/"));
        let mut loaded = 0;
        for asset in assets {
            let response = reqwest::get(admin(asset)).await.unwrap();
            assert_eq!((response.status().as_u16(), response.headers()["x-content-type-options"].to_str().unwrap()), (200, "nosniff"), "{asset}");
            loaded += 1;
        }
        assert!(loaded >= 4, "{page}");
        assert_eq!(reqwest::get(admin("/assets/none.css")).await.unwrap().status(), 404);
        // A host name that the listener does not have, as in a request of a foreign page.
        let client = reqwest::Client::new();
        let foreign = client.get(admin("/")).header("host", "evil.example").send().await.unwrap();
        assert_eq!(foreign.status(), 421);
        // It is read-only: only GET and HEAD are allowed.
        let posted = client.post(admin("/")).send().await.unwrap();
        assert_eq!(posted.status(), 405);
    }
}
