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

/// A server that may fetch from a web server on this computer.
async fn closed_network() -> World {
    World::with(|settings| {
        let knowledge = &mut settings.knowledge;
        knowledge.worker = Some(env!("CARGO_BIN_EXE_attache").into());
        knowledge.fetch.allow_private = ["127.0.0.1/32", "::1/128"].map(|network| network.parse().unwrap()).to_vec();
        knowledge.fetch.ports = (1..=u16::MAX).collect();
        knowledge.fetch.host_interval = Duration::ZERO;
        // Pages that wait for the test must not exceed the timeout.
        knowledge.fetch.stall_timeout = Duration::from_mins(2);
        knowledge.fetch.total_timeout = Duration::from_mins(2);
    })
    .await
}

/// Adds notes over the API and waits for all outcomes; returns the batch and the memory of the last note.
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
        browser.follow("Add your first memory").await;

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
        // A missing page is not offered again, and failures are listed first.
        assert!(!browser.names(Role::Button).await.iter().any(|name| name.starts_with("Try again")), "404 does not pass");
        browser.visit(&browser.path().await).await;
        let first = "return document.querySelector('.items .badge').textContent";
        assert_eq!(browser.evaluate(first).await, "Not added");
        browser.look("done").await;
        browser.follow("Only failed").await;
        browser.sees("nothing").await;
        assert_eq!(browser.evaluate("return document.querySelectorAll('.items > li').length").await, 1);
        browser.look("failed").await;
        browser.follow("Add more").await;
        browser.find(Role::Link, "5 items, added").await;
        browser.look("known").await;

        // `/knowledge/search`
        browser.follow("Search").await;
        browser.find(Role::Link, "Harbour timetable").await;
        browser.look("newest").await;
        browser.fill("Search", "when do the ferries sail").await;
        browser.sees("result").await;
        browser.find(Role::Link, "Harbour timetable").await;
        assert_eq!(browser.path().await, "/knowledge/search?q=when+do+the+ferries+sail&space=");
        assert!(marked(browser).await.contains(&"ferry".to_owned()), "{:?}", marked(browser).await);
        assert!(!browser.text().await.contains("Newest"));
        // Three results are shown, each with its fit in words; the others are folded.
        assert_eq!(browser.evaluate("return document.querySelector('.found h2').textContent").await, "Harbour timetable");
        assert_eq!(browser.evaluate("return document.querySelectorAll('#results > div > .found').length").await, 3);
        assert_eq!(browser.evaluate("return document.querySelector('.likeness').textContent").await, "fits well");
        assert!(!browser.text().await.contains(" %"));
        browser.look("found").await;
        browser.follow("Clear the search").await;
        browser.sees("Newest").await;
        assert_eq!(browser.path().await, "/knowledge");

        // `/knowledge/memories/…`: Markdown has its form, and foreign HTML is text.
        browser.fill("Search", "boathouse key").await;
        browser.sees("result").await;
        browser.follow("Keys").await;
        browser.sees("behind the <b>green</b> door").await;
        browser.look("memory").await;
        browser.visit("/knowledge").await;
        browser.follow("Tide").await;
        assert_eq!(browser.evaluate("return document.querySelector('.markdown h2').textContent").await, "Tides");
        assert_eq!(browser.evaluate("return document.querySelector('.markdown em').textContent").await, "six hours");
        browser.look("markdown").await;
    }

    async fn the_library_lists_edits_moves_and_deletes(world: World, browser: Browser) {
        let jo = world.person("jo@example.com").await;
        let hostile = "# Boats\n\n<img src=x onerror=alert(1)> [go](javascript:alert(1)) ![p](https://evil.example/p.png) <script>alert(1)</script>";
        let notes = ["Bread needs flour.", "Bread needs water.", "Soup needs salt.", hostile];
        remembered(world, &jo, &notes).await;
        let key = world.key(&jo, json!({ "name": "more" })).await;
        let kitchen = world.space(&key, "Kitchen", false).await;
        browser.signed_in(&jo).await;
        // `/knowledge/library`
        browser.visit("/knowledge").await;
        browser.follow("Library").await;
        browser.sees("4 memories").await;
        browser.look("all").await;

        // Several at a time: moved, tagged.
        browser.choose("Select Bread needs flour.").await;
        browser.choose("Select Bread needs water.").await;
        browser.look("selected").await;
        browser.select("Move to", "Kitchen").await;
        browser.press("Move").await;
        browser.sees("2 memories moved.").await;
        browser.choose("Select Bread needs flour.").await;
        browser.fill("Tags to add", "Baking, dough").await;
        browser.press("Tag").await;
        browser.sees("1 memory tagged.").await;
        browser.follow("baking").await;
        browser.sees("Bread needs flour.").await;
        assert!(!browser.text().await.contains("Bread needs water."));
        browser.follow("Show all").await;
        browser.select("Space", "Kitchen").await;
        browser.press("Show").await;
        browser.sees("What this space holds").await;
        assert!(!browser.text().await.contains("Soup needs salt."));
        assert_eq!(browser.path().await, format!("/knowledge/library?space={kitchen}&type=&day="));
        browser.look("space").await;

        // `/knowledge/memories/…/edit`
        browser.follow("Bread needs water.").await;
        browser.follow("Edit").await;
        browser.look("edit").await;
        browser.fill("Title", " ").await;
        browser.without_validation().await;
        browser.press("Save").await;
        browser.sees("The title must have 1 to 200 characters.").await;
        browser.look("edit-faulty").await;
        browser.fill("Title", "Water").await;
        browser.fill("Tags", "dough").await;
        browser.fill("Text", "Bread needs **water** and time_limit.").await;
        browser.press("Save").await;
        browser.sees("The memory is saved.").await;
        browser.sees("Bread needs water and time_limit.").await;
        browser.look("edited").await;
        browser.visit(&browser.path().await).await;
        assert!(!browser.text().await.contains("The memory is saved."), "a message is shown once");

        // Hostile Markdown stays text.
        browser.visit("/knowledge/library").await;
        browser.follow("Boats").await;
        browser.sees("<script>alert(1)</script>").await;
        assert_eq!(browser.evaluate("return document.querySelectorAll('.markdown :is(img, script, a)').length").await, 0);
        browser.look("hostile").await;

        // `/knowledge/memories/…/delete`, and several.
        browser.follow("Delete").await;
        browser.sees("Its place in Memories").await;
        browser.look("question").await;
        browser.follow("Keep it").await;
        browser.follow("Delete").await;
        browser.press("Delete permanently").await;
        browser.sees("The memory is deleted.").await;
        for title in ["Water", "Soup needs salt."] {
            browser.choose(&format!("Select {title}")).await;
        }
        browser.press("Delete").await;
        browser.sees("Delete these 2 memories?").await;
        browser.look("forget").await;
        browser.follow("Keep them").await;
        for title in ["Water", "Soup needs salt."] {
            browser.choose(&format!("Select {title}")).await;
        }
        browser.press("Delete").await;
        browser.press("Delete permanently").await;
        browser.sees("2 memories deleted.").await;
        browser.sees("1 memory").await;

        // `/knowledge/import`: the export again, twice.
        let exported = world.get("/v1/export", &key).await.body;
        remembered(world, &jo, &["Something else."]).await;
        let file = world.dir.path().join("export.ndjson");
        fs::write(&file, [&exported[..], b"nonsense\n"].concat()).unwrap();
        browser.visit("/knowledge/add").await;
        browser.find(Role::Field, "Exported file").await.send_keys(file.to_str().unwrap()).await.unwrap();
        browser.press("Import").await;
        browser.sees("Done: 0 added, 1 known already, 1 not imported.").await;
        browser.look("imported").await;
    }

    async fn the_keyboard_alone_adds_finds_edits_sorts_and_deletes(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        // `/knowledge/add`
        browser.visit("/knowledge").await;
        browser.tab_to("Add your first memory").await;
        browser.type_keys("\n").await;
        browser.tab_to("Title of a note").await;
        browser.type_keys("Bread").await;
        browser.tab_to("Note").await;
        browser.type_keys("Dough rests overnight in the cold.").await;
        browser.tab_to("Add").await;
        browser.type_keys("\n").await;
        browser.sees("Done: 1 added").await;

        // `/knowledge/search`, by its key.
        browser.type_keys("/").await;
        browser.type_into("Search", "when does the dough rest").await;
        browser.sees("1 result").await;
        browser.tab_to("Bread").await;
        browser.type_keys("\n").await;

        // `/knowledge/memories/…/edit`
        browser.sees("Dough rests overnight").await;
        browser.tab_to("Edit").await;
        browser.type_keys("\n").await;
        browser.tab_to("Tags").await;
        browser.type_keys("baking").await;
        browser.tab_to("Save").await;
        browser.type_keys("\n").await;
        browser.sees("The memory is saved.").await;

        // `/knowledge/settings`: a space.
        browser.visit("/knowledge/settings").await;
        browser.tab_to("Name").await;
        browser.type_keys("Kitchen").await;
        browser.tab_to("Create the space").await;
        browser.type_keys("\n").await;
        browser.sees("The space is created").await;

        // `/knowledge/library`: a memory is selected with the space bar, moved and deleted.
        browser.visit("/knowledge/library").await;
        browser.tab_to("Select Bread").await;
        browser.type_keys(" ").await;
        browser.tab_to("Move to").await;
        browser.type_keys("K").await;
        browser.tab_to("Move").await;
        browser.type_keys("\n").await;
        browser.sees("1 memory moved.").await;
        browser.tab_to("Select Bread").await;
        browser.type_keys(" ").await;
        browser.tab_to("Delete…").await;
        browser.type_keys("\n").await;
        browser.sees("Delete this memory?").await;
        browser.look("question").await;
        browser.tab_to("Delete permanently").await;
        browser.type_keys("\n").await;
        browser.sees("1 memory deleted.").await;
    }

    async fn a_batch_is_cancelled_and_its_pages_are_tried_again(world: World, browser: Browser) {
        let (_site, address) = Site::start().await;
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/knowledge/add").await;
        browser.fill("Addresses of pages", &format!("http://{address}/silent http://{address}/gated ftp://example.com/")).await;
        browser.press("Add").await;
        browser.sees("1 of 3 done").await;
        let path = browser.path().await;
        // `/knowledge/batches/…/cancel`
        browser.press("Cancel the rest").await;
        browser.sees("Done: 3 not added").await;
        assert_eq!(browser.path().await, path);
        browser.look("cancelled").await;
        // Only the items that failed temporarily.
        browser.press("Try again what may work now").await;
        browser.sees("0 of 2 done").await;
        assert_ne!(browser.path().await, path);
        browser.press("Cancel the rest").await;
        browser.sees("Done: 2 not added").await;
    }

    async fn spaces_are_created_named_published_searched_and_deleted(world: World, browser: Browser) {
        let jo = world.person("jo@example.com").await;
        remembered(world, &jo, &["Bread needs flour, water, salt and time."]).await;
        browser.signed_in(&jo).await;
        browser.visit("/knowledge/settings").await;
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
        browser.sees("effective from now on").await;
        browser.sees("Anyone with an API key of this server").await;
        browser.look("changed").await;

        browser.follow("Add to it").await;
        browser.fill("Note", "Onions go into the pan before the bread is cut.").await;
        browser.press("Add").await;
        browser.sees("Into Kitchen").await;
        browser.sees("Done: 1 added").await;
        browser.visit("/knowledge/settings").await;
        browser.sees("Favourite").await;
        browser.look("spaces").await;
        browser.visit("/knowledge").await;
        browser.fill("Search", "bread").await;
        browser.sees("2 results").await;
        browser.select("In", "Kitchen").await;
        browser.sees("1 result").await;
        browser.look("found").await;
        browser.follow("Onions").await;
        browser.follow("Kitchen").await;
        browser.sees("What this space holds").await;
        browser.follow("About this space").await;
        browser.sees("1 memory").await;

        // `/knowledge/spaces/…/delete`
        browser.follow("Delete the space").await;
        browser.sees("It holds 1 memory").await;
        browser.look("question").await;
        browser.press("Delete the space").await;
        browser.sees("The space “Kitchen” is deleted. 1 memory moved to the default space.").await;
        browser.visit("/knowledge/library").await;
        browser.sees("Onions").await;
    }

    async fn a_filter_is_set_with_warnings_and_reports_skipped_items(world: World, browser: Browser) {
        let jo = world.person("jo@example.com").await;
        browser.signed_in(&jo).await;
        browser.visit("/knowledge").await;
        // `/knowledge/settings`
        browser.follow("Settings").await;
        browser.sees("No items were rejected").await;
        browser.look("default").await;

        // What only a language model reads is shown if the server has one, or if a value exists already.
        assert!(!browser.text().await.contains("Description of the content to keep"));
        let key = world.key(&jo, json!({ "name": "all" })).await;
        let change = world.request(reqwest::Method::PATCH, "/v1/settings", &key).json(&json!({ "filterPrompt": "About ships." }));
        world.send(change).await.expect(200);
        browser.visit("/knowledge/settings").await;

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

        browser.visit("/knowledge/add").await;
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
        browser.visit("/knowledge/add").await;
        assert!(!browser.text().await.contains("Markdown files"));
        assert!(!browser.text().await.contains("Exported file"));
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
        browser.follow("Search").await;
        browser.fill("Search", "wheels").await;
        browser.press("Search").await;
        browser.sees("1 result").await;
        assert_eq!(browser.path().await, "/knowledge/search?q=wheels&space=");
        browser.look("found").await;
        browser.visit(&format!("/knowledge/search?q={}", "a".repeat(5000))).await;
        browser.sees("Must have 1 to 4096 bytes").await;
        browser.look("too-long").await;
        // The library without a script: the actions are there when something is chosen.
        browser.visit("/knowledge/library").await;
        browser.choose("Select The spare wheel").await;
        browser.fill("Tags to add", "car").await;
        browser.press("Tag").await;
        browser.sees("1 memory tagged.").await;
    }

    async fn the_knowledge_of_others_is_not_shown(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let (batch, memory) = remembered(world, &mo, &["Nobody else may read this."]).await;
        let space = world.space(&world.key(&mo, json!({ "name": "more" })).await, "Private", false).await;
        browser.signed_in(&jo).await;
        for path in [format!("/knowledge/batches/{batch}"), format!("/knowledge/memories/{memory}"), format!("/knowledge/memories/{memory}/delete"), format!("/knowledge/memories/{memory}/edit"), "/knowledge/spaces/x".into(), "/knowledge/spaces/x/delete".into(), format!("/knowledge/library?space={space}")] {
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
