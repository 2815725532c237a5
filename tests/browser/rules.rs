//! `/account/rules`: a person adds and deletes a rule, and switches the weekly digest on and off.

use std::time::Duration;

use crate::browser::{Browser, pages};
use blackbox::eventually;
use blackbox::world::World;
use harness::event::Chain;
use serde_json::json;

async fn with_rules() -> World {
    World::with(|settings| {
        settings.feeds.enabled = true;
        settings.mail.drain_every = Duration::from_millis(50);
    })
    .await
}

pages! { in with_rules;
    async fn a_rule_is_added_matches_and_is_deleted(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account/access").await;
        browser.follow("Your rules").await;
        browser.sees("You have no rules").await;
        browser.look("none").await;

        // A rule without conditions is refused, and the form keeps the typed text.
        browser.fill("Name", "Failed tools").await;
        browser.press("Add the rule").await;
        browser.sees("Choose a type, a lane, a result or something new").await;
        browser.look("refused").await;
        browser.fill("Type", "skill.*").await;
        browser.select("Result", "failed").await;
        browser.press("Add the rule").await;
        browser.sees("The rule is added").await;
        browser.sees("type skill.* · failed → mail, webhooks and feed").await;
        browser.sees("No message yet").await;

        // `/account/rules/digest`
        browser.press("Switch the digest on").await;
        browser.sees("The weekly digest is on").await;
        browser.sees("The next one is sent in").await;

        let mut chain = Chain::new(&machine);
        let mut run = || chain.next_with(|event| {
            event["event_type"] = json!("skill.invoked");
            event["lane"] = json!("skill");
            event["payload"] = json!({ "skill": "Bash", "succeeded": false });
        });
        world.event(&machine, &run()).await.receipt();
        eventually("the mail is written", async || {
            world.mails_to("jo@example.com").into_iter().find(|mail| mail.contains("Subject: Failed tools: 1 event"))
        })
        .await;
        world.event(&machine, &run()).await.receipt();
        eventually("the event is counted", async || {
            browser.visit("/account/rules").await;
            browser.text().await.contains("1 more in the next one").then_some(())
        })
        .await;
        browser.look("matched").await;

        // `/account/rules/…/delete`
        browser.press("Delete Failed tools").await;
        browser.sees("The rule is deleted").await;
        browser.press("Switch the digest off").await;
        browser.sees("The weekly digest is off").await;
        browser.sees("You have no rules").await;
    }
}
