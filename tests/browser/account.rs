//! `/account`: a person sees what acts for them, and ends it.

use serde_json::json;

use crate::browser::{Browser, Role, Screen, pages};
use blackbox::world::World;
use harness::event::Chain;

pages! {
    async fn a_first_time_user_is_shown_the_next_step(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.sees("No computer or agent acts for you yet").await;
        browser.sees("No computer is attached").await;
        browser.sees("No agent acts for you").await;
        browser.look("overview").await;
        browser.follow("Activity").await;
        browser.sees("No events recorded yet").await;
        browser.look("activity").await;
        browser.follow("Overview").await;
        browser.follow("Attach a computer").await;
        browser.sees("Your computer shows a code").await;
    }

    async fn a_computer_is_detached(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.sees(&machine.uuid).await;
        browser.look("overview").await;

        browser.follow("Detach").await;
        browser.sees("Will be removed").await;
        browser.look("question").await;
        browser.follow("Keep it").await;
        browser.sees(&machine.uuid).await;

        browser.follow("Detach").await;
        browser.press("Detach").await;
        browser.sees("No computer is attached").await;
        browser.look("detached").await;
        world.activity(&machine, "").await.refused(401, "machine_unknown");
    }

    async fn an_agent_is_revoked(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let agent = world.agent_of(&person).await;
        browser.signed_in(&person).await;
        browser.visit("/account").await;
        browser.sees("Active").await;
        browser.look("overview").await;

        browser.follow("Revoke").await;
        browser.sees("Will be removed").await;
        browser.look("question").await;
        browser.press("Revoke").await;
        browser.sees("Revoked").await;
        browser.look("revoked").await;
        assert!(!browser.names(Role::Link).await.iter().any(|name| name.starts_with("Revoke")));
        world.token_by_assertion(&agent.assertion).await.refused(400, "invalid_grant");
        world.activity(agent.token.clone(), "").await.expect(401);
    }

    async fn memories_of_another_account_are_not_shown(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let (machine, agent) = (world.attached_machine(&mo).await, world.agent_of(&mo).await);
        browser.signed_in(&jo).await;
        browser.visit("/account").await;
        browser.sees("No computer or agent acts for you yet").await;
        for path in [format!("/account/computers/{}/detach", machine.uuid), format!("/account/agents/{}/revoke", agent.id)] {
            browser.visit(&path).await;
            browser.look("not-mine").await;
            assert!(!browser.names(Role::Button).await.iter().any(|name| name.contains("permanently")), "{path}");
        }
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
        browser.sees("memory.stored").await;
        let proven = "return [...document.querySelectorAll('.proven')].map((mark) => mark.textContent)";
        assert_eq!(browser.evaluate(proven).await, json!(["✓Proven", "✓Proven", "✓Proven"]));
        browser.look("activity").await;
        browser.follow("memory").await;
        browser.sees("memory.stored").await;
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
