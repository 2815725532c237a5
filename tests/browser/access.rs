//! `/account/access`: a person sees who gets in, and ends it.

use crate::browser::{Browser, Role, pages};
use blackbox::world::World;

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
        browser.sees("Signed-in browsers").await;
        assert!(!browser.text().await.contains("Sign out everywhere else"));
        browser.look("one").await;
        assert_eq!(world.get("/account", &elsewhere.cookie).await.status, 303);

        let another = world.person("jo@example.com").await;
        browser.visit("/account/access").await;
        browser.press("Sign out everywhere else").await;
        browser.sees("Signed-in browsers").await;
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

        browser.follow("I have stored it").await;
        browser.sees("The search box").await;
        assert!(!browser.text().await.contains(&key));
        browser.look("kept").await;
        browser.follow("Revoke The search box").await;
        browser.sees("The access of every program that uses it").await;
        browser.look("question").await;
        browser.press("Revoke permanently").await;
        browser.sees("Revoked").await;
        browser.look("revoked").await;
    }
}
