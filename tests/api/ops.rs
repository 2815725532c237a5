//! The operator's API: who may do what, at the listener and at the socket, and the record that each change leaves.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use app::config::OperatorSettings;
use attache::admin::ops::{OpsRoute, PREFIX, description, routes};
use domain::Digest;
use domain::operator::OperatorRole;
use domain::secret::{Secret, SecretKind};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use supervision::root::{Node, Status};

use blackbox::client::Credential;
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

const ROLES: [OperatorRole; 3] = [OperatorRole::Look, OperatorRole::Operate, OperatorRole::Admin];
const LIMIT: &str = "limits.link_reads_per_minute";

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| description::document(&app::config::Settings::default()));

/// A way to the API.
#[derive(Debug, Clone)]
pub(super) enum Door {
    Token(String),
    NoToken,
    Socket,
}

pub(super) fn token(role: OperatorRole) -> String {
    // Any text is a token, since only its hash is known.
    format!("{}{}", SecretKind::OperatorToken.prefix(), role.as_str().repeat(8))
}

pub(super) fn with_token(role: OperatorRole) -> OperatorSettings {
    let hash = Digest::of(token(role).as_bytes());
    OperatorSettings { name: format!("desk-{}", role.as_str()), role, uid: None, token_sha256: Some(hash), oidc: None }
}

/// The operator who runs this test, at the socket.
fn with_uid(role: OperatorRole) -> OperatorSettings {
    let uid = Some(rustix::process::geteuid().as_raw());
    OperatorSettings { name: "tester".into(), role, uid, token_sha256: None, oidc: None }
}

pub(super) struct Answer {
    pub(super) status: u16,
    headers: reqwest::header::HeaderMap,
    pub(super) body: Value,
}

impl Answer {
    #[track_caller]
    pub(super) fn refused(&self, status: u16, error: &str) {
        assert_eq!((self.status, self.body["error"].as_str()), (status, Some(error)), "{:#}", self.body);
    }

    #[track_caller]
    pub(super) fn expect(self) -> Value {
        assert_eq!(self.status, 200, "{:#}", self.body);
        self.body
    }
}

/// Sends a request, and checks that the description has the status and the members of the answer.
pub(super) async fn ask(world: &World, door: &Door, method: &Method, path: &str, body: Option<&Value>) -> Answer {
    let socket = world.server.app.settings.data.dir.join("operator.sock");
    let (client, base) = match door {
        Door::Socket => (http_client::builder().unix_socket(socket), "http://localhost".to_owned()),
        _ => (http_client::builder(), format!("http://{}", world.server.admin_address)),
    };
    let mut request = client.no_proxy().build().unwrap().request(method.clone(), format!("{base}{path}"));
    if let Door::Token(token) = door {
        request = request.bearer_auth(token);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    if headers["content-type"] == "text/event-stream" {
        // It does not end, so the body is the data of the first event.
        let mut response = response;
        let first = response.chunk().await.unwrap().unwrap();
        let data = str::from_utf8(&first).unwrap().lines().find_map(|line| line.strip_prefix("data: "));
        return Answer { status: status.as_u16(), headers, body: serde_json::from_str(data.unwrap()).unwrap() };
    }
    let answer = Answer { status: status.as_u16(), headers, body: response.json().await.unwrap_or(Value::Null) };
    judge(method, path, &answer);
    answer
}

#[track_caller]
fn judge(method: &Method, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap();
    let route = routes().into_iter().find(|route| {
        let (wanted, given) = (format!("{PREFIX}{}", route.path), path);
        let parts = wanted.split('/').zip(given.split('/'));
        let same =
            parts.clone().count() == wanted.split('/').count() && wanted.split('/').count() == given.split('/').count();
        route.method == *method
            && same
            && parts.into_iter().all(|(wanted, given)| wanted == given || wanted.starts_with('{'))
    });
    let Some(route) = route else { return };
    assert_eq!(answer.headers["cache-control"], "no-store");
    let operation = &DOCUMENT["paths"][format!("{PREFIX}{}", route.path)][method.as_str().to_lowercase()];
    let described = &operation["responses"][answer.status.to_string()];
    if answer.status == 404 && described.is_null() {
        return;
    }
    let schema = &described["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {path} {} is not described", answer.status);
    let mut whole = json!({ "allOf": [schema], "components": DOCUMENT["components"] });
    whole["unevaluatedProperties"] = json!(false);
    let validator = jsonschema::options().build(&whole).unwrap();
    let faults: Vec<String> = validator.iter_errors(&answer.body).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{method} {path}: {faults:#?} in {:#}", answer.body);
}

/// A valid request to a route.
fn valid(route: &OpsRoute) -> (String, Option<Value>) {
    let path = format!("{PREFIX}{}", route.path)
        .replace("{path}", LIMIT)
        .replace("{node}", &app::host_name())
        .replace("{kind}", "batches")
        .replace("{actor}", "mail");
    let path = path.replace("{key}", "019b76da-a800-7a67-8a14-94a3f41b0634");
    let path = path.replace("{id}", "019b76da-a800-7a67-8a14-94a3f41b0634");
    match route.method.as_str() {
        "PUT" => (path, Some(json!({ "value": 7, "reason": "a test", "replace": true }))),
        "POST" if route.path == "/pauses" => {
            (path, Some(json!({ "part": "backfill", "reason": "a test", "replace": true })))
        }
        "POST" if route.path.starts_with("/held:") => {
            (path, Some(json!({ "ids": ["019b76da-a800-7a67-8a14-94a3f41b0634"], "reason": "a test" })))
        }
        "POST" => (path, Some(json!({ "reason": "a test" }))),
        "DELETE" => (format!("{path}?reason=a%20test"), None),
        _ if route.path == "/tap" => (format!("{path}?reason=a%20test&for=1s"), None),
        _ => (path, None),
    }
}

pub(super) async fn acts(world: &World) -> Vec<Value> {
    let page = world.server.app.store.acts(None, 1_000).await.unwrap();
    page.iter().map(|act| json!(app::acts::shown(act).unwrap())).collect()
}

/// The acts after `before`, newest first, once there is one. A reload is recorded after its answer.
async fn new_acts(world: &World, before: usize) -> Vec<Value> {
    blackbox::eventually("the act is recorded", async || {
        let found = acts(world).await;
        let new = found.len() - before;
        (new > 0).then(|| found[..new].to_vec())
    })
    .await
}

on_each_database! {
    async fn each_route_has_its_roles_at_each_door_and_each_change_leaves_one_act(world: World) {
        let mut world = world;
        for changes in [false, true] {
            for own in ROLES {
                world = world.restart_with(|settings| {
                    settings.admin.changes = changes;
                    settings.admin.operator = ROLES.map(with_token).into_iter().chain([with_uid(own)]).collect();
                    settings.limits.operator_failures_per_minute = 0;
                }).await;
                let mut doors = vec![(Door::Socket, Some(own))];
                // The socket is the only door that depends on the role in the configuration.
                if own == OperatorRole::Look {
                    doors.extend(ROLES.map(|role| (Door::Token(token(role)), Some(role))));
                    doors.extend([(Door::NoToken, None), (Door::Token("opr_unknown".into()), None)]);
                }
                for (door, role) in doors {
                    for route in routes() {
                        let before = acts(&world).await.len();
                        let (path, body) = valid(&route);
                        let answer = ask(&world, &door, &route.method, &path, body.as_ref()).await;
                        let what = format!("{} {path} by {door:?} as {role:?}, changes {changes}: {:#}", route.method, answer.body);
                        let refusal = match role {
                            None => Some((401, "unauthorized")),
                            Some(role) if role < route.role => Some((403, "role_needed")),
                            Some(_) if route.act.is_some() && !matches!(door, Door::Socket) && !changes => Some((403, "changes_are_off")),
                            Some(_) => None,
                        };
                        match refusal {
                            Some((status, error)) => {
                                assert_eq!((answer.status, answer.body["error"].as_str()), (status, Some(error)), "{what}");
                            }
                            None => assert!(![401, 403, 405].contains(&answer.status), "{what}"),
                        }
                        assert_eq!(answer.headers.contains_key("www-authenticate"), answer.status == 401, "{what}");
                        let Some(kind) = route.act.filter(|_| role.is_some()) else {
                            assert_eq!(acts(&world).await.len(), before, "{what}");
                            continue;
                        };
                        let new = new_acts(&world, before).await;
                        assert_eq!(new.len(), 1, "{what}");
                        assert_eq!((&new[0]["act"], &new[0]["id"]), (&json!(kind), &answer.body["act_id"]), "{what}");
                        // The events of one request end one after the other, so the act is recorded before them.
                        let done = if route.path.starts_with("/held:") { "begun" } else { "applied" };
                        let outcome = if answer.status == 200 { done } else { "refused" };
                        assert_eq!(new[0]["outcome"], outcome, "{what}");
                        let by = &new[0]["event"]["payload"]["by"];
                        match &door {
                            Door::Socket => assert_eq!((&by["door"], &by["operator"]), (&json!("socket"), &json!("tester"))),
                            _ => assert_eq!((&by["door"], &by["from"]), (&json!("token"), &json!("127.0.0.1"))),
                        }
                    }
                }
            }
        }
    }

    async fn a_setting_is_overridden_and_the_record_says_by_whom_and_why(world: World) {
        let world = world.restart_with(|settings| {
            settings.admin.changes = true;
            settings.admin.operator = vec![with_token(OperatorRole::Operate)];
        }).await;
        let door = Door::Token(token(OperatorRole::Operate));
        let path = format!("{PREFIX}/config/overrides/{LIMIT}");
        let put = async |body: Value| ask(&world, &door, &Method::PUT, &path, Some(&body)).await;
        let set = put(json!({ "value": 7, "for": "30m", "reason": "a crawler" })).await.expect();
        assert_eq!((&set["value"], &set["set_by"]), (&json!(7), &json!("token (desk-operate)")), "{set}");
        assert!(set["until"].is_string());
        let of_setting = format!("{PREFIX}/config?path={LIMIT}");
        let shown = blackbox::eventually("it is in force", async || {
            let shown = ask(&world, &door, &Method::GET, &of_setting, None).await.expect();
            (shown["settings"][0]["source"] == "override").then(|| shown["settings"][0].clone())
        }).await;
        assert_eq!((&shown["value"], &shown["default"], &shown["override"]), (&json!(7), &json!(60), &json!(7)), "{shown}");
        let taken = put(json!({ "value": 8, "reason": "another" })).await;
        taken.refused(409, "already_overridden");
        assert!(taken.body["detail"].as_str().unwrap().contains("set by token (desk-operate)"), "{:#}", taken.body);

        // Each refused request is one act too, with any fault.
        for (body, error) in [
            (json!({ "value": 8 }), "reason_missing"),
            (json!({ "value": 8, "reason": "two\nlines" }), "reason_missing"),
            (json!({ "value": -1, "reason": "why" }), "configuration_invalid"),
            (json!({ "value": 8, "reason": "why", "for": "8days" }), "override_too_long"),
            (json!({ "value": 8, "reason": "why", "for": "soon" }), "invalid_request"),
            (json!({ "value": 8, "reason": "why", "for": "1h", "until_unset": true }), "invalid_request"),
            (json!({ "value": 8, "reason": "why", "unknown": 1 }), "invalid_request"),
        ] {
            let before = acts(&world).await.len();
            put(body).await.refused(422, error);
            let new = acts(&world).await;
            assert_eq!((new.len() - before, new[0]["outcome"].as_str()), (1, Some("refused")), "{error}");
        }
        let large = put(json!({ "value": "x".repeat(100_000), "reason": "why" })).await;
        assert_eq!((large.status, large.body["act_id"].is_string()), (413, true), "{:#}", large.body);
        for (setting, error) in [("http.bind", "not_live"), ("admin.operator", "not_live"), ("admin.changes", "not_live"), ("limits.nothing", "configuration_invalid")] {
            let path = format!("{PREFIX}/config/overrides/{setting}");
            let value = match setting {
                "http.bind" => json!("127.0.0.1:1"),
                "admin.operator" => json!([]),
                _ => json!(true),
            };
            let refused = ask(&world, &door, &Method::PUT, &path, Some(&json!({ "value": value, "reason": "why" }))).await;
            refused.refused(422, error);
            assert_eq!(acts(&world).await[0]["target"], format!("setting:{setting}"));
        }

        let listed = ask(&world, &door, &Method::GET, &format!("{PREFIX}/config/overrides"), None).await.expect();
        assert_eq!(listed["overrides"].as_array().unwrap().len(), 1, "{listed}");
        let end = format!("{path}?reason=the%20crawler%20is%20gone");
        ask(&world, &door, &Method::DELETE, &end, None).await.expect();
        ask(&world, &door, &Method::DELETE, &end, None).await.refused(404, "no_override");
        ask(&world, &door, &Method::DELETE, &path, None).await.refused(422, "reason_missing");
        let query = format!("{PREFIX}/acts?act=config_set&target=setting:{LIMIT}&by=desk-operate&limit=2");
        let page = ask(&world, &door, &Method::GET, &query, None).await.expect();
        assert_eq!(page["acts"].as_array().unwrap().len(), 2, "{page}");
        let mut seen = BTreeSet::new();
        let mut next = page;
        loop {
            seen.extend(next["acts"].as_array().unwrap().iter().map(|act| act["id"].as_str().unwrap().to_owned()));
            let Some(before) = next["next"].as_str() else { break };
            next = ask(&world, &door, &Method::GET, &format!("{query}&before={before}"), None).await.expect();
        }
        let expected: BTreeSet<String> = acts(&world).await.iter()
            .filter(|act| act["act"] == "config_set" && act["target"] == format!("setting:{LIMIT}"))
            .map(|act| act["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(seen, expected);
        assert_eq!(expected.len(), 4, "set, taken, too small, too long; a request that cannot be read names no object");
        let one = ask(&world, &door, &Method::GET, &format!("{PREFIX}/acts/{}", set["act_id"].as_str().unwrap()), None).await.expect();
        assert_eq!((&one["reason"], &one["after"]), (&json!("a crawler"), &json!(7)), "{one}");
        assert_eq!(one["event"]["event_type"], "operator.config_set");
        let future = "2100-01-01T00:00:00Z";
        let none = ask(&world, &door, &Method::GET, &format!("{PREFIX}/acts?since={future}"), None).await.expect();
        assert_eq!(none, json!({ "acts": [], "next": null }));
        for wrong in ["limit=0", "limit=201", "act=nothing", "since=yesterday", "unknown=1"] {
            ask(&world, &door, &Method::GET, &format!("{PREFIX}/acts?{wrong}"), None).await.refused(422, "invalid_query");
        }
    }
}

on_each_database! {
    async fn a_stream_has_the_tree_each_second_and_each_act_once(world: World) {
        let socket = world.server.app.settings.data.dir.join("operator.sock");
        let client = http_client::builder().unix_socket(socket).build().unwrap();
        let open = async |last: Option<&str>| {
            let mut request = client.get(format!("http://localhost{PREFIX}/stream"));
            if let Some(last) = last {
                request = request.header("last-event-id", last);
            }
            request.send().await.unwrap()
        };
        let mut stream = open(None).await;
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        let why = json!({ "part": "backfill", "reason": "a test" });
        let begun = ask(&world, &Door::Socket, &Method::POST, &format!("{PREFIX}/pauses"), Some(&why)).await.expect();
        let id = begun["act_id"].as_str().unwrap().to_owned();
        let mut text = String::new();
        while !text.contains(&format!("event: act\nid: {id}\ndata: ")) || text.matches("event: tree\ndata: ").count() < 2 {
            text.push_str(str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
        }
        assert_eq!(text.matches("event: flow\n").count(), 1, "numbers that do not change are sent once: {text}");
        let end = format!("{PREFIX}/pauses/{}?reason=done", begun["id"].as_str().unwrap());
        let ended = ask(&world, &Door::Socket, &Method::DELETE, &end, None).await.expect();
        let mut again = open(Some(&id)).await;
        let first = again.chunk().await.unwrap().unwrap();
        let first = str::from_utf8(&first).unwrap();
        let (missed, seen) = (ended["act_id"].as_str().unwrap(), format!("id: {id}\n"));
        assert!(first.contains(&format!("id: {missed}\n")) && !first.contains(&seen), "{first}");
        drop((stream, again));

        let mut streams = Vec::new();
        for _ in 0..16 {
            streams.push(blackbox::eventually("a place is free", async || {
                let stream = open(None).await;
                (stream.status() == 200).then_some(stream)
            }).await);
        }
        let full = open(None).await;
        assert_eq!((full.status(), full.headers().contains_key("retry-after")), (StatusCode::FAILED_DEPENDENCY, true));
        let unknown = format!("{PREFIX}/stream?topics=tree,nothing");
        ask(&world, &Door::Socket, &Method::GET, &unknown, None).await.refused(422, "invalid_query");
        let flow = ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/flow"), None).await.expect();
        assert_eq!(flow, json!({ "held": [], "batches": 0, "mails": 0 }));
        let log = blackbox::eventually("it signs the log", async || {
            let log = ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/log"), None).await.expect();
            (log["signs"] == true).then_some(log)
        }).await;
        assert_eq!(log["halted"], Value::Null, "{log}");
    }
}

on_each_database! {
    async fn a_part_is_paused_and_the_record_says_by_whom_and_why(world: World) {
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        let path = format!("{PREFIX}/pauses");
        let begin = async |body: Value| ask(&world, &Door::Socket, &post, &path, Some(&body)).await;
        let of_lane = json!({ "part": "intake", "scope": "lane:llm", "for": "10m", "reason": "a loop" });
        let begun = begin(of_lane.clone()).await.expect();
        assert_eq!((&begun["scope"], &begun["id"]), (&json!("lane:llm"), &begun["act_id"]), "{begun}");
        let again = begin(of_lane).await;
        again.refused(409, "already_paused");
        assert!(again.body["detail"].as_str().unwrap().contains("a loop"), "{:#}", again.body);
        for (body, error) in [
            (json!({ "part": "nothing", "reason": "why" }), "invalid_request"),
            (json!({ "part": "intake", "scope": "person:1", "reason": "why" }), "invalid_request"),
            (json!({ "part": "mail", "scope": "lane:llm", "reason": "why" }), "scope_not_possible"),
            (json!({ "part": "mail", "for": "8days", "reason": "why" }), "pause_too_long"),
            (json!({ "part": "mail", "for": "0s", "reason": "why" }), "pause_too_long"),
            (json!({ "part": "mail" }), "reason_missing"),
        ] {
            let before = acts(&world).await.len();
            begin(body).await.refused(422, error);
            let new = new_acts(&world, before).await;
            assert_eq!((new.len(), &new[0]["outcome"]), (1, &json!("refused")), "{error}");
        }
        let listed = ask(&world, &Door::Socket, &get, &path, None).await.expect();
        assert_eq!(listed["pauses"].as_array().unwrap().len(), 1, "{listed}");
        let part = blackbox::eventually("the page of the probe names it", async || {
            let ready = ask(&world, &Door::Socket, &get, "/readyz", None).await.expect();
            ready["degraded"].as_array().unwrap().iter().find(|part| part["part"] == "pauses").cloned()
        }).await;
        let reason = part["reason"].as_str().unwrap();
        assert!(reason.starts_with("intake@lane:llm is paused until 2") && reason.ends_with(" (a loop)"), "{reason}");
        let end = format!("{path}/{}?reason=done", begun["id"].as_str().unwrap());
        ask(&world, &Door::Socket, &delete, &end, None).await.expect();
        ask(&world, &Door::Socket, &delete, &end, None).await.refused(404, "not_found");
        ask(&world, &Door::Socket, &delete, &format!("{path}/none?reason=done"), None).await.refused(404, "not_found");
        let of_pause = format!("{PREFIX}/acts?target=pause:intake@lane:llm");
        let found = ask(&world, &Door::Socket, &get, &of_pause, None).await.expect();
        let found: Vec<_> = found["acts"].as_array().unwrap().iter().map(|act| (&act["act"], &act["outcome"])).collect();
        let expected = [("pause_end", "applied"), ("pause_begin", "refused"), ("pause_begin", "applied")];
        assert_eq!(json!(found), json!(expected));
    }
}

on_sqlite! {
    async fn without_operators_the_listener_has_no_such_routes_and_the_socket_has_them(world: World) {
        for route in routes() {
            let (path, body) = valid(&route);
            ask(&world, &Door::NoToken, &route.method, &path, body.as_ref()).await.refused(404, "not_found");
        }
        ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/acts"), None).await.expect();
        ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/nothing"), None).await.refused(404, "not_found");
        ask(&world, &Door::Socket, &Method::DELETE, &format!("{PREFIX}/acts"), None).await.refused(405, "method_not_allowed");
        ask(&world, &Door::Socket, &Method::GET, "/readyz", None).await.expect();
        let socket = world.server.app.settings.data.dir.join("operator.sock");
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let listed = ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/config"), None).await.expect();
        assert_eq!(listed["settings"].as_array().unwrap().len(), app::config::reading::paths(&app::config::reading::schema()).len());
    }

    async fn a_drained_node_is_unready_and_closes_connections_until_it_is_back(world: World) {
        let (post, delete) = (Method::POST, Method::DELETE);
        let path = format!("{PREFIX}/nodes/{}/drain", app::host_name());
        let why = json!({ "reason": "a new kernel" });
        let connection = async || world.get("/.well-known/jwks.json", &Credential::None).await.header("connection").map(str::to_owned);
        let ready = async || ask(&world, &Door::Socket, &Method::GET, "/readyz", None).await;
        ask(&world, &Door::Socket, &delete, &format!("{path}?reason=why"), None).await.refused(404, "not_draining");
        ask(&world, &Door::Socket, &post, &path, Some(&json!({}))).await.refused(422, "reason_missing");
        let elsewhere = format!("{PREFIX}/nodes/elsewhere/drain");
        ask(&world, &Door::Socket, &post, &elsewhere, Some(&why)).await.refused(404, "not_found");
        assert_eq!((ready().await.status, connection().await), (200, None));
        let drained = ask(&world, &Door::Socket, &post, &path, Some(&why)).await.expect();
        assert_eq!(drained["draining"], true);
        let unready = ready().await;
        assert_eq!((unready.status, &unready.body["draining"]), (503, &json!(true)));
        let part = &unready.body["degraded"].as_array().unwrap().iter().find(|part| part["part"] == "drain").unwrap()["reason"];
        assert!(part.as_str().unwrap().starts_with("drained by socket:") && part.as_str().unwrap().ends_with(": a new kernel"), "{part}");
        assert_eq!(connection().await.as_deref(), Some("close"));
        let second = ask(&world, &Door::Socket, &post, &path, Some(&why)).await;
        second.refused(409, "already_draining");
        assert!(second.body["detail"].as_str().unwrap().contains("a new kernel"), "{:#}", second.body);
        ask(&world, &Door::Socket, &delete, &format!("{path}?reason=done"), None).await.expect();
        assert_eq!((ready().await.status, connection().await), (200, None));
        let found = blackbox::eventually("all acts", async || {
            let found = acts(&world).await;
            (found.len() == 6).then_some(found)
        }).await;
        let outcomes: Vec<(&str, &str)> = found.iter().rev()
            .map(|act| (act["act"].as_str().unwrap(), act["outcome"].as_str().unwrap())).collect();
        let refused = ("node_drain", "refused");
        assert_eq!(outcomes, [("node_undrain", "refused"), refused, refused, ("node_drain", "applied"), refused, ("node_undrain", "applied")]);
    }

    async fn an_actor_is_restarted_and_killed_and_its_restart_budget_stays_whole(world: World) {
        let (get, post) = (Method::GET, Method::POST);
        let of_node = format!("{PREFIX}/nodes/{}", app::host_name());
        let mail = async || {
            let shown = ask(&world, &Door::Socket, &get, &format!("{of_node}/tree/mail"), None).await.expect();
            serde_json::from_value::<Node>(shown["tree"].clone()).unwrap()
        };
        let whole = ask(&world, &Door::Socket, &get, &format!("{of_node}/tree"), None).await.expect();
        let names: Vec<&str> = whole["tree"]["children"].as_array().unwrap().iter().map(|child| child["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"mail") && names.contains(&"claims") && whole["age_ms"] == 0, "{names:?}");
        let before = mail().await;
        let why = json!({ "reason": "it hangs" });
        for (restarts, how) in [(1, "restart"), (2, "kill")] {
            let path = format!("{of_node}/actors/mail/{how}");
            let replaced = ask(&world, &Door::Socket, &post, &path, Some(&why)).await.expect();
            assert_eq!((&replaced["actor"], replaced["act_id"].is_string()), (&json!("mail"), true), "{replaced}");
            let after = blackbox::eventually("another actor runs", async || {
                let after = mail().await;
                (after.restarts == before.restarts + restarts && after.status == Status::Running).then_some(after)
            }).await;
            assert_eq!((after.budget, after.failures), (before.budget, vec![]));
        }
        ask(&world, &Door::Socket, &post, &format!("{of_node}/actors/claims/restart"), Some(&why)).await.expect();
        let typo = ask(&world, &Door::Socket, &post, &format!("{of_node}/actors/clams/restart"), Some(&why)).await;
        typo.refused(404, "not_found");
        let absent = ask(&world, &Door::Socket, &get, &format!("{of_node}/tree/clams"), None).await;
        absent.refused(404, "not_found");
        for detail in [&typo.body["detail"], &absent.body["detail"]] {
            assert!(detail.as_str().unwrap().starts_with("no actor of the node is named \"clams\": claims, "), "{detail}");
        }
        let found: Vec<_> = acts(&world).await.into_iter().rev().map(|act| (act["act"].clone(), act["target"].clone(), act["outcome"].clone())).collect();
        let expected = [
            ("actor_restart", "actor:mail", "applied"),
            ("actor_kill", "actor:mail", "applied"),
            ("actor_restart", "actor:claims", "applied"),
            ("actor_restart", "actor:clams", "refused"),
        ];
        assert_eq!(json!(found), json!(expected));
    }

    async fn credentials_of_operators_are_hidden_and_failures_are_limited(world: World) {
        let world = world.restart_with(|settings| {
            settings.admin.operator = vec![with_token(OperatorRole::Look), with_uid(OperatorRole::Look)];
            settings.limits.operator_failures_per_minute = 2;
        }).await;
        let socket = world.server.app.settings.data.dir.join("operator.sock");
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o666);
        let door = Door::Token(token(OperatorRole::Look));
        let path = format!("{PREFIX}/config?path=admin");
        let listed = ask(&world, &door, &Method::GET, &path, None).await.expect();
        let operator = listed["settings"].as_array().unwrap().iter().find(|entry| entry["path"] == "admin.operator").unwrap();
        assert_eq!((&operator["value"], &operator["change"]), (&json!("…"), &json!("reload")), "{operator}");
        assert!(!listed.to_string().contains(&Digest::of(token(OperatorRole::Look).as_bytes()).to_string()));

        let unknown = Door::Token(Secret::mint(SecretKind::OperatorToken, world.rng()).expose().to_owned());
        let (get, put) = (Method::GET, Method::PUT);
        ask(&world, &unknown, &get, &path, None).await.refused(401, "unauthorized");
        let body = json!({ "value": 7, "reason": "a test" });
        let change = format!("{PREFIX}/config/overrides/{LIMIT}");
        ask(&world, &door, &put, &change, Some(&body)).await.refused(403, "role_needed");
        let before = acts(&world).await.len();
        for _ in 0..3 {
            let response = http_client::builder().build().unwrap()
                .put(format!("http://{}{change}", world.server.admin_address)).bearer_auth(token(OperatorRole::Look)).json(&body).send().await.unwrap();
            assert_eq!(response.status(), StatusCode::FAILED_DEPENDENCY);
            assert!(response.headers().contains_key("retry-after"));
        }
        assert_eq!(acts(&world).await.len(), before, "a flood of refused requests fills no table");
        // Valid requests of the same address pass.
        ask(&world, &door, &get, &path, None).await.expect();
        let metrics = reqwest::get(format!("http://{}/metrics", world.server.admin_address)).await.unwrap();
        assert_eq!(metrics.status(), 200, "probes and metrics need no credential");
    }
}

/// The requests to two nodes on one database, through the socket of the first one.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_reaches_another_node_and_is_one_act() {
    let Some(world) = World::on_postgres().await else { return };
    let world = world.restart_with(|settings| settings.limits.operator_failures_per_minute = 0).await;
    let other = world.beside_with(world.clock().clone(), |settings| settings.database.notify = false).await;
    let id = other.server.app.nodes.id().to_string();
    blackbox::eventually("both nodes have rows", async || {
        let cluster = ask(&world, &Door::Socket, &Method::GET, &format!("{PREFIX}/cluster"), None).await.expect();
        (cluster["nodes"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    let why = json!({ "reason": "a new kernel" });
    let path = format!("{PREFIX}/nodes/{id}/drain");
    let ready = async |world: &World| ask(world, &Door::Socket, &Method::GET, "/readyz", None).await.status;
    let drained = ask(&world, &Door::Socket, &Method::POST, &path, Some(&why)).await.expect();
    assert_eq!((drained["draining"].as_bool(), ready(&other).await, ready(&world).await), (Some(true), 503, 200));
    ask(&world, &Door::Socket, &Method::POST, &path, Some(&why)).await.refused(409, "already_draining");
    ask(&world, &Door::Socket, &Method::DELETE, &format!("{path}?reason=done"), None).await.expect();
    assert_eq!(ready(&other).await, 200);

    // It writes its tree about every five seconds.
    let tree = format!("{PREFIX}/nodes/{id}/tree/mail");
    let shown = ask(&world, &Door::Socket, &Method::GET, &tree, None).await.expect();
    assert_eq!(
        (&shown["id"], &shown["tree"]["name"], &shown["tree"]["restarts"]),
        (&json!(id), &json!("mail"), &json!(0))
    );
    let restart = format!("{PREFIX}/nodes/{id}/actors/mail/restart");
    ask(&world, &Door::Socket, &Method::POST, &restart, Some(&why)).await.expect();
    blackbox::eventually("its tree says so", async || {
        let shown = ask(&world, &Door::Socket, &Method::GET, &tree, None).await.expect();
        (shown["tree"]["restarts"] == 1).then_some(())
    })
    .await;

    // The other node reads its own file.
    let file = other.server.app.live.configured().named.clone().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace("link_reads_per_minute = 60", "link_reads_per_minute = 7");
    assert_ne!(text, changed);
    std::fs::write(&file, &changed).unwrap();
    let reload = format!("{PREFIX}/config/reload");
    let body = |dry_run: bool| json!({ "node": id, "reason": "a crawler", "dry_run": dry_run });
    let before = acts(&world).await.len();
    let preview = ask(&world, &Door::Socket, &Method::POST, &reload, Some(&body(true))).await.expect();
    assert_eq!((&preview["applied"][0]["path"], &preview["act_id"]), (&json!(LIMIT), &Value::Null), "{preview}");
    assert_eq!(acts(&world).await.len(), before);
    let applied = ask(&world, &Door::Socket, &Method::POST, &reload, Some(&body(false))).await.expect();
    assert_eq!(applied["applied"][0]["after"], 7, "{applied}");
    assert_eq!(other.server.app.live.get().limits.link_reads_per_minute, 7);
    let new = acts(&world).await;
    assert_eq!((&new[0]["id"], &new[0]["after"]), (&applied["act_id"], &json!({ LIMIT: 7 })), "{:#}", new[0]);
    std::fs::write(&file, text.replace("link_reads_per_minute = 60", "link_reads_per_minute = -1")).unwrap();
    let broken = ask(&world, &Door::Socket, &Method::POST, &reload, Some(&body(false))).await;
    broken.refused(422, "configuration_invalid");
    assert!(!broken.body["problems"].as_array().unwrap().is_empty(), "{:#}", broken.body);

    let found: Vec<_> =
        acts(&world).await.into_iter().rev().map(|act| (act["act"].clone(), act["outcome"].clone())).collect();
    let expected = [
        ("node_drain", "applied"),
        ("node_drain", "refused"),
        ("node_undrain", "applied"),
        ("actor_restart", "applied"),
        ("config_reload", "applied"),
        ("config_reload", "refused"),
    ];
    assert_eq!(json!(found), json!(expected));
    let unknown = format!("{PREFIX}/nodes/unknown/drain");
    ask(&world, &Door::Socket, &Method::POST, &unknown, Some(&why)).await.refused(404, "not_found");

    // A node that was killed gets no answer: the order fails, and its act says so.
    let order = domain::node_order::NodeOrder {
        id: world.rng().uuid_v7(world.clock().now()).into(),
        node: Some(world.rng().uuid_v7(world.clock().now()).into()),
        act: serde_json::from_value(new[0]["event"]["payload"].clone()).unwrap(),
        dry_run: false,
        until: world.clock().now(),
    };
    world.server.app.store.node_order_add(&order, world.clock().now()).await.unwrap();
    let failed = blackbox::eventually("the order has failed", async || {
        world.server.app.store.node_order_answer(order.id).await.unwrap()
    })
    .await;
    assert_eq!((failed.status, &failed.body["error"]), (504, &json!("node_did_not_answer")));
    let newest = acts(&world).await.swap_remove(0);
    assert_eq!((&newest["id"], &newest["outcome"]), (&json!(order.id), &json!("failed")));
}
