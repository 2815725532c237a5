//! The OpenAPI 3.1.0 description of the operator's API, composed from the table of routes and the types of the crate `wire`.

use std::collections::BTreeMap;

use api::openapi::Schemas;
use app::config::Settings;
use axum::http::Method;
use serde_json::{Map, Value, json};
use wire::ops::{
    AccountWebhookEntry, ActPage, ActShown, ActorReplaced, Cluster, Flow, HeldEndRequest, HeldEnded, HeldPage, KeyList,
    KeyShown, LogState, NodeDrained, NodeTree, ObjectChanged, OperatorError, OrderPending, OutboxPage, OverrideEntry,
    OverrideList, OverrideRemoved, OverrideRequest, PersonSessionEntry, QuarantineRequest, ReasonRequest, ReloadReport,
    ReloadRequest, RunningBatchEntry, ServicePauseEnded, ServicePauseEntry, ServicePauseList, ServicePauseRequest,
    SettingList, StreamEvent, TapEntry, UnsentMailEntry,
};

use super::{OpsRoute, PREFIX, routes};

type Schema = fn(&mut Schemas) -> Value;

/// The description of a route for clients.
pub struct RouteDescription {
    id: &'static str,
    summary: &'static str,
    /// Query parameters with their descriptions.
    query: &'static [(&'static str, &'static str)],
    body: Option<Schema>,
    answer: Schema,
    /// Whether another node may have to answer.
    is_order: bool,
    /// Statuses of errors that not every route has.
    refusals: &'static [(u16, &'static str)],
}

const NOT_FOUND: (u16, &str) = (404, "not_found");
const REASON: (&str, &str) = ("reason", "The reason: 1 to 500 characters on one line.");
const INVALID_QUERY: (u16, &str) = (422, "invalid_query");

pub(super) const LIST_ACTS: RouteDescription = RouteDescription {
    id: "listActs",
    summary: "Acts of operators, newest first",
    query: &[
        ("act", "Acts of this kind, such as `config_set`."),
        ("target", "Acts on this object, such as `setting:actors.queue_max`."),
        ("by", "Acts of an author that contains this text, such as `token (desk)`."),
        ("since", "Acts since this time, RFC 3339."),
        ("before", "Acts before this one: `next` of the page before."),
        ("limit", "Maximum number of acts, 1 to 200; 50 if absent. At most 2,000 acts are searched for a page."),
    ],
    body: None,
    answer: Schemas::add::<ActPage>,
    is_order: false,
    refusals: &[INVALID_QUERY],
};

pub(super) const SHOW_ACT: RouteDescription = RouteDescription {
    id: "showAct",
    summary: "An act with its event",
    query: &[],
    body: None,
    answer: Schemas::add::<ActShown>,
    is_order: false,
    refusals: &[NOT_FOUND],
};

pub(super) const SHOW_CONFIG: RouteDescription = RouteDescription {
    id: "showConfig",
    summary: "Settings of this node with their values and the places of these",
    query: &[("path", "A setting or a section, such as `actors.ordered`; all settings if absent.")],
    body: None,
    answer: Schemas::add::<SettingList>,
    is_order: false,
    refusals: &[NOT_FOUND, INVALID_QUERY],
};

pub(super) const RELOAD: RouteDescription = RouteDescription {
    id: "reloadConfig",
    summary: "Read the configuration of this node again",
    query: &[],
    body: Some(Schemas::add::<ReloadRequest>),
    answer: Schemas::add::<ReloadReport>,
    is_order: true,
    refusals: &[(422, "configuration_invalid, reason_missing, invalid_request")],
};

pub(super) const LIST_OVERRIDES: RouteDescription = RouteDescription {
    id: "listOverrides",
    summary: "Overrides in force",
    query: &[],
    body: None,
    answer: Schemas::add::<OverrideList>,
    is_order: false,
    refusals: &[],
};

pub(super) const SET_OVERRIDE: RouteDescription = RouteDescription {
    id: "setOverride",
    summary: "Override a live setting for a time, on all nodes or on one",
    query: &[],
    body: Some(Schemas::add::<OverrideRequest>),
    answer: Schemas::add::<OverrideEntry>,
    is_order: false,
    refusals: &[
        (409, "already_overridden"),
        (422, "configuration_invalid, not_live, override_too_long, reason_missing, invalid_request"),
    ],
};

pub(super) const UNSET_OVERRIDE: RouteDescription = RouteDescription {
    id: "unsetOverride",
    summary: "Remove an override",
    query: &[("node", "Name of the host of the only node that is affected; all nodes if absent."), REASON],
    body: None,
    answer: Schemas::add::<OverrideRemoved>,
    is_order: false,
    refusals: &[(404, "no_override"), (422, "reason_missing, invalid_query")],
};

pub(super) const LIST_PAUSES: RouteDescription = RouteDescription {
    id: "listPauses",
    summary: "Pauses in force",
    query: &[],
    body: None,
    answer: Schemas::add::<ServicePauseList>,
    is_order: false,
    refusals: &[],
};

pub(super) const BEGIN_PAUSE: RouteDescription = RouteDescription {
    id: "beginPause",
    summary: "Pause a part of the service for a time, on all nodes",
    query: &[],
    body: Some(Schemas::add::<ServicePauseRequest>),
    answer: Schemas::add::<ServicePauseEntry>,
    is_order: false,
    refusals: &[(409, "already_paused"), (422, "scope_not_possible, pause_too_long, reason_missing, invalid_request")],
};

pub(super) const END_PAUSE: RouteDescription = RouteDescription {
    id: "endPause",
    summary: "End a pause",
    query: &[REASON],
    body: None,
    answer: Schemas::add::<ServicePauseEnded>,
    is_order: false,
    refusals: &[NOT_FOUND, (422, "reason_missing, invalid_query")],
};

pub(super) const SHOW_CLUSTER: RouteDescription = RouteDescription {
    id: "showCluster",
    summary: "The nodes on this database, their differences, overrides and pauses",
    query: &[],
    body: None,
    answer: Schemas::add::<Cluster>,
    is_order: false,
    refusals: &[],
};

const AFTER: (&str, &str) = ("after", "Entries after this one: `next` of the page before. A page has 200.");

/// A list of objects of all accounts.
const fn objects(
    id: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: Schema,
) -> RouteDescription {
    RouteDescription { id, summary, query, body: None, answer, is_order: false, refusals: &[INVALID_QUERY] }
}

/// A change of one object.
const fn change(id: &'static str, summary: &'static str) -> RouteDescription {
    RouteDescription {
        id,
        summary,
        query: &[],
        body: Some(Schemas::add::<ReasonRequest>),
        answer: Schemas::add::<ObjectChanged>,
        is_order: false,
        refusals: &[NOT_FOUND, (422, "reason_missing, invalid_request")],
    }
}

pub(super) const LIST_BATCHES: RouteDescription = objects(
    "listRunningBatches",
    "Running batches of all accounts, oldest first",
    &[AFTER],
    Schemas::add_page::<RunningBatchEntry>,
);

pub(super) const CANCEL_BATCH: RouteDescription =
    change("cancelBatch", "Cancel a running batch: its items without an outcome are not added");

pub(super) const LIST_MAILS: RouteDescription = objects(
    "listUnsentMails",
    "Mails that were not sent, oldest first, with those that were given up",
    &[AFTER],
    Schemas::add_page::<UnsentMailEntry>,
);

pub(super) const RETRY_MAIL: RouteDescription = change("retryMail", "Send a mail at once, also after it was given up");

pub(super) const GIVE_UP_MAIL: RouteDescription = change("giveUpMail", "Give a mail up: it is not sent");

pub(super) const LIST_WEBHOOKS: RouteDescription = objects(
    "listWebhooksOfAccounts",
    "Endpoints of all accounts, oldest first, with the host of their URL only",
    &[AFTER],
    Schemas::add_page::<AccountWebhookEntry>,
);

pub(super) const DISABLE_WEBHOOK: RouteDescription =
    change("disableWebhook", "Disable an endpoint until an operator enables it; its notifications wait");

pub(super) const ENABLE_WEBHOOK: RouteDescription = change(
    "enableWebhook",
    "Enable an endpoint that an operator or the server disabled; what waited no longer than `webhooks.give_up_after` is sent",
);

pub(super) const LIST_SESSIONS: RouteDescription = objects(
    "listSessionsOfPersons",
    "Valid sessions of all persons, oldest first",
    &[("account", "Sessions of the owner of this account."), ("person", "Sessions of the person with this id."), AFTER],
    Schemas::add_page::<PersonSessionEntry>,
);

pub(super) const END_SESSION: RouteDescription = change("endSession", "End a session at once, on all nodes");

pub(super) const LIST_HELD: RouteDescription = RouteDescription {
    id: "listHeld",
    summary: "Held events, newest first, without their bodies",
    query: &[
        ("reason", "Events held for this reason, such as `unknown_event_type`."),
        ("sender", "Events of this sender: `machine:UUID`, `registration:UUID` or `account:ID`."),
        ("state", "`held` (if absent), `released`, `discarded` or `any`."),
        ("before", "Events before this one: `next` of the page before."),
        ("limit", "Maximum number of events, 1 to 200; 50 if absent."),
    ],
    body: None,
    answer: Schemas::add::<HeldPage>,
    is_order: false,
    refusals: &[INVALID_QUERY],
};

const HELD_REFUSALS: &[(u16, &str)] =
    &[(422, "filter_empty, token_missing, token_expired, reason_missing, invalid_request")];

pub(super) const RELEASE_HELD: RouteDescription = RouteDescription {
    id: "releaseHeld",
    summary: "Submit held events again, as if their senders had sent them now; 1,000 at most, oldest first",
    query: &[],
    body: Some(Schemas::add::<HeldEndRequest>),
    answer: Schemas::add::<HeldEnded>,
    is_order: false,
    refusals: HELD_REFUSALS,
};

pub(super) const DISCARD_HELD: RouteDescription = RouteDescription {
    id: "discardHeld",
    summary: "Discard held events with their bodies; 1,000 at most, oldest first",
    query: &[],
    body: Some(Schemas::add::<HeldEndRequest>),
    answer: Schemas::add::<HeldEnded>,
    is_order: false,
    refusals: HELD_REFUSALS,
};

pub(super) const LIST_KEYS: RouteDescription = RouteDescription {
    id: "listKeys",
    summary: "Keys with recently crashed or quarantined actors, on all nodes",
    query: &[
        ("kind", "Keys of this kind: `claims`, `devices` or `batches`."),
        ("key", "Only this id."),
        ("request", "Keys with an actor that crashed in this request: its `X-Request-Id`."),
        (
            "account",
            "All agents, computers and batches of this account, the newest 200 of each, whether they crashed or not.",
        ),
        ("order", "`crashes` or `age`: most crashes first, which is the default, or the last crash first."),
        ("limit", "Maximum number of keys, 1 to 200; 50 if absent."),
    ],
    body: None,
    answer: Schemas::add::<KeyList>,
    is_order: false,
    refusals: &[NOT_FOUND, INVALID_QUERY],
};

pub(super) const SHOW_KEY: RouteDescription = RouteDescription {
    id: "showKey",
    summary: "One key: its crashes, and the state of its actor on this node beside its row",
    query: &[],
    body: None,
    answer: Schemas::add::<KeyShown>,
    is_order: false,
    refusals: &[NOT_FOUND],
};

pub(super) const QUARANTINE_KEY: RouteDescription = RouteDescription {
    id: "quarantineKey",
    summary: "Let the actor of a key end, and refuse the key for a time, on all nodes",
    query: &[],
    body: Some(Schemas::add::<QuarantineRequest>),
    answer: Schemas::add::<ServicePauseEntry>,
    is_order: false,
    refusals: &[NOT_FOUND, (409, "already_paused"), (422, "pause_too_long, reason_missing, invalid_request")],
};

pub(super) const RELEASE_KEY: RouteDescription = RouteDescription {
    refusals: &[(404, "not_found, not_quarantined"), (422, "reason_missing, invalid_request")],
    ..change("releaseKey", "End each quarantine of a key, on all nodes")
};

pub(super) const RESTART_KEY: RouteDescription =
    change("restartKey", "Let the actor of a key end; the next message starts another from its row");

const NODE_REFUSALS: &[(u16, &str)] = &[
    (404, "not_found, not_draining"),
    (409, "already_draining, node_ambiguous, node_silent, stopping"),
    (422, "reason_missing, invalid_request, invalid_query"),
];

pub(super) const DRAIN: RouteDescription = RouteDescription {
    id: "drainNode",
    summary: "Take a node out of service without ending it: it is unready, and its responses close their connections",
    query: &[],
    body: Some(Schemas::add::<ReasonRequest>),
    answer: Schemas::add::<NodeDrained>,
    is_order: true,
    refusals: NODE_REFUSALS,
};

pub(super) const UNDRAIN: RouteDescription = RouteDescription {
    id: "undrainNode",
    summary: "Put a node back into service",
    query: &[REASON],
    body: None,
    answer: Schemas::add::<NodeDrained>,
    is_order: true,
    refusals: NODE_REFUSALS,
};

pub(super) const SHOW_FLOW: RouteDescription = RouteDescription {
    id: "showFlow",
    summary: "Numbers of held events, running batches and unsent mails",
    query: &[],
    body: None,
    answer: Schemas::add::<Flow>,
    is_order: false,
    refusals: &[],
};

pub(super) const SHOW_LOG: RouteDescription = RouteDescription {
    id: "showLog",
    summary: "The embedded event log",
    query: &[],
    body: None,
    answer: Schemas::add::<LogState>,
    is_order: false,
    refusals: &[NOT_FOUND],
};

pub(super) const STREAM: RouteDescription = RouteDescription {
    id: "stream",
    summary: "Actors of this node (`tree`, each second), numbers (`flow`) and acts (`act`) as server-sent events",
    query: &[("topics", "Topics, separated by commas: `tree`, `flow`, `acts`; all if absent.")],
    body: None,
    answer: Schemas::add::<StreamEvent>,
    is_order: false,
    refusals: &[INVALID_QUERY],
};

pub(super) const TAP: RouteDescription = RouteDescription {
    id: "tap",
    summary: "Samples of events that senders submit to this node, without content, at most 50 a second, as server-sent events: `begun` with `act_id` and `until`, `sample`, `end`",
    query: &[
        ("for", "Time, 60s at most; 30s if absent."),
        ("one_in", "Every n-th matching event; every one if absent."),
        ("outcome", "Events with this outcome: `forwarded`, `held`, `passed_through` or `unavailable`."),
        ("account", "Events that are charged to this account."),
        ("machine", "Events of this computer."),
        REASON,
    ],
    body: None,
    answer: Schemas::add::<TapEntry>,
    is_order: false,
    refusals: &[(422, "reason_missing, invalid_query, invalid_request")],
};

pub(super) const LIST_OUTBOX: RouteDescription = RouteDescription {
    id: "listOutbox",
    summary: "Chains of the service with events that wait for the statistics service, longest waiting first",
    query: &[],
    body: None,
    answer: Schemas::add::<OutboxPage>,
    is_order: false,
    refusals: &[],
};

pub(super) const SHOW_TREE: RouteDescription = RouteDescription {
    id: "showTree",
    summary: "The actors of a node",
    query: &[],
    body: None,
    answer: Schemas::add::<NodeTree>,
    is_order: false,
    refusals: TREE_REFUSALS,
};

pub(super) const SHOW_ACTOR: RouteDescription = RouteDescription {
    id: "showActor",
    summary: "One actor of a node",
    query: &[],
    body: None,
    answer: Schemas::add::<NodeTree>,
    is_order: false,
    refusals: TREE_REFUSALS,
};

const TREE_REFUSALS: &[(u16, &str)] = &[NOT_FOUND, (409, "node_ambiguous")];

pub(super) const RESTART_ACTOR: RouteDescription = RouteDescription {
    id: "restartActor",
    summary: "Let an actor of a node finish its messages and end, so that another is started",
    query: &[],
    body: Some(Schemas::add::<ReasonRequest>),
    answer: Schemas::add::<ActorReplaced>,
    is_order: true,
    refusals: ACTOR_REFUSALS,
};

pub(super) const KILL_ACTOR: RouteDescription = RouteDescription {
    id: "killActor",
    summary: "Kill an actor of a node at its next await, which loses its messages, so that another is started",
    query: &[],
    body: Some(Schemas::add::<ReasonRequest>),
    answer: Schemas::add::<ActorReplaced>,
    is_order: true,
    refusals: ACTOR_REFUSALS,
};

const ACTOR_REFUSALS: &[(u16, &str)] = &[
    NOT_FOUND,
    (409, "actor_not_running, node_ambiguous, node_silent, stopping"),
    (422, "reason_missing, invalid_request"),
];

/// Refusals of all routes.
const COMMON: &[(u16, &str)] =
    &[(401, "unauthorized"), (403, "role_needed, no_operator"), (424, "temporarily_unavailable, with Retry-After")];

/// Further refusals of routes that are acts.
const OF_ACTS: &[(u16, &str)] =
    &[(403, "changes_are_off"), (409, "act_in_progress, answer_lost"), (422, "idempotency_key_reused")];

/// The document for a server with these settings.
pub fn document(settings: &Settings) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut schemas = Schemas::default();
    for route in routes() {
        let item = paths.entry(format!("{PREFIX}{}", route.path)).or_default();
        item.insert(route.method.as_str().to_ascii_lowercase(), operation(&route, &mut schemas));
    }
    let (schemas, _) = schemas.into_parts();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "attache for operators",
            "version": "1.0.0",
            "summary": "The record of operators' acts, the settings of a server, and pauses.",
            "description": "Errors are `{error, detail}`. A refused request that was to change something is a recorded act, and `act_id` names it. \
             Clients must ignore members of responses that are not described here.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": format!("http://{}", settings.admin.bind) }],
        "security": [{ "operatorToken": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "operatorToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `attache admin token create`. The operator's socket needs none: the kernel names the user.",
                },
            },
            "schemas": schemas,
        },
    })
}

fn operation(route: &OpsRoute, schemas: &mut Schemas) -> Value {
    let RouteDescription { id, summary, query, body, answer, is_order, refusals } = &route.description;
    let parameter = |name: &str, place: &str, what: &str| {
        let is_required = place == "path" || name == "reason";
        json!({ "name": name, "in": place, "required": is_required, "description": what, "schema": { "type": "string" } })
    };
    let named = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = named
        .map(|name| {
            let what = match name {
                "id" => "Id of the object in its list.",
                "kind" => "`claims`, `devices` or `batches`.",
                "key" => "Id of the registration, computer or batch.",
                "node" => "Name of the host, or id, of the node.",
                "actor" => "Name of the actor in the tree.",
                _ => "Path of the setting.",
            };
            parameter(name, "path", what)
        })
        .collect();
    parameters.extend(query.iter().map(|(name, what)| parameter(name, "query", what)));
    if route.act.is_some() && route.method != Method::GET {
        let what = "Any text of up to 255 characters. A request that is sent again with it changes nothing, and has the first answer, for a day.";
        parameters.push(parameter("Idempotency-Key", "header", what));
    }
    let error = schemas.add::<OperatorError>();
    let mut responses = Map::new();
    let content = |schema: Value| json!({ "application/json": { "schema": schema } });
    let mut answered = content(answer(schemas));
    if [STREAM.id, TAP.id].contains(id) {
        // The schema describes one event.
        answered = json!({ "text/event-stream": { "schema": answered["application/json"]["schema"] } });
    }
    responses.insert("200".to_owned(), json!({ "description": "Done.", "content": answered }));
    if *is_order {
        let what = "The node has not answered within 2 seconds. The act says how it ended, 30 seconds later at most.";
        let schema = schemas.add::<OrderPending>();
        responses.insert("202".to_owned(), json!({ "description": what, "content": content(schema) }));
        let what = "node_did_not_answer";
        responses.insert("504".to_owned(), json!({ "description": what, "content": content(error.clone()) }));
    }
    let mut codes: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    let of_acts = if route.act.is_some() { OF_ACTS } else { &[] };
    for (status, refused) in COMMON.iter().chain(of_acts).chain(*refusals) {
        codes.entry(*status).or_default().push(refused);
    }
    for (status, codes) in codes {
        let content = content(error.clone());
        responses.insert(status.to_string(), json!({ "description": codes.join(", "), "content": content }));
    }
    let description = format!("Role: {}.", route.role.as_str());
    let mut operation =
        json!({ "operationId": id, "summary": summary, "description": description, "responses": responses });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = body {
        operation["responses"]["413"] = json!({ "description": "invalid_request", "content": content(error) });
        operation["requestBody"] = json!({ "required": true, "content": content(body(schemas)) });
    }
    operation
}
