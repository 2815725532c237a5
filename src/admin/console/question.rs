//! `/console/do/{deed}`: the question before a change, and the change.

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::operator::OperatorRole;
use serde_json::{Value, json};
use web::page;
use wire::ops::{HeldEnded, OverrideEntry, ReloadReport, SettingEntry, SettingList};

use super::api::Refused;
use super::deeds::{Deed, Parameters, Preview, named, query, value};
use super::session::{OwnPage, own_path};
use super::sessions::{ConsoleOperator, NextMessage};
use super::state::ConsoleState;
use super::view::{ConsoleFrame, QuestionField, QuestionPage, Trouble};
use crate::admin::words::reload_words;

/// A reason for requests that change nothing.
const LOOKS: &str = "a preview of the console";

/// `GET /console/do/{deed}`: asks for the reason, and names the effect.
pub async fn ask(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    Path(deed): Path<String>,
    RawQuery(text): RawQuery,
) -> Result<Response, Trouble> {
    let deed = known(&deed)?;
    let parameters = parsed(text.unwrap_or_default().as_bytes())?;
    Ok(asked(&state, &operator, deed, parameters, Vec::new(), StatusCode::OK).await)
}

/// `POST /console/do/{deed}`: carries the change out.
pub async fn answer(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    OwnPage(_): OwnPage,
    Path(deed): Path<String>,
    bytes: Bytes,
) -> Result<Response, Trouble> {
    let deed = known(&deed)?;
    let parameters = parsed(&bytes)?;
    if !operator.sent(value(&parameters, "csrf").unwrap_or_default()) {
        return Err(Trouble::foreign());
    }
    if deed.role == OperatorRole::Admin && !operator.is_fresh {
        let why = "Your sign-in is older than 15 minutes: sign out, and sign in again.".to_owned();
        return Ok(asked(&state, &operator, deed, parameters, vec![why], StatusCode::FORBIDDEN).await);
    }
    let (route, body) = match deed.preview {
        Preview::Held => held_request(deed, &parameters),
        Preview::None | Preview::Reload | Preview::Setting => deed.request(&parameters),
    };
    let call = (body.as_ref(), value(&parameters, "once"));
    match state.api.call_once::<Value>(&operator, &deed.method, &route, call).await {
        Err(refused) => Ok(asked(&state, &operator, deed, parameters, refused.lines(), refused.status).await),
        Ok(answer) => {
            let back = own_path(value(&parameters, "back")).to_owned();
            if let Some(next) = answer["next"].as_str().filter(|_| deed.preview == Preview::Held) {
                // A request ends a thousand events at most: the question stays until none is left.
                let mut rest = parameters;
                rest.push(("after".to_owned(), next.to_owned()));
                rest.push(("ended".to_owned(), outcomes(&answer)));
                return Ok(asked(&state, &operator, deed, rest, Vec::new(), StatusCode::OK).await);
            }
            state.sessions.tell(&operator, told(deed, &parameters, &answer, &back));
            Ok(Redirect::to(&back).into_response())
        }
    }
}

fn known(name: &str) -> Result<&'static Deed, Trouble> {
    named(name).ok_or_else(|| Trouble::not_found("There is no such change."))
}

fn parsed(text: &[u8]) -> Result<Parameters, Trouble> {
    serde_urlencoded::from_bytes(text).map_err(|_| Trouble::unreadable())
}

/// The message after a change.
fn told(deed: &Deed, parameters: &Parameters, answer: &Value, back: &str) -> NextMessage {
    let title = deed.title(parameters);
    let act = answer["act_id"].as_str().or(answer["id"].as_str()).unwrap_or_default();
    let outcome = if deed.preview == Preview::Held { format!(" {}.", outcomes(answer)) } else { String::new() };
    let pending =
        if answer["pending"] == true { " The node has not answered yet: the act says how it ended." } else { "" };
    let text = format!("{}: recorded as act {act}.{outcome}{pending}", title.trim_end_matches('?'));
    let undo = deed.undo.map(|(label, undo)| {
        let own = parameters
            .iter()
            .filter(|(name, _)| !["reason", "csrf", "once", "back", "for", "replace"].contains(&name.as_str()));
        let mut own: Vec<(&str, &str)> = own.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        own.push(("back", back));
        (label.to_owned(), format!("/console/do/{undo}?{}", query(&own)))
    });
    NextMessage { text, undo }
}

/// The outcomes of held events with their numbers, such as `1000 released, 2 still_held`.
fn outcomes(answer: &Value) -> String {
    let mut numbers = std::collections::BTreeMap::<&str, usize>::new();
    for ended in answer["ended"].as_array().into_iter().flatten() {
        *numbers.entry(ended["outcome"].as_str().unwrap_or_default()).or_default() += 1;
    }
    numbers.iter().map(|(outcome, number)| format!("{number} {outcome}")).collect::<Vec<_>>().join(", ")
}

/// The request that ends held events: the ticked ones, or the matches of the filter.
fn held_request(deed: &Deed, parameters: &Parameters) -> (String, Option<Value>) {
    let mut body = json!({ "reason": value(parameters, "reason") });
    let ids: Vec<&str> = parameters.iter().filter(|(name, _)| name == "ids").map(|(_, id)| id.as_str()).collect();
    if ids.is_empty() {
        body["filter"] = filter(parameters);
        body["token"] = json!(value(parameters, "token"));
        body["after"] = json!(value(parameters, "after"));
    } else {
        body["ids"] = json!(ids);
    }
    (deed.route.to_owned(), Some(body))
}

fn filter(parameters: &Parameters) -> Value {
    let mut filter = json!({});
    for (member, name) in [("reason", "held_for"), ("sender", "sender")] {
        if let Some(text) = value(parameters, name) {
            filter[member] = json!(text);
        }
    }
    filter
}

/// The present state in a question: lines, and values that the form repeats.
type Seen = (Vec<String>, Vec<(String, String)>);

async fn preview(
    state: &ConsoleState,
    operator: &ConsoleOperator,
    deed: &Deed,
    parameters: &Parameters,
) -> Result<Seen, Refused> {
    match deed.preview {
        Preview::None => Ok(Seen::default()),
        Preview::Reload => {
            let body = json!({ "node": value(parameters, "node"), "reason": LOOKS, "dry_run": true });
            let report: ReloadReport = state.api.call(operator, &deed.method, deed.route, Some(&body)).await?;
            Ok((reload_words(&report), Vec::new()))
        }
        Preview::Setting => {
            let path = value(parameters, "path").unwrap_or_default();
            let route = format!("/config?{}", query(&[("path", path)]));
            let list: SettingList = state.api.get(operator, &route).await?;
            let line = |entry: &SettingEntry| {
                format!("{} is {} ({}), by default {}", entry.path, entry.value, entry.source, entry.default)
            };
            let mut lines: Vec<String> = list.settings.iter().map(line).collect();
            let (route, body) = deed.request(parameters);
            if let Some(mut body) = body.filter(|body| body["value"].is_string()) {
                (body["dry_run"], body["reason"]) = (json!(true), json!(LOOKS));
                let entry: OverrideEntry = state.api.call(operator, &deed.method, &route, Some(&body)).await?;
                lines.extend(entry.effect);
            }
            Ok((lines, Vec::new()))
        }
        Preview::Held => {
            let ticked = parameters.iter().filter(|(name, _)| name == "ids").count();
            if ticked > 0 {
                return Ok((vec![format!("{ticked} ticked")], Vec::new()));
            }
            if let Some(ended) = value(parameters, "ended") {
                return Ok((vec![format!("{ended} so far; more match")], Vec::new()));
            }
            let body = json!({ "filter": filter(parameters), "dry_run": true, "reason": LOOKS });
            let ended: HeldEnded = state.api.call(operator, &deed.method, deed.route, Some(&body)).await?;
            let token = ended.token.map(|token| ("token".to_owned(), token.to_string()));
            Ok((vec![format!("{} match", ended.matches)], token.into_iter().collect()))
        }
    }
}

/// The page with the question.
async fn asked(
    state: &ConsoleState,
    operator: &ConsoleOperator,
    deed: &'static Deed,
    parameters: Parameters,
    mut errors: Vec<String>,
    status: StatusCode,
) -> Response {
    let (lines, repeated) = match preview(state, operator, deed, &parameters).await {
        Ok(seen) => seen,
        Err(refused) => {
            errors.extend(refused.lines());
            errors.dedup();
            Seen::default()
        }
    };
    let is_possible = !matches!(deed.preview, Preview::Held | Preview::Reload) || !lines.is_empty();
    let field = |field: &super::deeds::Field| QuestionField {
        name: field.name,
        label: field.label,
        hint: field.hint,
        value: value(&parameters, field.name).unwrap_or(field.value).to_owned(),
        choices: field.choices(),
        is_tick: field.is_tick,
    };
    let own = |name: &str| {
        ["reason", "csrf", "once", "back"].contains(&name) || deed.fields.iter().any(|field| field.name == name)
    };
    let kept = parameters.iter().filter(|(name, _)| !own(name) && !repeated.iter().any(|(other, _)| other == name));
    let hidden = kept.cloned().chain(repeated.iter().cloned()).collect();
    let back = own_path(value(&parameters, "back")).to_owned();
    let template = QuestionPage {
        frame: ConsoleFrame::of(state, operator, &back).await,
        title: deed.title(&parameters),
        effect: deed.effect.to_owned(),
        preview: lines,
        errors,
        hidden,
        fields: deed.fields.iter().map(field).collect(),
        reason: value(&parameters, "reason").unwrap_or_default().to_owned(),
        button: is_possible.then(|| deed.verb.to_owned()),
        has_preview: deed.preview == Preview::Setting,
        action: format!("/console/do/{}", deed.name),
        back,
        csrf: operator.csrf.clone(),
        once: state.app.rng.uuid_v7(state.app.clock.now()).to_string(),
    };
    page(status, &template)
}
