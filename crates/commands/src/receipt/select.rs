//! The events of a receipt: pages of activity, and the proof of each event with the canonical bytes, which name session and project.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::{ActivityQuery, Client};
use domain::ids::{EventId, SessionUuid};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use proofs::proof::AuditProof;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::failed;
use crate::failure::Failure;
use crate::terminal;
use crate::verify::proof_in_tree;

/// Maximum number of events that one receipt looks at. Activity names no session, so each event costs a request of its proof.
const EXAMINED_MAX: usize = 5_000;

/// Number of concurrent requests for proofs.
const REQUESTS_MAX: usize = 8;

/// Events per page, the largest that the server permits.
const PAGE: u16 = 500;

/// Which events a receipt is about.
#[derive(Debug)]
pub struct ReceiptFilter {
    /// Earliest time of receipt, as the server takes it.
    pub since: String,
    /// Values of `scope.session_uuid`; `None` for events of any session and of none.
    pub sessions: Option<Vec<SessionUuid>>,
    /// Values of `scope.project_id`; `None` for events of any project and of none.
    pub projects: Option<Vec<String>>,
    /// Maximum wait until all events are in the signed tree.
    pub wait: Duration,
}

/// The events that fit a filter.
#[derive(Debug)]
pub struct Selected {
    /// Their proofs, which name a place in the tree.
    pub proofs: Vec<AuditProof>,
    /// Their session, if the filter has one.
    pub session_uuid: Option<SessionUuid>,
    /// Their project, if the filter has one.
    pub project_id: Option<String>,
    /// Number of events that were looked at.
    pub examined: usize,
}

/// Session and project of an event.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Scope {
    session_uuid: Option<SessionUuid>,
    project_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Event {
    scope: Scope,
}

/// The proofs of all events that fit the filter. Refuses if more than [`EXAMINED_MAX`] events have to be looked at.
pub async fn select(client: &Client, filter: &ReceiptFilter) -> Result<Selected, Failure> {
    let spinner = terminal::spinner("fetching the proofs of the events");
    let deadline = Instant::now() + filter.wait;
    let ids = listed(client, &filter.since).await?;
    let examined = ids.len();
    let proofs = stream::iter(ids).map(|id| proof(client, id, deadline)).buffered(REQUESTS_MAX);
    let matches: Vec<(AuditProof, Scope)> = proofs
        .try_filter_map(async |proof| {
            let scope = scope(&proof)?;
            Ok(filter.accepts(&scope).then_some((proof, scope)))
        })
        .try_collect()
        .await?;
    spinner.finish_and_clear();
    let session_uuid =
        one_of("session", filter.sessions.is_some(), matches.iter().map(|(_, scope)| scope.session_uuid))?;
    let projects = matches.iter().map(|(_, scope)| scope.project_id.clone());
    let project_id = one_of("project", filter.projects.is_some(), projects)?;
    Ok(Selected { proofs: matches.into_iter().map(|(proof, _)| proof).collect(), session_uuid, project_id, examined })
}

/// Ids of the events since a time, newest first.
async fn listed(client: &Client, since: &str) -> Result<Vec<EventId>, Failure> {
    let mut query = ActivityQuery { limit: Some(PAGE), since: Some(since.to_owned()), ..ActivityQuery::default() };
    let mut ids = Vec::new();
    loop {
        let page = client.activity(&query).await.map_err(failed)?;
        let Some(Value::Array(events)) = page.upstream.get("events") else {
            return Err(Failure::refused(
                "the statistics service of this server lists events in another form: a receipt needs the embedded service",
            ));
        };
        let id =
            |event: &Value| event.get("event_id").and_then(Value::as_str).and_then(|id| id.parse::<EventId>().ok());
        ids.extend(events.iter().filter_map(id));
        if ids.len() > EXAMINED_MAX {
            return Err(Failure::refused(format!(
                "more than {EXAMINED_MAX} events since {since} would have to be looked at: pass a later --since"
            )));
        }
        match page.upstream.get("next_cursor").and_then(Value::as_str) {
            Some(cursor) => query.cursor = Some(cursor.to_owned()),
            None => return Ok(ids),
        }
    }
}

/// The proof of an event, once a checkpoint covers it.
async fn proof(client: &Client, id: EventId, deadline: Instant) -> Result<AuditProof, Failure> {
    let bytes = proof_in_tree(client, id, deadline).await.map_err(failed)?.ok_or_else(|| {
        Failure::refused(format!(
            "event {id} was accepted, but is not in the signed tree yet: try again later, or wait longer with --wait"
        ))
    })?;
    AuditProof::parse(&bytes)
        .map_err(|fault| Failure::refused(format!("the proof of event {id} cannot be read: {fault}")))
}

fn scope(proof: &AuditProof) -> Result<Scope, Failure> {
    let unreadable = |why: String| Failure::refused(format!("event {} cannot be read: {why}", proof.event_id));
    let bytes = BASE64_STANDARD.decode(&proof.canonical_b64).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice::<Event>(&bytes).map(|event| event.scope).map_err(|error| unreadable(error.to_string()))
}

impl ReceiptFilter {
    fn accepts(&self, scope: &Scope) -> bool {
        let is_of_session = |sessions: &Vec<SessionUuid>| scope.session_uuid.is_some_and(|it| sessions.contains(&it));
        let is_of_project = |projects: &Vec<String>| scope.project_id.as_ref().is_some_and(|it| projects.contains(it));
        self.sessions.as_ref().is_none_or(is_of_session) && self.projects.as_ref().is_none_or(is_of_project)
    }
}

/// The value that all events have, if the filter asks for one. Two tools may use the same id, and a folder may have two names.
fn one_of<T: PartialEq + std::fmt::Display>(
    noun: &str,
    is_filtered: bool,
    values: impl Iterator<Item = Option<T>>,
) -> Result<Option<T>, Failure> {
    if !is_filtered {
        return Ok(None);
    }
    let mut values = values.flatten();
    let first = values.next();
    match values.find(|value| first.as_ref() != Some(value)) {
        Some(other) => Err(Failure::refused(format!(
            "the {noun} is ambiguous: it means {} and {other}; pass one of these ids",
            first.map_or_else(String::new, |first| first.to_string())
        ))),
        None => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use domain::tool::Tool;

    use super::*;

    #[test]
    fn an_event_fits_if_session_and_project_do() {
        let session = hooks::session(Tool::Codex, "s1");
        let other = hooks::session(Tool::Cursor, "s1");
        let filter = |sessions, projects| ReceiptFilter { since: "0".into(), sessions, projects, wait: Duration::ZERO };
        let scope = Scope { session_uuid: Some(session), project_id: Some("p".into()) };
        assert!(filter(None, None).accepts(&scope) && filter(None, None).accepts(&Scope::default()));
        assert!(filter(Some(vec![other, session]), None).accepts(&scope));
        assert!(!filter(Some(vec![other]), None).accepts(&scope));
        assert!(!filter(Some(vec![session]), Some(vec!["q".into()])).accepts(&scope));
        assert!(!filter(Some(vec![session]), None).accepts(&Scope::default()));
    }

    #[test]
    fn two_sessions_with_one_id_are_ambiguous() {
        let refusal = one_of("session", true, [Some("a"), Some("a"), Some("b")].into_iter()).unwrap_err();
        assert!(refusal.reason().contains("ambiguous: it means a and b"), "{refusal:?}");
        assert_eq!(one_of("session", true, [Some("a"), Some("a")].into_iter()).unwrap(), Some("a"));
        assert_eq!(one_of("session", false, [Some("a"), Some("b")].into_iter()).unwrap(), None);
    }
}
