//! The rows that a run of events adds to the tables of sessions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::agent_session::{SessionCounts, SessionStep, session_id};
use domain::recorder::Recorder;
use domain::usage::Day;
use serde::Serialize;
use uuid::Uuid;

use crate::log::error::LogError;

/// Events of one transaction; small, because on PostgreSQL their bodies are read into memory, and on SQLite groups of senders wait for it.
pub const STEP: u32 = 200;

store::row! {
    /// An event that no session includes yet.
    #[derive(Debug)]
    pub struct FollowedEvent {
        pub id: i64,
        pub machine_id: Uuid,
        pub user_cuid: String,
        pub agent_id: String,
        pub event_type: String,
        pub consent_level: String,
        pub ts_edge_ms: i64,
        pub received_at_ms: i64,
        pub canonical: Vec<u8>,
    }
}

store::row! {
    /// The state of a session before the events of a batch.
    #[derive(Debug, Clone, Copy)]
    pub struct SessionState {
        pub id: Uuid,
        pub last_ms: i64,
        pub is_request: bool,
    }
}

/// The events of a session in a batch.
#[derive(Debug)]
struct Part {
    added: Added,
    events: Vec<SessionMark>,
    files: BTreeSet<i64>,
    models: BTreeMap<String, Sum>,
}

/// The members of an event that the waiting time depends on.
#[derive(Debug, Clone, Copy)]
struct SessionMark {
    event: i64,
    ts_ms: i64,
    is_prompt: bool,
    is_request: bool,
}

/// A row of `agent_sessions`, as its statement takes it. The counts are added to an existing row.
#[derive(Debug, Clone, Serialize)]
struct Added {
    id: Uuid,
    machine_id: Uuid,
    user_cuid: String,
    agent_id: String,
    session_uuid: Uuid,
    project_id: Option<String>,
    folder: Option<String>,
    first_ms: i64,
    last_ms: i64,
    ended_ms: Option<i64>,
    received_at_ms: i64,
    waiting_ms: i64,
    is_request: bool,
    #[serde(flatten)]
    counts: SessionCounts,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Sum {
    calls: i64,
    input_tokens: i64,
    output_tokens: i64,
}

impl Sum {
    fn add(&mut self, counts: SessionCounts) {
        self.calls += counts.model_calls;
        self.input_tokens += counts.input_tokens;
        self.output_tokens += counts.output_tokens;
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct ModelDay {
    machine_id: Uuid,
    user_cuid: String,
    day: i64,
    agent_id: String,
    project_id: String,
    model: String,
}

/// The rows of a run of events.
#[derive(Debug, Default)]
pub struct SessionBatch {
    sessions: BTreeMap<Uuid, Part>,
    days: BTreeMap<ModelDay, Sum>,
}

impl SessionBatch {
    /// Adds the next event of the log.
    pub fn add(&mut self, event: &FollowedEvent) -> Result<(), LogError> {
        let level = event.consent_level.parse().map_err(|_| LogError::Corrupt("events.consent_level"))?;
        let Some(step) = SessionStep::read(&event.event_type, level, &event.canonical) else { return Ok(()) };
        if let Some(model) = &step.model {
            let day = ModelDay {
                machine_id: event.machine_id,
                user_cuid: event.user_cuid.clone(),
                day: event.received_at_ms.div_euclid(Day::MILLISECONDS),
                agent_id: event.agent_id.clone(),
                project_id: step.project.clone().unwrap_or_default(),
                model: model.clone(),
            };
            self.days.entry(day).or_default().add(step.counts);
        }
        let Some(session) = step.session else { return Ok(()) };
        let identity = event.user_cuid.parse().map_err(|_| LogError::Corrupt("sources.user_cuid"))?;
        let recorder = Recorder { machine: event.machine_id.into(), identity };
        let id = session_id(&recorder, &event.agent_id, session);
        self.sessions.entry(id).or_insert_with(|| Part::new(id, event, session.as_uuid())).add(event, step);
        Ok(())
    }

    /// Whether an event names a session.
    pub fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// The ids of the sessions, as a JSON array.
    pub fn ids(&self) -> String {
        json(&self.sessions.keys().collect::<Vec<_>>())
    }

    /// The rows of the sessions, of their events, their files and their models, each as a JSON array. `states` are the stored states.
    pub fn rows(&self, states: Vec<SessionState>) -> [String; 4] {
        #[derive(Serialize)]
        struct Event<'r> {
            id: &'r Uuid,
            event: i64,
        }
        #[derive(Serialize)]
        struct File<'r> {
            id: &'r Uuid,
            file: i64,
        }
        #[derive(Serialize)]
        struct Used<'r> {
            id: &'r Uuid,
            model: &'r str,
            #[serde(flatten)]
            sum: Sum,
        }
        let states: HashMap<Uuid, SessionState> = states.into_iter().map(|state| (state.id, state)).collect();
        let (mut sessions, mut events, mut files, mut models) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, part) in &self.sessions {
            sessions.push(Added { waiting_ms: part.waiting_ms(states.get(id)), ..part.added.clone() });
            events.extend(part.events.iter().map(|mark| Event { id, event: mark.event }));
            files.extend(part.files.iter().map(|file| File { id, file: *file }));
            models.extend(part.models.iter().map(|(model, sum)| Used { id, model, sum: *sum }));
        }
        [json(&sessions), json(&events), json(&files), json(&models)]
    }

    /// The rows of the use of models by day, as a JSON array; `None` without any.
    pub fn days(&self) -> Option<String> {
        #[derive(Serialize)]
        struct Row<'r> {
            #[serde(flatten)]
            day: &'r ModelDay,
            #[serde(flatten)]
            sum: Sum,
        }
        let rows: Vec<Row<'_>> = self.days.iter().map(|(day, sum)| Row { day, sum: *sum }).collect();
        (!rows.is_empty()).then(|| json(&rows))
    }
}

impl Part {
    fn new(id: Uuid, event: &FollowedEvent, session_uuid: Uuid) -> Self {
        let added = Added {
            id,
            machine_id: event.machine_id,
            user_cuid: event.user_cuid.clone(),
            agent_id: event.agent_id.clone(),
            session_uuid,
            project_id: None,
            folder: None,
            first_ms: event.ts_edge_ms,
            last_ms: event.ts_edge_ms,
            ended_ms: None,
            received_at_ms: event.received_at_ms,
            waiting_ms: 0,
            is_request: false,
            counts: SessionCounts::default(),
        };
        Self { added, events: Vec::new(), files: BTreeSet::new(), models: BTreeMap::new() }
    }

    fn add(&mut self, event: &FollowedEvent, step: SessionStep) {
        let added = &mut self.added;
        added.project_id = added.project_id.take().or(step.project);
        added.folder = added.folder.take().or(step.folder);
        added.first_ms = added.first_ms.min(event.ts_edge_ms);
        added.last_ms = added.last_ms.max(event.ts_edge_ms);
        added.received_at_ms = added.received_at_ms.max(event.received_at_ms);
        if step.is_end {
            added.ended_ms = Some(event.ts_edge_ms);
        }
        added.is_request = step.is_request;
        added.counts += step.counts;
        self.events.push(SessionMark {
            event: event.id,
            ts_ms: event.ts_edge_ms,
            is_prompt: step.counts.prompts > 0,
            is_request: step.is_request,
        });
        self.files.extend(step.file);
        if let Some(model) = step.model {
            self.models.entry(model).or_default().add(step.counts);
        }
    }

    /// Time before prompts and after requests for a permission, in milliseconds. It does not depend on how the events are split into
    /// batches.
    fn waiting_ms(&self, state: Option<&SessionState>) -> i64 {
        let mut waiting = 0;
        let mut before = state.map(|state| (state.last_ms, state.is_request));
        for mark in &self.events {
            if let Some((last_ms, is_request)) = before
                && (is_request || mark.is_prompt)
            {
                waiting += (mark.ts_ms - last_ms).max(0);
            }
            let last_ms = before.map_or(mark.ts_ms, |(last_ms, _)| last_ms.max(mark.ts_ms));
            before = Some((last_ms, mark.is_request));
        }
        waiting
    }
}

fn json(rows: &impl Serialize) -> String {
    serde_json::json!(rows).to_string()
}
