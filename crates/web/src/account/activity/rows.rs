//! Rows of recorded events, grouped by day. Each event is one row: rows that look alike can have different contents.

use std::time::Duration;

use app::services::activity::browse::{Activity, ActivityEntry};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Timestamp;
use domain::consent::change::ConsentChange;
use domain::ids::MachineUuid;
use domain::lane::Lane;
use domain::registry::{Summary, Tone};
use domain::tool::Tool;
use domain::usage::Day;
use futures_util::future::{OptionFuture, join_all};
use serde::Deserialize;
use statistics::contract::RecordScope;

use super::computers::{Computers, SERVICE};
use crate::Moment;

/// Maximum time for reading the proofs of a page; later proofs are shown as unknown.
const PROOFS_DEADLINE: Duration = Duration::from_secs(2);

/// The events of one UTC day.
pub struct DayGroup {
    pub title: String,
    pub rows: Vec<ActivityLine>,
}

/// An event.
pub struct ActivityLine {
    pub id: String,
    pub summary: Summary,
    pub lane: String,
    pub lane_title: String,
    /// The agent and the computer.
    pub source: String,
    pub received: Option<Moment>,
    pub proof: ProofState,
    at: Option<Timestamp>,
}

/// Whether a signed checkpoint covers an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofState {
    Included,
    Pending,
    /// The proof could not be read.
    Unknown,
}

impl ProofState {
    fn of(status: &str) -> Self {
        match status {
            "included" => Self::Included,
            "pending" => Self::Pending,
            _ => Self::Unknown,
        }
    }
}

/// The rows of entries. The embedded log sends the sentence and the state of the proof with an entry; of an external service each proof is
/// read, and of a change of consent too, because its sentence names computers and agents.
pub async fn rows(
    activity: &Activity,
    scope: &RecordScope,
    entries: Vec<ActivityEntry>,
    computers: &Computers,
    now: Timestamp,
) -> Vec<ActivityLine> {
    let needs_proof = |entry: &ActivityEntry| {
        entry.summary.is_none() || entry.proof_status.is_none() || entry.event_type == ConsentChange::EVENT_TYPE
    };
    let proofs = entries
        .iter()
        .map(|entry| OptionFuture::from(needs_proof(entry).then(|| RowProof::read(activity, scope, &entry.event_id))));
    let proofs = tokio::time::timeout(PROOFS_DEADLINE, join_all(proofs)).await.unwrap_or_default();
    let proofs = proofs.into_iter().map(Option::unwrap_or_default).chain(std::iter::repeat_with(RowProof::default));
    let row = |(entry, proof): (ActivityEntry, RowProof)| {
        let at = entry.received();
        let sent = |text| Summary { text, tone: entry.tone.unwrap_or(Tone::Plain) };
        let summary = proof.canonical.and_then(|event| activity.summary(&event, computers));
        ActivityLine {
            summary: summary.or_else(|| entry.summary.map(sent)).unwrap_or_else(|| activity.title(&entry.event_type)),
            received: at.map(|at| Moment::new(at, now)),
            id: entry.event_id,
            lane_title: lane_title(&entry.lane),
            lane: entry.lane,
            source: entry.machine_uuid.map(|machine| source(&entry.agent_id, machine, computers)).unwrap_or_default(),
            proof: proof
                .state
                .or_else(|| entry.proof_status.as_deref().map(ProofState::of))
                .unwrap_or(ProofState::Unknown),
            at,
        }
    };
    entries.into_iter().zip(proofs).map(row).collect()
}

/// The name of a lane for people; the text itself if it is no lane.
pub fn lane_title(lane: &str) -> String {
    lane.parse().map_or_else(|_| domain::foreign::visible(lane), |lane: Lane| lane.title().to_owned())
}

/// An agent and a computer: "Claude Code on Ada's laptop". The service has one name for both.
pub fn source(agent: &str, machine: MachineUuid, computers: &Computers) -> String {
    if computers.is_service(machine) { SERVICE.to_owned() } else { agent_on(agent, computers.name(machine)) }
}

/// An agent and the name of a computer.
pub fn agent_on(agent: &str, computer: &str) -> String {
    domain::foreign::visible(&format!("{} on {computer}", agent_title(agent)))
}

/// The name of an agent kind as people know it: "Claude Code".
pub fn agent_title(agent: &str) -> &str {
    agent.parse().map_or(agent, |tool: Tool| tool.title())
}

/// The state of a proof, and the canonical bytes of its event.
#[derive(Default)]
struct RowProof {
    state: Option<ProofState>,
    canonical: Option<Vec<u8>>,
}

impl RowProof {
    async fn read(activity: &Activity, scope: &RecordScope, event_id: &str) -> Self {
        #[derive(Deserialize)]
        struct Read {
            status: String,
            canonical_b64: Option<String>,
        }
        let Ok(event_id) = event_id.parse() else { return Self::default() };
        let Ok(answer) = activity.proof(scope, event_id).await else { return Self::default() };
        let Ok(read) = serde_json::from_slice::<Read>(&answer.body) else { return Self::default() };
        let canonical = read.canonical_b64.and_then(|text| BASE64_STANDARD.decode(text).ok());
        Self { state: Some(ProofState::of(&read.status)), canonical }
    }
}

/// Rows in groups by day, newest first.
pub fn grouped(rows: Vec<ActivityLine>, now: Timestamp) -> Vec<DayGroup> {
    let today = Day::of(now);
    let mut days: Vec<(Option<Day>, DayGroup)> = Vec::new();
    for row in rows {
        let day = row.at.map(Day::of);
        match days.last_mut() {
            Some((last, group)) if *last == day => group.rows.push(row),
            _ => days.push((day, DayGroup { title: title(day, today), rows: vec![row] })),
        }
    }
    days.into_iter().map(|(_, group)| group).collect()
}

fn title(day: Option<Day>, today: Day) -> String {
    let Some(day) = day else { return "Without a time".to_owned() };
    let date = day.begin().format("%-d %B %Y");
    match today.number() - day.number() {
        0 => format!("Today, {date}"),
        1 => format!("Yesterday, {date}"),
        _ => day.begin().format("%A, %-d %B %Y").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn row(text: &str, seconds_ago: i64, now: Timestamp) -> ActivityLine {
        ActivityLine {
            id: String::new(),
            summary: Summary { text: text.to_owned(), tone: Tone::Plain },
            lane: "memory".to_owned(),
            lane_title: lane_title("memory"),
            source: agent_on("codex", "laptop"),
            received: None,
            proof: ProofState::Included,
            at: Some(now - TimeDelta::seconds(seconds_ago)),
        }
    }

    #[test]
    fn every_event_is_a_row_of_its_day() {
        let now = Day::from(20_000).begin() + TimeDelta::hours(1);
        let mut rows: Vec<ActivityLine> = (0..5).map(|number| row("a", number, now)).collect();
        rows.extend((0..4).map(|number| row("a", 3_601 + number, now)));
        rows.push(row("c", 3 * 86_400, now));
        let days: Vec<(String, usize)> =
            grouped(rows, now).into_iter().map(|group| (group.title, group.rows.len())).collect();
        let expected = [("Today, 4 October 2024", 5), ("Yesterday, 3 October 2024", 4), ("Tuesday, 1 October 2024", 1)];
        assert_eq!(days, expected.map(|(title, rows)| (title.to_owned(), rows)));
    }

    #[test]
    fn a_source_has_the_names_that_people_use() {
        assert_eq!(agent_on("claude-code", "Ada's laptop"), "Claude Code on Ada's laptop");
        assert_eq!(agent_on("svc-cli", "a\u{202e}b"), "svc-cli on ab");
        assert_eq!((lane_title("llm"), lane_title("dream\n")), ("Model calls".to_owned(), "dream ".to_owned()));
    }
}
