//! The console of operators, on the operator's listener.

use app::config::OperatorSettings;
use blackbox::eventually;
use blackbox::world::World;
use domain::Digest;
use domain::operator::OperatorRole;
use serde_json::json;

use crate::browser::{Browser, Role, pages};

const TOKEN: &str = "opr_desk";

async fn with_operators() -> World {
    World::with(|settings| {
        let operator = |name: &str, token: &str, role| OperatorSettings {
            name: name.to_owned(),
            role,
            uid: None,
            token_sha256: Some(Digest::of(token.as_bytes())),
            oidc: None,
        };
        blackbox::receiver::permit(settings);
        settings.admin.changes = true;
        settings.admin.operator =
            vec![operator("desk", TOKEN, OperatorRole::Admin), operator("guest", "opr_guest", OperatorRole::Look)];
    })
    .await
}

async fn sign_in(world: &World, browser: &Browser, token: &str) {
    browser.visit(&format!("http://{}/console/nodes", world.server.admin_address)).await;
    browser.fill("Token", token).await;
    browser.press("Sign in").await;
}

pages! { in with_operators;
    async fn an_operator_restarts_an_actor_and_the_record_says_why(world: World, browser: Browser) {
        browser.visit(&format!("http://{}/", world.server.admin_address)).await;
        browser.follow("Sign in").await;
        browser.look("signin").await;
        browser.fill("Token", "opr_wrong").await;
        browser.press("Sign in").await;
        browser.sees("No operator has this token").await;
        browser.look("wrong").await;
        browser.fill("Token", TOKEN).await;
        browser.press("Sign in").await;
        browser.sees("The servers on this database").await;
        eventually("the node has its row", async || {
            browser.visit(&format!("http://{}/console/nodes", world.server.admin_address)).await;
            browser.text().await.contains("ready").then_some(())
        })
        .await;
        browser.look("nodes").await;
        browser.follow(&app::host_name()).await;
        browser.look("actors").await;
        browser.follow("mail").await;
        browser.sees("It has not failed since the start").await;
        browser.look("actor").await;
        browser.follow("Restart…").await;
        browser.sees("The actor finishes its messages and ends").await;
        browser.look("question").await;
        browser.fill("Reason", "it hangs").await;
        browser.press("Restart").await;
        browser.sees("recorded as act").await;
        eventually("the page shows the restart", async || {
            browser.text().await.contains("Restarts since the start\n1").then_some(())
        })
        .await;
        browser.follow("Acts").await;
        browser.sees("actor:mail").await;
        browser.sees("console (desk)").await;
        browser.look("acts").await;
        browser.follow("actor_restart").await;
        browser.sees("operator.actor_restart").await;
        browser.look("act").await;
    }

    async fn a_setting_is_tuned_with_an_end_and_back(world: World, browser: Browser) {
        sign_in(world, browser, TOKEN).await;
        browser.follow("Settings").await;
        browser.fill("Path contains", "actors.mail.queue_max").await;
        browser.press("Show").await;
        browser.look("settings").await;
        browser.follow("Override…").await;
        browser.sees("by default").await;
        browser.fill("Value", "minus one").await;
        browser.fill("Reason", "a burst").await;
        browser.press("Override").await;
        browser.sees("the value breaks a rule").await;
        browser.look("refused").await;
        browser.fill("Value", "77").await;
        browser.press("What would it do?").await;
        browser.sees("→ 77: no actor has as many messages now").await;
        browser.look("preview").await;
        browser.press("Override").await;
        browser.sees("recorded as act").await;
        assert!(browser.text().await.contains("console (desk)"), "the override names who set it");
        eventually("it is in force", async || {
            let live = world.server.app.live.get();
            (live.actors.of(actors::ActorKind::Mail).queue_max == 77).then_some(())
        })
        .await;
        browser.follow("Remove it").await;
        browser.fill("Reason", "it is calm").await;
        browser.press("Remove").await;
        browser.sees("No setting is overridden").await;

        browser.follow("Nodes").await;
        browser.follow("Pause a part…").await;
        browser.select("Part", "mail").await;
        browser.fill("Reason", "the relay is away").await;
        browser.press("Pause").await;
        browser.sees("mail is paused until").await;
        browser.look("paused").await;
        browser.follow("End…").await;
        browser.fill("Reason", "it is back").await;
        browser.press("End").await;
        browser.sees("Nothing is paused").await;
    }

    async fn many_held_events_are_released_by_their_reason(world: World, browser: Browser) {
        let machine = world.machine().await;
        for number in 0..1_200 {
            world.event(&machine, &json!([number])).await.held("malformed_envelope");
        }
        sign_in(world, browser, TOKEN).await;
        browser.follow("Held").await;
        browser.sees("Filter by reason or sender").await;
        browser.select("Held for", "malformed_envelope").await;
        browser.press("Show").await;
        // A renewal would replace what the test is about to press.
        browser.evaluate("document.querySelector('#pause').checked = true").await;
        browser.look("held").await;
        browser.follow("Discard all that match…").await;
        browser.sees("1200 match").await;
        browser.fill("Reason", "a broken client").await;
        browser.press("Discard").await;
        browser.sees("1000 discarded so far; more match").await;
        browser.look("more").await;
        browser.press("Discard").await;
        browser.sees("200 discarded").await;
        browser.sees("No event is held").await;

        // Ticked ones, without a script.
        let one = world.event(&machine, &json!(["one"])).await;
        one.held("malformed_envelope");
        browser.without_scripts().await;
        browser.visit(&format!("http://{}/console/held", world.server.admin_address)).await;
        browser.evaluate("document.querySelector('[name=ids]').checked = true").await;
        browser.press("Release ticked…").await;
        browser.sees("1 ticked").await;
        browser.fill("Reason", "a look at it").await;
        browser.press("Release").await;
        browser.sees("1 still_held").await;
    }

    async fn an_operator_disables_a_webhook_and_ends_a_session(world: World, browser: Browser) {
        let person = world.person("ada@example.com").await;
        let body = json!({ "url": "http://127.0.0.1:9/T0/secret", "kinds": ["event.held"] });
        world.post("/api/v1/webhooks", &person.cookie, &body).await.expect(201);
        sign_in(world, browser, TOKEN).await;
        browser.follow("Webhooks").await;
        browser.sees("127.0.0.1:9").await;
        assert!(!browser.text().await.contains("T0/secret"));
        browser.look("webhooks").await;
        browser.follow("Disable…").await;
        browser.fill("Reason", "it floods the proxy").await;
        browser.press("Disable").await;
        browser.sees("disabled: operator").await;
        browser.follow("Enable…").await;
        browser.fill("Reason", "the proxy is fixed").await;
        browser.press("Enable").await;
        browser.sees("Disable…").await;

        browser.follow("Sessions").await;
        browser.look("sessions").await;
        browser.fill("Account", &person.account.to_string()).await;
        browser.press("Show").await;
        browser.follow("End…").await;
        browser.fill("Reason", "a lost laptop").await;
        browser.press("End").await;
        browser.sees("No session is valid").await;
        world.get("/api/v1/sessions", &person.cookie).await.refused(401, "unauthorized");
    }

    async fn an_operator_who_may_only_look_is_offered_no_change(world: World, browser: Browser) {
        sign_in(world, browser, "opr_guest").await;
        browser.sees("The servers on this database").await;
        for page in ["nodes", "keys", "held", "flow", "webhooks", "sessions", "settings", "acts"] {
            browser.visit(&format!("http://{}/console/{page}", world.server.admin_address)).await;
            browser.sees("guest (look)").await;
            let links = browser.names(Role::Link).await;
            assert!(links.iter().all(|link| !link.ends_with('…')), "{page} offers a change: {links:?}");
        }
        browser.look("guest").await;
        browser.press("Sign out").await;
        browser.visit(&format!("http://{}/console/acts", world.server.admin_address)).await;
        browser.sees("The session lasts for eight hours").await;
    }
}
