//! The first event of a tool: it shows that events of this computer arrive.

use domain::Rng;
use domain::consent::ConsentLevel;
use domain::ids::EventId;
use domain::lane::Lane;
use domain::tool::Tool;
use serde_json::{Map, Value, json};
use wire::consent::ConsentAnswer;

use crate::connection::{ProfileConnection, failed};
use crate::event::draft::EventDraft;
use crate::event::report::ReportFormat;
use crate::event::sender::EventSender;
use crate::failure::Failure;

/// Type of the event: the tool has a new skill, which this program provides.
const EVENT_TYPE: &str = "skill.installed";

/// Outcome of the first event.
#[derive(Debug)]
pub enum FirstEvent {
    /// The event is in the log.
    Recorded(EventId),
    /// The server holds the event; the event's page shows the reason.
    Held(EventId),
    /// The consent level is *off*, so the event was not sent.
    NotAllowed,
}

/// Sends the event, unless consent is *off*.
pub async fn send(connection: &ProfileConnection, tool: Tool) -> Result<FirstEvent, Failure> {
    let machine = connection.as_machine()?;
    let answer = machine.consent(None, Some(Lane::Skill)).await.map_err(failed)?;
    if matches!(answer, ConsentAnswer::Effective { level: ConsentLevel::Off, .. }) {
        return Ok(FirstEvent::NotAllowed);
    }
    let mut sender = EventSender::new(connection, tool.as_str(), ReportFormat::Silent)?;
    let event_id: EventId = Rng::system().uuid_v7(connection.clock().now()).into();
    let payload: Map<String, Value> = [
        ("skill".to_owned(), json!("attache")),
        ("version".to_owned(), json!(env!("CARGO_PKG_VERSION"))),
        ("source".to_owned(), json!("attache connect")),
    ]
    .into_iter()
    .collect();
    let draft = EventDraft { event_id: Some(event_id), ..EventDraft::new(EVENT_TYPE, payload) };
    sender.one(&draft).await?;
    let is_recorded = sender.counts.receipts.iter().any(|(id, _)| *id == event_id);
    Ok(if is_recorded { FirstEvent::Recorded(event_id) } else { FirstEvent::Held(event_id) })
}

impl FirstEvent {
    /// As JSON, with the URL of its page.
    pub fn described(&self, base_url: &str) -> Value {
        let page = |id: &EventId| format!("{}/account/activity/{id}", base_url.trim_end_matches('/'));
        match self {
            Self::Recorded(id) => json!({ "state": "recorded", "event_id": id, "url": page(id) }),
            Self::Held(id) => json!({ "state": "held", "event_id": id, "url": page(id) }),
            Self::NotAllowed => json!({ "state": "not_allowed", "event_id": null, "url": null }),
        }
    }
}
