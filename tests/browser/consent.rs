//! `/account/consent`: a person sets how much their computers may record.

use crate::browser::{Browser, pages};
use blackbox::world::World;
use harness::event::Machine;

/// The response to the computer.
async fn level(world: &World, machine: &Machine, query: &str) -> String {
    let body = world.get(&format!("/api/v1/consent{query}"), &machine.into()).await.expect(200);
    body["level"].as_str().unwrap().to_owned()
}

pages! {
    async fn a_change_of_consent_is_visible_to_the_computer(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let row = format!("Computer …{}", &machine.uuid[machine.uuid.len() - 8..]);
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.follow("Consent").await;
        browser.sees("How much your computers may record").await;
        browser.sees("Only the levels that you choose are enforced").await;
        browser.sees("Not chosen").await;
        browser.look("default").await;
        // Saving without a choice sets no level, and the default can be chosen.
        browser.press("Save All computers").await;
        browser.sees("No levels were changed").await;
        assert_eq!(world.get("/api/v1/consent", &person.cookie).await.expect(200)["levels"], serde_json::json!([]));
        browser.select("All computers, rsi", "No content").await;
        browser.press("Save All computers").await;
        browser.sees("Saved and effective").await;
        let levels = world.get("/api/v1/consent", &person.cookie).await.expect(200)["levels"].clone();
        assert_eq!((levels.as_array().unwrap().len(), &levels[0]["level"]), (1, &serde_json::json!("metadata-only")));
        assert_eq!(level(world, &machine, "").await, "metadata-only");

        browser.select("All computers, all lanes", "Nothing").await;
        browser.press("Save All computers").await;
        browser.sees("Saved and effective").await;
        assert_eq!(level(world, &machine, "").await, "off");
        assert_eq!(level(world, &machine, "?lane=memory").await, "off");

        browser.select(&format!("{row}, memory"), "Everything").await;
        browser.press(&format!("Save {row}")).await;
        browser.sees("Saved and effective").await;
        browser.look("chosen").await;
        assert_eq!(level(world, &machine, "?lane=llm").await, "off");
        assert_eq!(level(world, &machine, "?lane=memory").await, "full");

        browser.press(&format!("Save {row}")).await;
        browser.sees("No levels were changed").await;
        browser.look("unchanged").await;
    }

    async fn consent_is_set_without_scripts(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.without_scripts().await;
        browser.visit("/account/consent").await;
        browser.select("All computers, llm", "Everything").await;
        browser.press("Save All computers").await;
        browser.sees("Saved and effective").await;
        assert_eq!(level(world, &machine, "?lane=llm").await, "full");
    }

    async fn without_a_computer_the_consent_page_explains_consent(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account/consent").await;
        browser.sees("No computer is attached").await;
        browser.look("consent").await;
    }
}
