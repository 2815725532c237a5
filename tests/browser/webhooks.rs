//! `/account/webhooks`: a person adds a webhook, tests it, sees its deliveries, and deletes it.

use crate::browser::{Browser, Role, pages};
use blackbox::eventually;
use blackbox::receiver::{Receiver, permit};
use blackbox::world::World;

async fn with_webhooks() -> World {
    World::with(|settings| {
        permit(settings);
        settings.webhooks.ports = (1024..=u16::MAX).collect();
    })
    .await
}

pages! { in with_webhooks;
    async fn a_webhook_is_added_tested_changed_and_deleted(world: World, browser: Browser) {
        let (receiver, address) = Receiver::start().await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account/access").await;
        browser.follow("Your webhooks").await;
        browser.sees("You have no webhooks").await;
        browser.look("none").await;

        // A URL that the server does not send to, and the form keeps the typed text.
        browser.fill("URL", "http://10.0.0.1:8080/").await;
        browser.fill("Description", "The pager").await;
        browser.press("Add the webhook").await;
        browser.sees("must not be in a private network").await;
        browser.look("refused").await;
        browser.fill("URL", &format!("http://{address}/broken")).await;
        browser.press("Add the webhook").await;
        browser.sees("It is not shown again").await;
        let secret = browser.find(Role::Field, "Secret").await.prop("value").await.unwrap().unwrap();
        assert!(secret.starts_with("whsec_"), "{secret}");
        browser.look("secret").await;
        browser.follow("I have stored it").await;
        browser.sees("Nothing was sent yet").await;
        assert!(!browser.text().await.contains(&secret));

        // `/account/webhooks/…/test`
        browser.press("Send a test").await;
        browser.sees("A test is on its way").await;
        receiver.wait("broken", 1).await;
        let here = browser.path().await;
        eventually("the delivery is shown", async || {
            browser.visit(&here).await;
            browser.text().await.contains("it answered with status 500").then_some(())
        })
        .await;
        browser.sees("Failed for now").await;
        browser.look("failing").await;
        browser.fill("URL", &format!("http://{address}/ok")).await;
        browser.press("Save").await;
        browser.sees("The webhook is saved").await;
        browser.press("Send a test").await;
        receiver.wait("ok", 1).await;
        eventually("the delivery is shown", async || {
            browser.visit(&here).await;
            browser.text().await.contains("Delivered").then_some(())
        })
        .await;
        browser.look("delivered").await;

        // `/account/webhooks/…/secret`
        browser.press("New secret").await;
        browser.sees("signed with the old secret too for 24 hours").await;
        browser.follow("I have stored it").await;
        browser.sees("Old secret").await;

        // `/account/webhooks/…/delete`
        browser.visit("/account/webhooks").await;
        browser.sees("The pager").await;
        browser.look("list").await;
        browser.visit(&here).await;
        browser.follow("Delete…").await;
        browser.sees("Delete this webhook?").await;
        browser.press("Delete permanently").await;
        browser.sees("The webhook is deleted").await;
        browser.sees("You have no webhooks").await;
    }
}
