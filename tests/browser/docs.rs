//! `/docs`: the description of the API, for people.

use crate::browser::{Browser, pages};
use blackbox::world::World;

pages! {
    async fn the_api_is_described_for_people(_world: World, browser: Browser) {
        browser.visit("/docs").await;
        browser.sees("The API").await;
        browser.sees("/api/v1/agent-auth/identity").await;
        browser.look("closed").await;
        browser.evaluate("document.querySelectorAll('#registerAgent, #submitEvent').forEach(one => one.open = true)").await;
        browser.sees("unsupported_identity_type").await;
        browser.sees("login_hint").await;
        browser.look("open").await;
    }

    async fn every_page_leads_to_it(_world: World, browser: Browser) {
        browser.visit("/signin").await;
        browser.follow("API").await;
        assert_eq!(browser.path().await, "/docs");
    }
}
