//! `/account/consent`: a person sets how much their computers may record.

use serde_json::{Value, json};

use crate::browser::{Browser, Role, pages};
use blackbox::world::World;
use harness::event::{Chain, Machine};

/// The response to the computer.
async fn level(world: &World, machine: &Machine, query: &str) -> String {
    let body = world.get(&format!("/api/v1/consent{query}"), &machine.into()).await.expect(200);
    body["level"].as_str().unwrap().to_owned()
}

fn name_of(machine: &Machine) -> String {
    format!("Computer …{}", &machine.uuid[machine.uuid.len() - 8..])
}

pages! {
    async fn a_change_of_consent_is_visible_to_the_computer(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let row = name_of(&machine);
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.follow("Consent").await;
        browser.sees("How much your computers may record").await;
        browser.sees("These levels also apply to every computer that is attached later").await;
        browser.sees("not chosen: nothing is enforced").await;
        browser.look("default").await;
        // Saving without a choice sets no level, and the default can be chosen.
        browser.sees("No changes").await;
        browser.press("Save").await;
        browser.sees("No levels were changed").await;
        assert_eq!(world.get("/api/v1/consent", &person.cookie).await.expect(200)["levels"], json!([]));
        browser.select("All computers, Self-review", "No content").await;
        browser.sees("1 change, not saved").await;
        browser.press("Save").await;
        browser.sees("Saved: 1 level changed").await;
        let levels = world.get("/api/v1/consent", &person.cookie).await.expect(200)["levels"].clone();
        assert_eq!((levels.as_array().unwrap().len(), &levels[0]["level"]), (1, &json!("metadata-only")));
        assert_eq!(level(world, &machine, "").await, "metadata-only");

        // One save stores several changes in different rows.
        browser.select("All computers, all lanes", "Nothing").await;
        browser.press(&row).await;
        browser.select(&format!("{row}, Memory"), "Everything").await;
        browser.sees("2 changes, not saved").await;
        browser.look("changed").await;
        browser.press("Save").await;
        browser.sees("Saved: 2 levels changed").await;
        browser.look("chosen").await;
        assert_eq!(level(world, &machine, "?lane=llm").await, "off");
        assert_eq!(level(world, &machine, "?lane=memory").await, "full");

        // An exception ends, and the level follows the general one again.
        browser.select(&format!("{row}, Memory"), "Follows: Nothing").await;
        browser.press("Save").await;
        browser.sees("Saved: 1 level changed").await;
        assert_eq!(level(world, &machine, "?lane=memory").await, "off");
        assert!(browser.text().await.contains("follows all computers"));

        // The last save is undone, with the exception that it ended.
        browser.press("Undo the last save").await;
        browser.sees("Memory: Everything").await;
        assert_eq!(level(world, &machine, "?lane=memory").await, "full");
    }

    async fn a_computer_that_is_attached_later_follows_the_levels_for_all(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account/consent").await;
        browser.select("All computers, all lanes", "Nothing").await;
        browser.press("Save").await;
        browser.sees("Saved: 1 level changed").await;
        let second = world.attached_machine(&person).await;
        browser.visit("/account/consent").await;
        browser.sees(&name_of(&second)).await;
        let text = browser.text().await;
        assert!(!text.contains("Differs") && !text.contains("not chosen") && text.contains("follows all computers"), "{text}");
        browser.look("later").await;
        assert_eq!(level(world, &second, "?lane=llm").await, "off");
        world.event(&second, &Chain::new(&second).next()).await.held("consent_exceeded");
    }

    // The buttons submit to /account/pause.
    async fn recording_is_paused_and_continued_by_buttons(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.press("Pause for an hour").await;
        browser.sees("Recording is paused").await;
        browser.sees("in 1 hour").await;
        browser.look("paused").await;
        assert_eq!(level(world, &machine, "").await, "off");
        world.event(&machine, &Chain::new(&machine).next()).await.held("consent_exceeded");
        browser.visit("/account").await;
        browser.sees("Recording is paused").await;
        browser.look("paused-account").await;
        browser.press("End the pause now").await;
        browser.sees("The pause has ended").await;
        assert_eq!(level(world, &machine, "").await, "metadata-only");
        // A computer that paused itself.
        world.post("/api/v1/consent/pause", &(&machine).into(), &json!({ "seconds": 600 })).await.expect(200);
        browser.visit("/account/consent").await;
        browser.sees(&format!("{} is paused", name_of(&machine))).await;
        browser.press(&format!("End the pause of {}", name_of(&machine))).await;
        browser.sees("The pause has ended").await;
        assert_eq!(level(world, &machine, "").await, "metadata-only");
    }

    async fn without_a_choice_the_pages_say_that_nothing_is_enforced(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit(&format!("/account/computers/{}", machine.uuid)).await;
        browser.sees("Not chosen: nothing is enforced").await;
        browser.look("computer-unchosen").await;
        browser.visit("/account/consent").await;
        browser.sees("Not chosen: nothing is enforced").await;
        browser.look("unchosen").await;
        browser.press("Choose No content").await;
        browser.sees("Saved: 1 level changed").await;
        assert!(!browser.text().await.to_lowercase().contains("nothing is enforced"));
        world.event(&machine, &Chain::new(&machine).next()).await.held("consent_exceeded");
        browser.visit(&format!("/account/computers/{}", machine.uuid)).await;
        browser.sees("No content").await;
    }

    async fn a_level_that_changed_elsewhere_is_reported_and_not_overwritten(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account/consent").await;
        let elsewhere = async |lane: &str, level: &str| {
            world.post("/api/v1/consent", &person.cookie, &json!({ "level": level, "lane": lane })).await.expect(200);
        };
        // A change of another level does not hinder, and is not undone by the old form.
        elsewhere("llm", "off").await;
        browser.select("All computers, Memory", "Everything").await;
        browser.press("Save").await;
        browser.sees("Saved: 1 level changed").await;
        assert_eq!(level(world, &machine, "?lane=llm").await, "off");
        // A change of the same level is shown, with the choice of the person kept.
        elsewhere("memory", "off").await;
        browser.select("All computers, Memory", "No content").await;
        browser.press("Save").await;
        browser.sees("All computers, Memory: now “Nothing”, you chose “No content”").await;
        browser.look("conflict").await;
        assert_eq!(level(world, &machine, "?lane=memory").await, "off");
        browser.press("Save").await;
        browser.sees("Saved: 1 level changed").await;
        assert_eq!(level(world, &machine, "?lane=memory").await, "metadata-only");
    }

    async fn consent_is_set_without_scripts(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.without_scripts().await;
        browser.visit("/account/consent").await;
        browser.select("All computers, Model calls", "Everything").await;
        browser.press("Save").await;
        browser.sees("Saved: 1 level changed").await;
        assert_eq!(level(world, &machine, "?lane=llm").await, "full");
        // The page of one computer, with only the keyboard.
        browser.visit(&format!("/account/consent/{}", machine.uuid)).await;
        browser.sees(&format!("Consent of {}", name_of(&machine))).await;
        browser.look("one").await;
        browser.tab_to(&format!("{}, Model calls", name_of(&machine))).await;
        browser.type_keys("No").await;
        browser.tab_to("Save").await;
        browser.type_keys("\n").await;
        browser.sees("Saved: 1 level changed").await;
        // "Nothing" and "No content" start with the same letters: the keys select the first one.
        assert_eq!(level(world, &machine, "?lane=llm").await, "off");
    }

    async fn without_a_computer_the_consent_page_explains_consent(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account/consent").await;
        browser.sees("No computer is attached").await;
        browser.look("consent").await;
    }

    async fn the_consent_of_a_foreign_computer_is_neither_shown_nor_changed(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let (own, foreign) = (world.attached_machine(&jo).await, world.attached_machine(&mo).await);
        browser.signed_in(&jo).await;
        browser.visit(&format!("/account/consent/{}", foreign.uuid)).await;
        browser.sees("Not found in your account").await;
        browser.look("not found").await;
        browser.visit("/account/consent").await;
        browser.press(&name_of(&own)).await;
        browser.evaluate(&format!("for (const field of document.querySelectorAll('select')) field.name = field.name.replace('{}', '{}')", own.uuid, foreign.uuid)).await;
        browser.select(&format!("{}, Model calls", name_of(&own)), "Nothing").await;
        browser.press("Save").await;
        browser.sees("This computer is not attached to your account").await;
        assert!(!browser.names(Role::Button).await.contains(&"Save".to_owned()));
        assert_eq!(level(world, &foreign, "?lane=llm").await, "metadata-only");
        assert_eq!(world.get("/api/v1/consent", &mo.cookie).await.expect(200)["levels"], Value::Array(vec![]));
    }
}
