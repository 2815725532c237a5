//! Request heads that are refused on every path, and the allowed origins of requests.

use reqwest::Method;
use serde_json::json;

use blackbox::browser::Browser;
use blackbox::client::Credential;
use blackbox::raw::send;
use blackbox::world::World;

const HERE: [u8; 4] = [127, 0, 0, 1];

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_exactly_one_host_header() {
    let world = World::on_sqlite().await;
    let own = world.server.address;
    for listener in [own, world.server.admin_address] {
        for hosts in ["", "Host: localhost\r\nHost: localhost\r\n", "Host: a b\r\n", "Host: user@localhost\r\n"] {
            let (status, text) = send(HERE, listener, &format!("GET /healthz HTTP/1.1\r\n{hosts}\r\n")).await;
            assert!(status == 400 && text.contains("Host"), "{hosts:?}: {text}");
        }
    }
    for good in ["GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /nothing HTTP/1.0\r\n\r\n"] {
        assert_eq!(send(HERE, own, good).await.0, 404, "{good}");
    }
    // Both ways to a handler, and pages.
    for path in ["/llms.txt", "/v1/memories/x", "/signin"] {
        assert_eq!(send(HERE, own, &format!("GET {path} HTTP/1.1\r\n\r\n")).await.0, 400, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_encoding_of_a_body_is_looked_at() {
    let world = World::on_sqlite().await;
    let post = || world.request(Method::POST, "/api/v1/mcp", &Credential::None).json(&json!({}));
    for encodings in [&["identity", "gzip"][..], &["identity, gzip"], &["gzip"]] {
        let request = encodings.iter().fold(post(), |request, encoding| request.header("content-encoding", *encoding));
        world.send(request).await.refused(415, "unsupported_content_encoding");
    }
    let plain = post().header("content-encoding", "identity").header("content-encoding", "identity");
    assert_eq!(world.send(plain).await.status, 400, "a body of no use, but read");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_listener_accepts_known_host_names_only() {
    let world = World::with(|settings| settings.admin.hosts = vec!["attache.internal".into()]).await;
    let (to, port) = (world.server.admin_address, world.server.admin_address.port());
    let status = async |host: &str| send(HERE, to, &format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
    for known in ["localhost", &format!("127.0.0.1:{port}"), "[::1]", "192.0.2.1:1", "Attache.Internal:8081"] {
        assert_eq!(status(known).await.0, 200, "{known}");
    }
    for foreign in ["evil.example", &format!("evil.example:{port}"), "localhost.evil.example", "127.0.0.1.evil.example"]
    {
        let (refused, text) = status(foreign).await;
        assert!(refused == 421 && text.contains("misdirected_request") && text.contains("admin.hosts"), "{text}");
    }
    for path in ["/metrics", "/actors", "/readyz", "/nothing"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert_eq!(send(HERE, to, &request).await.0, 421, "{path}");
    }
}

/// Sends the sign-in form to this host with that origin, and returns the status.
async fn signs_in(world: &World, host: &str, origin: &str) -> u16 {
    let form = "email=ada%40example.com";
    let request = format!(
        "POST /signin HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nSec-Fetch-Site: same-origin\r\n\
        Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    send(HERE, world.server.address, &request).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_under_a_foreign_host_name_are_refused() {
    let world = World::on_sqlite().await;
    let port = world.server.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(signs_in(&world, &host, &format!("http://{host}")).await, 303, "{host}");
    }
    for host in [format!("evil.example:{port}"), format!("127.0.0.1.evil.example:{port}")] {
        assert_eq!(signs_in(&world, &host, &format!("http://{host}")).await, 403, "{host}");
    }
    // With a base URL its origin is the only one.
    let world = World::with(|settings| settings.http.base_url = Some("http://attache.test".into())).await;
    assert_eq!(signs_in(&world, "attache.test", "http://attache.test").await, 303);
    assert_eq!(signs_in(&world, "localhost", "http://localhost").await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_name_the_origin_of_a_request_occur_once() {
    let world = World::on_sqlite().await;
    let browser = Browser::new(&world);
    browser.sign_in("ada@example.com").await;
    let own = world.url.clone();
    let doubled: [[(&str, String); 2]; 4] = [
        [("origin", own.clone()), ("origin", "https://evil.example".into())],
        [("origin", own.clone()), ("origin", own)],
        [("sec-fetch-site", "same-origin".into()), ("sec-fetch-site", "cross-site".into())],
        [("sec-fetch-site", "same-origin".into()), ("sec-fetch-site", "same-origin".into())],
    ];
    for headers in doubled {
        browser.send(Method::POST, "/signout", &headers, Some(&[])).await.page(403);
        let mut json = world.request(Method::POST, "/api/v1/device/approve", &browser.credential());
        for (name, value) in &headers {
            json = json.header(*name, value);
        }
        let refused = world.send(json.json(&json!({ "user_code": "BCDF-GHJK" }))).await;
        refused.refused(403, "cross_site_request");
    }
    world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_query_parameters_are_refused_by_every_route() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let id = "019b76da-a800-7274-8acf-2e56e162ebd9";
    for path in [
        "/api/v1/activity?lane=llm&lane=memory".to_owned(),
        "/api/v1/activity?limit=1&limit=2".to_owned(),
        "/api/v1/consent?lane=llm&lane=memory".to_owned(),
        format!("/api/v1/consent?machine_uuid={id}&machine_uuid={id}"),
        format!("/api/v1/audit/verify?event_id={id}&event_id={id}"),
        "/api/v1/audit/consistency?from=1&from=2".to_owned(),
    ] {
        world.get(&path, &person.cookie).await.refused(400, "invalid_request");
    }
    world.get("/api/v1/activity?unknown=1&unknown=2", &person.cookie).await.expect(200);
}
