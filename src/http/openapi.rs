//! The machine-readable description of both surfaces: OpenAPI 3.1.0, version 1.0.0 (`docs/protocol/conventions.md#versioning`).
//!
//! It is put together from three truths. The route table says which operations there are and which credentials each takes; the types of
//! the crate `wire` say what bodies look like; the lists in this folder say what each operation is for, and with which of our
//! [`Code`](super::error::Code)s it refuses. What follows from those is not written down anywhere: a status is there because one of its
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

/// The description, as programs and people read it.
#[derive(Debug)]
pub struct Description {
    /// The document.
    pub document: Value,
    served: Document,
    reference: Reference,
}

impl Description {
    /// Of a server with these settings, reached under these addresses.
    pub fn new(settings: &Settings, urls: &Urls) -> Self {
        let document = document(settings, urls);
        let operations = operations();
        let order: Vec<&str> = operations.iter().map(Operation::id).collect();
        Self { served: Document::json(&document), reference: Reference::new(&document, &order), document }
    }

    /// For people.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }
}

/// `GET /openapi.json`
pub async fn show(State(app): State<App>, headers: HeaderMap) -> Response {
    app.description.served.answer(&headers)
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

/// The groups of operations, in the order in which somebody new would want to read them.
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

fn document(settings: &Settings, urls: &Urls) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Schemas::default();
    schemas.add::<wire::error::ErrorBody>();
    schemas.add::<public::Anything>();
    let mut operations = operations();
    for route in routes().iter().chain(&knowledge_routes()) {
        let found = operations.iter().position(|operation| operation.is_of(route));
        let Some(operation) = found.map(|at| operations.swap_remove(at)) else { continue };
        // OpenAPI knows no parameter that reaches over several parts of a path; this one stands for the first.
        let item = paths.entry(route.path.replace("{*", "{")).or_default();
        if route.path.starts_with(KNOWLEDGE_PREFIX) && urls.rag != urls.base {
            item.insert("servers".to_owned(), json!([{ "url": urls.rag, "description": "The knowledge API" }]));
        }
        item.insert(route.method.as_str().to_ascii_lowercase(), operation.told(route, &mut schemas));
    }
    let Schemas { mut schemas, responses } = schemas;
    // What a client makes of types that it does not know is no message of ours.
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

/// What the operations refer to, each once and by its name.
#[derive(Debug, Default)]
pub struct Schemas {
    schemas: BTreeMap<String, Value>,
    responses: BTreeMap<String, Value>,
}

impl Schemas {
    /// A reference to the schema of `T`, which is in the document from now on, with all that it refers to.
    pub fn add<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            self.schemas.entry(name).or_insert_with(|| for_strangers(serde_json::to_value(schema).unwrap_or_default()));
        }
        json!({ "$ref": format!("#/components/schemas/{}", T::name()) })
    }

    /// A reference to a response that many operations have.
    fn respond(&mut self, name: String, response: impl FnOnce() -> Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        self.responses.entry(name).or_insert_with(response);
        reference
    }
}

/// Without the citations of documents, which are relative to the source.
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

/// The credentials that a route takes, by the specification's names of them (*Authentication*).
const SCHEMES: [(Accepts, &str); 5] = [
    (Accepts::ACCOUNT, "accountBearer"),
    (Accepts::SESSION, "sessionCookie"),
    (Accepts::MACHINE, "machineBearer"),
    (Accepts::PRE_CLAIM, "preClaimBearer"),
    (Accepts::API_KEY, "apiKey"),
];

/// Any one of them will do.
fn security(route: &Route) -> Value {
    let accepted = SCHEMES.iter().filter(|(kind, _)| route.accepts.includes(*kind));
    accepted.map(|(_, name)| json!({ *name: [] })).collect()
}

fn security_schemes(settings: &Settings, urls: &Urls) -> Value {
    let bearer = |what: &str| json!({ "type": "http", "scheme": "bearer", "description": what });
    let secure = if urls.base.starts_with("https:") { "__Secure-" } else { "" };
    let cookie = format!("{secure}{}.session_token", settings.http.auth_name);
    json!({
        "accountBearer": bearer("The access token of a claimed agent, `at_…`."),
        "machineBearer": bearer("A computer's secret, `msk_…`."),
        "preClaimBearer": bearer("The access token of an agent that nobody has claimed, `at_…`; its events are held."),
        "apiKey": bearer("A key of the knowledge API, `ak_…`."),
        "enrolmentKey": bearer("The key that an operator gives out for registering computers, where registering takes one."),
        "sessionCookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookie,
            "description": "A signed-in browser. What changes something has to say `Content-Type: application/json` \
                and to come from a page of ours.",
        },
    })
}
