//! `/account/access`: a person sees who gets in, and ends it.

use crate::browser::{Browser, Role, pages};
use blackbox::client::Credential;
use blackbox::world::World;
use serde_json::json;

pages! {
    async fn other_browsers_are_signed_out(world: World, browser: Browser) {
        let (here, elsewhere) = (world.person("jo@example.com").await, world.person("jo@example.com").await);
        browser.signed_in(&here).await;
        browser.visit("/account").await;
        browser.follow("Access").await;
        browser.sees("Signed-in browsers").await;
        browser.sees("This browser").await;
        browser.look("two").await;

        // `/account/sessions/…/end`, and of all: `/account/sessions/others/end`.
        let names = browser.names(Role::Button).await;
        let other = names.iter().find(|name| name.ends_with("signed in just now")).unwrap();
        browser.press(other).await;
        browser.sees("The browser is signed out").await;
        assert!(!browser.text().await.contains("Sign out everywhere else"));
        browser.look("one").await;
        assert_eq!(world.get("/account", &elsewhere.cookie).await.status, 303);

        let another = world.person("jo@example.com").await;
        browser.visit("/account/access").await;
        browser.press("Sign out everywhere else").await;
        browser.sees("All other browsers are signed out").await;
        assert_eq!(world.get("/account", &another.cookie).await.status, 303);
        assert_eq!(world.get("/account", &here.cookie).await.status, 200);
    }

    async fn a_key_is_created_shown_once_and_revoked(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account/access").await;
        browser.sees("You have no API keys").await;
        browser.look("none").await;

        // `/account/keys`, and then `/account/keys/…/revoke`.
        browser.fill("Name", "The search box").await;
        browser.choose("add pages and notes").await;
        browser.select("Expires", "in 30 days").await;
        browser.press("Create the key").await;
        browser.sees("It is not shown again").await;
        browser.look("made").await;
        let key = browser.find(Role::Field, "Key").await.prop("value").await.unwrap().unwrap();
        assert!(key.len() > 20, "{key}");
        browser.sees(&format!("export ATTACHE_API_KEY={key}")).await;
        browser.press("Copy the command that tests the key").await;
        browser.sees("Copied").await;

        browser.follow("I have stored it").await;
        browser.sees("The search box").await;
        assert!(!browser.text().await.contains(&key));
        browser.look("kept").await;
        browser.press("More about The search box").await;
        browser.follow("Revoke The search box").await;
        browser.sees("The access of every program that uses it").await;
        browser.look("question").await;
        browser.press("Revoke permanently").await;
        browser.sees("The key is revoked").await;
        browser.sees("You have no API keys that work").await;
        browser.press("Ended keys (1)").await;
        browser.sees("Revoked").await;
        browser.look("revoked").await;
    }

    async fn a_key_is_limited_to_certain_spaces(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let all = world.key(&person, json!({ "name": "all" })).await;
        let recipes = world.space(&all, "Recipes", false).await;
        browser.signed_in(&person).await;
        browser.visit("/account/access").await;
        browser.press("Create an API key").await;
        browser.fill("Name", "The cook").await;
        browser.choose("Recipes").await;
        browser.look("spaces").await;
        browser.press("Create the key").await;
        browser.sees("It is not shown again").await;
        let key = browser.find(Role::Field, "Key").await.prop("value").await.unwrap().unwrap();
        browser.follow("I have stored it").await;
        browser.sees("Recipes · created").await;
        let seen = world.get("/v1/spaces", &Credential::Bearer(key)).await.expect(200);
        let ids: Vec<_> = seen["spaces"].as_array().unwrap().iter().map(|space| space["id"].clone()).collect();
        assert_eq!(ids, [recipes]);
    }
}
