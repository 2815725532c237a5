//! Every row of `docs/protocol/computers.md`: endpoints, states and errors; and the order of checks of
//! `docs/decisions/0004-device-codes.md`.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use store::account::Provision;

use blackbox::browser::Browser;
use blackbox::client::{Credential, DEVICE_GRANT, Response};
use blackbox::eventually;
use blackbox::world::World;
use harness::event::Machine;
use harness::{on_each_database, on_sqlite};

const CODE: &str = "/api/v1/device/code";
const APPROVE: &str = "/api/v1/device/approve";
const DENY: &str = "/api/v1/device/deny";
const TOKEN: &str = "/api/v1/device/token";

const HOUR: Duration = Duration::from_hours(1);
const VALID: Duration = Duration::from_mins(30);

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {value}"))
}

/// Requests a device code; returns it with its user code.
async fn asking(world: &World, machine: &Machine) -> (String, String) {
    let code = world.device_code(machine).await.expect(200);
    (text(&code, "device_code").to_owned(), text(&code, "user_code").to_owned())
}

/// Requests a device code for a new computer.
async fn another_device_code(world: &World) -> (String, String) {
    asking(world, &world.machine().await).await
}

/// The account that a computer is attached to.
async fn attached_to(world: &World, machine: &Machine) -> Option<String> {
    let uuid = machine.uuid.parse().unwrap();
    let known = world.server.app.store.machine_facts(uuid).await.unwrap().unwrap();
    known.facts.account.map(|account| account.as_str().to_owned())
}

/// An account of an identity without an owner.
async fn provisioned(world: &World, machine: &Machine) -> String {
    let (app, cuid) = (&world.server.app, machine.user_cuid.parse().unwrap());
    match app.store.account_provision(Some(&cuid), None, None, world.clock().now(), &app.rng).await.unwrap() {
        Provision::Created(account) => account.as_str().to_owned(),
        refused => panic!("{refused:?}"),
    }
}

async fn raw(world: &World, path: &str, credential: &Credential, body: &'static str) -> Response {
    let request = world.request(Method::POST, path, credential).header(CONTENT_TYPE, "application/json");
    world.send(request.body(body)).await
}

#[track_caller]
fn assert_no_store(response: &Response) {
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert!(response.header("content-type").unwrap().starts_with("application/json"));
}

/// The path of the first fault that a refusal names.
#[track_caller]
fn fault(response: &Response) -> String {
    let refused = response.refused(400, "invalid_request");
    assert!(!text(&refused["issues"][0], "message").is_empty(), "{refused}");
    text(&refused["issues"][0], "path").to_owned()
}

on_sqlite! {
    async fn a_computer_asks_only_for_an_agent_that_it_holds(world: World) {
        let (ada, machine) = (world.person("ada@example.com").await, world.machine().await);
        let ask = async |agent: Value| {
            let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid, "agent": agent });
            world.post("/api/v1/device/code", &(&machine).into(), &body).await
        };
        let of = |registered: &Value| {
            json!({ "registration_id": registered["registration_id"], "claim_token": registered["claim_token"], "tool": "codex" })
        };
        let (held, _) = world.unclaimed().await;
        let (other, _) = world.unclaimed().await;
        let claimed = world.agent_of(&ada).await;
        let for_ada = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let mut foreign = of(&held);
        foreign["claim_token"] = other["claim_token"].clone();
        let mut unknown = of(&held);
        unknown["claim_token"] = json!("clm_unknown");
        let settled = json!({ "registration_id": claimed.id, "claim_token": claimed.claim_token, "tool": "codex" });
        for refused in [foreign, unknown, settled, of(&for_ada)] {
            assert_eq!(fault(&ask(refused.clone()).await), "agent", "{refused}");
        }
        let mut tool = of(&held);
        tool["tool"] = json!("my own words");
        for wrong in [json!({}), tool, json!("x")] {
            assert_eq!(ask(wrong.clone()).await.status, 400, "{wrong}");
        }

        // An approval over the API only attaches the computer, for every approving party.
        let code = ask(of(&held)).await.expect(200);
        assert_eq!(code.as_object().unwrap().len(), 6, "{code}");
        world.device_approve(&ada.cookie, text(&code, "user_code")).await.expect(200);
        assert_eq!(attached_to(&world, &machine).await.as_deref(), Some(ada.account.as_str()));
        world.token_by_claim(text(&held, "claim_token")).await.refused(400, "authorization_pending");
        let code = ask(of(&held)).await.expect(200);
        world.device_approve(&claimed.token, text(&code, "user_code")).await.expect(200);
        world.token_by_claim(text(&held, "claim_token")).await.refused(400, "authorization_pending");
    }
}

on_each_database! {
    async fn a_computer_is_attached_to_the_account_of_its_approver(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.machine().await;
        let response = world.device_code(&machine).await;
        assert_no_store(&response);
        let code = response.expect(200);
        assert_eq!(code.as_object().unwrap().len(), 6, "{code}");
        assert!(text(&code, "device_code").starts_with("dvc_"));
        let user_code = text(&code, "user_code");
        let mails = |part: &str| part.len() == 4 && part.bytes().all(|byte| b"BCDFGHJKLMNPQRSTVWXZ".contains(&byte));
        let (left, right) = user_code.split_once('-').unwrap();
        assert!(mails(left) && mails(right), "{user_code}");
        assert_eq!(text(&code, "verification_uri"), format!("{}/device", world.url));
        let complete = format!("{}/device?user_code={user_code}", world.url);
        assert_eq!(text(&code, "verification_uri_complete"), complete);
        assert_eq!((&code["interval"], &code["expires_in"]), (&json!(5), &json!(1800)));

        let pending = world.device_token(text(&code, "device_code")).await;
        assert_no_store(&pending);
        assert_eq!(pending.refused(400, "authorization_pending").as_object().unwrap().len(), 1);

        let approved = world.device_approve(&person.cookie, user_code).await;
        assert_no_store(&approved);
        assert_eq!(approved.expect(200), json!({ "ok": true }));
        assert_eq!(attached_to(&world, &machine).await.as_deref(), Some(person.account.as_str()));

        // A final state is answered at any polling rate.
        let claimed = json!({ "user_account_id": person.account.as_str(), "status": "claimed" });
        for _ in 0..3 {
            let polled = world.device_token(text(&code, "device_code")).await;
            assert_no_store(&polled);
            assert_eq!(polled.expect(200), claimed);
        }
    }
}

on_sqlite! {
    async fn an_invalid_device_code_request_is_refused_with_its_issues(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.machine().await;
        let computer = Credential::from(&machine);
        for body in ["", "{", "nonsense", "{} {}"] {
            let refused = raw(&world, CODE, &computer, body).await;
            assert_no_store(&refused);
            refused.refused(400, "invalid_json");
        }
        let (cuid, uuid) = (&machine.user_cuid, &machine.uuid);
        let bad = [
            (json!([cuid, uuid]), ""),
            (json!({}), "user_cuid"),
            (json!({ "user_cuid": cuid }), "machine_uuid"),
            (json!({ "machine_uuid": uuid }), "user_cuid"),
            (json!({ "user_cuid": "NOT A CUID", "machine_uuid": uuid }), "user_cuid"),
            (json!({ "user_cuid": 1, "machine_uuid": uuid }), "user_cuid"),
            (json!({ "user_cuid": cuid, "machine_uuid": uuid.to_uppercase() }), "machine_uuid"),
            (json!({ "user_cuid": cuid, "machine_uuid": "c3fdd2b5-4e3a-4d2b-8a2f-0f2b1b0f8a11" }), "machine_uuid"),
        ];
        for (body, place) in bad {
            assert_eq!(fault(&world.post(CODE, &computer, &body).await), place, "{body}");
        }
        for path in [APPROVE, DENY] {
            let bad = [(json!({}), "user_code"), (json!({ "user_code": "" }), "user_code"), (json!({ "user_code": 1 }), "user_code")];
            for (body, place) in bad {
                let refused = world.post(path, &person.cookie, &body).await;
                assert_no_store(&refused);
                assert_eq!(fault(&refused), place, "{body}");
            }
            assert_eq!(fault(&raw(&world, path, &person.cookie, "{").await), "");
        }
        let (device_code, _) = asking(&world, &machine).await;
        let bad = [
            (json!({ "device_code": device_code }), "grant_type"),
            (json!({ "grant_type": DEVICE_GRANT }), "device_code"),
            (json!({ "grant_type": DEVICE_GRANT, "device_code": "" }), "device_code"),
            (json!({ "grant_type": DEVICE_GRANT, "device_code": null }), "device_code"),
            (json!({ "grant_type": "authorization_code", "device_code": device_code }), "grant_type"),
        ];
        for (body, place) in bad {
            let refused = world.post(TOKEN, &Credential::None, &body).await;
            assert_no_store(&refused);
            assert_eq!(fault(&refused), place, "{body}");
        }
        assert_eq!(fault(&raw(&world, TOKEN, &Credential::None, "{").await), "");
    }

    async fn a_computer_requests_a_device_code_only_for_itself(world: World) {
        let person = world.person("ada@example.com").await;
        let (machine, other) = (world.machine().await, world.machine().await);
        let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        world.post(CODE, &Credential::None, &body).await.refused(401, "unauthorized");
        world.post(CODE, &person.cookie, &body).await.refused(401, "unauthorized");
        let stranger = Credential::Bearer(format!("msk_{}", "A".repeat(43)));
        world.post(CODE, &stranger, &body).await.refused(401, "machine_unknown");
        world.post(CODE, &stranger, &json!({})).await.refused(401, "machine_unknown");
        for (user_cuid, machine_uuid) in
            [(&other.user_cuid, &machine.uuid), (&machine.user_cuid, &other.uuid), (&other.user_cuid, &other.uuid)]
        {
            let body = json!({ "user_cuid": user_cuid, "machine_uuid": machine_uuid });
            let refused = world.post(CODE, &Credential::from(&machine), &body).await;
            assert_no_store(&refused);
            refused.refused(403, "machine_mismatch");
        }
        // The approver is a person or an agent of a person.
        for path in [APPROVE, DENY] {
            let body = json!({ "user_code": "BCDF-GHJK" });
            world.post(path, &Credential::None, &body).await.refused(401, "unauthorized");
            world.post(path, &Credential::from(&machine), &body).await.refused(401, "unauthorized");
            world.post(path, &stranger, &body).await.refused(401, "machine_unknown");
        }
    }

    async fn a_detached_computer_gets_no_device_code(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let (device_code, user_code) = asking(&world, &machine).await;
        world.delete(&format!("/api/v1/machines/{}", machine.uuid), &person.cookie).await.expect(200);
        world.device_code(&machine).await.refused(401, "machine_unknown");
        world.device_approve(&person.cookie, &user_code).await.refused(409, "machine_not_registered");
        world.device_token(&device_code).await.refused(400, "authorization_pending");
    }

    async fn every_conflict_of_an_approval_has_its_error_code(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (_, nobody) = world.signed_in("nobody@example.com", false).await;

        let machine = world.machine().await;
        let (_, user_code) = asking(&world, &machine).await;
        assert!(world.server.app.store.machine_remove(machine.uuid.parse().unwrap(), world.clock().now()).await.unwrap());
        world.device_approve(&ada.cookie, &user_code).await.refused(409, "machine_not_registered");

        let machine = world.attached_machine(&bob).await;
        let (device_code, user_code) = asking(&world, &machine).await;
        world.device_approve(&ada.cookie, &user_code).await.refused(409, "machine_already_claimed");
        world.device_approve(&nobody, &user_code).await.refused(409, "machine_already_claimed");
        // The refusal left the code to its owner.
        world.device_token(&device_code).await.refused(400, "authorization_pending");
        world.device_approve(&bob.cookie, &user_code).await.expect(200);

        let (_, user_code) = asking(&world, &world.machine_of(&machine.user_cuid).await).await;
        world.device_approve(&ada.cookie, &user_code).await.refused(409, "cuid_already_claimed");
        world.device_approve(&nobody, &user_code).await.refused(409, "cuid_already_claimed");

        let (_, user_code) = another_device_code(&world).await;
        world.device_approve(&nobody, &user_code).await.refused(403, "account_required");

        let machine = world.machine().await;
        let account = provisioned(&world, &machine).await;
        let (device_code, user_code) = asking(&world, &machine).await;
        world.device_approve(&ada.cookie, &user_code).await.refused(409, "person_bound_to_other_account");
        assert_eq!(attached_to(&world, &machine).await, None);
        // A person without an account takes over the account that is provisioned for this identity.
        world.device_approve(&nobody, &user_code).await.expect(200);
        assert_eq!(world.device_token(&device_code).await.expect(200)["user_account_id"], account);
        assert_eq!(attached_to(&world, &machine).await, Some(account));
    }

    async fn the_name_of_a_computer_is_shown_without_control_and_bidi_characters(world: World) {
        let person = world.person("ada@example.com").await;
        let Credential::Cookie(pair) = &person.cookie else { unreachable!() };
        let browser = Browser::new(&world);
        browser.put("attache.session_token", pair.split_once('=').unwrap().1);
        let uuid = world.rng().uuid_v7(world.clock().now()).to_string();
        let name = "laptop\u{202e}gnp.exe\u{200b}!";
        let body = json!({ "user_cuid": world.rng().cuid2(), "machine_uuid": uuid, "name": name });
        let response = world.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
        let machine = Machine { user_cuid: text(&body, "user_cuid").into(), uuid, secret: text(&response, "machine_secret").into() };
        let (device_code, user_code) = asking(&world, &machine).await;
        let shown = |page: &str| {
            assert!(page.contains("laptopgnp.exe!"), "{page}");
            assert!(!page.contains(['\u{202e}', '\u{200b}']), "{page}");
        };
        shown(browser.get(&format!("/device?user_code={user_code}")).await.page(200));
        browser.submit("/device", &[("user_code", &user_code), ("decision", "approve")]).await;
        world.device_token(&device_code).await.expect(200);
        for path in ["/account", &format!("/account/computers/{}/detach", machine.uuid), "/account/consent"] {
            shown(browser.get(path).await.page(200));
        }
    }

    async fn approving_twice_on_the_page_shows_the_outcome(world: World) {
        let person = world.person("ada@example.com").await;
        let Credential::Cookie(pair) = &person.cookie else { unreachable!() };
        let browser = Browser::new(&world);
        browser.put("attache.session_token", pair.split_once('=').unwrap().1);
        for (decision, told) in [("approve", "is attached"), ("deny", "was denied")] {
            let (_, user_code) = another_device_code(&world).await;
            let page = format!("/device?user_code={}", user_code.replace('-', "%2D"));
            for _ in 0..2 {
                browser.submit("/device", &[("user_code", &user_code), ("decision", decision)]).await.goes_to(&page);
            }
            assert!(browser.get(&page).await.page(200).contains(told), "{told}");
        }
    }

    async fn a_device_code_that_is_not_pending_is_code_consumed(world: World) {
        let person = world.person("ada@example.com").await;
        let gone = async |user_code: &str| {
            for refused in [
                world.device_approve(&person.cookie, user_code).await,
                world.device_deny(&person.cookie, user_code).await,
            ] {
                assert_no_store(&refused);
                refused.refused(410, "code_consumed");
            }
        };
        gone("WXZB-CDFG").await;
        gone("nonsense").await;
        gone("-").await;

        let (approved, denied) = (another_device_code(&world).await, another_device_code(&world).await);
        world.device_approve(&person.cookie, &approved.1).await.expect(200);
        assert_eq!(world.device_deny(&person.cookie, &denied.1).await.expect(200), json!({ "ok": true }));
        let machine = world.machine().await;
        let superseded = asking(&world, &machine).await;
        let expired = asking(&world, &machine).await;
        for (_, user_code) in [&approved, &denied, &superseded] {
            gone(user_code).await;
        }
        world.advance(VALID);
        // The sign-in is not recent, so approving requires another one, also for an invalid code.
        let person = world.person("ada@example.com").await;
        world.device_approve(&person.cookie, &expired.1).await.refused(410, "code_consumed");
        world.device_deny(&person.cookie, &expired.1).await.refused(410, "code_consumed");

        // Each computer gets the outcome of its code.
        world.device_token(&approved.0).await.expect(200);
        world.device_token(&denied.0).await.refused(400, "access_denied");
        world.device_token(&superseded.0).await.refused(400, "expired_token");
        world.device_token(&expired.0).await.refused(400, "expired_token");
        for unknown in ["dvc_unknown", "x", &"x".repeat(10_000)] {
            let refused = world.device_token(unknown).await;
            assert_no_store(&refused);
            refused.refused(400, "expired_token");
        }
    }

    async fn polling_a_device_code_too_fast_is_slow_down_with_a_longer_interval(world: World) {
        let person = world.person("ada@example.com").await;
        let (device_code, user_code) = another_device_code(&world).await;
        world.device_token(&device_code).await.refused(400, "authorization_pending");
        for interval in [10, 15, 20] {
            let slowed = world.device_token(&device_code).await;
            assert_no_store(&slowed);
            assert_eq!(slowed.refused(400, "slow_down"), json!({ "error": "slow_down", "interval": interval }));
        }
        // Other computers are not slowed down, and a final state is returned immediately.
        let (other, _) = another_device_code(&world).await;
        world.device_token(&other).await.refused(400, "authorization_pending");
        world.device_deny(&person.cookie, &user_code).await.expect(200);
        world.device_token(&device_code).await.refused(400, "access_denied");
        world.device_token(&device_code).await.refused(400, "access_denied");
    }

    async fn an_approved_device_code_answers_for_a_day(world: World) {
        let (device_code, user_code) = another_device_code(&world).await;
        let (waiting, _) = another_device_code(&world).await;
        world.advance(VALID.checked_sub(Duration::from_secs(30)).unwrap());
        world.device_token(&waiting).await.refused(400, "authorization_pending");
        let person = world.person("ada@example.com").await;
        world.device_approve(&person.cookie, &user_code).await.expect(200);
        world.advance(Duration::from_secs(30));
        world.device_token(&waiting).await.refused(400, "expired_token");
        world.device_token(&device_code).await.expect(200);
        let world = world.restart().await;
        world.advance(23 * HOUR);
        world.device_token(&device_code).await.expect(200);
        world.advance(HOUR);
        world.device_token(&device_code).await.refused(400, "expired_token");
    }

    async fn a_second_device_code_supersedes_the_first(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.machine().await;
        let first = asking(&world, &machine).await;
        world.device_token(&first.0).await.refused(400, "authorization_pending");
        let second = asking(&world, &machine).await;
        // Its computer gets the answer within a moment, whichever node answered the poll before.
        eventually("the first code has expired", async || {
            let polled = world.device_token(&first.0).await;
            (polled.json()["error"] == "expired_token").then_some(())
        })
        .await;
        world.device_approve(&person.cookie, &first.1).await.refused(410, "code_consumed");
        world.device_approve(&person.cookie, &second.1).await.expect(200);
        world.device_token(&second.0).await.expect(200);
    }

    async fn case_and_punctuation_of_a_user_code_do_not_matter(world: World) {
        let person = world.person("ada@example.com").await;
        let ways: [fn(&str) -> String; 4] = [
            |code| code.to_lowercase(),
            |code| code.replace('-', ""),
            |code| format!(" {} ", code.replace('-', " – ")),
            |code| code.chars().flat_map(|mail| [mail, '.']).collect::<String>().to_lowercase(),
        ];
        for written in ways {
            let (device_code, user_code) = another_device_code(&world).await;
            world.device_approve(&person.cookie, &written(&user_code)).await.expect(200);
            world.device_token(&device_code).await.expect(200);
        }
    }

    async fn wrong_device_codes_are_counted_per_account_through_restarts(world: World) {
        let ada = world.person("ada@example.com").await;
        let agent = world.agent_of(&ada).await;
        let (device_code, user_code) = another_device_code(&world).await;
        // Approvals and denials share a count; a person and the person's agents have separate counts.
        for credential in [&ada.cookie, &agent.token] {
            world.device_approve(credential, "BBBB-BBBB").await.refused(410, "code_consumed");
            world.device_deny(credential, "CCCC-CCCC").await.refused(410, "code_consumed");
            world.device_approve(credential, "DDDD-DDDD").await.refused(410, "code_consumed");
            world.device_deny(credential, "FFFF-FFFF").await.refused(410, "code_consumed");
        }
        let world = world.restart().await;
        for credential in [&ada.cookie, &agent.token] {
            world.device_approve(credential, "GGGG-GGGG").await.refused(410, "code_consumed");
        }
        let world = world.restart().await;
        for credential in [&ada.cookie, &agent.token] {
            world.device_approve(credential, &user_code).await.refused(410, "code_consumed");
            world.device_deny(credential, &user_code).await.refused(410, "code_consumed");
        }
        world.device_token(&device_code).await.refused(400, "authorization_pending");
        world.advance(VALID.checked_sub(Duration::from_mins(1)).unwrap());
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        world.device_approve(&ada.cookie, &user_code).await.refused(410, "code_consumed");
        // Other persons are not affected.
        world.device_approve(&bob.cookie, &user_code).await.expect(200);
        world.advance(Duration::from_mins(2));
        let (device_code, user_code) = another_device_code(&world).await;
        world.device_approve(&ada.cookie, &user_code).await.expect(200);
        world.device_token(&device_code).await.expect(200);
    }

    async fn approving_a_computer_requires_a_recent_sign_in(world: World) {
        let person = world.person("ada@example.com").await;
        world.advance(Duration::from_mins(16));
        let (device_code, user_code) = another_device_code(&world).await;
        let response = world.device_approve(&person.cookie, &user_code).await;
        assert_eq!(response.refused(401, "unauthorized")["reason"], "sign_in_again");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"insufficient_user_authentication\", max_age=\"900\""), "{challenge}");
        // Denying requires no recent sign-in.
        world.device_deny(&person.cookie, &user_code).await.expect(200);
        world.device_token(&device_code).await.refused(400, "access_denied");
        let (_, user_code) = another_device_code(&world).await;
        let fresh = world.person("ada@example.com").await;
        world.device_approve(&fresh.cookie, &user_code).await.expect(200);
    }

    async fn a_claimed_agent_approves_and_denies_device_codes_for_its_account(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let (approved, denied) = (another_device_code(&world).await, another_device_code(&world).await);
        world.device_approve(&agent.token, &approved.1).await.expect(200);
        assert_eq!(world.device_token(&approved.0).await.expect(200)["user_account_id"], person.account.as_str());
        world.device_deny(&agent.token, &denied.1).await.expect(200);
        world.device_token(&denied.0).await.refused(400, "access_denied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_by_agents_can_be_disabled() {
    let world = World::with(|settings| settings.devices.require_session = true).await;
    let person = world.person("ada@example.com").await;
    let agent = world.agent_of(&person).await;
    let (_, user_code) = another_device_code(&world).await;
    world.device_approve(&agent.token, &user_code).await.refused(401, "unauthorized");
    world.device_deny(&agent.token, &user_code).await.refused(401, "unauthorized");
    world.device_approve(&person.cookie, &user_code).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_codes_per_computer_are_rate_limited() {
    let world = World::with(|settings| settings.devices.codes_per_hour = 2).await;
    let machine = world.machine().await;
    let first = asking(&world, &machine).await;
    let second = asking(&world, &machine).await;
    let world = world.restart().await;
    let response = world.device_code(&machine).await;
    let refused = response.refused(424, "temporarily_unavailable");
    assert_eq!((&refused["reason"], &refused["retryable"]), (&json!("too_many_codes"), &json!(true)));
    let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!((3000..=3600).contains(&wait), "{wait}");
    // The refusal did not change the state.
    world.device_token(&first.0).await.refused(400, "expired_token");
    world.device_token(&second.0).await.refused(400, "authorization_pending");
    world.advance(Duration::from_secs(wait));
    world.device_code(&machine).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_guesses_per_address_are_rate_limited() {
    let world = World::with(|settings| settings.limits.code_guesses_per_minute = 2).await;
    let person = world.person("ada@example.com").await;
    for _ in 0..2 {
        world.device_approve(&person.cookie, "BBBB-BBBB").await.refused(410, "code_consumed");
    }
    let refused = world.device_deny(&person.cookie, "BBBB-BBBB").await.refused(424, "temporarily_unavailable");
    assert_eq!(refused["reason"], "too_many_guesses");
}

/// The watch of each node polls once a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_code_approved_on_one_node_is_answered_by_another() {
    let Some(world) = World::on_postgres().await else { return };
    let other = world.beside().await;
    let person = world.person("ada@example.com").await;
    let (approved, denied, superseded) =
        (another_device_code(&world).await, another_device_code(&world).await, world.machine().await);
    let older = asking(&world, &superseded).await;
    for (device_code, _) in [&approved, &denied, &older] {
        other.device_token(device_code).await.refused(400, "authorization_pending");
    }
    world.device_approve(&person.cookie, &approved.1).await.expect(200);
    world.device_deny(&person.cookie, &denied.1).await.expect(200);
    asking(&world, &superseded).await;
    let ends = [(&approved.0, "claimed"), (&denied.0, "access_denied"), (&older.0, "expired_token")];
    for (device_code, end) in ends {
        eventually("the other node knows", async || {
            let polled = other.device_token(device_code).await.json();
            let said = polled.get("status").or(polled.get("error")).unwrap().clone();
            assert!(said == end || said == "slow_down" || said == "authorization_pending", "{said}");
            (said == end).then_some(())
        })
        .await;
    }
    // Guesses are counted for all nodes together.
    for code in ["BBBB-BBBB", "CCCC-CCCC", "DDDD-DDDD"] {
        world.device_approve(&person.cookie, code).await.refused(410, "code_consumed");
    }
    for code in ["FFFF-FFFF", "GGGG-GGGG"] {
        other.device_approve(&person.cookie, code).await.refused(410, "code_consumed");
    }
    let (_, user_code) = another_device_code(&world).await;
    for node in [&world, &other] {
        node.device_approve(&person.cookie, &user_code).await.refused(410, "code_consumed");
    }
}

/// A browser in which this person is signed in.
fn browser_of<'w>(world: &'w World, cookie: &Credential) -> Browser<'w> {
    let Credential::Cookie(pair) = cookie else { unreachable!() };
    let browser = Browser::new(world);
    let (name, value) = pair.split_once('=').unwrap();
    browser.put(name, value);
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_foreign_pages_look_nothing_up_and_use_up_no_guesses() {
    let world = World::with(|settings| settings.limits.code_guesses_per_minute = 10).await;
    let person = world.person("ada@example.com").await;
    let browser = browser_of(&world, &person.cookie);
    let (_, user_code) = another_device_code(&world).await;
    // More codes than the person's limit of guesses, and than the limit of one address per minute.
    for site in ["cross-site", "same-site", ""] {
        let headers = [("sec-fetch-site", site.to_owned())];
        let headers = if site.is_empty() { &[] } else { &headers[..] };
        for code in ["BCDF-GHJK", "BCDF-GHJL", "BCDF-GHJM", "BCDF-GHJN", "BCDF-GHJP", "BCDF-GHJQ", &user_code] {
            let response = browser.send(Method::GET, &format!("/device?user_code={code}"), headers, None).await;
            let page = response.page(200);
            assert!(page.contains("This code came with a link") && page.contains(code), "{site} {code}: {page}");
            assert!(!page.contains("Attach this computer?"), "{site} {code}");
        }
    }
    // The person continues from there, in a browser that sends the origin of its requests or in one that does not.
    let shown = browser.send(Method::GET, &format!("/device?user_code={user_code}"), &[], None).await;
    let mark = shown.page(200).split(r#"name="page" value=""#).nth(1).unwrap().split('"').next().unwrap().to_owned();
    let same_origin = [("sec-fetch-site", "same-origin".to_owned())];
    for (query, headers) in [(String::new(), &same_origin[..]), (format!("&page={mark}"), &[])] {
        let path = format!("/device?user_code={user_code}{query}");
        let asked = browser.send(Method::GET, &path, headers, None).await;
        assert!(asked.page(200).contains("Attach this computer?"), "{path}");
    }
    // A mark is valid for one person only.
    let other = browser_of(&world, &world.person("eve@example.com").await.cookie);
    let foreign = other.send(Method::GET, &format!("/device?user_code={user_code}&page={mark}"), &[], None).await;
    assert!(foreign.page(200).contains("This code came with a link"));
    // Without such a header the response redirects to the result.
    let origin = [("origin", world.url.clone())];
    let form = [("user_code", user_code.as_str()), ("decision", "approve")];
    let answered = browser.send(Method::POST, "/device", &origin, Some(&form)).await;
    let back = answered.header("location").unwrap().to_owned();
    assert!(browser.send(Method::GET, &back, &[], None).await.page(200).contains("is attached"), "{back}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_codes_of_agents_do_not_lock_out_their_person() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let (agent, other) = (world.agent_of(&person).await, world.agent_of(&person).await);
    let (_, user_code) = another_device_code(&world).await;
    for _ in 0..5 {
        world.device_approve(&agent.token, "BCDF-GHJK").await.refused(410, "code_consumed");
    }
    world.device_approve(&agent.token, &user_code).await.refused(410, "code_consumed");
    // More agents are no more guesses.
    world.device_deny(&other.token, &user_code).await.refused(410, "code_consumed");
    world.device_approve(&person.cookie, &user_code).await.expect(200);
}
