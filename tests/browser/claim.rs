//! `/claim`: a person confirms an agent.

use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::{Browser, Role, pages};
use blackbox::world::World;

/// The link and code that an agent shows.
struct Shown {
    claim_token: String,
    link: String,
    code: String,
}

impl Shown {
    fn of(registered: &Value, claim: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            claim_token: text(&registered["claim_token"]),
            link: text(&claim["verification_uri"]),
            code: text(&claim["user_code"]),
        }
    }

    /// Six digits that are not the code.
    fn wrong(&self) -> String {
        let last = if self.code.ends_with('0') { '1' } else { '0' };
        format!("{}{last}", &self.code[..5])
    }
}

/// An agent that any person may claim.
async fn agent(world: &World) -> Shown {
    let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
    let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200);
    Shown::of(&registered, &claim["claim"])
}

/// An agent that names the person who may claim it.
async fn agent_of(world: &World, email: &str) -> Shown {
    let registered = world.identity(json!({ "type": "service_auth", "login_hint": email })).await.expect(200);
    Shown::of(&registered, &registered["claim"])
}

async fn type_code(browser: &Browser, code: &str) {
    browser.find(Role::Field, "Digit 1 of 6").await.click().await.unwrap();
    browser.type_keys(code).await;
    browser.press("Confirm").await;
}

pages! {
    async fn an_agent_is_confirmed_by_its_link_and_code(world: World, browser: Browser) {
        let claim = agent(world).await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit(&claim.link).await;
        browser.sees("Is this your agent?").await;
        browser.look("open").await;

        type_code(browser, &claim.wrong()).await;
        browser.sees("That is not the code").await;
        browser.sees("4 tries are left").await;
        browser.look("wrong").await;
        world.token_by_claim(&claim.claim_token).await.refused(400, "authorization_pending");

        type_code(browser, &claim.code).await;
        browser.sees("The agent is yours").await;
        browser.look("confirmed").await;
        world.advance(Duration::from_secs(5));
        world.token_by_claim(&claim.claim_token).await.expect(200);
    }

    async fn the_code_needs_no_mouse(world: World, browser: Browser) {
        let claim = agent(world).await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit(&claim.link).await;
        browser.sees("Is this your agent?").await;
        // The first box has the focus, every digit moves on, and the last is sent with Enter.
        browser.type_into("Digit 1 of 6", &format!("{}\n", claim.code)).await;
        browser.sees("The agent is yours").await;
    }

    async fn five_wrong_codes_burn_a_link(world: World, browser: Browser) {
        let claim = agent(world).await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit(&claim.link).await;
        for left in ["4 tries are", "3 tries are", "2 tries are", "1 try is"] {
            type_code(browser, &claim.wrong()).await;
            browser.sees(&format!("{left} left")).await;
        }
        type_code(browser, &claim.wrong()).await;
        browser.sees("Too many wrong codes").await;
        browser.look("burnt").await;
        browser.visit(&claim.link).await;
        browser.sees("Too many wrong codes").await;
    }

    async fn a_claim_link_that_is_not_valid_shows_the_reason(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        let shown = agent(world).await;
        world.claim(json!({ "claim_token": shown.claim_token })).await.expect(200);
        browser.visit(&shown.link).await;
        browser.sees("There is a newer link").await;
        browser.look("superseded").await;

        browser.visit("/claim?attempt=nothing").await;
        browser.sees("This link is not valid").await;
        browser.look("unknown").await;

        browser.visit(&agent_of(world, "mo@example.com").await.link).await;
        browser.sees("This link is for another address").await;
        browser.look("other-person").await;

        let shown = agent(world).await;
        world.advance(Duration::from_mins(30));
        browser.visit(&shown.link).await;
        browser.sees("This link has expired").await;
        browser.look("expired").await;
    }

    async fn an_expired_code_confirms_no_claim(world: World, browser: Browser) {
        let claim = agent(world).await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit(&claim.link).await;
        world.advance(Duration::from_mins(30));
        type_code(browser, &claim.code).await;
        browser.sees("This link has expired").await;
        world.token_by_claim(&claim.claim_token).await.refused(400, "expired_token");
    }

    async fn an_agent_is_confirmed_without_scripts(world: World, browser: Browser) {
        let claim = agent_of(world, "jo@example.com").await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.without_scripts().await;
        browser.visit(&claim.link).await;
        browser.look("open").await;
        browser.fill("Code that the agent shows", &claim.wrong()).await;
        browser.press("Confirm").await;
        browser.sees("That is not the code").await;
        browser.look("wrong").await;
        browser.fill("Code that the agent shows", &claim.code).await;
        browser.press("Confirm").await;
        browser.sees("The agent is yours").await;
    }
}
