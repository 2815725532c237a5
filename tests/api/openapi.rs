//! The machine-readable description: complete, consistent, and usable by third-party tools.

mod fuzz;
mod generated;

use std::collections::BTreeSet;

use api::{knowledge_routes, openapi, routes};
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::Credential;
use blackbox::world::World;
use harness::event::seal;

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_cached_by_its_etag() {
    let world = World::on_sqlite().await;
    let answer = world.get("/openapi.json", &Credential::None).await;
    let document = answer.expect(200);
    assert_eq!((&document["openapi"], &document["info"]["version"]), (&json!("3.1.0"), &json!("1.0.0")));
    assert_eq!(document["servers"], json!([{ "url": world.url }]));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    let tag = answer.header("etag").unwrap();
    for known in [tag.to_owned(), format!("\"other\", W/{tag}")] {
        let again = world.request(Method::GET, "/openapi.json", &Credential::None).header("if-none-match", known);
        let again = world.send(again).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)));
    }
    let other = world.request(Method::GET, "/openapi.json", &Credential::None).header("if-none-match", "\"other\"");
    world.send(other).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knowledge_api_elsewhere_has_its_own_server_in_the_description() {
    let world = World::with(|settings| settings.knowledge.bind = Some("127.0.0.1:0".parse().unwrap())).await;
    let document = world.get("/openapi.json", &Credential::None).await.expect(200);
    let own = format!("http://{}", world.server.knowledge_address);
    for (path, item) in document["paths"].as_object().unwrap() {
        let servers = item.get("servers").map(|servers| servers[0]["url"].as_str().unwrap());
        assert_eq!(servers, path.starts_with("/v1/").then_some(own.as_str()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_requests_are_those_of_the_settings() {
    let world = World::with(|settings| {
        settings.knowledge.batch.items_max = 7;
        settings.knowledge.batch.spaces_max = 3;
    })
    .await;
    let document = world.get("/openapi.json", &Credential::None).await.expect(200);
    let most = |schema: &str, member: &str| {
        document["components"]["schemas"][schema]["properties"][member]["maxItems"].clone()
    };
    assert_eq!(["urls", "contents", "spaces"].map(|member| most("BatchRequest", member)), [7, 7, 3].map(Value::from));
    assert_eq!(most("SearchRequest", "spaces"), 50);
}

#[test]
fn every_route_is_described_and_everything_described_is_a_route() {
    let routes: BTreeSet<String> = routes()
        .iter()
        .chain(&knowledge_routes())
        .map(|route| {
            let described = openapi::operations().iter().filter(|operation| operation.is_of(route)).count();
            assert_eq!(described, 1, "{} {}", route.method, route.path);
            format!("{} {}", route.method, route.path)
        })
        .collect();
    assert_eq!(routes.len(), openapi::operations().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_description_matches_its_schema() {
    let document = World::on_sqlite().await.get("/openapi.json", &Credential::None).await.expect(200);
    let responses = document["components"]["responses"].as_object().unwrap().iter();
    let mut judged = responses.map(|(name, response)| judge_examples(&document, name, response)).sum::<usize>();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            judged += judge_examples(&document, &what, &operation["requestBody"]);
            for (status, response) in operation["responses"].as_object().unwrap() {
                judged += judge_examples(&document, &format!("{what} {status}"), response);
            }
        }
    }
    assert!(judged > 150, "{judged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_an_event_is_accepted_from_its_computer() {
    let world = World::on_sqlite().await;
    let document = world.get("/openapi.json", &Credential::None).await.expect(200);
    let told = &document["paths"]["/api/v1/events"]["post"];
    let event = &told["requestBody"]["content"]["application/json"]["example"];
    let scope = &event["scope"];
    let machine = json!({ "user_cuid": scope["user_id"], "machine_uuid": scope["machine_id"] });
    let registered = world.post("/api/v1/machines", &Credential::None, &machine).await.expect(201);
    let secret = Credential::Bearer(registered["machine_secret"].as_str().unwrap().to_owned());
    world.event(secret.clone(), event).await.receipt();
    // The server returns the described errors.
    let answered = |status: &str, code: &str| {
        told["responses"][status]["content"]["application/json"]["examples"][code]["value"].clone()
    };
    let mut other = event.clone();
    other["ts_edge_ms"] = json!(1);
    seal(&mut other);
    assert_eq!(world.event(secret.clone(), &other).await.expect(409), answered("409", "event_id_conflict"));
    let mut late = other.clone();
    late["event_id"] = json!("019b76da-a800-7274-8acf-2e56e162ebda");
    seal(&mut late);
    assert_eq!(world.event(secret.clone(), &late).await.expect(409), answered("409", "chain_conflict"));
    let mut loose = late.clone();
    loose["seq"] = json!(1);
    seal(&mut loose);
    assert_eq!(world.event(secret, &loose).await.expect(422), answered("422", "chain_broken"));
}

#[tokio::test(flavor = "multi_thread")]
async fn registering_a_computer_accepts_the_enrolment_key_or_no_credential() {
    let document = World::on_sqlite().await.get("/openapi.json", &Credential::None).await.expect(200);
    let told = &document["paths"]["/api/v1/machines"]["post"]["security"];
    assert_eq!(told, &json!([{}, { "enrolmentKey": [] }]));
    for (_, item) in document["paths"].as_object().unwrap() {
        for (_, operation) in item.as_object().unwrap() {
            for scheme in operation["security"].as_array().into_iter().flatten() {
                for (name, _) in scheme.as_object().unwrap() {
                    assert!(document["components"]["securitySchemes"].get(name).is_some(), "{name}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn computers_are_unknown_on_the_account_s_surface_alone() {
    let document = World::on_sqlite().await.get("/openapi.json", &Credential::None).await.expect(200);
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let codes = codes_of(&document, &operation["responses"]["401"]);
            assert!(!(path.starts_with("/v1/") && codes.contains("machine_unknown")), "{method} {path}: {codes:?}");
        }
    }
}

/// Checks each example against its schema; returns the number of examples.
fn judge_examples(document: &Value, what: &str, told: &Value) -> usize {
    let mut judged = 0;
    for (kind, media) in told["content"].as_object().into_iter().flatten() {
        let several = media["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"]);
        for example in several.chain(media.get("example")) {
            let schema = json!({ "allOf": [media["schema"]], "components": document["components"] });
            let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
            let faults: Vec<String> = validator.iter_errors(example).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{what}, {kind}: {faults:#?} in {example:#}");
            judged += 1;
        }
    }
    judged
}

#[tokio::test(flavor = "multi_thread")]
async fn the_errors_of_the_specification_are_in_the_description() {
    let document = World::on_sqlite().await.get("/openapi.json", &Credential::None).await.expect(200);
    let table: [(&str, &str, u16, &[&str]); 28] = [
        ("post", "/api/v1/agent-auth/identity", 400, &["invalid_request", "unsupported_identity_type"]),
        ("post", "/api/v1/agent-auth/claim", 400, &["invalid_request", "expired_token"]),
        ("post", "/api/v1/agent-auth/claim", 403, &["email_mismatch"]),
        ("post", "/api/v1/agent-auth/claim/complete", 400, &["invalid_request", "expired_token", "wrong_code"]),
        ("post", "/api/v1/agent-auth/claim/complete", 401, &["unauthorized", "machine_unknown"]),
        ("post", "/api/v1/agent-auth/claim/complete", 403, &["email_mismatch"]),
        (
            "post",
            "/api/v1/agent-auth/token",
            400,
            &["invalid_request", "unsupported_grant_type", "invalid_grant", "expired_token", "authorization_pending"],
        ),
        ("get", "/api/v1/account/summary", 401, &["unauthorized", "machine_unknown"]),
        ("get", "/api/v1/account/summary", 404, &["user_not_found"]),
        ("get", "/api/v1/account/computers", 401, &["unauthorized", "machine_unknown"]),
        ("get", "/api/v1/usage/bar", 401, &["unauthorized", "machine_unknown"]),
        ("get", "/api/v1/activity", 400, &["invalid_limit", "cursor_too_long", "lane_not_in_enum"]),
        ("get", "/api/v1/activity", 401, &["unauthorized", "machine_unknown"]),
        ("get", "/api/v1/consent", 400, &["invalid_request", "lane_not_in_enum", "machine_uuid_mismatch"]),
        ("post", "/api/v1/consent", 400, &["invalid_request", "lane_not_in_enum", "machine_uuid_mismatch"]),
        ("get", "/api/v1/consent", 403, &["machine_not_owned"]),
        ("post", "/api/v1/consent", 409, &["no_linked_cuid"]),
        ("post", "/api/v1/consent", 502, &["consent_audit_forward_failed"]),
        ("post", "/api/v1/events", 401, &["unauthorized", "machine_unknown"]),
        ("get", "/api/v1/audit/verify", 400, &["missing_event_id", "invalid_event_id"]),
        ("get", "/api/v1/audit/verify", 401, &["unauthorized", "machine_unknown"]),
        ("post", "/api/v1/device/code", 400, &["invalid_json", "invalid_request"]),
        ("post", "/api/v1/device/code", 401, &["unauthorized", "machine_unknown"]),
        ("post", "/api/v1/device/code", 403, &["machine_mismatch"]),
        ("post", "/api/v1/device/approve", 400, &["invalid_request"]),
        (
            "post",
            "/api/v1/device/approve",
            409,
            &[
                "machine_not_registered",
                "cuid_already_claimed",
                "person_bound_to_other_account",
                "machine_already_claimed",
            ],
        ),
        ("post", "/api/v1/device/approve", 410, &["code_consumed"]),
        (
            "post",
            "/api/v1/device/token",
            400,
            &["invalid_request", "expired_token", "access_denied", "authorization_pending", "slow_down"],
        ),
    ];
    for (method, path, status, codes) in table {
        let told = codes_of(&document, &document["paths"][path][method]["responses"][status.to_string()]);
        for code in codes {
            assert!(told.contains(*code), "{method} {path} {status} {code}: {told:?}");
        }
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        let unavailable = if path.starts_with("/v1/") { "503" } else { "424" };
        for (method, operation) in item.as_object().unwrap().iter().filter(|(method, _)| *method != "servers") {
            let told = codes_of(&document, &operation["responses"][unavailable]);
            assert!(told.contains("temporarily_unavailable"), "{method} {path}");
        }
    }
}

/// The codes that a response may have.
fn codes_of(document: &Value, response: &Value) -> BTreeSet<String> {
    let response = match response["$ref"].as_str() {
        Some(pointer) => document.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => response,
    };
    let schema = &response["content"]["application/json"]["schema"];
    let schema = schema.get("anyOf").map_or(schema, |choices| &choices[0]);
    let words = schema["allOf"][1]["properties"]["error"]["enum"].as_array();
    words.into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}
