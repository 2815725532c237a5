//! `/signin`: a person signs in, and signs out.

use std::time::Duration;

use app::config::OidcSettings;
use harness::oidc::{Account, CLIENT_ID, CLIENT_SECRET, EmailClaims, Provider};

use crate::browser::{Browser, Role, Screen, pages};
use blackbox::world::World;

const JO: &str = "jo@example.com";

/// A code that is not this one.
fn wrong(code: &str) -> String {
    let last = if code.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &code[..code.len() - 1])
}

async fn ask_for_code(world: &World, browser: &Browser, mails: usize) -> String {
    browser.fill("Your e-mail address", JO).await;
    browser.press("Send me a code").await;
    browser.sees("Check your mail").await;
    assert_eq!(browser.path().await, "/signin/code");
    world.code_to(JO, mails - 1).await
}

async fn type_code(browser: &Browser, code: &str) {
    browser.fill("The eight digits", code).await;
    browser.press("Sign in").await;
}

pages! {
    async fn a_mailed_code_signs_in_and_leads_to_where_one_was_going(world: World, browser: Browser) {
        browser.visit("/signin").await;
        browser.sees("We mail you a code").await;
        browser.visit("/account/activity").await;
        browser.sees("The first sign-in creates your account").await;
        browser.look("address").await;
        let code = ask_for_code(world, browser, 1).await;
        browser.sees("Your code to sign in").await;
        // Another code can be sent after a moment.
        let again = browser.find(Role::Button, "Send another code").await;
        assert!(!again.is_enabled().await.unwrap());
        browser.look("code").await;

        type_code(browser, &wrong(&code)).await;
        browser.sees("That is not the code").await;
        browser.look("wrong").await;
        type_code(browser, &code).await;
        browser.sees("No events recorded yet").await;
        assert_eq!(browser.path().await, "/account/activity");

        // `/signout` redirects to the start page at once.
        browser.press("Sign out").await;
        browser.sees("We mail you a code").await;
        assert_eq!(browser.path().await, "/signin");
        browser.visit("/account").await;
        browser.sees("We mail you a code").await;
    }

    async fn an_invalid_email_address_is_reported_on_the_page(_world: World, browser: Browser) {
        browser.visit("/signin").await;
        // The browser itself is content with this one.
        browser.fill("Your e-mail address", "jo@example..com").await;
        browser.without_validation().await;
        browser.press("Send me a code").await;
        browser.sees("This is not an e-mail address").await;
        browser.look("address").await;
    }

    async fn five_wrong_codes_burn_the_mailed_code(world: World, browser: Browser) {
        browser.visit("/signin").await;
        let code = ask_for_code(world, browser, 1).await;
        for left in ["4 more times", "3 more times", "2 more times", "once more"] {
            type_code(browser, &wrong(&code)).await;
            browser.sees(left).await;
        }
        type_code(browser, &wrong(&code)).await;
        browser.sees("Too many wrong codes").await;
        browser.look("burnt").await;

        browser.press("Send a new code").await;
        browser.sees("Check your mail").await;
        type_code(browser, &world.code_to(JO, 1).await).await;
        browser.sees("Three steps to start").await;
    }

    async fn an_expired_sign_in_code_is_refused(world: World, browser: Browser) {
        browser.visit("/signin").await;
        let code = ask_for_code(world, browser, 1).await;
        world.advance(Duration::from_mins(10));
        type_code(browser, &code).await;
        browser.sees("This code has expired").await;
        browser.look("expired").await;
    }

    async fn signing_in_needs_no_scripts_and_no_mouse(world: World, browser: Browser) {
        browser.without_scripts().await;
        browser.visit("/signin").await;
        browser.type_into("Your e-mail address", &format!("{JO}\n")).await;
        browser.sees("Check your mail").await;
        let code = world.code_to(JO, 0).await;
        browser.type_into("The eight digits", &format!("{code}\n")).await;
        browser.sees("Three steps to start").await;
    }

    async fn a_session_revoked_elsewhere_ends_here(world: World, browser: Browser) {
        let (here, elsewhere) = (world.person(JO).await, world.person(JO).await);
        browser.signed_in(&here).await;
        browser.visit("/account").await;
        browser.sees("Your account").await;
        let sessions = world.get("/api/v1/sessions", &elsewhere.cookie).await.expect(200)["sessions"].clone();
        let other = sessions.as_array().unwrap().iter().find(|session| session["current"] == false).unwrap();
        let path = format!("/api/v1/sessions/{}", other["id"].as_str().unwrap());
        assert_eq!(world.delete(&path, &elsewhere.cookie).await.status, 200);
        browser.follow("Activity").await;
        browser.sees("We mail you a code").await;
    }

    async fn a_required_recent_sign_in_returns_to_the_page(world: World, browser: Browser) {
        let person = world.person(JO).await;
        let machine = world.machine().await;
        browser.signed_in(&person).await;
        world.advance(Duration::from_mins(16));
        let body = serde_json::json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        let codes = world.post("/api/v1/device/code", &(&machine).into(), &body).await.expect(200);
        browser.visit(codes["verification_uri_complete"].as_str().unwrap()).await;
        browser.follow("Sign in again").await;
        browser.sees("You are signed in as jo@example.com").await;
        browser.look("again").await;
        browser.press("Send me a code").await;
        type_code(browser, &world.code_to(JO, 0).await).await;
        browser.choose("My computer shows this code").await;
        browser.press("Approve").await;
        browser.sees("is attached").await;
    }
}

/// With an OpenID provider; the pages of the provider are not judged.
async fn law_of_providers(screen: Screen) {
    let accounts = [Account::verified("sub-jo", JO), Account::unverified("sub-mo", "mo@example.com")];
    let callback = "http://127.0.0.1/signin/oidc/work/callback";
    let Some(provider) = Provider::start(callback, &accounts, EmailClaims::IdToken) else { return };
    let settings = OidcSettings {
        name: "work".into(),
        label: "Work".into(),
        issuer: provider.issuer.clone(),
        client_id: CLIENT_ID.into(),
        client_secret: Some(CLIENT_SECRET.into()),
        scopes: vec!["openid".into(), "email".into()],
    };
    let world = World::with(|all| all.signin.oidc.push(settings)).await;
    let Some(browser) = Browser::open(&world, screen, "a_provider_signs_in_a_verified_person").await else { return };
    browser.visit("/account/activity").await;
    browser.look("providers").await;
    browser.follow("Sign in with Work").await;
    browser.press("Refuse").await;
    browser.sees("You were not signed in").await;
    browser.look("refused").await;

    browser.follow("Sign in").await;
    assert_eq!(browser.path().await, "/signin?next=%2Faccount%2Factivity", "where they were going is kept");
    browser.follow("Sign in with Work").await;
    browser.press("Continue as mo@example.com").await;
    browser.look("unverified").await;
    browser.forget_cookies().await;

    browser.visit("/account/activity").await;
    browser.follow("Sign in with Work").await;
    browser.press("Continue as jo@example.com").await;
    browser.sees("No events recorded yet").await;
    assert_eq!(browser.path().await, "/account/activity");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_signs_in_a_verified_person_on_a_desktop() {
    law_of_providers(Screen::Desktop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_signs_in_a_verified_person_on_a_phone() {
    law_of_providers(Screen::Phone).await;
}
