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
        // Types inside a body are expanded, with their limits.
        browser.sees("hash_chain.prev").await;
        browser.sees("scope.machine_id").await;
        browser.look("open").await;
    }

    async fn an_operation_is_found_and_its_request_copied_in_each_language(_world: World, browser: Browser) {
        browser.visit("/docs").await;
        browser.type_keys("/").await;
        browser.type_into("Find an operation", "device approve").await;
        browser.sees(" of ").await;
        browser.press("POST /api/v1/device/approve").await;
        browser.sees("curl http").await;
        browser.choose("Python").await;
        browser.sees("import json, os, urllib.request").await;
        browser.choose("TypeScript").await;
        browser.sees("await fetch(").await;
        browser.press("Copy the request in TypeScript").await;
        browser.sees("Copied").await;
        browser.look("found").await;
        // The choice of language stays, and a link opens its operation.
        browser.visit("/docs#submitEvent").await;
        browser.sees("hash_chain.prev").await;
        browser.sees("await fetch(").await;
    }

    async fn without_scripts_everything_is_there(_world: World, browser: Browser) {
        browser.without_scripts().await;
        browser.visit("/docs").await;
        browser.press("POST /api/v1/device/approve").await;
        browser.sees("curl http").await;
        browser.choose("Python").await;
        browser.sees("import json, os, urllib.request").await;
        assert!(!browser.text().await.contains("Find an operation"));
    }

    async fn the_guides_are_read_and_searched(_world: World, browser: Browser) {
        browser.visit("/docs/guides").await;
        browser.sees("Running a server").await;
        browser.look("list").await;
        browser.type_keys("/").await;
        browser.type_into("Search guides and API", "chain conflict\n").await;
        browser.sees("places for “chain conflict”").await;
        browser.look("found").await;
        browser.fill("Search guides and API", "post /api/v1/events\n").await;
        browser.sees("Send an event").await;
        browser.fill("Search guides and API", "zanzibar <b>\n").await;
        browser.sees("Nothing has every word of “zanzibar <b>”").await;
        browser.look("nothing").await;
        browser.visit("/docs/guides/protocol/events").await;
        browser.sees("Event envelope").await;
        browser.look("guide").await;
        browser.visit("/docs/guides/settings").await;
        browser.sees("requests_max").await;
        browser.look("settings").await;
    }

    async fn every_page_leads_to_it(_world: World, browser: Browser) {
        browser.visit("/signin").await;
        browser.follow("API").await;
        assert_eq!(browser.path().await, "/docs");
        browser.follow("The guides").await;
        assert_eq!(browser.path().await, "/docs/guides");
    }
}
