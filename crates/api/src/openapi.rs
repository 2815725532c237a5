//! The OpenAPI 3.1.0 description of both APIs, version 1.0.0 (`docs/protocol/conventions.md#versioning`).
//!
//! The document is composed from three sources: the route table has the operations and their credentials, the types of the crate `wire`
//! have the schemas of bodies, and the lists in this folder have the descriptions and the error [`Code`](super::error::Code)s. Everything
//! else is derived: statuses from codes, 401 from credentials, and 424 or 503 because any dependency may be unavailable. One test checks
//! that every route has an operation, and the black-box tests validate every response against the document.

mod account;
mod agent_sessions;
mod agents;
mod audit;
mod devices;
mod events;
mod knowledge;
mod operation;
mod public;
mod refusals;
mod rpc;
mod rules;
mod schemas;
mod security;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use app::config::{Settings, Urls};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Map, Value, json};

use self::operation::Operation;
pub use self::schemas::Schemas;
use self::security::security_schemes;
use super::document::Document;
use super::route::Route;

/// The description as JSON for programs and as a page for people, composed when it is first needed.
#[derive(Debug)]
pub struct Description {
    composed: LazyLock<Composed, Box<dyn FnOnce() -> Composed + Send>>,
}

#[derive(Debug)]
struct Composed {
    document: Value,
    served: Document,
}

impl Description {
    /// Describes the operations of these routes, for a server with these settings and URLs.
    pub fn new<S: 'static>(settings: Settings, urls: Urls, routes: fn() -> Vec<Route<S>>) -> Self {
        let composed = LazyLock::new(Box::new(move || {
            let document = document(&settings, &urls, &routes());
            Composed { served: Document::json(&document), document }
        }) as Box<dyn FnOnce() -> Composed + Send>);
        Self { composed }
    }

    /// The OpenAPI document.
    pub fn document(&self) -> &Value {
        &self.composed.document
    }

    /// The ids of all operations, in the order in which `/docs` shows them.
    pub fn order() -> Vec<String> {
        operations().iter().map(|operation| operation.id().to_owned()).collect()
    }
}

/// `GET /openapi.json`
pub async fn show(State(description): State<Arc<Description>>, headers: HeaderMap) -> Response {
    description.composed.served.answer(&headers)
}

/// The descriptions of all operations; routes without one are not part of the API.
pub fn operations() -> Vec<Operation> {
    let lists = [
        agents::operations(),
        devices::operations(),
        account::operations(),
        events::operations(),
        audit::operations(),
        agent_sessions::operations(),
        webhooks::operations(),
        rules::operations(),
        public::operations(),
        knowledge::operations(),
    ];
    lists.into_iter().flatten().collect()
}

/// Groups of operations with their descriptions, in the order of a first reading.
const TAGS: [(&str, &str); 11] = [
    ("Agents", "Registration of agents, claims, and exchange of credentials for access tokens."),
    ("Computers", "Registration of computers, and their attachment to an account by device code."),
    ("Account", "The account with its plan, remaining allowance, sessions, agents and API keys."),
    ("Consent", "Consent levels: how much may be recorded."),
    ("Events", "Submission of events, which are linked by hashes."),
    ("Audit", "Recorded events and their audit proofs."),
    ("Sessions", "Sessions of agents: sums over the events of one piece of work, and its timeline."),
    ("Webhooks", "Notifications to endpoints of the account, signed by Standard Webhooks, and as a feed."),
    ("Rules", "Rules about recorded events, and the weekly digest."),
    ("Guides", "Guides for agents, and metadata."),
    ("Knowledge", "Spaces, pages and notes, and search."),
];

fn document<S>(settings: &Settings, urls: &Urls, routes: &[Route<S>]) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Schemas::default();
    schemas.add::<wire::error::ErrorBody>();
    schemas.add::<schemas::Anything>();
    let mut operations = operations();
    for route in routes {
        let index = operations.iter().position(|operation| operation.is_of(route));
        let Some(operation) = index.map(|at| operations.swap_remove(at)) else { continue };
        // OpenAPI has no parameter that spans several segments of a path; it is described as a single segment.
        let item = paths.entry(route.path.replace("{*", "{")).or_default();
        if route.is_knowledge() && urls.rag != urls.base {
            item.insert("servers".to_owned(), json!([{ "url": urls.rag, "description": "The knowledge API" }]));
        }
        item.insert(route.method.as_str().to_ascii_lowercase(), operation.describe(route, &mut schemas));
    }
    let (mut schemas, responses) = schemas.into_parts();
    // The variant for unknown message types exists for clients; the server never sends it.
    if let Some(messages) = schemas.get_mut("BatchMessage").and_then(|message| message["oneOf"].as_array_mut()) {
        messages.retain(|message| message["properties"]["type"]["enum"] != json!(["unknown"]));
    }
    // The agent kinds depend on the configuration.
    if let Some(scope) = schemas.get_mut("EventScope") {
        scope["properties"]["agent_id"]["enum"] = json!(settings.agent_kinds().names());
    }
    // So do the limits of a batch.
    if let Some(batch) = schemas.get_mut("BatchRequest") {
        let bounds = &settings.knowledge.batch;
        for (name, most) in [("urls", bounds.items_max), ("contents", bounds.items_max), ("spaces", bounds.spaces_max)]
        {
            batch["properties"][name]["maxItems"] = most.into();
        }
    }
    let tags: Vec<Value> = TAGS.iter().map(|(name, what)| json!({ "name": name, "description": what })).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "attache",
            "version": "1.0.0",
            "summary": "Accounts, consent, provable events and shared knowledge for software agents.",
            "description": "Two APIs. Errors of the account and agent API, under `/api/v1`, are `{error}`, and temporary \
             unavailability is 424. Errors of the knowledge API, under `/v1`, are `{error, details}`, and temporary \
             unavailability is 503. Clients must ignore members of responses that are not described here.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": urls.base }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": security_schemes(settings, urls),
            "responses": responses,
            "schemas": schemas,
        },
    })
}
