//! `/account`: a person sees what acts for them, and ends it.

use serde_json::json;

use crate::browser::{Browser, Role, pages};
use crate::event::Chain;
use crate::world::World;

pages! {
    async fn a_newcomer_is_told_what_to_do(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.sees("Nothing acts for you yet").await;
        browser.sees("No computer is attached").await;
        browser.sees("No agent acts for you").await;
        browser.look("overview").await;
        browser.follow("Activity").await;
        browser.sees("Nothing was recorded yet").await;
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
        browser.sees("What will be lost").await;
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
        browser.sees("What will be lost").await;
        browser.look("question").await;
        browser.press("Revoke").await;
        browser.sees("Revoked").await;
        browser.look("revoked").await;
        assert!(!browser.names(Role::Link).await.iter().any(|name| name.starts_with("Revoke")));
        world.token_by_assertion(&agent.assertion).await.refused(400, "invalid_grant");
        world.activity(agent.token.clone(), "").await.expect(401);
    }

    async fn what_was_recorded_and_what_was_held_is_told(world: World, browser: Browser) {
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
        browser.sees("Proven").await;
        browser.look("activity").await;
        browser.follow("memory").await;
        browser.sees("memory.stored").await;
        assert_eq!(browser.path().await, "/account/activity?lane=memory");
    }
}
