//! Completes a draft to an envelope: lane, consent level, time and scope.

use std::collections::BTreeMap;

use client::Error;
use domain::consent::ConsentLevel;
use domain::lane::Lane;
use domain::registry::built_in_lane;
use serde_json::{Value, json};
use wire::consent::ConsentAnswer;

use super::EventSender;
use crate::connection::failed;
use crate::event::chain::{Completed, fits};
use crate::event::draft::{EventDraft, Line, mistaken};
use crate::failure::{Done, Failure};

impl EventSender {
    /// Checks an input for mistakes that appear only in complete events; reports all mistakes.
    pub(super) async fn check(&mut self, lines: &[Line]) -> Done {
        let mut mistakes = Vec::new();
        for Line { number, draft } in lines {
            if draft.lane.is_none() && self.lane_of(&draft.event_type).await?.is_none() {
                mistakes.push(unregistered(&draft.event_type, *number));
                continue;
            }
            let event = self.complete(draft, *number).await?;
            mistakes.extend(fits(&event).err().map(|fault| format!("line {number}: {fault}")));
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistaken("sent", mistakes)) }
    }

    /// The envelope without the members of the chain.
    pub(super) async fn complete(&mut self, draft: &EventDraft, number: u64) -> Result<Completed, Failure> {
        let lane = match draft.lane {
            Some(lane) => Some(lane),
            None => self.lane_of(&draft.event_type).await?,
        };
        let lane = lane.ok_or_else(|| Failure::refused(unregistered(&draft.event_type, number)))?;
        let consent_level = match draft.consent_level {
            Some(level) => level,
            None => self.consent_in(lane).await?,
        };
        let now = self.clock.now();
        let event_id = draft.event_id.unwrap_or_else(|| self.rng.uuid_v7(now).into());
        let mut scope = json!({
            "user_id": self.machine.user_cuid,
            "machine_id": self.machine.machine_uuid,
            "agent_id": self.agent_id,
        });
        if let Some(project) = &draft.project_id {
            scope["project_id"] = json!(project);
        }
        if let Some(session) = draft.session_uuid {
            scope["session_uuid"] = json!(session);
        }
        let members = [
            ("schema_version", json!("v1")),
            ("event_id", json!(event_id)),
            ("event_type", json!(draft.event_type)),
            ("lane", json!(lane)),
            ("ts_edge_ms", json!(draft.ts_edge_ms.unwrap_or_else(|| now.timestamp_millis()))),
            ("consent_level", json!(consent_level)),
            ("redacted", json!(draft.redacted.unwrap_or(false))),
            ("scope", scope),
            ("payload", Value::Object(draft.payload.clone())),
        ];
        let members = members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let filled = [("ts_edge_ms", draft.ts_edge_ms.is_none()), ("consent_level", draft.consent_level.is_none())];
        let filled = filled.into_iter().filter(|(_, is_filled)| *is_filled).map(|(name, _)| name.to_owned()).collect();
        Ok(Completed { event_id, members, filled })
    }

    /// The lane of an event type according to the server's registry, which may differ from the built-in one.
    async fn lane_of(&mut self, event_type: &str) -> Result<Option<Lane>, Failure> {
        if self.registry.is_none() {
            self.registry = Some(match self.client.event_registry().await {
                Ok(registry) => registry.event_types.into_iter().map(|kind| (kind.event_type, kind.lane)).collect(),
                // A server without this route uses the built-in registry.
                Err(Error::Refused(refusal)) if matches!(refusal.status, 404 | 405) => BTreeMap::new(),
                Err(error) => return Err(failed(error)),
            });
        }
        let report = self.registry.as_ref().and_then(|registry| registry.get(event_type).copied());
        if report.is_some() {
            return Ok(report);
        }
        let built_in = built_in_lane(event_type).map_err(Failure::caused)?;
        Ok(built_in.filter(|_| self.registry.as_ref().is_some_and(BTreeMap::is_empty)))
    }

    async fn consent_in(&mut self, lane: Lane) -> Result<ConsentLevel, Failure> {
        if let Some(level) = self.consent.get(&lane) {
            return Ok(*level);
        }
        match self.client.consent(None, Some(lane)).await.map_err(failed)? {
            ConsentAnswer::Effective { level, .. } => {
                self.consent.insert(lane, level);
                Ok(level)
            }
            ConsentAnswer::Levels { .. } => Err(Failure::refused(
                "the server returned no effective consent level for this computer: pass --consent-level",
            )),
        }
    }
}

fn unregistered(event_type: &str, number: u64) -> String {
    format!("line {number}: {event_type:?} is not a registered event type; with --lane it is sent anyway, and held")
}
