//! `/device`: a person attaches a computer, or does not.

use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use serde_json::{Value, json};

use crate::browser::{Browser, Role, pages};
use blackbox::client::{Credential, Response};
use blackbox::world::World;
use harness::event::Machine;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The request of a computer, and the codes that it shows.
struct Asking {
    device_code: String,
    user_code: String,
    link: String,
}

impl Asking {
    async fn to_be_attached(world: &World, machine: &Machine) -> Self {
        let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        let codes = world.post("/api/v1/device/code", &machine.into(), &body).await.expect(200);
        let text = |name: &str| codes[name].as_str().unwrap().to_owned();
        Self { device_code: text("device_code"), user_code: text("user_code"), link: text("verification_uri_complete") }
    }

    /// The response to the computer.
    async fn poll(&self, world: &World) -> Response {
        // The computer polls at the given interval.
        world.advance(Duration::from_secs(6));
        let body = json!({ "device_code": self.device_code, "grant_type": DEVICE_GRANT });
        world.post("/api/v1/device/token", &Credential::None, &body).await
    }
}

pages! {
    async fn a_computer_is_attached_by_its_code(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let asking = Asking::to_be_attached(world, &world.machine().await).await;
        browser.signed_in(&person).await;
        browser.visit("/device").await;
        browser.sees("Your computer shows a code").await;
        browser.look("entry").await;

        browser.fill("Code on the computer", &asking.user_code.to_lowercase().replace('-', " ")).await;
        browser.press("Continue").await;
        browser.sees("Attach this computer?").await;
        browser.sees(&asking.user_code).await;
        browser.sees("The computer that you use now").await;
        browser.sees("jo@example.com").await;
        let reachable = "return innerWidth > 640 || document.querySelector('.decision').getBoundingClientRect().bottom <= innerHeight";
        assert_eq!(browser.evaluate(reachable).await, true, "the decision is on the first screen of a phone");
        browser.look("asking").await;
        asking.poll(world).await.refused(400, "authorization_pending");

        browser.press("Approve").await;
        browser.sees("is attached").await;
        browser.look("attached").await;
        assert_eq!(asking.poll(world).await.expect(200)["user_account_id"], json!(person.account));
    }

    async fn one_page_asks_for_computer_agent_and_key(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let (machine, (agent, _)) = (world.machine().await, world.unclaimed().await);
        let ask = async |digest: &str| {
            let body = json!({
                "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid, "api_key": { "sha256": digest.repeat(64) },
                "agent": {
                    "registration_id": agent["registration_id"], "claim_token": agent["claim_token"], "tool": "claude-code",
                },
            });
            world.post("/api/v1/device/code", &(&machine).into(), &body).await.expect(200)
        };
        let claimed = async || world.token_by_claim(agent["claim_token"].as_str().unwrap()).await;
        let codes = ask("a").await;
        browser.signed_in(&person).await;
        browser.visit(codes["verification_uri_complete"].as_str().unwrap()).await;
        browser.sees("Claude Code asks to act for you").await;
        browser.sees("No content: what it did").await;
        browser.choose("My computer shows this code").await;
        browser.look("joined").await;
        browser.press("Approve").await;
        browser.sees("Claude Code on it does not act for you").await;
        claimed().await.refused(400, "authorization_pending");

        let codes = ask("b").await;
        browser.visit(codes["verification_uri_complete"].as_str().unwrap()).await;
        browser.sees("attached to your account already").await;
        browser.choose("My computer shows this code").await;
        browser.choose("read your account, its events and consent").await;
        browser.press("Approve").await;
        browser.sees("Claude Code on it acts for you").await;
        browser.look("joined-attached").await;
        claimed().await.expect(200);
    }

    async fn an_approval_asks_for_a_level_and_binds_the_computer(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let (first, second) = (world.machine().await, world.machine().await);
        let level = async |machine: &Machine| {
            let own = world.post("/api/v1/consent", &machine.into(), &json!({ "level": "full" })).await.expect(200);
            own["level"].as_str().unwrap().to_owned()
        };
        let records = async || world.get("/api/v1/consent", &person.cookie).await.expect(200)["levels"].clone();
        browser.signed_in(&person).await;
        browser.visit(&Asking::to_be_attached(world, &first).await.link).await;
        browser.choose("My computer shows this code").await;
        browser.sees("You have chosen no level yet").await;
        browser.look("level").await;
        browser.press("Approve").await;
        browser.sees("is attached").await;
        let chosen = records().await;
        assert_eq!((chosen.as_array().unwrap().len(), &chosen[0]["level"], &chosen[0]["set_by"]), (1, &json!("metadata-only"), &json!("person")));
        assert_eq!(chosen[0]["machine_uuid"], json!(null));
        assert_eq!(level(&first).await, "metadata-only", "the computer raised its level");

        // The present level is selected, and another one is an exception of the computer.
        browser.visit(&Asking::to_be_attached(world, &second).await.link).await;
        browser.choose("My computer shows this code").await;
        browser.sees("Your present level is selected").await;
        browser.choose("Nothing: no events are recorded").await;
        browser.press("Approve").await;
        browser.sees("is attached").await;
        assert_eq!((level(&second).await, level(&first).await), ("off".to_owned(), "metadata-only".to_owned()));
    }

    async fn a_computer_is_denied(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        let asking = Asking::to_be_attached(world, &world.machine().await).await;
        browser.visit(&asking.link).await;
        browser.press("Deny").await;
        browser.sees("was denied").await;
        browser.look("denied").await;
        asking.poll(world).await.refused(400, "access_denied");
    }

    async fn approving_and_denying_are_offered_alike(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit(&Asking::to_be_attached(world, &world.machine().await).await.link).await;
        let (approve, deny) = (browser.find(Role::Button, "Approve").await, browser.find(Role::Button, "Deny").await);
        let (approve_size, deny_size) = (approve.rectangle().await.unwrap(), deny.rectangle().await.unwrap());
        assert!((approve_size.2 - deny_size.2).abs() < 1.0, "{approve_size:?} {deny_size:?}");
        for property in ["height", "font-weight", "background-color"] {
            assert_eq!(approve.css_value(property).await.unwrap(), deny.css_value(property).await.unwrap(), "{property}");
        }
        // A code of a link was not typed, so it is compared first. Only then is Approve the stronger button.
        browser.press("Approve").await;
        browser.sees("Attach this computer?").await;
        browser.choose("My computer shows this code").await;
        let colour = |element: Element| async move { element.css_value("background-color").await.unwrap() };
        let deny = colour(deny).await;
        let deadline = Instant::now() + blackbox::TIME_LIMIT;
        while colour(approve.clone()).await == deny {
            assert!(Instant::now() < deadline, "Approve stays as Deny is");
        }
        browser.look("compared").await;
    }

    async fn a_computer_of_another_account_is_not_attached(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let machine = world.machine().await;
        let asking = Asking::to_be_attached(world, &machine).await;
        browser.signed_in(&jo).await;
        browser.visit(&asking.link).await;
        let attached = world.server.app.store.machine_attach(machine.uuid.parse().unwrap(), &mo.account, world.clock().now(), world.rng());
        assert_eq!(attached.await.unwrap(), Ok(()));
        browser.choose("My computer shows this code").await;
        browser.press("Approve").await;
        browser.sees("It is already attached to another account").await;
        browser.look("machine").await;
    }

    async fn an_identity_of_another_account_is_not_attached(world: World, browser: Browser) {
        let (jo, mo) = (world.person("jo@example.com").await, world.person("mo@example.com").await);
        let theirs = world.attached_machine(&mo).await;
        let asking = Asking::to_be_attached(world, &world.machine_of(&theirs.user_cuid).await).await;
        browser.signed_in(&jo).await;
        browser.visit(&asking.link).await;
        browser.choose("My computer shows this code").await;
        browser.press("Approve").await;
        browser.sees("belongs to another person's account").await;
        browser.look("identity").await;
    }

    async fn a_device_code_that_cannot_be_approved_shows_the_reason(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        let asking = Asking::to_be_attached(world, &world.machine().await).await;
        world.advance(Duration::from_mins(30));
        browser.visit(&asking.link).await;
        browser.sees("This code is no longer valid").await;
        browser.look("expired").await;

        browser.follow("Type another code").await;
        browser.fill("Code on the computer", "hello").await;
        browser.press("Continue").await;
        browser.sees("A code has eight letters").await;
        browser.look("no-code").await;

        for _ in 0..5 {
            browser.visit("/device?user_code=WDJB-MJHT").await;
        }
        browser.look("unknown").await;
        browser.visit("/device?user_code=WDJB-MJHT").await;
        browser.sees("Too many wrong codes").await;
        browser.look("blocked").await;
    }

    async fn approving_needs_a_recent_sign_in(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        world.advance(Duration::from_mins(16));
        let asking = Asking::to_be_attached(world, &world.machine().await).await;
        browser.visit(&asking.link).await;
        browser.sees("Your sign-in is too old").await;
        browser.look("stale").await;
        browser.press("Deny").await;
        browser.sees("was denied").await;
    }

    async fn a_computer_is_attached_without_scripts_and_without_a_mouse(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        let asking = Asking::to_be_attached(world, &world.machine().await).await;
        browser.without_scripts().await;
        browser.visit("/device").await;
        browser.type_into("Code on the computer", &format!("{}\n", asking.user_code)).await;
        browser.sees("Attach this computer?").await;
        browser.tab_to("Approve").await;
        browser.type_keys("\n").await;
        browser.sees("is attached").await;
        let response: Value = asking.poll(world).await.expect(200);
        assert_eq!(response["status"], "claimed");
    }
}
