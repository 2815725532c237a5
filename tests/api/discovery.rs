//! Metadata under `/.well-known`, and its discovery from a 401
//! (`docs/decisions/0018-names-guides-and-description.md`; RFC 9728, RFC 8414, A2A).

use api::{Accepts, knowledge_routes, routes};
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Credential, Response};
use blackbox::world::World;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const NOBODY: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

/// The metadata that the challenge of a 401 names.
fn named_metadata(response: &Response) -> String {
    let challenge = response.header("www-authenticate").unwrap();
    challenge.split("resource_metadata=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_401_names_existing_metadata_of_its_surface() {
    let world = World::on_sqlite().await;
    let mut asked = 0;
    for route in routes().into_iter().chain(knowledge_routes()).filter(|route| route.accepts != Accepts::NONE) {
        let path = route.path.replace("{id}", NOBODY).replace("{machine_uuid}", NOBODY);
        for credential in
            [Credential::None, Credential::Bearer("at_unknown".into()), Credential::Bearer("msk_x".into())]
        {
            let response = world.send(world.request(route.method.clone(), &path, &credential)).await;
            assert_eq!(response.status, 401, "{} {path}", route.method);
            let metadata = named_metadata(&response);
            let metadata = world.get(metadata.strip_prefix(&world.url).unwrap(), &Credential::None).await.expect(200);
            let resource = metadata["resource"].as_str().unwrap();
            assert!(format!("{}{path}", world.url).starts_with(resource), "{path} is not below {resource}");
            assert_eq!(metadata.get("authorization_servers").is_none(), path.starts_with("/v1/"), "{metadata}");
            asked += 1;
        }
    }
    assert!(asked > 60, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_of_a_resource_is_at_its_path() {
    let world = World::on_sqlite().await;
    let url = &world.url;
    let metadata = async |path: &str| world.get(&format!("{RESOURCE}{path}"), &Credential::None).await;
    let root = metadata("").await.expect(200);
    assert_eq!(root["resource"], *url);
    assert_eq!(root["authorization_servers"], json!([url]));
    assert_eq!(root["scopes_supported"], json!(["svc.account", "svc.events"]));
    assert_eq!(root["bearer_methods_supported"], json!(["header"]));
    for route in routes().into_iter().chain(knowledge_routes()).filter(|route| route.accepts != Accepts::NONE) {
        let path = route.path.replace("{id}", NOBODY).replace("{machine_uuid}", NOBODY);
        assert_eq!(metadata(&path).await.expect(200)["resource"], format!("{url}{path}"));
    }
    assert_eq!(metadata("/api/v1/events").await.json()["scopes_supported"], json!(["svc.account", "svc.events"]));
    assert_eq!(metadata("/api/v1/activity").await.json()["scopes_supported"], json!(["svc.account"]));
    // The secret of a computer is not a token of an authorization server.
    let of_computers = metadata("/api/v1/device/code").await.expect(200);
    assert_eq!((of_computers.get("authorization_servers"), of_computers.get("scopes_supported")), (None, None));
    let knowledge = metadata("/v1").await.expect(200);
    assert_eq!(knowledge["resource"], format!("{url}/v1"));
    assert_eq!(knowledge["scopes_supported"], json!(["search", "write", "settings"]));
    for open in ["/api", "/api/v1/mcp", "/api/v1/agent-auth/token", "/v1/nothing", "/account"] {
        metadata(open).await.refused(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knowledge_api_with_a_listener_of_its_own_has_its_own_metadata() {
    let world = World::with(|settings| settings.knowledge.bind = Some("127.0.0.1:0".parse().unwrap())).await;
    let rag = format!("http://{}", world.server.knowledge_address);
    let get =
        async |path: String| reqwest::Client::builder().no_proxy().build().unwrap().get(path).send().await.unwrap();
    let refused = get(format!("{rag}/v1/spaces")).await;
    assert_eq!(refused.status(), 401);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert_eq!(challenge, format!("Bearer resource_metadata=\"{rag}{RESOURCE}/v1\""));
    for (path, resource) in [("", ""), ("/v1", "/v1"), ("/v1/search", "/v1/search")] {
        let metadata: Value = get(format!("{rag}{RESOURCE}{path}")).await.json().await.unwrap();
        assert_eq!(metadata["resource"], format!("{rag}{resource}"));
        assert_eq!(metadata["scopes_supported"], json!(["search", "write", "settings"]));
    }
    // Each listener describes its own routes.
    assert_eq!(get(format!("{rag}{RESOURCE}/api/v1/events")).await.status(), 404);
    world.get(&format!("{RESOURCE}/v1/search"), &Credential::None).await.refused(404, "not_found");
    assert_eq!(world.get(RESOURCE, &Credential::None).await.expect(200)["resource"], world.url);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authorization_server_names_endpoints_that_are_there() {
    let world = World::on_sqlite().await;
    let url = &world.url;
    let metadata = world.get("/.well-known/oauth-authorization-server", &Credential::None).await.expect(200);
    assert_eq!(metadata["issuer"], *url);
    assert_eq!(metadata["response_types_supported"], json!([]));
    assert_eq!(metadata["token_endpoint_auth_methods_supported"], json!(["none"]));
    let agents = &metadata["agent_auth"];
    assert_eq!(agents["skill"], format!("{url}/auth.md"));
    assert_eq!(agents["identity_types_supported"], json!(["anonymous", "service_auth"]));
    for block in [&metadata, agents] {
        assert_eq!(block["scopes_supported"], json!(["svc.account", "svc.events"]));
        let grants = json!(["urn:svc:agent-auth:grant-type:claim", "urn:ietf:params:oauth:grant-type:jwt-bearer"]);
        assert_eq!(block["grant_types_supported"], grants);
    }
    let endpoints: Vec<&str> = [&metadata, agents]
        .iter()
        .flat_map(|block| block.as_object().unwrap())
        .filter(|(name, _)| name.ends_with("_endpoint"))
        .map(|(_, endpoint)| endpoint.as_str().unwrap())
        .collect();
    assert_eq!(endpoints.len(), 7, "{metadata}");
    for endpoint in endpoints {
        let path = endpoint.strip_prefix(url).unwrap();
        let is_route = |route: &api::Route| route.method == Method::POST && route.path == path;
        assert!(routes().iter().any(is_route), "{endpoint}");
    }
    for document in ["jwks_uri", "service_documentation"] {
        let path = metadata[document].as_str().unwrap().strip_prefix(url).unwrap();
        assert_eq!(world.get(path, &Credential::None).await.status, 200, "{document}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_announced_grants_and_identity_types_are_accepted() {
    let world = World::on_sqlite().await;
    let metadata = world.get("/.well-known/oauth-authorization-server", &Credential::None).await.expect(200);
    for kind in metadata["agent_auth"]["identity_types_supported"].as_array().unwrap() {
        world.identity(json!({ "type": kind, "login_hint": "ada@example.com" })).await.expect(200);
    }
    for grant in metadata["grant_types_supported"].as_array().unwrap() {
        let pairs = [("grant_type", grant.as_str().unwrap()), ("assertion", "x"), ("claim_token", "clm_x")];
        let refused = world.token(&pairs).await.expect(400);
        assert_ne!(refused["error"], "unsupported_grant_type", "{grant}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_card_is_of_version_one_and_promises_no_stream() {
    let world = World::on_sqlite().await;
    let card = world.get("/.well-known/agent-card.json", &Credential::None).await.expect(200);
    let interface =
        json!({ "url": format!("{}/api/v1/a2a", world.url), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
    assert_eq!(card["supportedInterfaces"], json!([interface]));
    assert_eq!(card["capabilities"]["streaming"], false);
    for member in ["name", "description", "version"] {
        assert!(card[member].as_str().is_some_and(|text| !text.is_empty()), "{member}");
    }
    // The card has no members of earlier versions.
    for older in ["url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"] {
        assert_eq!(card.get(older), None, "{older}");
    }
    assert!(!card["skills"].as_array().unwrap().is_empty());
}
