//! The tools that work on this computer's record, with the machine secret of the profile.

use client::ActivityQuery;
use domain::Rng;
use domain::envelope::AgentKinds;
use domain::ids::EventId;
use serde_json::{Value, json};
use wire::mcp::{ACTIVITY_LIMIT, ACTIVITY_LIMIT_MAX, CheckConsent, MyActivity, RecordEvent};

use super::ToolAnswer;
use crate::connection::{CredentialArgs, ProfileConnection};
use crate::event::draft::EventDraft;
use crate::event::report::ReportFormat;
use crate::event::sender::EventSender;
use crate::failure::Failure;

/// `record_event`
pub async fn record(connection: &ProfileConnection, arguments: RecordEvent) -> Result<ToolAnswer, Failure> {
    let RecordEvent { event_type, payload, lane, consent_level, project_id, session_uuid } = arguments;
    let mut sender = EventSender::new(connection, AgentKinds::CLI, ReportFormat::Silent)?;
    let event_id: EventId = Rng::system().uuid_v7(connection.clock().now()).into();
    let draft = EventDraft {
        event_id: Some(event_id),
        lane,
        consent_level,
        project_id,
        session_uuid,
        ..EventDraft::new(event_type, payload)
    };
    sender.one(&draft).await?;
    let receipt = sender.counts.receipts.iter().find(|(id, _)| *id == event_id).map(|(_, receipt)| receipt);
    Ok(match receipt {
        Some(receipt) => ToolAnswer {
            text: format!("Recorded as event {event_id}, receipt {receipt}."),
            value: json!({ "event_id": event_id, "receipt_id": receipt, "state": "recorded" }),
        },
        None => ToolAnswer {
            text: format!("Event {event_id} is held: my_activity shows the reason. It is not part of the record yet."),
            value: json!({ "event_id": event_id, "state": "held" }),
        },
    })
}

/// `check_consent`
pub async fn consent(connection: &mut ProfileConnection, arguments: CheckConsent) -> Result<ToolAnswer, Failure> {
    let answer = connection
        .send_as(CredentialArgs::default(), async |client| client.consent(None, arguments.lane).await)
        .await?;
    let value = serde_json::to_value(&answer).map_err(Failure::caused)?;
    Ok(ToolAnswer { text: value.to_string(), value })
}

/// `my_activity`
pub async fn activity(connection: &mut ProfileConnection, arguments: MyActivity) -> Result<ToolAnswer, Failure> {
    let limit = arguments.limit.unwrap_or(ACTIVITY_LIMIT).clamp(1, ACTIVITY_LIMIT_MAX);
    let query = ActivityQuery { limit: Some(limit), lane: arguments.lane, ..ActivityQuery::default() };
    let page = connection.send_as(CredentialArgs::default(), async |client| client.activity(&query).await).await?;
    let value = serde_json::to_value(&page).map_err(Failure::caused)?;
    let member = |event: &Value, name: &str| event.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let mut lines = Vec::new();
    for event in value.get("events").and_then(Value::as_array).into_iter().flatten() {
        lines.push(format!(
            "{} {} ({}, {})",
            member(event, "received_at"),
            member(event, "event_type"),
            member(event, "lane"),
            member(event, "event_id")
        ));
    }
    for event in value.get("unclassified").and_then(Value::as_array).into_iter().flatten() {
        lines.push(format!("held: {} ({})", member(event, "event_type"), member(event, "reason")));
    }
    if lines.is_empty() {
        lines.push("No events are recorded.".to_owned());
    }
    Ok(ToolAnswer { text: lines.join("\n"), value })
}
