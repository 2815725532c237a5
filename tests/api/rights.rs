//! Rights of agents that were confirmed on the page of their computer (`docs/protocol/authentication.md#rights-of-agents`).

use api::{Accepts, routes};
use domain::agent_right::{AgentRight, AgentRights};
use reqwest::Method;
use serde_json::json;

use blackbox::browser::Browser;
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::{Person, World};
use harness::on_sqlite;

/// An agent that a computer requests, confirmed with these boxes of the page ticked; `None` if it was not confirmed.
async fn connected(world: &World, person: &Person, boxes: &[&str]) -> Option<Credential> {
    let machine = world.machine().await;
    let (agent, _) = world.unclaimed().await;
    let body = json!({
        "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid, "agent": {
            "registration_id": agent["registration_id"], "claim_token": agent["claim_token"], "tool": "claude-code",
        },
    });
    let codes = world.post("/api/v1/device/code", &(&machine).into(), &body).await.expect(200);
    let browser = Browser::of(world, person);
    let page =
        browser.get(codes["verification_uri_complete"].as_str().unwrap().strip_prefix(&world.url).unwrap()).await;
    let page = page.page(200);
    for name in ["may_read", "may_set_consent", "may_confirm_agents", "may_confirm_computers", "may_detach_computers"] {
        assert!(page.contains(&format!("name=\"{name}\" value=\"yes\">")), "{name} in {page}");
    }
    let mut form = vec![("user_code", codes["user_code"].as_str().unwrap()), ("decision", "approve")];
    form.extend(boxes.iter().map(|name| (*name, "yes")));
    assert_eq!(browser.submit("/device", &form).await.status, 303);
    let exchanged = world.token_by_claim(agent["claim_token"].as_str().unwrap()).await;
    if exchanged.status == 400 {
        exchanged.refused(400, "authorization_pending");
        return None;
    }
    Some(Credential::Bearer(exchanged.expect(200)["access_token"].as_str().unwrap().into()))
}

/// The requests of an agent of the protocol, and the right that an agent with limited rights needs for each.
async fn requests(world: &World, credential: &Credential) -> Vec<(&'static str, u16, Option<String>)> {
    let mut outcomes = Vec::new();
    for route in routes().into_iter().filter(|route| route.accepts.includes(Accepts::ACCOUNT)) {
        let path = route
            .path
            .replace("{id}", "019b76da-a800-7a67-8a14-94a3f41b0634")
            .replace("{machine_uuid}", "019b76da-a800-7a67-8a14-94a3f41b0634");
        let request = world.request(route.method.clone(), &path, credential);
        let response = world.send(if route.method == Method::POST { request.json(&json!({})) } else { request }).await;
        let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let right = (body["error"] == "insufficient_scope").then(|| body["right"].as_str().unwrap().to_owned());
        outcomes.push((route.path, response.status, right));
    }
    outcomes
}

#[test]
fn every_route_for_agents_needs_a_right_but_the_one_with_which_they_end_themselves() {
    let without: Vec<(String, &str)> = routes()
        .into_iter()
        .filter(|route| route.accepts.includes(Accepts::ACCOUNT) && !route.accepts.needs_right())
        .map(|route| (route.method.to_string(), route.path))
        .collect();
    assert_eq!(without, [("DELETE".to_owned(), "/api/v1/agents/{id}")]);
    for route in routes().into_iter().filter(|route| route.accepts.needs_right()) {
        let expected = match (route.method.as_str(), route.path) {
            ("POST", "/api/v1/consent") | (_, "/api/v1/consent/pause") => AgentRight::SetConsent,
            ("POST", "/api/v1/agent-auth/claim/complete") => AgentRight::ConfirmAgents,
            ("POST", "/api/v1/device/approve" | "/api/v1/device/deny") => AgentRight::ConfirmComputers,
            ("DELETE", "/api/v1/machines/{machine_uuid}") => AgentRight::DetachComputers,
            ("POST", "/api/v1/events") => AgentRight::SendEvents,
            (method, path) => {
                assert_eq!(method, "GET", "{path} changes something, so reading does not permit it");
                AgentRight::Read
            }
        };
        let others: AgentRights = AgentRight::ALL.iter().copied().filter(|right| *right != expected).collect();
        assert_eq!(route.accepts.lacks(Some(others)), Some(expected), "{} {}", route.method, route.path);
        assert_eq!(route.accepts.lacks(Some([expected].into_iter().collect())), None);
        assert_eq!(route.accepts.lacks(None), None);
    }
}

on_sqlite! {
    async fn an_agent_of_the_page_has_the_ticked_rights_alone(world: World) {
        let ada = world.person("ada@example.com").await;
        assert!(connected(&world, &ada, &[]).await.is_none(), "nothing is ticked beforehand");
        let reader = connected(&world, &ada, &["may_read"]).await.unwrap();
        for (path, status, right) in requests(&world, &reader).await {
            if let Some(right) = right {
                assert_eq!(status, 403, "{path}");
                assert_ne!(right, "read", "{path}");
            } else {
                assert_ne!(status, 401, "{path}");
            }
        }
        world.get("/api/v1/account/summary", &reader).await.expect(200);
        world.get("/api/v1/activity", &reader).await.expect(200);
        let level = json!({ "level": "off" });
        let refused = world.post("/api/v1/consent", &reader, &level).await;
        assert_eq!(refused.refused(403, "insufficient_scope")["right"], "set_consent");
        let computer = world.attached_machine(&ada).await;
        let detach = format!("/api/v1/machines/{}", computer.uuid);
        let deleted = world.send(world.request(Method::DELETE, &detach, &reader)).await;
        assert_eq!(deleted.refused(403, "insufficient_scope")["right"], "detach_computers");
        // An approval that sets a level needs both rights.
        let approver = connected(&world, &ada, &["may_confirm_computers"]).await.unwrap();
        let code = world.device_code(&world.machine().await).await.expect(200);
        let mut approval = json!({ "user_code": code["user_code"], "consent": "full" });
        let refused = world.post("/api/v1/device/approve", &approver, &approval).await;
        assert_eq!(refused.refused(403, "insufficient_scope")["right"], "set_consent");
        approval.as_object_mut().unwrap().remove("consent");
        world.post("/api/v1/device/approve", &approver, &approval).await.expect(200);
        // Only the ticked rights work.
        let setter = connected(&world, &ada, &["may_set_consent"]).await.unwrap();
        world.post("/api/v1/consent", &setter, &level).await.expect(200);
        assert_eq!(world.get("/api/v1/consent", &setter).await.refused(403, "insufficient_scope")["right"], "read");
    }

    async fn an_agent_gives_no_more_than_it_has(world: World) {
        let ada = world.person("ada@example.com").await;
        let confirmer = connected(&world, &ada, &["may_confirm_agents"]).await.unwrap();
        let confirmed = world.agent_by(&confirmer).await;
        let level = json!({ "level": "off" });
        for credential in [&confirmer, &confirmed.token] {
            world.post("/api/v1/consent", credential, &level).await.refused(403, "insufficient_scope");
            world.get("/api/v1/activity", credential).await.refused(403, "insufficient_scope");
        }
        // An agent that the person confirmed by the claim flow keeps the rights of the protocol.
        let specified = world.agent_of(&ada).await;
        assert!(requests(&world, &specified.token).await.iter().all(|(_, _, right)| right.is_none()));
        // Every agent may end itself.
        let itself = format!("/api/v1/agents/{}", confirmed.id);
        world.send(world.request(Method::DELETE, &itself, &confirmed.token)).await.expect(200);
        world.get("/api/v1/activity", &confirmed.token).await.refused(401, "unauthorized");
    }
}

on_sqlite! {
    async fn a_level_that_the_person_did_not_set_is_a_mail_and_a_row_with_its_author(world: World) {
        const SUBJECT: &str = "How much is recorded was changed";
        let ada = world.person("ada@example.com").await;
        let computer = world.attached_machine(&ada).await;
        let setter = connected(&world, &ada, &["may_set_consent"]).await.unwrap();
        world.post("/api/v1/consent", &ada.cookie, &json!({ "level": "metadata-only" })).await.expect(200);
        for level in ["full", "off", "full", "off"] {
            world.post("/api/v1/consent", &setter, &json!({ "level": level })).await.expect(200);
        }
        world.post("/api/v1/consent", &(&computer).into(), &json!({ "level": "off" })).await.expect(200);
        let of_level = || world.mails_to("ada@example.com").into_iter().filter(|mail| mail.contains(SUBJECT)).collect::<Vec<_>>();
        let mail = eventually("the mail is written", async || of_level().into_iter().next()).await;
        for part in ["claude-code changed how much is recorded", "all computers", "no content", "everything", "/account/activity"] {
            assert!(mail.contains(part), "{part} in {mail}");
        }
        // An agent and a computer cannot cause many mails, and a later change is mailed again.
        world.advance(std::time::Duration::from_mins(16));
        world.post("/api/v1/consent", &setter, &json!({ "level": "full" })).await.expect(200);
        eventually("the second mail is written", async || (of_level().len() == 2).then_some(())).await;

        let browser = Browser::of(&world, &ada);
        let parts = [
            "Consent for all lanes: not set → No content, set by you",
            "Consent for all lanes: No content → Everything, set by claude-code",
            "Consent for all lanes: Everything → Nothing, set by claude-code",
        ];
        // The content of an event is known once it is signed.
        let page = eventually("every change has its author", async || {
            let page = browser.get("/account/activity?type=consent.changed").await.page(200).to_owned();
            parts.iter().all(|part| page.contains(part)).then_some(page)
        })
        .await;
        assert!(!page.contains("changes in one save"), "{page}");
        let filter = page.split("id=\"computer\"").nth(1).unwrap().split("</select>").next().unwrap();
        assert!(filter.contains(&computer.uuid) && !filter.contains(">attache"), "{filter}");
    }
    async fn a_pause_and_a_level_of_an_approval_by_an_agent_are_mailed_and_name_it(world: World) {
        let ada = world.person("ada@example.com").await;
        let attached = world.attached_machine(&ada).await;
        world.post("/api/v1/consent", &ada.cookie, &json!({ "level": "full" })).await.expect(200);
        let agent = world.agent_of(&ada).await;
        let id = agent.id.to_string();
        let label = format!("Agent …{}", &id[id.len() - 8..]);
        let mailed = async |parts: &[&str]| {
            eventually("the mail is written", async || {
                world.mails_to("ada@example.com").into_iter().find(|mail| parts.iter().all(|part| mail.contains(part)))
            })
            .await
        };

        let code = world.device_code(&world.machine().await).await.expect(200);
        let approval = json!({ "user_code": code["user_code"], "consent": "off" });
        world.post("/api/v1/device/approve", &agent.token, &approval).await.expect(200);
        mailed(&["A computer was attached", "by the agent", "Recorded:     nothing"]).await;

        let scope = json!({ "seconds": 3600, "machine_uuid": attached.uuid });
        world.post("/api/v1/consent/pause", &agent.token, &scope).await.expect(200);
        let mail = mailed(&["changed how much is recorded", "nothing until", "(a pause)"]).await;
        assert!(!mail.contains("Before:"), "a pause changes no level: {mail}");

        let browser = Browser::of(&world, &ada);
        let rows = [format!("by {label}"), format!("set by {label}"), "Recording paused on".to_owned()];
        eventually("both changes name their agent", async || {
            let page = browser.get("/account/activity?type=consent.changed").await.page(200).to_owned();
            rows.iter().all(|row| page.contains(row)).then_some(())
        })
        .await;
    }
}
