//! Specification, *Agent auth*: every row of its endpoints, states and errors.

use std::time::Duration;

use domain::Timestamp;
use serde_json::{Value, json};
use store::janitor::PurgeSettings;

use blackbox::browser::Browser;
use blackbox::client::{CLAIM_GRANT, Credential, JWT_GRANT, attempt_of};
use blackbox::eventually;
use blackbox::world::{Agent, World};
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

const HOUR: Duration = Duration::from_hours(1);

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {value}"))
}

fn moment(value: &Value, name: &str) -> Timestamp {
    text(value, name).parse().unwrap()
}

#[track_caller]
fn assert_agent_claim(claim: &Value, url: &str) {
    assert_eq!(claim.as_object().unwrap().len(), 4, "{claim}");
    let code = text(claim, "user_code");
    assert!(code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
    assert_eq!((&claim["expires_in"], &claim["interval"]), (&json!(1800), &json!(5)));
    assert!(text(claim, "verification_uri").starts_with(&format!("{url}/claim?attempt=cat_")), "{claim}");
}

/// Another code than the right one.
fn wrong(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
}

/// Starts a claim as an agent; returns its claim token and the values that it displays.
async fn asking(world: &World) -> (String, String, String) {
    let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
    let claim_token = text(&registered, "claim_token").to_owned();
    let claim = world.claim(json!({ "claim_token": claim_token })).await.expect(200)["claim"].clone();
    (claim_token, attempt_of(&claim), text(&claim, "user_code").to_owned())
}

/// An agent that another one confirmed.
async fn confirmed_by(world: &World, confirmer: &Agent) -> Agent {
    world.agent_by(&confirmer.token).await
}

/// Removes one or two levels of percent-encoding from a path.
fn unquoted(path: &str) -> String {
    let quotes = [("%25", "%"), ("%2F", "/"), ("%3F", "?"), ("%3D", "="), ("%5F", "_"), ("%2D", "-")];
    quotes.into_iter().fold(path.to_owned(), |path, (quoted, plain)| path.replace(quoted, plain))
}

on_sqlite! {
    async fn an_anonymous_agent_gets_an_assertion_and_a_claim_token(world: World) {
        let response = world.identity(json!({ "type": "anonymous" })).await;
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let result = response.expect(200);
        assert_eq!(result["registration_type"], "anonymous");
        assert_eq!(result["post_claim_scopes"], json!(["svc.account"]));
        assert_eq!(result["pre_claim_scopes"], json!(["svc.events"]));
        assert!(text(&result, "claim_token").starts_with("clm_"));
        assert!(result.get("claim").is_none());
        assert_eq!(text(&result, "identity_assertion").split('.').count(), 3);
        let left = moment(&result, "claim_token_expires") - world.clock().now();
        assert!((23..=24).contains(&left.num_hours()), "{left}");
        assert_eq!(result.as_object().unwrap().len(), 7, "{result}");
    }

    async fn a_service_auth_registration_starts_a_claim(world: World) {
        let result = world.identity(json!({ "type": "service_auth", "login_hint": "Ada@Example.com" })).await.expect(200);
        assert_eq!(result["registration_type"], "service_auth");
        assert_eq!(result["post_claim_scopes"], json!(["svc.account"]));
        assert_agent_claim(&result["claim"], &world.url);
        assert_eq!(result.as_object().unwrap().len(), 5, "{result}");
    }

    async fn a_person_of_a_network_without_domains_can_be_named(world: World) {
        let person = world.person("ada@mailhost").await;
        let result = world.identity(json!({ "type": "service_auth", "login_hint": "Ada@MailHost" })).await.expect(200);
        world.complete(&person.cookie, &attempt_of(&result["claim"]), text(&result["claim"], "user_code")).await.expect(200);
    }

    async fn from_registration_to_account_token(world: World) {
        let person = world.person("ada@example.com").await;
        let result = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let claim_token = text(&result, "claim_token");
        let pending = world.token_by_claim(claim_token).await.refused(400, "authorization_pending");
        assert_eq!(pending["interval"], 5);

        let outcome = world.complete(&person.cookie, &attempt_of(&result["claim"]), text(&result["claim"], "user_code")).await;
        assert_eq!(outcome.expect(200), json!({ "ok": true }));

        let response = world.token_by_claim(claim_token).await;
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let tokens = response.expect(200);
        assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("Bearer"), &json!("svc.account")));
        assert_eq!(tokens["expires_in"], 3600);
        assert!(text(&tokens, "access_token").starts_with("at_"));
        assert!((moment(&tokens, "assertion_expires") - world.clock().now()).num_days() >= 29);
        assert_eq!(tokens.as_object().unwrap().len(), 6, "{tokens}");

        // The assertion of the claimed agent works too, and each exchange returns a new one.
        let again = world.token_by_assertion(text(&tokens, "identity_assertion")).await.expect(200);
        assert_eq!(again["scope"], "svc.account");
        assert_ne!(again["identity_assertion"], tokens["identity_assertion"]);
        assert_ne!(again["access_token"], tokens["access_token"]);
        let token = Credential::Bearer(text(&again, "access_token").into());
        assert_eq!(world.activity(token, "").await.status, 200);
    }

    async fn a_pre_claim_token_has_permission_for_events_only(world: World) {
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let tokens = world.token_by_assertion(text(&registered, "identity_assertion")).await.expect(200);
        assert_eq!((&tokens["scope"], &tokens["token_type"]), (&json!("svc.events"), &json!("Bearer")));
        assert_eq!(tokens.as_object().unwrap().len(), 4, "{tokens}");
        world.token_by_claim(text(&registered, "claim_token")).await.refused(400, "authorization_pending");
        let token = Credential::Bearer(text(&tokens, "access_token").into());
        world.activity(token.clone(), "").await.refused(401, "unauthorized");
        world.event(token, &json!({})).await.held("unattributed");
    }

    async fn a_claim_ends_pre_claim_tokens(world: World) {
        let person = world.person("ada@example.com").await;
        let (registered, before) = world.unclaimed().await;
        let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
        world.complete(&person.cookie, &attempt_of(&claim), text(&claim, "user_code")).await.expect(200);
        world.event(before, &json!({})).await.refused(401, "unauthorized");
        // The old assertion names the same registration, which is claimed now.
        let tokens = world.token_by_assertion(text(&registered, "identity_assertion")).await.expect(200);
        assert_eq!(tokens["scope"], "svc.account");
    }

    async fn a_new_claim_start_kills_the_older_link_and_code(world: World) {
        let person = world.person("ada@example.com").await;
        let registered = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let first = registered["claim"].clone();
        let second = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
        assert_agent_claim(&second, &world.url);
        world.complete(&person.cookie, &attempt_of(&first), text(&first, "user_code")).await.refused(400, "expired_token");
        world.complete(&person.cookie, &attempt_of(&second), text(&second, "user_code")).await.expect(200);
        // The registration has no claim to confirm.
        world.claim(json!({ "claim_token": registered["claim_token"] })).await.refused(400, "invalid_request");
    }

    async fn a_claim_that_is_completed_again_holds_for_its_person_alone(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
        let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
        // The answer to the first request may be lost, also with its server.
        for _ in 0..2 {
            assert_eq!(world.complete(&ada.cookie, &attempt, code).await.expect(200), json!({ "ok": true }));
        }
        let world = world.restart().await;
        assert_eq!(world.complete(&ada.cookie, &attempt, code).await.expect(200), json!({ "ok": true }));
        world.complete(&bob.cookie, &attempt, code).await.refused(400, "expired_token");
        for _ in 0..7 {
            world.complete(&ada.cookie, &attempt, &wrong(code)).await.refused(400, "expired_token");
        }
        assert_eq!(world.complete(&ada.cookie, &attempt, code).await.expect(200), json!({ "ok": true }));
        // The validity of link and code.
        world.advance(Duration::from_mins(30));
        let ada = world.person("ada@example.com").await;
        world.complete(&ada.cookie, &attempt, code).await.refused(400, "expired_token");
        assert_eq!(world.token_by_claim(text(&registered, "claim_token")).await.expect(200)["scope"], "svc.account");
    }

    async fn the_fifth_wrong_code_burns_the_claim_attempt(world: World) {
        let person = world.person("ada@example.com").await;
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim_token = text(&registered, "claim_token");
        let claim = world.claim(json!({ "claim_token": claim_token })).await.expect(200)["claim"].clone();
        let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
        for _ in 0..5 {
            world.complete(&person.cookie, &attempt, &wrong(code)).await.refused(400, "wrong_code");
        }
        world.complete(&person.cookie, &attempt, code).await.refused(400, "expired_token");
        world.token_by_claim(claim_token).await.refused(400, "expired_token");
        // A new link starts a new attempt.
        let claim = world.claim(json!({ "claim_token": claim_token })).await.expect(200)["claim"].clone();
        world.token_by_claim(claim_token).await.refused(400, "authorization_pending");
        world.complete(&person.cookie, &attempt_of(&claim), text(&claim, "user_code")).await.expect(200);
    }

    async fn wrong_claim_codes_are_counted_through_a_restart(world: World) {
        let person = world.person("ada@example.com").await;
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
        let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
        for _ in 0..4 {
            world.complete(&person.cookie, &attempt, &wrong(code)).await.refused(400, "wrong_code");
        }
        let world = world.restart().await;
        world.complete(&person.cookie, &attempt, &wrong(code)).await.refused(400, "wrong_code");
        world.complete(&person.cookie, &attempt, code).await.refused(400, "expired_token");
    }

    async fn a_claim_attempt_expires_after_half_an_hour(world: World) {
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
        let claim_token = text(&registered, "claim_token");
        world.advance(Duration::from_secs(1795));
        world.token_by_claim(claim_token).await.refused(400, "authorization_pending");
        world.advance(Duration::from_secs(5));
        world.token_by_claim(claim_token).await.refused(400, "expired_token");
        let person = world.person("ada@example.com").await;
        world.complete(&person.cookie, &attempt_of(&claim), text(&claim, "user_code")).await.refused(400, "expired_token");
    }

    async fn a_claim_token_expires_after_a_day(world: World) {
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        world.advance(24 * HOUR);
        world.claim(json!({ "claim_token": registered["claim_token"] })).await.refused(400, "expired_token");
        world.token_by_claim(text(&registered, "claim_token")).await.refused(400, "expired_token");
        world.token_by_assertion(text(&registered, "identity_assertion")).await.refused(400, "invalid_grant");
    }

    async fn a_completion_after_the_claim_token_expired_still_yields_a_token(world: World) {
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim_token = text(&registered, "claim_token");
        world.advance((24 * HOUR).checked_sub(Duration::from_secs(10)).unwrap());
        let claim = world.claim(json!({ "claim_token": claim_token })).await.expect(200)["claim"].clone();
        world.advance(Duration::from_secs(20));
        world.token_by_claim(claim_token).await.refused(400, "authorization_pending");
        // The server starts no further claim, but the started one stays valid: the page still shows the link and its code.
        world.claim(json!({ "claim_token": claim_token })).await.refused(400, "expired_token");
        world.server.app.store.purge(world.clock().now(), &PurgeSettings { unclaimed_kept: Duration::ZERO, ..PurgeSettings::default() }).await.unwrap();
        let person = world.person("ada@example.com").await;
        world.complete(&person.cookie, &attempt_of(&claim), text(&claim, "user_code")).await.expect(200);
        let world = world.restart().await;
        assert_eq!(world.token_by_claim(claim_token).await.expect(200)["scope"], "svc.account");
        world.advance(HOUR);
        world.token_by_claim(claim_token).await.refused(400, "expired_token");
    }

    async fn a_claim_is_bound_to_its_address(world: World) {
        let ada = world.person("ada@example.com").await;
        let bob = world.person("bob@example.com").await;
        let registered = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let token = text(&registered, "claim_token");
        world.claim(json!({ "claim_token": token, "email": "bob@example.com" })).await.refused(403, "email_mismatch");
        let claim = world.claim(json!({ "claim_token": token, "email": " ADA@example.com" })).await.expect(200)["claim"].clone();
        let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
        // Another person spends no try, right code or not.
        for _ in 0..6 {
            world.complete(&bob.cookie, &attempt, code).await.refused(403, "email_mismatch");
        }
        world.complete(&ada.cookie, &attempt, code).await.expect(200);

        let anonymous = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim = world.claim(json!({ "claim_token": anonymous["claim_token"], "email": "bob@example.com" })).await.expect(200)["claim"].clone();
        let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
        world.complete(&ada.cookie, &attempt, code).await.refused(403, "email_mismatch");
        world.complete(&bob.cookie, &attempt, code).await.expect(200);
    }

    async fn a_claimed_agent_completes_a_claim_for_its_person(world: World) {
        let person = world.person("ada@example.com").await;
        let first = world.agent_of(&person).await;
        let registered = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let claim = &registered["claim"];
        world.complete(&first.token, &attempt_of(claim), text(claim, "user_code")).await.expect(200);
        let agents = world.server.app.store.agents(None, 10).await.unwrap();
        let mut via: Vec<_> = agents.iter().map(|agent| agent.claimed_via.clone().unwrap()).collect();
        via.sort();
        assert_eq!(via, ["account", "session"]);
    }

    async fn revoking_a_token_ends_the_token_and_not_the_assertion(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let Credential::Bearer(token) = &agent.token else { unreachable!() };
        assert_eq!(world.activity(agent.token.clone(), "").await.status, 200);
        assert_eq!(world.revoke(token).await.expect(200), json!({}));
        world.activity(agent.token.clone(), "").await.refused(401, "unauthorized");
        for unheard in [token.as_str(), "at_unknown", "", "nonsense"] {
            assert_eq!(world.revoke(unheard).await.expect(200), json!({}));
        }
        assert_eq!(world.form("/api/v1/agent-auth/revoke", &[]).await.expect(200), json!({}));
        assert_eq!(world.form("/api/v1/agent-auth/revoke", &[("token", token), ("token_type_hint", "access_token")]).await.expect(200), json!({}));
        assert_eq!(world.token_by_assertion(&agent.assertion).await.expect(200)["scope"], "svc.account");
    }

    async fn an_access_token_expires_after_an_hour(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        world.advance(HOUR.checked_sub(Duration::from_secs(5)).unwrap());
        assert_eq!(world.activity(agent.token.clone(), "").await.status, 200);
        world.advance(Duration::from_secs(5));
        world.activity(agent.token.clone(), "").await.refused(401, "unauthorized");
        assert_eq!(world.token_by_assertion(&agent.assertion).await.status, 200);
        world.advance(30 * 24 * HOUR);
        world.token_by_assertion(&agent.assertion).await.refused(400, "invalid_grant");
    }

    async fn a_revoked_agent_has_no_permissions(world: World) {
        let person = world.person("ada@example.com").await;
        let stranger = world.person("bob@example.com").await;
        let agent = world.agent_of(&person).await;
        let path = format!("/api/v1/agents/{}", agent.id);
        world.delete(&path, &stranger.cookie).await.refused(404, "not_found");
        assert_eq!(world.activity(agent.token.clone(), "").await.status, 200);
        assert_eq!(world.delete(&path, &person.cookie).await.expect(200), json!({ "ok": true }));
        world.activity(agent.token.clone(), "").await.refused(401, "unauthorized");
        world.token_by_assertion(&agent.assertion).await.refused(400, "invalid_grant");
        world.token_by_claim(&agent.claim_token).await.refused(400, "invalid_grant");
        world.claim(json!({ "claim_token": agent.claim_token })).await.refused(400, "invalid_request");
        world.delete(&path, &person.cookie).await.refused(404, "not_found");
        let listed = world.server.app.store.agents_of_account(&person.account, 10).await.unwrap();
        assert!(listed[0].revoked_at.is_some());
    }

    async fn completing_a_claim_requires_a_recent_sign_in(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        world.advance(Duration::from_mins(16));
        let (claim_token, attempt, code) = asking(&world).await;
        let response = world.complete(&person.cookie, &attempt, &code).await;
        assert_eq!(response.refused(401, "unauthorized")["reason"], "sign_in_again");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"insufficient_user_authentication\", max_age=\"900\""), "{challenge}");
        // The page has no field for the code, and its form refuses a code.
        let browser = Browser::of(&world, &person);
        let link = format!("/claim?attempt={attempt}");
        let page = browser.get(&link).await;
        let page = page.page(200);
        assert!(page.contains("Sign in again to confirm") && !page.contains("user_code"), "{page}");
        let sent = browser.submit("/claim", &[("attempt", attempt.as_str()), ("user_code", code.as_str())]).await;
        assert_eq!((sent.status, sent.header("location").map(unquoted)), (303, Some(format!("/signin?next={link}"))));
        world.token_by_claim(&claim_token).await.refused(400, "authorization_pending");
        // An agent's token is no sign-in, so it needs no recent one.
        world.complete(&agent.token, &attempt, &code).await.expect(200);
        let (_, attempt, code) = asking(&world).await;
        let fresh = world.person("ada@example.com").await;
        world.complete(&fresh.cookie, &attempt, &code).await.expect(200);
    }

    async fn revoking_an_agent_ends_its_pending_confirmations(world: World) {
        let person = world.person("ada@example.com").await;
        let (first, own) = (world.agent_of(&person).await, world.agent_of(&person).await);
        let second = confirmed_by(&world, &first).await;
        let third = confirmed_by(&world, &second).await;
        let attached = async |credential: &Credential| {
            let machine = world.machine().await;
            let code = world.device_code(&machine).await.expect(200);
            world.device_approve(credential, text(&code, "user_code")).await.expect(200);
            machine
        };
        let by_agents = [attached(&first.token).await, attached(&third.token).await];
        let by_others = [attached(&person.cookie).await, attached(&own.token).await];
        // If an agent approves a person's computer again, it stays the person's; if a person approves an agent's computer again, it becomes
        // the person's.
        for (machine, credential) in [(&by_others[0], &first.token), (&by_others[1], &person.cookie)] {
            let code = world.device_code(machine).await.expect(200);
            world.device_approve(credential, text(&code, "user_code")).await.expect(200);
        }
        let browser = Browser::of(&world, &person);
        let question = browser.get(&format!("/account/agents/{}/revoke", first.id)).await;
        let question = question.page(200);
        assert!(question.contains("Agents that it confirmed for you are revoked with it: 2."), "{question}");
        assert!(question.contains("detached, and can request to be attached again: 2."), "{question}");
        for agent in [&second, &third] {
            assert_eq!(world.activity(agent.token.clone(), "").await.status, 200);
        }

        world.delete(&format!("/api/v1/agents/{}", first.id), &person.cookie).await.expect(200);
        for agent in [&first, &second, &third] {
            world.activity(agent.token.clone(), "").await.refused(401, "unauthorized");
            world.token_by_assertion(&agent.assertion).await.refused(400, "invalid_grant");
            world.token_by_claim(&agent.claim_token).await.refused(400, "invalid_grant");
        }
        assert_eq!(world.activity(own.token.clone(), "").await.status, 200);
        let computers = world.get("/api/v1/account/computers", &person.cookie).await.expect(200)["computers"].clone();
        let mut left: Vec<_> = computers.as_array().unwrap().iter().map(|computer| text(computer, "machine_uuid").to_owned()).collect();
        let mut kept = by_others.each_ref().map(|machine| machine.uuid.clone());
        left.sort();
        kept.sort();
        assert_eq!(left, kept);
        for machine in &by_agents {
            world.event(machine, &Chain::new(machine).next()).await.held("identity_mismatch");
        }
        // They are still registered, and a person can attach them again.
        let code = world.device_code(&by_agents[0]).await.expect(200);
        world.device_approve(&person.cookie, text(&code, "user_code")).await.expect(200);
        world.event(&by_agents[0], &Chain::new(&by_agents[0]).next()).await.receipt();
        // Revoking the second agent detaches no computer.
        world.delete(&format!("/api/v1/agents/{}", own.id), &person.cookie).await.expect(200);
        let computers = world.get("/api/v1/account/computers", &person.cookie).await.expect(200)["computers"].clone();
        assert_eq!(computers.as_array().unwrap().len(), 3);
    }

    async fn an_agent_revokes_itself_and_no_other(world: World) {
        let person = world.person("ada@example.com").await;
        let (first, second) = (world.agent_of(&person).await, world.agent_of(&person).await);
        let path = |agent: &Agent| format!("/api/v1/agents/{}", agent.id);
        world.delete(&path(&second), &first.token).await.refused(403, "session_required");
        assert_eq!(world.activity(second.token.clone(), "").await.status, 200);
        world.delete(&path(&first), &first.token).await.expect(200);
        world.activity(first.token.clone(), "").await.refused(401, "unauthorized");
        world.delete(&path(&second), &person.cookie).await.expect(200);
    }

    async fn claim_starts_per_registration_are_rate_limited(world: World) {
        let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
        let body = json!({ "claim_token": registered["claim_token"] });
        for _ in 0..10 {
            world.claim(body.clone()).await.expect(200);
        }
        let response = world.claim(body.clone()).await;
        let refusal = response.refused(424, "temporarily_unavailable");
        assert_eq!((&refusal["retryable"], &refusal["reason"]), (&json!(true), &json!("too_many_claims")));
        assert!(response.header("retry-after").unwrap().parse::<u64>().unwrap() <= 3600);
        world.advance(HOUR);
        world.claim(body).await.expect(200);
    }

    async fn signing_keys_rotate_under_living_assertions(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let app = &world.server.app;
        let kids = async || {
            let jwks = world.get("/.well-known/jwks.json", &Credential::None).await.expect(200);
            jwks["keys"].as_array().unwrap().iter().map(|key| text(key, "kid").to_owned()).collect::<Vec<_>>()
        };
        let before = kids().await;
        assert_eq!(before.len(), 2, "one signs, the next is known");
        app.store.assertion_keys_rotate(world.clock().now(), world.rng()).await.unwrap();
        eventually("the server sees the rotation", async || (kids().await.len() == 3).then_some(())).await;
        assert!(kids().await.iter().any(|kid| *kid == before[0]), "the old key still verifies");
        let tokens = world.token_by_assertion(&agent.assertion).await.expect(200);
        world.token_by_assertion(text(&tokens, "identity_assertion")).await.expect(200);
    }
}

on_each_database! {
    async fn a_claim_completed_on_another_node_is_seen_by_a_running_ceremony(world: World) {
        let registered = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let claim_token = text(&registered, "claim_token");
        world.token_by_claim(claim_token).await.refused(400, "authorization_pending");
        // As an operator's command, or another node, would.
        let id = text(&registered, "registration_id").parse().unwrap();
        assert!(world.server.app.store.registration_revoke(id, None, world.clock().now()).await.unwrap());
        eventually("the revocation is seen", async || {
            (world.token_by_claim(claim_token).await.json()["error"] == "invalid_grant").then_some(())
        }).await;
    }

    async fn concurrent_completions_claim_once(world: World) {
        let people = [world.person("ada@example.com").await, world.person("bob@example.com").await];
        for _ in 0..10 {
            let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
            let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
            let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
            let (one, two) = tokio::join!(
                world.complete(&people[0].cookie, &attempt, code),
                world.complete(&people[1].cookie, &attempt, code)
            );
            let mut statuses = [one.status, two.status];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 400]);
        }
    }

    async fn held_events_of_an_agent_join_the_account_that_claims_it(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.machine().await;
        let (registered, token) = world.unclaimed().await;
        let event = Chain::new(&machine).next();
        world.event(token, &event).await.held("unattributed");
        let listed = async || world.activity(person.cookie.clone(), "").await.expect(200)["unclassified"].clone();
        assert_eq!(listed().await, json!([]));
        let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
        world.complete(&person.cookie, &attempt_of(&claim), text(&claim, "user_code")).await.expect(200);
        let entry = &listed().await[0];
        assert_eq!(entry["event_id"], event["event_id"]);
        assert_eq!((&entry["reason"], &entry["machine_uuid"]), (&json!("unattributed"), &Value::Null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_agent_request_has_its_error_code() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;

    for body in [
        json!({}),
        json!([]),
        json!({ "type": 1 }),
        json!({ "type": "service_auth" }),
        json!({ "type": "service_auth", "login_hint": "x" }),
        json!({ "type": "service_auth", "login_hint": 7 }),
    ] {
        let refused = world.identity(body).await.refused(400, "invalid_request");
        assert!(refused["issues"][0]["message"].is_string(), "{refused}");
    }
    world.identity(json!({ "type": "passport" })).await.refused(400, "unsupported_identity_type");

    for body in [
        json!({}),
        json!(null),
        json!({ "claim_token": "" }),
        json!({ "claim_token": 1 }),
        json!({ "claim_token": "clm_x", "email": "x" }),
    ] {
        let refused = world.claim(body).await.refused(400, "invalid_request");
        assert_ne!(refused["issues"][0]["path"], ".", "{refused}");
    }
    world.claim(json!({ "claim_token": "clm_unknown" })).await.refused(400, "expired_token");

    let complete = async |body: Value| world.post("/api/v1/agent-auth/claim/complete", &person.cookie, &body).await;
    for code in ["12345", "1234567", "12345a", ""] {
        complete(json!({ "claim_attempt_token": "cat_x", "user_code": code })).await.refused(400, "invalid_request");
    }
    for body in [
        json!({}),
        json!({ "claim_attempt_token": "", "user_code": "123456" }),
        json!({ "user_code": "123456" }),
        json!({ "claim_attempt_token": "cat_x", "user_code": 123_456 }),
    ] {
        complete(body).await.refused(400, "invalid_request");
    }
    complete(json!({ "claim_attempt_token": "cat_unknown", "user_code": "123456" }))
        .await
        .refused(400, "expired_token");

    for pairs in [
        &[][..],
        &[("claim_token", "x")],
        &[("grant_type", CLAIM_GRANT)],
        &[("grant_type", CLAIM_GRANT), ("claim_token", "")],
        &[("grant_type", JWT_GRANT)],
        &[("grant_type", JWT_GRANT), ("grant_type", JWT_GRANT), ("assertion", "x")],
    ] {
        world.token(pairs).await.refused(400, "invalid_request");
    }
    world.token(&[("grant_type", "password")]).await.refused(400, "unsupported_grant_type");
    world.token(&[("grant_type", JWT_GRANT), ("assertion", "a.b.c")]).await.refused(400, "invalid_grant");
    world.token_by_claim("clm_unknown").await.refused(400, "expired_token");
    let json_body =
        world.post("/api/v1/agent-auth/token", &Credential::None, &json!({ "grant_type": CLAIM_GRANT })).await;
    json_body.refused(400, "invalid_request");

    // The vendor of the grant is not compared, and the parameter of the other variant may be present.
    let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
    let pairs = [
        ("grant_type", "urn:other:agent-auth:grant-type:claim"),
        ("claim_token", text(&registered, "claim_token")),
        ("assertion", "x"),
    ];
    world.token(&pairs).await.refused(400, "authorization_pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_per_address_are_rate_limited() {
    let world = World::with(|settings| settings.limits.registrations_per_minute = 3).await;
    for _ in 0..3 {
        world.identity(json!({ "type": "anonymous" })).await.expect(200);
    }
    let response = world.identity(json!({ "type": "anonymous" })).await;
    let refusal = response.refused(424, "temporarily_unavailable");
    assert_eq!((&refusal["retryable"], &refusal["reason"]), (&json!(true), &json!("too_many_registrations")));
    assert!(response.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    // An invalid request does not count.
    world.identity(json!({ "type": "passport" })).await.refused(400, "unsupported_identity_type");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_complete_no_claim_if_sessions_are_required() {
    let world = World::with(|settings| settings.claims.require_session = true).await;
    let person = world.person("ada@example.com").await;
    let agent = world.agent_of(&person).await;
    let registered = world.identity(json!({ "type": "anonymous" })).await.expect(200);
    let claim = world.claim(json!({ "claim_token": registered["claim_token"] })).await.expect(200)["claim"].clone();
    let (attempt, code) = (attempt_of(&claim), text(&claim, "user_code"));
    world.complete(&agent.token, &attempt, code).await.refused(401, "unauthorized");
    world.complete(&person.cookie, &attempt, code).await.expect(200);
}
