//! Two persons: no route or page shows or changes data of another person. The test iterates over all tables of the router, so it covers
//! every new route.

use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Credential, attempt_of};
use blackbox::world::{Person, World};
use harness::event::Chain;
use harness::on_each_database;

/// All objects of a person, and the texts that the other person must never see.
struct Tenant {
    person: Person,
    machine: String,
    agent: String,
    event: String,
    session: String,
    secrets: Vec<String>,
}

async fn tenant(world: &World) -> Tenant {
    let person = world.person("ada@example.com").await;
    let machine = world.attached_machine(&person).await;
    let agent = world.agent_of(&person).await;
    let event = Chain::new(&machine).next();
    world.event(&machine, &event).await.receipt();
    world.event_bytes(&machine, "{\"held\": true}").await.held("malformed_envelope");
    world.post("/api/v1/consent", &person.cookie, &json!({ "level": "full", "lane": "rsi" })).await.expect(200);
    let sessions = world.get("/api/v1/sessions", &person.cookie).await.expect(200);
    let session = sessions["sessions"][0]["id"].as_str().unwrap().to_owned();
    let event = event["event_id"].as_str().unwrap().to_owned();
    let agent = agent.id.to_string();
    let secrets = vec![
        machine.uuid.clone(),
        machine.user_cuid.clone(),
        agent.clone(),
        event.clone(),
        session.clone(),
        person.account.to_string(),
        "ada@example.com".into(),
    ];
    Tenant { person, machine: machine.uuid, agent, event, session, secrets }
}

/// Ada's view of her data, without times.
async fn view(world: &World, ada: &Tenant) -> Vec<Value> {
    let mut seen = Vec::new();
    for path in [
        "/api/v1/account/summary",
        "/api/v1/account/computers",
        "/api/v1/consent",
        "/api/v1/sessions",
        "/api/v1/keys",
        "/api/v1/activity",
    ] {
        let mut body = world.get(path, &ada.person.cookie).await.expect(200);
        body.as_object_mut().unwrap().remove("generated_at");
        seen.push(body);
    }
    seen
}

on_each_database! {
    async fn no_route_and_no_page_shows_data_of_another_account(world: World) {
        let ada = tenant(&world).await;
        let bob = world.person("bob@example.com").await;
        let bobs_machine = world.attached_machine(&bob).await;
        let bobs_agent = world.agent_of(&bob).await;
        let credentials = [bob.cookie.clone(), bobs_agent.token.clone(), Credential::from(&bobs_machine)];
        let registered = world.identity(json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await.expect(200);
        let attempt = attempt_of(&registered["claim"]);
        let code = registered["claim"]["user_code"].as_str().unwrap();
        let rows = view(&world, &ada).await;

        // All ids that a request may name; they belong to Ada.
        let query = format!("?machine_uuid={}&event_id={}&attempt={attempt}&id={}", ada.machine, ada.event, ada.agent);
        let body = json!({
            "machine_uuid": ada.machine, "level": "off", "claim_attempt_token": attempt, "attempt": attempt, "user_code": code,
            "scope": ada.machine, "all": "off", "memory": "off", "id": ada.agent, "name": "x",
        });
        let strict = json!({ "machine_uuid": ada.machine, "level": "off" });
        let api = api::routes().into_iter().map(|route| (route.method, route.path));
        let pages = web::routes().into_iter().map(|page| (page.method, page.path));
        let mut asked = 0;
        for (method, path) in api.chain(pages) {
            let named = path.split('/').rev().nth(1).unwrap_or_default();
            let id = match named {
                "sessions" => &ada.session,
                "computers" | "machines" => &ada.machine,
                _ => &ada.agent,
            };
            let path = path.replace("{machine_uuid}", &ada.machine).replace("{id}", id).replace("{name}", "x");
            for credential in &credentials {
                let ask = |path: &str| {
                    let request = world.request(method.clone(), path, credential);
                    request.header("origin", &world.url).header("sec-fetch-site", "same-origin")
                };
                let mut requests = vec![ask(&format!("{path}{query}"))];
                if method == Method::POST {
                    requests.push(ask(&path).json(&body));
                    requests.push(ask(&path).json(&strict));
                    let form = serde_urlencoded::to_string(body.as_object().unwrap()).unwrap();
                    requests.push(ask(&path).header("content-type", "application/x-www-form-urlencoded").body(form));
                }
                for request in requests {
                    let response = world.send(request).await;
                    asked += 1;
                    assert!(response.status < 500 || response.status == 502, "{method} {path}: {response:?}");
                    let text = String::from_utf8_lossy(&response.body);
                    // A response may repeat a value at the place where the request has it.
                    for secret in ada.secrets.iter().filter(|secret| !query.contains(*secret)) {
                        assert!(!text.contains(secret.as_str()), "{method} {path} shows {secret}: {text}");
                    }
                }
            }
        }
        assert!(asked > 100, "{asked}");
        assert_eq!(view(&world, &ada).await, rows);
    }
}
