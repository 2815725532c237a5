//! The machine-readable description of both surfaces: OpenAPI 3.1.0, version 1.0.0 (`docs/protocol/conventions.md#versioning`).
//!
//! It is put together from three truths. The route table says which operations there are and which credentials each takes; the types of
//! the crate `wire` say what bodies look like; the lists in this folder say what each operation is for, and with which of our
//! [`Code`](super::error::Code)s it refuses. Everything else is derived: a status is there because one of its
//! codes is, 401 because a credential is asked for, 424 or 503 because anything may be unavailable. A test walks routes and operations and
//! finds no gap, and every answer that any black-box test gets is held against the document.

mod account;
mod agents;
mod audit;
mod devices;
mod events;
mod knowledge;
mod operation;
mod public;
mod refusals;
mod rpc;
mod schemas;
mod security;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Map, Value, json};

use self::operation::Operation;
use self::schemas::Schemas;
use self::security::security_schemes;
use super::document::Document;
use super::route::Route;
use crate::config::{Settings, Urls};

/// The OpenAPI description of both surfaces.
#[derive(Debug)]
pub struct Description {
    /// The OpenAPI document.
    pub document: Value,
    served: Document,
}

impl Description {
    /// Describes the operations of these routes, for a server with these settings and URLs.
    pub fn new<S>(settings: &Settings, urls: &Urls, routes: &[Route<S>]) -> Self {
        let document = document(settings, urls, routes);
        Self { served: Document::json(&document), document }
    }

    /// The ids of all operations, in the order in which `/docs` shows them.
    pub fn order() -> Vec<String> {
        operations().iter().map(|operation| operation.id().to_owned()).collect()
    }
}

/// `GET /openapi.json`
pub async fn show(State(description): State<Arc<Description>>, headers: HeaderMap) -> Response {
    description.served.answer(&headers)
}

/// What each operation is for; the routes that have none are no part of the API.
pub fn operations() -> Vec<Operation> {
    let lists = [
        agents::operations(),
        devices::operations(),
        account::operations(),
        events::operations(),
        audit::operations(),
        public::operations(),
        knowledge::operations(),
    ];
    lists.into_iter().flatten().collect()
}

/// The groups of operations, in the order in which `/docs` shows them.
const TAGS: [(&str, &str); 8] = [
    ("Agents", "Agents register, are claimed by a person, and exchange what they have for tokens."),
    ("Computers", "Computers register and are attached to an account by device code."),
    ("Account", "What an account has and what is left of its plan; its browsers, agents and keys."),
    ("Consent", "How much may be recorded."),
    ("Events", "Audit-chained activity goes in, one event at a time."),
    ("Audit", "What was recorded, and the proof of it."),
    ("Guides", "What agents and people read first."),
    ("Knowledge", "Spaces, pages and notes, and searching them."),
];

fn document<S>(settings: &Settings, urls: &Urls, routes: &[Route<S>]) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Schemas::default();
    schemas.add::<wire::error::ErrorBody>();
    schemas.add::<schemas::Anything>();
    let mut operations = operations();
    for route in routes {
        let found = operations.iter().position(|operation| operation.is_of(route));
        let Some(operation) = found.map(|at| operations.swap_remove(at)) else { continue };
        // OpenAPI knows no parameter that reaches over several parts of a path; the document contains the parameter without the asterisk.
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
    // Which six kinds of third-party agents there are is a matter of configuration.
    if let Some(scope) = schemas.get_mut("EventScope") {
        scope["properties"]["agent_id"]["enum"] = json!(settings.agent_kinds().names());
    }
    // So are the bounds of a batch.
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
            "description": "Two surfaces. The account and agent API, under `/api/v1`, refuses with `{error}` and says \
                that something could not be done right now with 424. The knowledge API, under `/v1`, refuses with \
                `{error, details}` and says the same with 503. Members that are not described here may be added to \
                answers, and clients ignore them.",
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
