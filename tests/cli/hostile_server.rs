//! Commands with a malicious server: its responses contain control characters, links that are no pages, and endless bodies.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use blackbox::process::Home;

/// A server that registers computers and answers each request for a code with this link and code.
async fn with_codes(link: &'static str, user_code: &'static str) -> String {
    let register = async |body: axum::Json<Value>| {
        let mut computer = body.0;
        computer["machine_secret"] = json!("msk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        computer["first_seen_at"] = json!("2026-01-01T00:00:00.000Z");
        (StatusCode::CREATED, axum::Json(computer)).into_response()
    };
    let code = async move || {
        axum::Json(json!({
            "device_code": "dvc_1", "user_code": user_code, "verification_uri": link, "verification_uri_complete": link,
            "interval": 5, "expires_in": 1800,
        }))
    };
    let routes = Router::new().route("/api/v1/machines", post(register)).route("/api/v1/device/code", post(code));
    served(routes.route("/api/v1/usage/bar", get(endless))).await
}

async fn served(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// A body that never ends.
async fn endless() -> Response {
    let piece = Bytes::from(vec![b' '; 1 << 20]);
    Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()))).into_response()
}

/// Whether a terminal would interpret or hide a character of the text.
fn is_harmful(text: &str) -> bool {
    text.chars().any(|character| {
        (character.is_control() && character != '\n') || ('\u{202a}'..='\u{202e}').contains(&character)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_reaches_the_terminal_without_control_characters() {
    let url = with_codes("https://a.example/device", "AB\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}CD").await;
    for arguments in [&["attach", "--url", &url, "--no-wait"][..], &["attach", "--url", &url, "--no-wait", "--json"]] {
        let output = Home::new().run(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(!is_harmful(&output.stdout) && !is_harmful(&output.stderr), "{output:?}");
        let shown = if arguments.contains(&"--json") { &output.stderr } else { &output.stdout };
        assert!(shown.contains("AB ]0;owned  2JCD"), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_no_web_address_is_neither_shown_as_one_nor_opened() {
    for link in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://a.example/\u{1b}]0;owned\u{7}",
        "https://a.example/\u{202e}x",
    ] {
        let url = with_codes(link, "WDJB-MJHT").await;
        let home = Home::new();
        // A browser that leaves a trace.
        let browser = home.dir.path().join("browser");
        std::fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened\n").unwrap();
        std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let home = home.environment("BROWSER", browser.to_str().unwrap());
        let output = home.run(&["login", &url, "--browser"]);
        output.refused(1, &["no web address", "--url"]);
        assert!(!is_harmful(&output.stdout) && !is_harmful(&output.stderr), "{output:?}");
        assert!(!home.dir.path().join("opened").exists(), "{link:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_is_an_error() {
    let url = with_codes("https://a.example/device", "WDJB-MJHT").await;
    let home = Home::new();
    home.run(&["machine", "register", "--url", &url]).said();
    home.run(&["usage"]).refused(1, &["longer than 67108864 bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_server_replaces_the_one_of_the_environment() {
    let url = with_codes("https://a.example/device", "WDJB-MJHT").await;
    let home = Home::new().environment("ATTACHE_URL", "http://127.0.0.1:1");
    home.run(&["login", &url, "--no-wait"]).said();
    let home = Home::new().environment("ATTACHE_URL", "http://127.0.0.1:1");
    home.run(&["connect", "codex", "--server", &url, "--no-wait"]).said();
    home.run(&["login", &url, "--url", "http://127.0.0.1:2"]).refused(1, &["both name a server"]);
}
