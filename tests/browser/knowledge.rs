//! `/knowledge`: a person adds, watches, finds, sorts, leaves out and forgets.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::browser::{Browser, Role, pages};
use blackbox::client::Credential;
use blackbox::site::Site;
use blackbox::world::{Person, World};

const FERRY: &str = "<!doctype html><html lang=en><title>Harbour timetable</title><main><h1>Harbour timetable</h1>
    <p>The ferry to the island leaves the old harbour at seven in the morning, at noon and at six in the evening. In winter the boat \
    at noon does not sail, and when a storm comes the harbour master closes the pier for everyone.</p>
    <p>Tickets are sold on board. Children and dogs travel free of charge; bicycles pay half. Whoever misses the last boat may ring the \
    bell at the lighthouse, and the keeper will find a bed.</p></main></html>";

/// A server that may fetch from a web server beside it.
async fn closed_network() -> World {
    World::with(|settings| {
        let knowledge = &mut settings.knowledge;
        knowledge.worker = Some(env!("CARGO_BIN_EXE_attache").into());
        knowledge.fetch.allow_private = ["127.0.0.1/32", "::1/128"].map(|network| network.parse().unwrap()).to_vec();
        knowledge.fetch.ports = (1..=u16::MAX).collect();
        knowledge.fetch.host_interval = Duration::ZERO;
        // What waits for the test to look is not too slow.
        knowledge.fetch.stall_timeout = Duration::from_mins(2);
        knowledge.fetch.total_timeout = Duration::from_mins(2);
    })
    .await
}

/// Adds notes over the API and waits for all of them; returns the batch and the memory of the last.
async fn remembered(world: &World, person: &Person, notes: &[&str]) -> (String, String) {
    let key = world.post("/api/v1/keys", &person.cookie, &json!({ "name": "all" })).await.expect(201);
    let key = Credential::Bearer(key["key"].as_str().unwrap().to_owned());
    let contents: Vec<_> = notes.iter().map(|note| json!({ "content": note })).collect();
    let told = world.post("/v1/batch-add", &key, &json!({ "contents": contents })).await;
    let text = String::from_utf8(told.body.to_vec()).unwrap();
    let memory = text.rsplit_once("\"id\":\"").unwrap_or_else(|| panic!("{text}")).1.split('"').next().unwrap();
    (told.header("x-batch-id").unwrap().to_owned(), memory.to_owned())
}

/// The marked words of the page.
async fn marked(browser: &Browser) -> Vec<String> {
    let script = "return [...document.querySelectorAll('mark')].map((mark) => mark.textContent)";
    serde_json::from_value(browser.evaluate(script).await).unwrap()
}

pages! {
    in closed_network;

    async fn added_items_are_shown_as_they_finish_and_found_while_typing(world: World, browser: Browser) {
        let (site, address) = Site::start().await;
        site.put("harbour", FERRY);
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.follow("Knowledge").await;
        browser.sees("No memories yet").await;
        browser.look("empty").await;

        // `/knowledge/add`: three pages, the last of another host, so that none waits for it; a note, and a file that becomes one.
        let file = world.dir.path().join("Tide <tables>.md");
        fs::write(&file, "# Tides\n\nLow water comes *six hours* after high water & the sandbank shows.").unwrap();
        let picture = world.dir.path().join("beach.png");
        fs::write(&picture, [0x89, 0x50]).unwrap();
        browser.fill("Addresses of pages", &format!("http://{address}/harbour\nhttp://{address}/nothing http://localhost:{}/gated", address.port())).await;
        browser.fill("Title of a note", "Keys").await;
        browser.fill("Note", "The key of the boathouse hangs behind the <b>green</b> door.").await;
        let files = browser.find(Role::Field, "Text and Markdown files").await;
        files.send_keys(file.to_str().unwrap()).await.unwrap();
        browser.find(Role::Button, "Leave out Tide <tables>.md").await;
        files.send_keys(picture.to_str().unwrap()).await.unwrap();
        browser.sees("beach.png is neither text nor Markdown").await;
        browser.look("filled").await;
        browser.press("Add").await;

        // `/knowledge/batches/…` and its `/stream`: the page stays the same page until the end.
        browser.sees("4 of 5 done: 3 added, 1 not added").await;
        browser.evaluate("window.stays = true").await;
        browser.look("running").await;
        site.open_gate();
        browser.sees("Done: 4 added, 1 not added").await;
        browser.find(Role::Link, "Gated").await;
        assert_eq!(browser.evaluate("return window.stays").await, true);
        assert_eq!(browser.evaluate("return document.querySelector('[data-status]').textContent").await, "Done: 4 added, 1 not added.");
        browser.look("done").await;
        browser.follow("Search, or add more").await;
        browser.find(Role::Link, "5 items, added").await;
        browser.look("known").await;

        // `/knowledge/search`
        browser.fill("Search", "when do the ferries sail").await;
        browser.find(Role::Link, "Harbour timetable").await;
        browser.sees("the most similar first").await;
        assert_eq!(browser.path().await, "/knowledge/search?q=when+do+the+ferries+sail&space=");
        assert!(marked(browser).await.contains(&"ferry".to_owned()), "{:?}", marked(browser).await);
        assert!(!browser.text().await.contains("Addresses of pages"));
        browser.look("found").await;
        browser.follow("Clear the search").await;
        browser.sees("Addresses of pages").await;
        assert_eq!(browser.path().await, "/knowledge");

        // `/knowledge/memories/…`, and its `/delete`.
        browser.fill("Search", "boathouse key").await;
        browser.follow("Keys").await;
        browser.sees("behind the <b>green</b> door").await;
        browser.look("memory").await;
        browser.follow("Delete").await;
        browser.sees("Its place in Memories").await;
        browser.look("question").await;
        browser.follow("Keep it").await;
        browser.follow("Delete").await;
        browser.press("Delete permanently").await;
        browser.sees("The memory is deleted").await;
        browser.look("deleted").await;
        browser.visit("/knowledge/search?q=boathouse").await;
        browser.sees("the most similar first").await;
        assert!(!browser.names(Role::Link).await.contains(&"Keys".to_owned()));
    }

    async fn a_batch_is_cancelled_and_its_pages_are_tried_again(world: World, browser: Browser) {
        let (_site, address) = Site::start().await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/knowledge").await;
        browser.fill("Addresses of pages", &format!("http://{address}/silent http://{address}/gated")).await;
        browser.press("Add").await;
        browser.sees("0 of 2 done").await;
        let path = browser.path().await;
        // `/knowledge/batches/…/cancel`
        browser.press("Cancel the rest").await;
        browser.sees("Done: 2 not added").await;
        assert_eq!(browser.path().await, path);
        browser.look("cancelled").await;
        browser.press("Try the missing pages again").await;
        browser.sees("0 of 2 done").await;
        assert_ne!(browser.path().await, path);
        browser.press("Cancel the rest").await;
        browser.sees("Done: 2 not added").await;
    }

    async fn spaces_are_created_named_published_and_searched(world: World, browser: Browser) {
        let jo = world.person("jo@example.com").await;
        remembered(world, &jo, &["Bread needs flour, water, salt and time."]).await;
        browser.signed_in(&jo).await;
        browser.visit("/knowledge").await;
        browser.without_validation().await;
        browser.press("Create the space").await;
        browser.sees("Enter a name of 1 to 100 characters").await;
        browser.look("unnamed").await;

        // `/knowledge/spaces`, and `/knowledge/spaces/…`.
        browser.fill("Name", "Recipes").await;
        browser.press("Create the space").await;
        browser.sees("The space is created").await;
        browser.look("made").await;
        browser.fill("Name", "  ").await;
        browser.without_validation().await;
        browser.press("Save").await;
        browser.sees("Enter a name of 1 to 100 characters").await;
        browser.look("renamed-to-nothing").await;
        browser.fill("Name", "Kitchen").await;
        browser.choose("Public").await;
        browser.choose("Favourite").await;
        browser.press("Save").await;
        browser.sees("Saved and effective").await;
        browser.sees("Anyone with an API key of this server").await;
        browser.look("changed").await;

        browser.follow("Add to it").await;
        browser.fill("Note", "Onions go into the pan before the bread is cut.").await;
        browser.press("Add").await;
        browser.sees("Into Kitchen").await;
        browser.sees("Done: 1 added").await;
        browser.follow("Search, or add more").await;
        browser.sees("Favourite").await;
        browser.look("spaces").await;
        browser.fill("Search", "bread").await;
        browser.sees("2 results").await;
        browser.select("In", "Kitchen").await;
        browser.sees("1 answer").await;
        browser.look("found").await;
        browser.follow("Onions").await;
        browser.follow("Kitchen").await;
        browser.sees("1 memory").await;
    }

    async fn a_filter_is_set_with_warnings_and_reports_skipped_items(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/knowledge").await;
        // `/knowledge/settings`
        browser.follow("The settings").await;
        browser.sees("No items were rejected").await;
        browser.look("default").await;

        browser.fill("Reject items that mention", "gossip\nwhat nobody has to know").await;
        browser.fill("Description of the content to keep", "About boats.").await;
        browser.press("Save").await;
        browser.sees("“what nobody has to know” must have 1 to 20 characters").await;
        browser.look("faulty").await;
        assert_eq!(browser.find(Role::Field, "Description of the content to keep").await.prop("value").await.unwrap().unwrap(), "About boats.");

        browser.fill("Reject items that mention", "gossip").await;
        browser.press("Save").await;
        browser.sees("inactive, because the filter is switched off").await;
        browser.look("off").await;
        browser.choose("Filter new content").await;
        browser.press("Save").await;
        browser.sees("Your own words are stored but inactive").await;
        assert!(!browser.text().await.contains("switched off"));
        browser.look("warned").await;

        browser.visit("/knowledge").await;
        browser.fill("Title of a note", "From the market").await;
        browser.fill("Note", "Gossip about the mayor and the baker.").await;
        browser.press("Add").await;
        browser.sees("Done: 1 rejected").await;
        browser.look("left-out").await;
        browser.visit("/knowledge/settings").await;
        browser.sees("From the market").await;
        browser.look("verdicts").await;
    }

    async fn adding_and_searching_need_no_scripts(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.without_scripts().await;
        browser.visit("/knowledge").await;
        assert!(!browser.text().await.contains("Markdown files"));
        browser.press("Add").await;
        browser.sees("Paste a URL or write a note").await;
        browser.look("nothing-to-add").await;
        browser.fill("Note", "The spare wheel is under the boot.").await;
        browser.press("Add").await;
        browser.sees("1 item").await;
        let path = browser.path().await;
        assert!(path.starts_with("/knowledge/batches/"), "{path}");
        while !browser.text().await.contains("Done: 1 added") {
            browser.sees("1 item").await;
            browser.visit(&path).await;
        }
        browser.follow("Search, or add more").await;
        browser.fill("Search", "wheels").await;
        browser.press("Search").await;
        browser.sees("1 answer").await;
        assert_eq!(browser.path().await, "/knowledge/search?q=wheels&space=");
        browser.look("found").await;
        browser.visit(&format!("/knowledge/search?q={}", "a".repeat(5000))).await;
        browser.sees("Must have 1 to 4096 bytes").await;
        browser.look("too-long").await;
    }

    async fn the_knowledge_of_others_is_not_shown(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let (batch, memory) = remembered(world, &mo, &["Nobody else may read this."]).await;
        browser.signed_in(&jo).await;
        for path in [format!("/knowledge/batches/{batch}"), format!("/knowledge/memories/{memory}"), format!("/knowledge/memories/{memory}/delete"), "/knowledge/spaces/x".into()] {
            browser.visit(&path).await;
            browser.sees("Not found").await;
            browser.look("nothing").await;
        }
        browser.visit("/knowledge/search?q=nobody").await;
        browser.sees("No results").await;
        browser.look("no-answer").await;
        browser.forget_cookies().await;
        browser.visit("/knowledge/search?q=nobody").await;
        browser.sees("We mail you a code").await;
    }
}
