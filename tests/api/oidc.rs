//! Signing in with a real OpenID provider.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use app::config::OidcSettings;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::oidc::{Account, CLIENT_ID, CLIENT_SECRET, EmailClaims, Forged, Provider};
use reqwest::Url;
use serde_json::{Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use blackbox::browser::Browser;
use blackbox::client::Response;
use blackbox::world::World;
use harness::on_sqlite;

const REDIRECT: &str = "http://127.0.0.1/signin/oidc/work/callback";
const SESSION: &str = "attache.session_token";

fn settings(issuer: &str) -> OidcSettings {
    OidcSettings {
        name: "work".into(),
        label: "Work & Co".into(),
        issuer: issuer.into(),
        client_id: CLIENT_ID.into(),
        client_secret: Some(CLIENT_SECRET.into()),
        scopes: vec!["openid".into(), "email".into()],
    }
}

fn provider(claims: EmailClaims) -> Option<Provider> {
    let accounts = [Account::verified("ada", "Ada@Example.com"), Account::unverified("mo", "mo@example.com")];
    Provider::start(REDIRECT, &accounts, claims)
}

async fn with(provider: &Provider) -> World {
    let issuer = provider.issuer.clone();
    World::with(|all| all.signin.oidc = vec![settings(&issuer)]).await
}

/// The redirect target of the sign-in page.
async fn begin(browser: &Browser<'_>, query: &str) -> String {
    let response = browser.get(&format!("/signin/oidc/work{query}")).await;
    assert_eq!(response.status, 302, "{}", String::from_utf8_lossy(&response.body));
    response.header("location").unwrap().to_owned()
}

/// Visits the address that the provider sent the browser back to.
async fn back(browser: &Browser<'_>, url: &str) -> Response {
    let url: Url = url.parse().unwrap();
    browser.get(&format!("{}?{}", url.path(), url.query().unwrap())).await
}

on_sqlite! {
    async fn an_unconfigured_oidc_provider_signs_no_one_in(world: World) {
        let browser = Browser::new(&world);
        assert!(!browser.get("/signin").await.page(200).contains("/signin/oidc/"));
        browser.get("/signin/oidc/work").await.page(404);
        browser.get("/signin/oidc/work/callback?code=x&state=y").await.page(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_with_a_provider_for_each_place_of_the_email_claim() {
    for claims in [EmailClaims::IdToken, EmailClaims::Userinfo] {
        let Some(provider) = provider(claims) else { return };
        let world = with(&provider).await;
        let browser = Browser::new(&world);
        let page = browser.get("/signin?next=%2Fdevice").await;
        assert!(page.page(200).contains("Sign in with Work &#38; Co"), "{}", page.page(200));
        let authorization = begin(&browser, "?next=%2Fdevice").await;
        for part in ["code_challenge_method=S256", "state=", "nonce=", "scope=openid+email", "response_type=code"] {
            assert!(authorization.contains(part), "{part} in {authorization}");
        }
        let returned = provider.sign_in(&authorization, "ada").await;
        let entered = back(&browser, &returned).await;
        entered.goes_to("/device");
        assert_eq!(browser.cookie("attache.oidc"), None, "used up");
        assert!(browser.cookie("attache.known").is_some());
        let sessions = world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
        assert_eq!(sessions["sessions"][0]["via"], "oidc:work");
        // The same person as the one who signs in with a code.
        let other = Browser::new(&world);
        other.sign_in("ada@example.com").await;
        let sessions = world.get("/api/v1/sessions", &other.credential()).await.expect(200);
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
        // The callback parameters work once.
        back(&browser, &returned).await.page(400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_with_a_provider_ends_the_session_before() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    let browser = Browser::new(&world);
    browser.sign_in("ada@example.com").await;
    let previous = browser.credential();
    let authorization = begin(&browser, "").await;
    assert!(authorization.contains("max_age=900"), "a recent sign-in there, too: {authorization}");
    back(&browser, &provider.sign_in(&authorization, "ada").await).await.goes_to("/account");
    world.get("/api/v1/sessions", &previous).await.refused(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oidc_session_needs_a_recent_sign_in_at_the_provider() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    // With a session on this server and without.
    let browser = Browser::new(&world);
    let authorization = begin(&browser, "").await;
    assert!(authorization.contains("max_age=900"), "{authorization}");
    // An attacker removes it from the link, so that the provider does not send the time of the sign-in.
    let unasked = provider.sign_in(&authorization.replace("&max_age=900", ""), "ada").await;
    assert!(back(&browser, &unasked).await.page(403).contains("You were not signed in"));
    assert_eq!(browser.cookie(SESSION), None);
    // Longer ago than requested; clocks may differ by a minute.
    let returned = provider.sign_in(&begin(&browser, "").await, "ada").await;
    world.advance(Duration::from_mins(15));
    back(&browser, &returned).await.goes_to("/account");
    let late = Browser::new(&world);
    let returned = provider.sign_in(&begin(&late, "").await, "ada").await;
    world.advance(Duration::from_mins(2));
    back(&late, &returned).await.page(403);
    assert_eq!(late.cookie(SESSION), None);
    // The user of the browser forges its cookie so that any sign-in counts as recent.
    let returned = provider.sign_in(&begin(&late, "").await, "ada").await;
    let kept = late.cookie("attache.oidc").unwrap();
    let (errand, seal) = kept.split_once('.').unwrap();
    let mut errand: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(errand).unwrap()).unwrap();
    errand["max_age"] = json!(1_000_000_000);
    late.put("attache.oidc", &format!("{}.{seal}", BASE64_URL_SAFE_NO_PAD.encode(errand.to_string())));
    world.advance(Duration::from_mins(17));
    assert!(back(&late, &returned).await.page(400).contains("was not started here"));
    assert_eq!(late.cookie(SESSION), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oidc_state_is_sealed_by_the_server_and_used_once() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    let browser = Browser::new(&world);
    let returned = provider.sign_in(&begin(&browser, "").await, "ada").await;
    let kept = browser.cookie("attache.oidc").unwrap();
    back(&browser, &returned).await.goes_to("/account");
    // A second return with the same cookie is refused before any request to the provider.
    let again = Browser::new(&world);
    again.put("attache.oidc", &kept);
    assert!(back(&again, &returned).await.page(400).contains("was not started here"));
    assert_eq!(again.cookie(SESSION), None);
    // Forged errands without a seal are refused.
    let (errand, _) = kept.split_once('.').unwrap();
    let returned = provider.sign_in(&begin(&again, "").await, "ada").await;
    let own: Value = serde_json::from_slice(
        &BASE64_URL_SAFE_NO_PAD.decode(again.cookie("attache.oidc").unwrap().split_once('.').unwrap().0).unwrap(),
    )
    .unwrap();
    for forged in [errand.to_owned(), BASE64_URL_SAFE_NO_PAD.encode(own.to_string())] {
        let victim = Browser::new(&world);
        victim.put("attache.oidc", &forged);
        back(&victim, &returned).await.page(400);
        assert_eq!(victim.cookie(SESSION), None);
    }
    // An expired errand is refused, even if the browser still has the cookie.
    let late = Browser::new(&world);
    let returned = provider.sign_in(&begin(&late, "").await, "ada").await;
    world.advance(Duration::from_hours(1));
    back(&late, &returned).await.page(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_token_of_another_client_or_from_the_future_is_refused() {
    let own = Forged { authorized_party: Some(CLIENT_ID.into()), ..Forged::default() };
    let clocks_differ = Forged { issued_in: Some(30), signed_in_in: Some(30), ..Forged::default() };
    let other = Forged { authorized_party: Some("another-client".into()), ..Forged::default() };
    let issued_later = Forged { issued_in: Some(600), ..Forged::default() };
    let signed_in_later = Forged { signed_in_in: Some(600), ..Forged::default() };
    for (forged, enters) in
        [(own, true), (clocks_differ, true), (other, false), (issued_later, false), (signed_in_later, false)]
    {
        let accounts = [Account::verified("ada", "ada@example.com")];
        let Some(provider) = Provider::forging(REDIRECT, &accounts, EmailClaims::IdToken, Some(&forged)) else {
            return;
        };
        let world = with(&provider).await;
        let browser = Browser::new(&world);
        let returned = back(&browser, &provider.sign_in(&begin(&browser, "").await, "ada").await).await;
        if enters {
            returned.goes_to("/account");
        } else {
            assert!(returned.page(403).contains("You were not signed in"), "{forged:?}");
        }
        assert_eq!(browser.cookie(SESSION).is_some(), enters, "{forged:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_breaks_the_protocol_or_a_limit_is_refused() {
    const LARGE: usize = 1024 * 1024 + 1;
    let metadata = |issuer: &str| {
        json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"), "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"), "id_token_signing_alg_values_supported": ["RS256"],
        })
    };
    let large = |mut document: Value| {
        document["padding"] = json!("x".repeat(LARGE));
        ResponseTemplate::new(200).set_body_json(document)
    };
    let changed = |issuer: &str, name: &str, value: &str| {
        let mut document = metadata(issuer);
        document[name] = json!(value);
        ResponseTemplate::new(200).set_body_json(document)
    };
    let keys = json!({ "keys": [] });
    for (case, status) in [
        ("honest", 302),
        ("another issuer", 424),
        ("the issuer with a slash", 424),
        ("large metadata", 424),
        ("large keys", 424),
        ("unprotected keys", 424),
        ("unprotected token endpoint", 424),
        ("redirect", 424),
        ("keys by redirect", 424),
    ] {
        let server = MockServer::start().await;
        let issuer = server.uri();
        let elsewhere = ResponseTemplate::new(302).insert_header("location", format!("{issuer}/elsewhere"));
        let document = match case {
            "another issuer" => changed(&issuer, "issuer", "https://accounts.example.com"),
            "the issuer with a slash" => changed(&issuer, "issuer", &format!("{issuer}/")),
            "large metadata" => large(metadata(&issuer)),
            "unprotected keys" => changed(&issuer, "jwks_uri", "http://accounts.example.com/keys"),
            "unprotected token endpoint" => changed(&issuer, "token_endpoint", "http://accounts.example.com/token"),
            "redirect" => elsewhere.clone(),
            _ => ResponseTemplate::new(200).set_body_json(metadata(&issuer)),
        };
        let set = match case {
            "large keys" => large(keys.clone()),
            "keys by redirect" => elsewhere,
            _ => ResponseTemplate::new(200).set_body_json(&keys),
        };
        Mock::given(path("/.well-known/openid-configuration")).respond_with(document).mount(&server).await;
        Mock::given(path("/keys")).respond_with(set).mount(&server).await;
        let world = World::with(|all| all.signin.oidc = vec![settings(&issuer)]).await;
        let answer = Browser::new(&world).get("/signin/oidc/work").await;
        assert_eq!(answer.status, status, "{case}: {}", String::from_utf8_lossy(&answer.body));
        let requests = server.received_requests().await.unwrap();
        assert!(requests.iter().all(|request| request.url.path() != "/elsewhere"), "{case}: a redirect was followed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_oidc_provider_gets_one_request_for_all_waiting_sign_ins() {
    let hole = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", hole.local_addr().unwrap());
    let world = World::with(|all| {
        all.signin.provider_timeout = Duration::from_millis(500);
        all.signin.oidc = vec![settings(&issuer)];
    })
    .await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&asked);
    let hanging = tokio::spawn(async move {
        loop {
            let connection = hole.accept().await.unwrap();
            taken.lock().unwrap().push(connection);
        }
    });
    let browser = Browser::new(&world);
    let responses =
        futures_util::future::join_all((0..15).map(|_| browser.get("/signin/oidc/work?next=%2Fdevice"))).await;
    for response in &responses {
        // A retry still has its state.
        assert!(response.page(424).contains("/signin?next=%2Fdevice"), "{}", response.page(424));
    }
    hanging.abort();
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oidc_callback_without_the_cookie_of_its_browser_is_refused() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    let (browser, victim) = (Browser::new(&world), Browser::new(&world));
    let returned = provider.sign_in(&begin(&browser, "").await, "ada").await;
    // Another person follows the link: without a cookie, and with another sign-in's cookie.
    assert!(back(&victim, &returned).await.page(400).contains("not started here"));
    begin(&victim, "").await;
    back(&victim, &returned).await.page(400);
    // A state that the server did not issue, and no state.
    back(&browser, &returned.replace("state=", "state=x")).await.page(400);
    browser.get("/signin/oidc/work/callback?code=x").await.page(400);
    assert_eq!((browser.cookie(SESSION), victim.cookie(SESSION)), (None, None));
    // The first browser can still continue: its state was not used.
    back(&browser, &returned).await.goes_to("/account");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_code_that_the_provider_refuses_signs_no_one_in() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    let browser = Browser::new(&world);
    let returned = provider.sign_in(&begin(&browser, "").await, "ada").await;
    let forged = returned.replace("code=", "code=x");
    assert!(back(&browser, &forged).await.page(403).contains("You were not signed in"));
    assert_eq!(browser.cookie(SESSION), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_email_address_verified_by_the_provider_is_accepted() {
    for claims in [EmailClaims::IdToken, EmailClaims::Userinfo] {
        let Some(provider) = provider(claims) else { return };
        let world = with(&provider).await;
        let browser = Browser::new(&world);
        let returned = provider.sign_in(&begin(&browser, "").await, "mo").await;
        assert!(back(&browser, &returned).await.page(403).contains("not confirmed there"));
        assert_eq!(browser.cookie(SESSION), None);
        assert_eq!(world.server.app.store.persons(10).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_another_domain_is_not_admitted() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = World::with(|all| {
        all.signin.oidc = vec![settings(&provider.issuer)];
        all.signin.domains = vec!["example.org".into()];
    })
    .await;
    let browser = Browser::new(&world);
    let returned = provider.sign_in(&begin(&browser, "").await, "ada").await;
    assert!(back(&browser, &returned).await.page(403).contains("Your address may not sign in here"));
    assert_eq!(browser.cookie(SESSION), None);
    assert_eq!(world.server.app.store.persons(10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_denied_at_the_provider_names_the_next_step() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    let browser = Browser::new(&world);
    let returned = provider.refuse(&begin(&browser, "").await).await;
    let page = back(&browser, &returned).await;
    assert!(page.page(403).contains("sign in with a code by mail"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_oidc_provider_is_reported_and_codes_still_work() {
    let Some(provider) = provider(EmailClaims::IdToken) else { return };
    let world = with(&provider).await;
    let browser = Browser::new(&world);
    let returned = provider.sign_in(&begin(&browser, "").await, "ada").await;
    drop(provider);
    let response = back(&browser, &returned).await;
    assert!(response.page(424).contains("does not answer"));
    assert_eq!(response.header("retry-after"), Some("30"));
    // The provider's cached answer is unknown after it expires.
    let world = World::with(|all| all.signin.oidc = vec![settings("http://127.0.0.1:1")]).await;
    let browser = Browser::new(&world);
    browser.get("/signin/oidc/work").await.page(424);
    browser.sign_in("ada@example.com").await;
}
