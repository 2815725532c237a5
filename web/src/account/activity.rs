//! Recorded events with the state of their proofs, and held events with their reasons.

use std::time::Duration;

use actors::upstream::Upstream;
use app::services::activity::scope_of_account;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::Timestamp;
use domain::envelope::Lane;
use domain::held::HoldReason;
use domain::ids::EventId;
use futures_util::future::join_all;
use serde::Deserialize;
use statistics::contract::{ActivityQuery, RecordScope};
use store::held::{HeldScope, Unclassified};

use super::AccountOwner;
use crate::{Moment, PageError, PageLayout, PageQuery, PageResult, Site, page};

/// Number of events on a page.
const EVENTS: u16 = 25;
/// Maximum number of held events on the page.
const HELD_MAX: usize = 50;
/// How long all proofs of a page may take.
const PROOFS_DEADLINE: Duration = Duration::from_secs(2);

/// `?lane=…&cursor=…`
#[derive(Debug, Deserialize)]
pub struct ActivityPageQuery {
    lane: Option<String>,
    cursor: Option<String>,
}

#[derive(Template)]
#[template(path = "account/activity.html")]
struct ActivityPage {
    frame: PageLayout,
    tab: &'static str,
    lanes: Vec<&'static str>,
    lane: &'static str,
    /// `None` if the statistics service does not respond, or if the page cannot read the response.
    events: Option<Vec<EventRow>>,
    next: Option<String>,
    held: Vec<HeldRow>,
    more_held: bool,
}

struct EventRow {
    id: String,
    kind: String,
    lane: String,
    agent: String,
    received: Option<Moment>,
    proof: Proof,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Included,
    Pending,
    Unknown,
}

struct HeldRow {
    kind: String,
    agent: Option<String>,
    reason: &'static str,
    meaning: &'static str,
    received: Moment,
}

/// The part of the response of the statistics service that the page shows.
#[derive(Deserialize)]
struct Page {
    events: Vec<Event>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "event_id")]
    id: String,
    #[serde(rename = "event_type", default)]
    kind: String,
    #[serde(default)]
    lane: String,
    #[serde(default)]
    agent_id: String,
    received_at: Option<String>,
}

/// `GET /account/activity`
pub async fn show(
    State(site): State<Site>,
    State(upstream): State<Upstream>,
    owner: AccountOwner,
    PageQuery(filter): PageQuery<ActivityPageQuery>,
) -> PageResult {
    let now = site.ports.clock.now();
    let page_error = PageError::store(&site);
    let lane = filter.lane.as_deref().and_then(|lane| lane.parse::<Lane>().ok());
    let scope = scope_of_account(&site.ports.store, &owner.account).await.map_err(&page_error)?;
    let query = ActivityQuery { limit: Some(EVENTS), cursor: filter.cursor.clone(), since: None, lane };
    let held = HeldScope::Account(owner.account.clone());
    let (answer, held) =
        tokio::join!(upstream.activity(&scope, &query), site.ports.store.held_unclassified(&held, HELD_MAX));
    let (held, more_held) = held.map_err(&page_error)?;
    let answer = answer.ok().filter(|answer| answer.status.is_success());
    let read = answer.and_then(|answer| serde_json::from_slice::<Page>(&answer.body).ok());
    let (events, next) = match read {
        Some(read) => (Some(with_proofs(&upstream, &scope, read.events, now).await), read.next_cursor),
        None => (None, None),
    };
    Ok(page(
        StatusCode::OK,
        &ActivityPage {
            frame: PageLayout::new(&site, Some(&owner.visitor)),
            tab: "activity",
            lanes: Lane::ALL.iter().map(|lane| lane.as_str()).collect(),
            lane: lane.map_or("", Lane::as_str),
            events,
            next: next.map(|cursor| crate::visitor::quoted(&cursor).to_string()),
            held: held.into_iter().map(|held| held_row(held, now)).collect(),
            more_held,
        },
    ))
}

async fn with_proofs(upstream: &Upstream, scope: &RecordScope, events: Vec<Event>, now: Timestamp) -> Vec<EventRow> {
    let proofs = join_all(events.iter().map(|event| proof(upstream, scope, &event.id)));
    let proofs = tokio::time::timeout(PROOFS_DEADLINE, proofs).await.unwrap_or_default();
    let proofs = proofs.into_iter().chain(std::iter::repeat(Proof::Unknown));
    let row = |(event, proof): (Event, Proof)| EventRow {
        received: event.received_at.and_then(|at| at.parse::<Timestamp>().ok()).map(|at| Moment::new(at, now)),
        id: event.id,
        kind: event.kind,
        lane: event.lane,
        agent: event.agent_id,
        proof,
    };
    events.into_iter().zip(proofs).map(row).collect()
}

async fn proof(upstream: &Upstream, scope: &RecordScope, event_id: &str) -> Proof {
    #[derive(Deserialize)]
    struct Status {
        status: String,
    }
    let Ok(event_id) = event_id.parse::<EventId>() else { return Proof::Unknown };
    let Ok(answer) = upstream.proof(scope, event_id).await else { return Proof::Unknown };
    match serde_json::from_slice::<Status>(&answer.body) {
        Ok(status) if status.status == "included" => Proof::Included,
        Ok(status) if status.status == "pending" => Proof::Pending,
        _ => Proof::Unknown,
    }
}

fn held_row(held: Unclassified, now: Timestamp) -> HeldRow {
    HeldRow {
        kind: held.event_type.unwrap_or_else(|| "event without a type".into()),
        agent: held.agent_id,
        reason: in_brief(held.reason),
        meaning: meaning(held.reason),
        received: Moment::new(held.received_at, now),
    }
}

/// A reason in two or three words.
fn in_brief(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Unattributed => "Agent not confirmed",
        HoldReason::MalformedEnvelope => "Unreadable",
        HoldReason::IdentityMismatch => "Wrong identity",
        HoldReason::UnknownEventType => "Unknown type",
        HoldReason::LaneMismatch => "Wrong lane",
        HoldReason::PayloadInvalid => "Wrong content",
        HoldReason::HashMismatch => "Wrong hash",
        HoldReason::ConsentExceeded => "Beyond consent",
        HoldReason::UpstreamRefused => "Rejected",
    }
}

/// The meaning of a reason for the person, and a remedy.
fn meaning(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Unattributed => "Sent by an agent before you confirmed it, so it belongs to no computer.",
        HoldReason::MalformedEnvelope => "It is not a valid event. The sender must correct it and send it again.",
        HoldReason::IdentityMismatch => "It names a computer or an identity of another sender.",
        HoldReason::UnknownEventType => "This event type is not registered. The operator can register it.",
        HoldReason::LaneMismatch => "Its type does not belong to the lane that it names.",
        HoldReason::PayloadInvalid => {
            "Its payload does not match its type, or contains more than its consent level allows."
        }
        HoldReason::HashMismatch => {
            "Its hash does not match its content: it was changed on the way, or computed wrong."
        }
        HoldReason::ConsentExceeded => "It contains more than your consent allows. Its content was not stored.",
        HoldReason::UpstreamRefused => "The statistics service rejected it.",
    }
}
