//! The OpenAPI 3.1.0 description of both APIs, version 1.0.0 (`docs/protocol/conventions.md#versioning`).
//!
//! The document is composed from three sources: the route table has the operations and their credentials, the types of the crate `wire` have the
//! schemas of bodies, and the lists in this folder have the descriptions and the error [`Code`](super::error::Code)s. Everything else is derived:
//! statuses from codes, 401 from credentials, and 424 or 503 because any dependency may be unavailable. One test checks that every route has an
//! operation, and the black-box tests validate every response against the document.

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

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use self::operation::Operation;
use super::document::Document;
use super::{Accepts, KNOWLEDGE_PREFIX, Route, knowledge_routes, routes};
use crate::app::{App, Urls};
use crate::config::Settings;
use crate::web::docs::Reference;

/// The description as JSON for programs and as a page for people.
#[derive(Debug)]
pub struct Description {
    /// The OpenAPI document.
    pub document: Value,
    served: Document,
    reference: Reference,
}

impl Description {
    /// The description of a server with these settings and base URLs.
    pub fn new(settings: &Settings, urls: &Urls) -> Self {
        let document = document(settings, urls);
        let operations = operations();
        let order: Vec<&str> = operations.iter().map(Operation::id).collect();
        Self { served: Document::json(&document), reference: Reference::new(&document, &order), document }
    }

    /// The data of the page `/docs`.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }
}

/// `GET /openapi.json`
pub async fn show(State(app): State<App>, headers: HeaderMap) -> Response {
    app.description.served.answer(&headers)
}

/// The descriptions of all operations; routes without one are not part of the API.
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

/// Groups of operations with their descriptions, in the order of a first reading.
const TAGS: [(&str, &str); 8] = [
    ("Agents", "Registration of agents, claims, and exchange of credentials for access tokens."),
    ("Computers", "Registration of computers, and their attachment to an account by device code."),
    ("Account", "The account with its plan, remaining allowance, sessions, agents and API keys."),
    ("Consent", "Consent levels: how much may be recorded."),
    ("Events", "Submission of events, which are linked by hashes."),
    ("Audit", "Recorded events and their audit proofs."),
    ("Guides", "Guides for agents, and metadata."),
    ("Knowledge", "Spaces, pages and notes, and search."),
];

fn document(settings: &Settings, urls: &Urls) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Schemas::default();
    schemas.add::<wire::error::ErrorBody>();
    schemas.add::<public::Anything>();
    let mut operations = operations();
    for route in routes().iter().chain(&knowledge_routes()) {
        let found = operations.iter().position(|operation| operation.is_of(route));
        let Some(operation) = found.map(|at| operations.swap_remove(at)) else { continue };
        // OpenAPI has no parameter that spans several segments of a path; it is described as a single segment.
        let item = paths.entry(route.path.replace("{*", "{")).or_default();
        if route.path.starts_with(KNOWLEDGE_PREFIX) && urls.rag != urls.base {
            item.insert("servers".to_owned(), json!([{ "url": urls.rag, "description": "The knowledge API" }]));
        }
        item.insert(route.method.as_str().to_ascii_lowercase(), operation.object(route, &mut schemas));
    }
    let Schemas { mut schemas, responses } = schemas;
    // `unknown` is how a client represents message types it does not know; the server never sends it.
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

/// The components of the document: schemas and responses, each defined once and referenced by name.
#[derive(Debug, Default)]
pub struct Schemas {
    schemas: BTreeMap<String, Value>,
    responses: BTreeMap<String, Value>,
}

impl Schemas {
    /// Adds the schema of `T` and everything that it references; returns a reference to it.
    pub fn add<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            self.schemas.entry(name).or_insert_with(|| for_strangers(serde_json::to_value(schema).unwrap_or_default()));
        }
        json!({ "$ref": format!("#/components/schemas/{}", T::name()) })
    }

    /// Adds a response that several operations share; returns a reference to it.
    fn respond(&mut self, name: String, response: impl FnOnce() -> Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        self.responses.entry(name).or_insert_with(response);
        reference
    }
}

/// Removes citations of documents from descriptions, because their paths are relative to the source.
fn for_strangers(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description")
                && let Some((what, rest)) = text.split_once(" (`docs/")
                && let Some((_, rest)) = rest.split_once(')')
            {
                *text = format!("{what}{rest}");
            }
            members.values_mut().for_each(|member| *member = for_strangers(member.take()));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| *element = for_strangers(element.take())),
        _ => {}
    }
    schema
}

/// Credentials and the names of their security schemes.
const SCHEMES: [(Accepts, &str); 5] = [
    (Accepts::ACCOUNT, "accountBearer"),
    (Accepts::SESSION, "sessionCookie"),
    (Accepts::MACHINE, "machineBearer"),
    (Accepts::PRE_CLAIM, "preClaimBearer"),
    (Accepts::API_KEY, "apiKey"),
];

/// Security requirements of a route: one of its credentials.
fn security(route: &Route) -> Value {
    let accepted = SCHEMES.iter().filter(|(kind, _)| route.accepts.includes(*kind));
    accepted.map(|(_, name)| json!({ *name: [] })).collect()
}

fn security_schemes(settings: &Settings, urls: &Urls) -> Value {
    let bearer = |what: &str| json!({ "type": "http", "scheme": "bearer", "description": what });
    let secure = if urls.base.starts_with("https:") { "__Secure-" } else { "" };
    let cookie = format!("{secure}{}.session_token", settings.http.auth_name);
    json!({
        "accountBearer": bearer("Access token of a claimed agent, `at_…`."),
        "machineBearer": bearer("Machine secret of a computer, `msk_…`."),
        "preClaimBearer": bearer("Access token of an unclaimed agent, `at_…`; its events are held."),
        "apiKey": bearer("API key of the knowledge API, `ak_…`."),
        "enrolmentKey": bearer("Enrolment key for registering computers, if the server requires one."),
        "sessionCookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookie,
            "description": "Session of a signed-in browser. Requests that change something need `Content-Type: application/json` \
             and the server's own origin.",
        },
    })
}
