//! `/account`: a person sees what acts for them, and ends it.

use serde_json::json;

use crate::browser::{Browser, Role, Screen, pages};
use blackbox::world::World;
use harness::event::Chain;

fn end_of(id: &str) -> &str {
    &id[id.len() - 8..]
}

pages! {
    async fn a_first_time_user_is_shown_the_next_step(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.sees("Welcome. Three steps to start").await;
        browser.sees("0 of 3 done").await;
        browser.sees(&format!("attache login --url {}", world.url)).await;
        browser.sees(&format!("Read {}/auth.md and register for jo@example.com", world.url)).await;
        browser.sees("No computer is attached").await;
        browser.sees("No agent acts for you").await;
        browser.look("overview").await;
        browser.press("Copy the prompt").await;
        browser.sees("Copied").await;
        browser.follow("Activity").await;
        browser.sees("No events recorded yet").await;
        browser.look("activity").await;
        browser.follow("Overview").await;
        browser.follow("Attach a computer").await;
        browser.sees("Your computer shows a code").await;
    }

    async fn the_steps_end_when_all_are_done(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.sees("1 of 3 done").await;
        assert!(!browser.text().await.contains("attache login "), "a done step says no more");
        world.agent_of(&person).await;
        browser.visit("/account").await;
        browser.sees("2 of 3 done").await;
        browser.look("two").await;
        browser.follow("Add a note").await;
        browser.sees("Knowledge").await;
    }

    async fn a_computer_is_named_and_detached(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let name = format!("Computer …{}", end_of(&machine.uuid));
        let mut chain = Chain::new(&machine);
        world.event(&machine, &chain.next()).await.receipt();
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.sees(&name).await;
        browser.sees("none is refused beyond its number").await;
        browser.look("overview").await;
        browser.press(&format!("More about {name}")).await;
        browser.look("menu").await;
        browser.follow("Rename").await;
        browser.sees(&machine.uuid).await;
        browser.sees("Memory events of the last 30 days").await;
        browser.fill("Your name for this computer", " Jo's <laptop> ").await;
        browser.press("Save the name").await;
        browser.sees("The name is saved").await;
        browser.sees("Jo's <laptop>").await;
        browser.look("named").await;
        let listed = world.get("/api/v1/account/computers", &person.cookie).await.expect(200);
        assert_eq!(listed["computers"][0]["label"], "Jo's <laptop>");
        browser.follow("Its consent").await;
        browser.sees("Consent of Jo's <laptop>").await;

        browser.visit("/account").await;
        browser.press("More about Jo's <laptop>").await;
        browser.follow("Detach").await;
        browser.sees("Will be removed").await;
        browser.look("question").await;
        browser.follow("Keep it").await;
        browser.sees("Jo's <laptop>").await;

        browser.press("More about Jo's <laptop>").await;
        browser.follow("Detach").await;
        browser.press("Detach").await;
        browser.sees("The computer is detached").await;
        browser.sees("No computer is attached").await;
        browser.press("Ended (1)").await;
        browser.sees("Detached").await;
        browser.look("detached").await;
        browser.follow("Jo's <laptop>").await;
        browser.sees("Detached").await;
        browser.look("ended").await;
        assert!(!browser.names(Role::Link).await.iter().any(|name| name.starts_with("Detach")));
        world.activity(&machine, "").await.refused(401, "machine_unknown");
    }

    async fn an_agent_is_named_and_revoked(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let agent = world.agent_of(&person).await;
        let name = format!("Agent …{}", end_of(&agent.id.to_string()));
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.follow(&name).await;
        browser.sees("Active").await;
        browser.look("agent").await;
        browser.fill("Your name for this agent", "Coding agent").await;
        browser.press("Save the name").await;
        browser.sees("The name is saved").await;
        browser.follow("Your account").await;

        browser.press("More about Coding agent").await;
        browser.follow("Revoke").await;
        browser.sees("Will be removed").await;
        browser.look("question").await;
        browser.press("Revoke").await;
        browser.sees("The agent is revoked").await;
        browser.sees("No agent acts for you").await;
        browser.press("Ended (1)").await;
        browser.sees("Revoked").await;
        browser.look("revoked").await;
        assert!(!browser.names(Role::Link).await.iter().any(|name| name.starts_with("Revoke")));
        world.token_by_assertion(&agent.assertion).await.refused(400, "invalid_grant");
        world.activity(agent.token.clone(), "").await.expect(401);
    }

    async fn what_belongs_to_another_account_is_not_shown(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let (machine, agent) = (world.attached_machine(&mo).await, world.agent_of(&mo).await);
        browser.signed_in(&jo).await;
        browser.visit("/account").await;
        browser.sees("0 of 3 done").await;
        let paths = [
            format!("/account/computers/{}/detach", machine.uuid),
            format!("/account/agents/{}/revoke", agent.id),
            format!("/account/computers/{}", machine.uuid),
            format!("/account/agents/{}", agent.id),
        ];
        for path in paths {
            browser.visit(&path).await;
            browser.sees("Not found in your account").await;
            browser.look("not-mine").await;
            assert!(!browser.names(Role::Button).await.iter().any(|name| name.contains("permanently")), "{path}");
        }
    }

    async fn an_account_is_downloaded_and_closed(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.follow("download all of it, or close your account").await;
        browser.sees("Download my data").await;
        browser.look("data").await;
        let lines = world.get("/account/data/export", &person.cookie).await;
        assert_eq!(lines.status, 200);
        let lines = String::from_utf8_lossy(&lines.body).into_owned();
        assert!(lines.lines().any(|line| line.contains("\"computer\"") && line.contains(&machine.uuid)), "{lines}");

        browser.fill("Type your e-mail address to confirm", "mo@example.com").await;
        browser.press("Close my account").await;
        browser.sees("The account is not closed").await;
        browser.look("mistyped").await;
        assert_eq!(world.get("/account", &person.cookie).await.status, 200);

        browser.fill("Type your e-mail address to confirm", "jo@example.com").await;
        browser.press("Close my account").await;
        browser.sees("Your account is closed").await;
        assert_eq!(browser.path().await, "/account/closed");
        browser.look("closed").await;
        assert_eq!(world.get("/account", &person.cookie).await.status, 303);
        world.activity(&machine, "").await.refused(401, "machine_unknown");
        // The address signs up again: an empty account.
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.sees("0 of 3 done").await;
    }

    async fn the_keyboard_comes_past_the_header_first(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.tab_to("To the content").await;
        browser.look("skip").await;
        browser.type_keys("\n").await;
        browser.tab_to("Attach a computer").await;
    }

    async fn the_activity_page_shows_recorded_and_held_events(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        for _ in 0..3 {
            let event = chain.next();
            world.event(&machine, &event).await.receipt();
            world.included(&machine, event["event_id"].as_str().unwrap()).await;
        }
        world.event(&machine, &chain.peek_with(|event| event["extra"] = json!(1))).await.held("malformed_envelope");
        browser.signed_in(&person).await;
        browser.visit("/account/activity").await;
        browser.sees("Stored a memory").await;
        let proven = "return [...document.querySelectorAll('.proven')].map((mark) => mark.textContent)";
        assert_eq!(browser.evaluate(proven).await, json!(["✓Proven", "✓Proven", "✓Proven"]));
        browser.look("activity").await;
        browser.follow("Memory").await;
        browser.sees("Stored a memory").await;
        assert_eq!(browser.path().await, "/account/activity?lane=memory");
    }
}

/// With accounts that only operators create.
async fn law_of_strangers(screen: Screen) {
    let world = World::with(|settings| settings.signin.create_account = false).await;
    let law = "whoever_has_no_account_is_told_whom_to_ask";
    let Some(browser) = Browser::open(&world, screen, law).await else { return };
    browser.visit("/signin").await;
    assert!(!browser.text().await.contains("creates your account"));
    browser.look("signin").await;
    browser.fill("Your e-mail address", "jo@example.com").await;
    browser.press("Send me a code").await;
    browser.fill("The eight digits", &world.code_to("jo@example.com", 0).await).await;
    browser.press("Sign in").await;
    browser.sees("You have no account here yet").await;
    browser.look("account").await;

    let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
    let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200);
    browser.visit(claim["claim"]["verification_uri"].as_str().unwrap()).await;
    browser.sees("You have no account here yet").await;
    browser.look("claim").await;

    let machine = world.machine().await;
    let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
    let codes = world.post("/api/v1/device/code", &(&machine).into(), &body).await.expect(200);
    browser.visit(codes["verification_uri_complete"].as_str().unwrap()).await;
    browser.choose("My computer shows this code").await;
    browser.press("Approve").await;
    browser.sees("You have no account yet").await;
    browser.look("device").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_account_the_page_names_the_operator_on_a_desktop() {
    law_of_strangers(Screen::Desktop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_account_the_page_names_the_operator_on_a_phone() {
    law_of_strangers(Screen::Phone).await;
}
