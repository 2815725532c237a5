//! One event: its content and change, the events next to it in its chain, and its proof, which the browser checks.

use api::named::Named;
use app::services::activity::browse::Activity;
use app::services::agent_sessions::session_of;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::DateTime;
use domain::consent::change::ConsentChange;
use domain::ids::EventId;
use domain::registry::Summary;
use proofs::leaf::Leaf;
use proofs::proof::AuditProof;
use serde_json::Value;
use statistics::contract::RecordScope;

use super::PATH;
use super::change::ReportedChange;
use super::computers::Computers;
use super::rows::{lane_title, source};
use crate::account::AccountOwner;
use crate::proof::{ProofValues, ProofView, command};
use crate::{Moment, PageError, PageErrorTexts, PageLayout, PageResult, Site, page};

/// Maximum number of members on the page; further ones are in the proof.
const MEMBERS_MAX: usize = 200;
/// Maximum number of characters of one member.
const TEXT_MAX: usize = 2_000;
/// Maximum number of characters of a proof in an unknown form.
const FOREIGN_MAX: usize = 20_000;

#[derive(Template)]
#[template(path = "account/event.html")]
struct EventPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    summary: Summary,
    kind: String,
    lane: String,
    lane_title: String,
    /// The agent and the computer.
    source: String,
    received: Option<Moment>,
    /// Id of its session, if it names one and the log groups events.
    session: Option<String>,
    change: Option<ChangeView>,
    payload: Vec<Member>,
    envelope: Vec<Member>,
    left_out: usize,
    seq: u64,
    epoch: u64,
    previous: Option<Neighbour>,
    next: Option<Neighbour>,
    is_embedded: bool,
    command: String,
    proof: ProofView,
}

/// The page of an event with a proof of an external service, in a form that this server does not know.
#[derive(Template)]
#[template(path = "account/event_foreign.html")]
struct ForeignPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    text: String,
}

struct Member {
    /// JSON pointer (RFC 6901).
    pointer: String,
    /// Names from the outside, with dots.
    name: String,
    text: String,
    is_cut: bool,
}

/// An event next to this one in its chain.
struct Neighbour {
    id: String,
    summary: String,
    received: Option<Moment>,
}

struct ChangeView {
    lane: String,
    computer: String,
    before: String,
    after: String,
    author: String,
    reason: Option<String>,
}

/// `GET /account/activity/{event_id}`
pub async fn show(
    State(site): State<Site>,
    State(activity): State<Activity>,
    owner: AccountOwner,
    Named(id): Named,
) -> PageResult {
    let now = site.ports.clock.now();
    let page_error = PageError::of(&site);
    let id: EventId = id.parse().map_err(|_| not_found(&site, &owner))?;
    let scope = activity.scope(&owner.account).await.map_err(&page_error)?;
    let answer = activity.proof(&scope, id).await.map_err(|error| {
        tracing::warn!(error = domain::reasons(&error), "a proof could not be read");
        unavailable(&site, &owner)
    })?;
    if answer.status == StatusCode::NOT_FOUND {
        return Err(not_found(&site, &owner));
    }
    if !answer.status.is_success() {
        return Err(unavailable(&site, &owner));
    }
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    let proof = AuditProof::parse(&answer.body).ok();
    let Some((proof, event)) =
        proof.and_then(|proof| Some((event_in(&proof)?, proof))).map(|(event, proof)| (proof, event))
    else {
        let text = String::from_utf8_lossy(&answer.body);
        let text = domain::foreign::escaped(&text.chars().take(FOREIGN_MAX).collect::<String>());
        return Ok(page(StatusCode::OK, &ForeignPage { frame, tab: "activity", id: id.to_string(), text }));
    };
    let computers = Computers::of(&site, &owner.account, &scope).await?;
    let received_at_ms = received_at_ms(&proof);
    let (previous, next, keys) = tokio::join!(
        neighbour(&activity, &scope, &computers, proof.chain.prev_event_id, now),
        async {
            let next = activity.follower(&scope, &proof, received_at_ms).await.unwrap_or_else(|error| {
                tracing::warn!(error = domain::reasons(&error), "the next event of a chain could not be read");
                None
            });
            neighbour(&activity, &scope, &computers, next, now).await
        },
        activity.keys(),
    );
    let (mut payload, mut envelope) = (Vec::new(), Vec::new());
    for (name, value) in event.as_object().into_iter().flatten() {
        let (members, pointer) =
            (if name == "payload" { &mut payload } else { &mut envelope }, format!("/{}", escaped(name)));
        let name = if name == "payload" { "" } else { name };
        flatten(value, &pointer, name, members);
    }
    let all = payload.len() + envelope.len();
    payload.truncate(MEMBERS_MAX);
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let kind = text("event_type");
    let bytes = event_bytes(&proof);
    let summary = bytes.as_ref().and_then(|bytes| activity.summary(bytes, &computers));
    let session = bytes.as_ref().filter(|_| activity.is_embedded()).and_then(|event| session_of(event));
    let change = bytes.filter(|_| kind == ConsentChange::EVENT_TYPE).and_then(|bytes| ReportedChange::read(&bytes));
    let file = format!("{id}.json");
    Ok(page(
        StatusCode::OK,
        &EventPage {
            tab: "activity",
            summary: summary.unwrap_or_else(|| activity.title(&kind)),
            lane_title: lane_title(&text("lane")),
            lane: text("lane"),
            source: source(&proof.chain.agent_id, proof.chain.machine_id, &computers),
            received: DateTime::from_timestamp_millis(received_at_ms).map(|at| Moment::new(at, now)),
            session: session.map(|session| session.to_string()),
            change: change.map(|change| ChangeView::of(&change, &computers)),
            left_out: all - payload.len() - envelope.len(),
            payload,
            envelope,
            seq: proof.chain.seq,
            epoch: proof.chain.chain_epoch,
            previous,
            next,
            is_embedded: activity.is_embedded(),
            command: command(&file, &proof.vkey),
            proof: ProofView {
                address: format!("{}/api/v1/audit/verify?event_id={id}", frame.root),
                keys: keys.join(" "),
                values: Some(ProofValues::of(&proof)),
                has_content: true,
            },
            id: id.to_string(),
            kind,
            frame,
        },
    ))
}

impl ChangeView {
    fn of(change: &ReportedChange, computers: &Computers) -> Self {
        Self {
            lane: change.lane_words(),
            computer: change.computer_words(computers),
            before: change.before(),
            after: change.after(),
            author: match change.set_by.as_deref() {
                Some("person") => "you, in a browser".to_owned(),
                Some("computer") => "the computer itself".to_owned(),
                _ => change.author(computers),
            },
            reason: change.reason.clone(),
        }
    }
}

fn event_bytes(proof: &AuditProof) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(&proof.canonical_b64).ok()
}

fn event_in(proof: &AuditProof) -> Option<Value> {
    serde_json::from_slice(&event_bytes(proof)?).ok().filter(Value::is_object)
}

/// Time of receipt in the leaf; 0 if the leaf cannot be parsed, which the browser then reports.
fn received_at_ms(proof: &AuditProof) -> i64 {
    let leaf = BASE64_STANDARD.decode(&proof.leaf_b64).ok();
    leaf.and_then(|leaf| serde_json::from_slice::<Leaf<'_>>(&leaf).ok().map(|leaf| leaf.received_at_ms))
        .unwrap_or_default()
}

/// An event next to another one, if the account may see it.
async fn neighbour(
    activity: &Activity,
    scope: &RecordScope,
    computers: &Computers,
    id: Option<EventId>,
    now: domain::Timestamp,
) -> Option<Neighbour> {
    let answer = activity.proof(scope, id?).await.ok().filter(|answer| answer.status.is_success())?;
    let proof = AuditProof::parse(&answer.body).ok()?;
    Some(Neighbour {
        id: proof.event_id.to_string(),
        summary: activity.summary(&event_bytes(&proof)?, computers)?.text,
        received: DateTime::from_timestamp_millis(received_at_ms(&proof)).map(|at| Moment::new(at, now)),
    })
}

/// Appends the values inside `value`, each with its pointer. An empty object or array is a value.
fn flatten(value: &Value, pointer: &str, name: &str, members: &mut Vec<Member>) {
    let inner = |key: &str| {
        (format!("{pointer}/{}", escaped(key)), if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") })
    };
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                let (pointer, name) = inner(key);
                flatten(value, &pointer, &name, members);
            }
        }
        Value::Array(values) if !values.is_empty() => {
            for (place, value) in values.iter().enumerate() {
                let (pointer, name) = inner(&place.to_string());
                flatten(value, &pointer, &name, members);
            }
        }
        _ => {
            let (text, is_cut) = shown(value);
            let name = if name.is_empty() { "payload".to_owned() } else { domain::foreign::visible(name) };
            members.push(Member { pointer: pointer.to_owned(), name, text, is_cut });
        }
    }
}

/// A value as the page shows it: a string without quotes, unless it contains characters that cannot be seen.
fn shown(value: &Value) -> (String, bool) {
    let Value::String(text) = value else { return (value.to_string(), false) };
    let cut: String = text.chars().take(TEXT_MAX).collect();
    let is_cut = cut.len() < text.len();
    if domain::foreign::visible(&cut) == cut {
        (cut, is_cut)
    } else {
        (domain::foreign::escaped(&Value::String(cut).to_string()), is_cut)
    }
}

/// A name in a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn not_found(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::NOT_FOUND,
        PageErrorTexts {
            title: "No such event",
            text: "Your account has no recorded event with this id. It may be held, or belong to another account.",
            next: "The activity page lists your recorded and held events.",
            link: PATH.into(),
            label: "Activity",
        },
    )
}

fn unavailable(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::SERVICE_UNAVAILABLE,
        PageErrorTexts {
            title: "The event is not available at the moment",
            text: "The statistics service does not answer. Nothing is lost.",
            next: "Reload this page later.",
            link: PATH.into(),
            label: "Activity",
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_has_a_pointer_that_leads_to_it() {
        let event = json!({ "a/b": { "~": [1, { "x": null }, []] }, "text": "a\u{202e}b", "plain": "é", "n": 1.5 });
        let mut members = Vec::new();
        flatten(&event, "", "", &mut members);
        assert_eq!(members.len(), 6);
        for Member { pointer, text, .. } in &members {
            let value = event.pointer(pointer).unwrap();
            let same = value.as_str() == Some(text.as_str());
            assert!(same || serde_json::from_str::<Value>(text).unwrap() == *value, "{pointer}: {text}");
        }
        let long = "é".repeat(TEXT_MAX + 1);
        assert_eq!(shown(&json!(long)), ("é".repeat(TEXT_MAX), true));
    }
}
