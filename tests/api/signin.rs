//! Signing in with a mailed code, and out.

use std::time::Duration;

use domain::claim::RegistrationType;
use reqwest::Method;

use blackbox::browser::{Browser, another_code};
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

const ADA: &str = "ada@example.com";
const SESSION: &str = "attache.session_token";
const TICKET: &str = "attache.signin";

on_sqlite! {
    async fn a_person_signs_in_with_the_code_from_their_mail(world: World) {
        let browser = Browser::new(&world);
        let page = browser.get("/signin").await;
        assert!(page.page(200).contains("Send me a code"));
        let response = browser.submit("/signin", &[("email", " Ada@Example.com ")]).await;
        response.goes_to("/signin/code");
        let line = response.cookie_line(TICKET).unwrap();
        assert!(line.contains("; Path=/;") && line.contains("; HttpOnly") && line.contains("; SameSite=Lax"), "{line}");
        let page = browser.get("/signin/code").await;
        let text = page.page(200);
        assert!(text.contains(ADA) && text.contains("inputmode=\"numeric\"") && text.contains("one-time-code"), "{text}");

        let mail = world.mail_to(ADA, 0).await;
        assert!(mail.contains("Subject: Your code to sign in\r\n"), "{mail}");
        assert!(mail.contains(&format!("{}/signin", world.url)), "{mail}");
        let code = blackbox::browser::code_in(&mail);
        let ticket = browser.cookie(TICKET).unwrap();
        let spaced = format!(" {} {} ", &code[..4], &code[4..]);
        let entered = browser.submit("/signin/code", &[("code", &spaced)]).await;
        entered.goes_to("/account");
        let line = entered.cookie_line(SESSION).unwrap();
        assert!(line.starts_with(&format!("{SESSION}=ses_")) && line.contains("; HttpOnly; SameSite=Lax"), "{line}");
        assert!(!line.contains("Secure"), "plain http: {line}");
        assert_eq!(browser.cookie(TICKET), None);

        let sessions = world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
        let session = &sessions["sessions"][0];
        assert_eq!((&session["via"], &session["current"], &session["address"]), (&"code".into(), &true.into(), &"127.0.0.1".into()));

        // The code worked once.
        let thief = Browser::new(&world);
        thief.put(TICKET, &ticket);
        thief.submit("/signin/code", &[("code", &code)]).await.goes_to("/signin/code");
        assert_eq!(thief.cookie(SESSION), None);
        assert!(thief.get("/signin/code").await.page(200).contains("has expired"));
    }

    async fn signing_in_redirects_to_the_requested_page(world: World) {
        for (number, (next, place)) in [
            ("/device?user_code=BCDF-GHJK", "/device?user_code=BCDF-GHJK"),
            ("/claim?attempt=cat_x", "/claim?attempt=cat_x"),
            ("//evil.example", "/account"),
            ("/\\evil.example", "/account"),
            ("https://evil.example/account", "/account"),
            ("/account/../signout", "/account"),
            ("/api/v1/sessions", "/account"),
        ].into_iter().enumerate() {
            let email = format!("p{number}@example.com");
            let browser = Browser::new(&world);
            let query = serde_urlencoded::to_string([("next", next)]).unwrap();
            let page = browser.get(&format!("/signin?{query}")).await;
            assert_eq!(page.page(200).contains("name=\"next\""), next == place, "{next}");
            browser.submit("/signin", &[("email", &email), ("next", next)]).await.goes_to("/signin/code");
            let code = world.code_to(&email, 0).await;
            browser.submit("/signin/code", &[("code", &code)]).await.goes_to(place);
        }
    }

    async fn five_wrong_codes_burn_the_sign_in_ticket_and_each_shows_the_remaining_tries(world: World) {
        let browser = Browser::new(&world);
        browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let code = world.code_to(ADA, 0).await;
        browser.submit("/signin/code", &[("code", "1234")]).await.goes_to("/signin/code?fault=form");
        assert!(browser.get("/signin/code?fault=form").await.page(200).contains("not counted"));
        for left in ["4 more times", "3 more times", "2 more times", "once more", "Too many wrong codes"] {
            browser.submit("/signin/code", &[("code", &another_code(&code))]).await.goes_to("/signin/code");
            // Reloading the page uses no attempt.
            for _ in 0..2 {
                assert!(browser.get("/signin/code").await.page(200).contains(left), "{left}");
            }
        }
        browser.submit("/signin/code", &[("code", &code)]).await.goes_to("/signin/code");
        assert_eq!(browser.cookie(SESSION), None);
        // A new one helps.
        browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let code = world.code_to(ADA, 1).await;
        browser.submit("/signin/code", &[("code", &code)]).await.goes_to("/account");
    }
}

on_each_database! {
    async fn concurrent_wrong_codes_get_no_additional_tries(world: World) {
        let browser = Browser::new(&world);
        browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let code = world.code_to(ADA, 0).await;
        let wrong = another_code(&code);
        let form = [("code", wrong.as_str())];
        futures_util::future::join_all((0..20).map(|_| browser.submit("/signin/code", &form))).await;
        browser.submit("/signin/code", &[("code", &code)]).await.goes_to("/signin/code");
        assert!(browser.get("/signin/code").await.page(200).contains("Too many wrong codes"));
    }
}

on_sqlite! {
    async fn a_sign_in_code_expires_after_ten_minutes(world: World) {
        let browser = Browser::new(&world);
        browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let code = world.code_to(ADA, 0).await;
        world.advance(Duration::from_mins(10));
        browser.submit("/signin/code", &[("code", &code)]).await.goes_to("/signin/code");
        assert_eq!(browser.cookie(SESSION), None);
        let page = browser.get("/signin/code").await;
        assert!(page.page(200).contains("has expired") && page.page(200).contains("Send a new code"));
    }

    async fn only_the_newest_code_of_a_browser_works_and_only_there(world: World) {
        let (first, second, stranger) = (Browser::new(&world), Browser::new(&world), Browser::new(&world));
        first.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let old = world.code_to(ADA, 0).await;
        second.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let new = world.code_to(ADA, 1).await;
        first.submit("/signin/code", &[("code", &new)]).await.goes_to("/signin/code");
        for code in [&old, &new] {
            stranger.submit("/signin/code", &[("code", code)]).await.goes_to("/signin");
        }
        stranger.get("/signin/code").await.goes_to("/signin");
        // Requests for codes from other networks do not use up this quota.
        let ticket = first.cookie(TICKET).unwrap();
        first.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
        let newest = world.code_to(ADA, 2).await;
        let window = Browser::new(&world);
        window.put(TICKET, &ticket);
        window.submit("/signin/code", &[("code", &old)]).await.goes_to("/signin/code");
        assert!(window.get("/signin/code").await.page(200).contains("newer code was sent"));
        second.submit("/signin/code", &[("code", &new)]).await.goes_to("/account");
        first.submit("/signin/code", &[("code", &newest)]).await.goes_to("/account");
        assert_eq!((window.cookie(SESSION), stranger.cookie(SESSION)), (None, None));
    }

    async fn signing_in_gives_a_new_session_and_ends_the_one_before(world: World) {
        // Session fixation: an attacker has set a known session in this browser.
        let planted = world.person("mallory@example.com").await;
        let Credential::Cookie(pair) = &planted.cookie else { unreachable!() };
        let browser = Browser::new(&world);
        browser.put(SESSION, pair.split_once('=').unwrap().1);
        browser.sign_in(ADA).await;
        assert_ne!(browser.cookie(SESSION).unwrap(), pair.split_once('=').unwrap().1);
        world.get("/api/v1/sessions", &planted.cookie).await.refused(401, "unauthorized");
        // A second sign-in, as pages with a recent sign-in require.
        let previous = browser.credential();
        let again = browser.get("/signin?next=%2Fdevice").await;
        assert!(again.page(200).contains("You are signed in as ada@example.com"), "{}", again.page(200));
        browser.sign_in(ADA).await;
        world.get("/api/v1/sessions", &previous).await.refused(401, "unauthorized");
        let sessions = world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    }

    async fn signing_out_ends_the_session(world: World) {
        let browser = Browser::new(&world);
        browser.sign_in(ADA).await;
        let previous = browser.credential();
        world.get("/api/v1/sessions", &previous).await.expect(200);
        browser.submit("/signout", &[]).await.goes_to("/signin");
        assert_eq!(browser.cookie(SESSION), None);
        world.get("/api/v1/sessions", &previous).await.refused(401, "unauthorized");
        // Signing out twice is no error.
        browser.submit("/signout", &[]).await.goes_to("/signin");
    }

    async fn a_person_is_notified_by_mail_of_a_claimed_agent(world: World) {
        let person = world.person(ADA).await;
        let agent = world.agent_of(&person).await;
        let mail = world.mail_to(ADA, 0).await;
        let parts = [&agent.id.to_string(), "An agent acts for your account", &format!("{}/account", world.url)];
        for part in parts {
            assert!(mail.contains(part), "{part} in {mail}");
        }
        // Sent once, and no secret in it.
        let store = &world.server.app.store;
        let far = world.clock().now() + chrono::TimeDelta::days(1);
        eventually("it is noted as sent", async || {
            store.mails_claim_due(far, far, 10).await.unwrap().is_empty().then_some(())
        }).await;
        assert_eq!(world.mails_to(ADA).len(), 1);
        let registration = store.registration_by_id(agent.id).await.unwrap().unwrap().0;
        assert_eq!(registration.registration_type, RegistrationType::Anonymous);
        assert!(!mail.contains(&agent.claim_token) && !mail.contains("cat_"), "{mail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csrf_a_form_of_another_site_is_refused() {
    let world = World::on_sqlite().await;
    let browser = Browser::new(&world);
    browser.sign_in(ADA).await;
    let evil: [&[(&str, String)]; 5] = [
        &[],
        &[("origin", "https://evil.example".into())],
        &[("origin", "null".into()), ("sec-fetch-site", "cross-site".into())],
        &[("origin", world.url.clone()), ("sec-fetch-site", "same-site".into())],
        &[("sec-fetch-site", "none".into())],
    ];
    let forms: [(&str, &[(&str, &str)]); 3] =
        [("/signin", &[("email", "bob@example.com")]), ("/signin/code", &[("code", "12345678")]), ("/signout", &[])];
    for headers in evil {
        for (path, form) in forms {
            let refused = browser.send(Method::POST, path, headers, Some(form)).await;
            assert!(refused.page(403).contains("came from another page"), "{path} {headers:?}");
        }
    }
    assert!(world.mails_to("bob@example.com").is_empty());
    world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
    // Either header is enough when it is right.
    for header in [("origin", world.url.clone()), ("sec-fetch-site", "same-origin".into())] {
        browser.send(Method::POST, "/signin", &[header], Some(&[("email", ADA)])).await.goes_to("/signin/code");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_does_not_reveal_whether_an_account_exists() {
    let world = World::with(|settings| settings.signin.create_account = false).await;
    let app = &world.server.app;
    app.store.person_sign_in(&ADA.parse().unwrap(), true, world.clock().now(), &app.rng).await.unwrap();
    let mut seen = Vec::new();
    for email in [ADA, "bob@example.com"] {
        let browser = Browser::new(&world);
        let response = browser.submit("/signin", &[("email", email)]).await;
        response.goes_to("/signin/code");
        let names: Vec<String> = response.headers.keys().map(ToString::to_string).collect();
        let shown = browser.get("/signin/code").await.page(200).replace(email, "…");
        let shown: Vec<String> = shown.lines().filter(|line| !line.contains("<time")).map(str::to_owned).collect();
        let mail = world.mail_to(email, 0).await;
        let subject = mail.lines().find(|line| line.starts_with("Subject")).unwrap().to_owned();
        seen.push((names, shown, subject));
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_addresses_of_the_admitted_domains_sign_in() {
    let world = World::with(|settings| settings.signin.domains = vec!["example.com".into()]).await;
    let browser = Browser::new(&world);
    assert!(browser.get("/signin").await.page(200).contains("Only addresses of example.com may sign in."));
    for other in ["ada@example.org", "ada@mail.example.com", "example.com@example.net"] {
        let response = browser.submit("/signin", &[("email", other)]).await;
        assert!(response.page(403).contains("Only addresses of example.com may sign in here."), "{other}");
        assert!(response.header("set-cookie").is_none());
    }
    browser.sign_in(ADA).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_account_creation_a_person_signs_in_without_an_account() {
    let world = World::with(|settings| settings.signin.create_account = false).await;
    let browser = Browser::new(&world);
    browser.sign_in(ADA).await;
    let (app, email) = (&world.server.app, ADA.parse().unwrap());
    let person = app.store.person_sign_in(&email, false, world.clock().now(), world.rng()).await.unwrap();
    assert_eq!(person.account, None);
    world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
    let agent = format!("/api/v1/agents/{}", world.rng().uuid_v7(world.clock().now()));
    world.delete(&agent, &browser.credential()).await.refused(403, "account_required");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_email_address_is_reported_in_the_form() {
    let world = World::on_sqlite().await;
    let browser = Browser::new(&world);
    for wrong in [
        "",
        "ada",
        "<script>alert(1)</script>@example.com",
        "Ada <ada@example.com>",
        "\"victim@example.com\"@evil.com",
        "\"a b\"@x",
    ] {
        let response = browser.submit("/signin", &[("email", wrong)]).await;
        let page = response.page(400);
        assert!(page.contains("not an e-mail address") && page.contains("aria-invalid"), "{page}");
        assert!(!page.contains("<script>alert"), "{page}");
    }
    assert!(browser.submit("/signin", &[]).await.page(400).contains("incomplete"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_codes_are_rate_limited_per_mail_address_and_network() {
    let world = World::with(|settings| settings.signin.codes_per_hour = 2).await;
    let ask = async |email: &str| Browser::new(&world).submit("/signin", &[("email", email)]).await;
    for _ in 0..2 {
        ask(ADA).await.goes_to("/signin/code");
    }
    let refused = ask(ADA).await;
    assert!(refused.page(424).contains("Wait a moment"));
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    ask("bob@example.com").await.goes_to("/signin/code");
    world.advance(Duration::from_hours(1));
    ask(ADA).await.goes_to("/signin/code");

    let world = World::with(|settings| {
        settings.signin.codes_per_hour_total = 3;
        settings.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let from = async |network: &str| {
        let headers = [("x-forwarded-for", network.to_owned()), ("sec-fetch-site", "same-origin".to_owned())];
        Browser::new(&world).send(Method::POST, "/signin", &headers, Some(&[("email", ADA)])).await.status
    };
    let mut responses = Vec::new();
    for network in ["192.0.2.1", "192.0.2.2", "198.51.100.1", "2001:db8::1"] {
        responses.push(from(network).await);
    }
    assert_eq!(responses, [303, 303, 303, 424]);

    let world = World::with(|settings| settings.limits.sign_ins_per_minute = 2).await;
    let ask = async |email: &str| Browser::new(&world).submit("/signin", &[("email", email)]).await;
    ask(ADA).await.goes_to("/signin/code");
    ask("bob@example.com").await.goes_to("/signin/code");
    let refused = ask("eve@example.com").await;
    refused.page(424);
    assert!(refused.header("retry-after").is_some());
    assert!(world.mails_to("eve@example.com").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn over_https_cookies_are_secure() {
    let base_url = "https://attache.example.com/below";
    let world = World::with(|settings| settings.http.base_url = Some(base_url.into())).await;
    let browser = Browser::new(&world);
    let response = browser.submit("/signin", &[("email", ADA)]).await;
    response.goes_to("/below/signin/code");
    assert_eq!(response.header("strict-transport-security"), Some("max-age=31536000"));
    let line = response.cookie_line("__Host-attache.signin").unwrap();
    assert!(line.ends_with("; Secure"), "{line}");
    let mail = world.mail_to(ADA, 0).await;
    assert!(mail.contains("https://attache.example.com/below/signin"), "{mail}");
    let entered = browser.submit("/signin/code", &[("code", &blackbox::browser::code_in(&mail))]).await;
    entered.goes_to("/below/account");
    assert!(entered.cookie_line("__Secure-attache.session_token").unwrap().ends_with("; Secure"));
    world.get("/api/v1/sessions", &browser.credential()).await.expect(200);
    // Cookies with these names cannot be set over plain http, or by a neighbouring host.
    let session = browser.cookie("__Secure-attache.session_token").unwrap();
    let plain = Credential::Cookie(format!("attache.session_token={session}"));
    let refused = world.get("/api/v1/sessions", &plain).await;
    refused.refused(401, "unauthorized");
    assert_eq!(refused.header("strict-transport-security"), Some("max-age=31536000"));
    world.get("/account", &plain).await.goes_to("/below/signin?next=%2Faccount");
    let ticket = response.cookie_line("__Host-attache.signin").unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
    for name in ["attache.signin", "__Secure-attache.signin"] {
        let other = Browser::new(&world);
        other.put(name, &ticket);
        other.get("/signin/code").await.goes_to("/below/signin");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_plain_http_nothing_asks_for_https() {
    let world = World::on_sqlite().await;
    assert_eq!(world.get("/llms.txt", &Credential::None).await.header("strict-transport-security"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_session_cookies_in_a_request_are_unauthorized() {
    let world = World::on_sqlite().await;
    let (ada, eve) = (world.person(ADA).await, world.person("eve@example.com").await);
    let (Credential::Cookie(ada), Credential::Cookie(eve)) = (ada.cookie, eve.cookie) else { unreachable!() };
    for both in [format!("{eve}; {ada}"), format!("{ada}; {eve}"), format!("{ada}; {ada}")] {
        world.get("/api/v1/sessions", &Credential::Cookie(both.clone())).await.refused(401, "unauthorized");
        world.get("/account", &Credential::Cookie(both)).await.goes_to("/signin?next=%2Faccount");
    }
    world.get("/api/v1/sessions", &Credential::Cookie(ada)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_cookies_are_accepted_unchanged_and_for_their_purpose_only() {
    let world = World::on_sqlite().await;
    let browser = Browser::new(&world);
    browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
    let ticket = browser.cookie("attache.signin").unwrap();
    browser.get("/signin/code").await.page(200);
    let (value, seal) = ticket.rsplit_once('.').unwrap();
    let other = Browser::new(&world);
    other.sign_in("bob@example.com").await;
    let foreign = other.cookie("attache.known").unwrap();
    for wrong in [value, &format!("{value}x.{seal}"), &format!("{value}."), &foreign] {
        browser.put("attache.signin", wrong);
        browser.get("/signin/code").await.goes_to("/signin");
    }
    browser.put("attache.signin", &ticket);
    browser.get("/signin/code").await.page(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_quotas_of_others_do_not_lock_out_a_known_browser() {
    let world = World::with(|settings| {
        settings.signin.codes_per_hour = 2;
        settings.signin.codes_per_hour_total = 6;
        settings.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let ask = async |browser: &Browser<'_>, from: &str, email: &str| {
        let headers = [("x-forwarded-for", from.to_owned()), ("sec-fetch-site", "same-origin".to_owned())];
        browser.send(Method::POST, "/signin", &headers, Some(&[("email", email)])).await.status
    };
    let adas = Browser::new(&world);
    adas.sign_in(ADA).await;
    adas.submit("/signout", &[]).await.goes_to("/signin");
    // Strangers use up the code budgets of her network and of all networks together.
    let mut asked = Vec::new();
    for network in 0..7 {
        for _ in 0..2 {
            asked.push(ask(&Browser::new(&world), &format!("203.0.{network}.1"), ADA).await);
        }
    }
    assert!(asked.ends_with(&[424, 424]), "{asked:?}");
    assert_eq!(ask(&Browser::new(&world), "203.0.0.1", ADA).await, 424, "an unknown browser in her network");
    // Her browser has its own quota for the address with which it signed in before.
    let statuses = [
        ask(&adas, "203.0.0.1", ADA).await,
        ask(&adas, "198.51.100.1", ADA).await,
        ask(&adas, "198.51.100.1", ADA).await,
    ];
    assert_eq!(statuses, [303, 303, 424]);
    let eve = Browser::new(&world);
    eve.sign_in("eve@example.com").await;
    assert_eq!(ask(&eve, "203.0.0.1", ADA).await, 424, "it knows another address");
    // Only the server can create the sealed cookie, which can contain two addresses of one browser.
    let own = adas.cookie("attache.known").unwrap();
    let forged = Browser::new(&world);
    forged.put("attache.known", &own.replacen('.', ".A", 1));
    assert_eq!(ask(&forged, "203.0.0.1", ADA).await, 424);
    world.advance(Duration::from_hours(1));
    adas.sign_in("ada@work.example").await;
    for network in 0..7 {
        ask(&Browser::new(&world), &format!("203.0.{network}.1"), ADA).await;
    }
    assert_eq!(ask(&Browser::new(&world), "203.0.9.1", ADA).await, 424);
    assert_eq!(ask(&adas, "203.0.9.1", ADA).await, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_codes_are_stored_only_in_their_mails() {
    let world = World::on_sqlite().await;
    let browser = Browser::new(&world);
    browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
    let code = world.code_to(ADA, 0).await;
    let ticket = browser.cookie(TICKET).unwrap();
    browser.submit("/signin/code", &[("code", &code)]).await.goes_to("/account");
    let session = browser.cookie(SESSION).unwrap();
    let found = |bytes: &[u8], needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    let mut searched = 0;
    for file in blackbox::files(&world.dir.path().join("data")) {
        let bytes = std::fs::read(&file).unwrap();
        let mail = file.extension().is_some_and(|extension| extension == "eml");
        for secret in [&code, &ticket, &session] {
            assert!(mail || !found(&bytes, secret), "{}", file.display());
        }
        assert!(!found(&bytes, &ticket) && !found(&bytes, &session));
        searched += usize::from(!mail);
    }
    assert!(searched >= 2, "{searched}");
}

/// Whether the page for the code names the folder of mails to a request with these headers.
async fn names_the_folder(world: &World, headers: &[(&str, &str)]) -> bool {
    let browser = Browser::new(world);
    browser.submit("/signin", &[("email", ADA)]).await.goes_to("/signin/code");
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let response = browser.send(Method::GET, "/signin/code", &headers, None).await;
    let page = response.page(200);
    assert!(page.contains("Check your mail"), "{page}");
    let folder = world.dir.path().join("data/outbox");
    let named = page.contains(folder.to_str().unwrap());
    assert_eq!(named, page.contains("writes mail to files"), "{page}");
    named
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_mails_is_named_to_this_computer_only() {
    let world = World::on_sqlite().await;
    assert!(names_the_folder(&world, &[("sec-fetch-site", "same-origin")]).await);
    for trace in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "attache.example.com"),
        ("forwarded", "for=127.0.0.1"),
        ("via", "1.1 proxy"),
        ("x-real-ip", "192.0.2.1"),
        ("host", "attache.example.com"),
    ] {
        assert!(!names_the_folder(&world, &[trace]).await, "{trace:?}");
    }
    world.server.stop().await;
    // Reached by others, behind a proxy, or under a public URL: another person's browser may be at the other end.
    let world = World::with(|settings| settings.http.bind = "0.0.0.0:0".parse().unwrap()).await;
    let own = format!("http://127.0.0.1:{}", world.server.address.port());
    assert!(!names_the_folder(&world, &[("host", own.trim_start_matches("http://"))]).await);
    world.server.stop().await;
    let world = World::with(|settings| settings.http.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()]).await;
    assert!(!names_the_folder(&world, &[]).await);
    world.server.stop().await;
    let world = World::with(|settings| settings.http.base_url = Some("http://attache.example.com".into())).await;
    assert!(!names_the_folder(&world, &[("host", "127.0.0.1")]).await);
    world.server.stop().await;
}
