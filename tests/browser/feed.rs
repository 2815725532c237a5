//! `/account/feed`: a person creates a feed, changes its kinds, replaces its link, and deletes it.

use crate::browser::{Browser, Role, pages};
use blackbox::client::Credential;
use blackbox::world::World;
use serde_json::json;

async fn with_feeds() -> World {
    World::with(|settings| settings.feeds.enabled = true).await
}

pages! { in with_feeds;
    async fn a_feed_is_created_changed_replaced_and_deleted(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account/access").await;
        browser.follow("Your feed").await;
        browser.sees("Create your feed").await;
        browser.look("none").await;

        // A feed without kinds is refused.
        for kind in [
            "an event is held",
            "an agent is revoked",
            "a computer is detached",
            "a consent level changed",
            "events match one of your rules",
        ] {
            browser.choose(kind).await;
        }
        browser.press("Create the feed").await;
        browser.sees("Choose at least one kind").await;
        browser.look("refused").await;
        browser.choose("a consent level changed").await;
        browser.press("Create the feed").await;
        browser.sees("It is not shown again").await;
        let link = async || browser.find(Role::Field, "Link").await.prop("value").await.unwrap().unwrap();
        let old = link().await;
        browser.look("link").await;
        browser.press("Copy the link").await;
        browser.sees("Copied").await;
        browser.follow("I have stored it").await;
        browser.sees("Kept 30 days").await;
        assert!(!browser.text().await.contains("/feeds/"));
        browser.look("created").await;
        let consent = json!({ "level": "off", "lane": "llm" });
        world.post("/api/v1/consent", &person.cookie, &consent).await.expect(200);

        // `/feeds/…` is for programs.
        let read = async |link: &str| world.get(link.strip_prefix(&world.url).unwrap(), &Credential::None).await;
        let document = read(&old).await;
        assert!(String::from_utf8_lossy(&document.body).contains("A consent level changed to off"), "{document:?}");

        // `/account/feed/kinds`
        browser.choose("a batch of memories ended").await;
        browser.press("Save").await;
        browser.sees("The feed is saved").await;

        // `/account/feed/link`
        browser.press("New link").await;
        browser.sees("The old link has ended").await;
        browser.look("replaced").await;
        let new = link().await;
        assert_eq!((read(&old).await.status, read(&new).await.status), (404, 200));
        browser.follow("I have stored it").await;

        // `/account/feed/delete`
        browser.follow("Delete…").await;
        browser.sees("Delete your feed?").await;
        browser.look("question").await;
        browser.press("Delete permanently").await;
        browser.sees("The feed is deleted").await;
        browser.sees("Create your feed").await;
        assert_eq!(read(&new).await.status, 404);
    }
}
