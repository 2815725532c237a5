//! Rows of recorded events: grouped by day, with similar consecutive rows folded into one.

use std::time::Duration;

use app::services::activity::browse::{Activity, ActivityEntry};
use app::services::agent_sessions::session_of;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Timestamp;
use domain::consent::ConsentLevel;
use domain::consent::change::ConsentChange;
use domain::ids::{EventId, MachineUuid, RegistrationId};
use domain::usage::Day;
use futures_util::future::join_all;
use serde::Deserialize;
use statistics::contract::RecordScope;

use super::computers::Computers;
use crate::Moment;
use crate::account::consent::words as level_words;

/// Maximum time for reading the proofs of a page; later proofs are shown as unknown.
const PROOFS_DEADLINE: Duration = Duration::from_secs(2);
/// Minimum number of similar consecutive rows that are folded.
const FOLD_MIN: usize = 3;
/// Consent changes by the service within this number of seconds are one save.
const SAVE_SECONDS: i64 = 2;

/// The events of one UTC day.
pub struct DayGroup {
    pub title: String,
    pub folds: Vec<Fold>,
}

/// Similar consecutive rows, newest first; usually one.
pub struct Fold {
    pub rows: Vec<ActivityLine>,
    /// Words for several rows.
    pub summary: String,
}

/// A single event, not folded.
pub struct ActivityLine {
    pub id: String,
    pub kind: String,
    pub lane: String,
    pub agent: String,
    pub computer: String,
    /// The content of a report of the service, in words.
    pub summary: Option<String>,
    /// Id of its session, if it names one and the log groups events.
    pub session: Option<String>,
    pub received: Option<Moment>,
    pub proof: ProofState,
    at: Option<Timestamp>,
    is_report: bool,
}

/// Whether a signed checkpoint covers an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofState {
    Included,
    Pending,
    /// The proof could not be read.
    Unknown,
}

/// The rows of entries, each with the state of its proof.
pub async fn rows(
    activity: &Activity,
    scope: &RecordScope,
    entries: Vec<ActivityEntry>,
    computers: &Computers,
    now: Timestamp,
) -> Vec<ActivityLine> {
    let proofs = join_all(entries.iter().map(|entry| proof(activity, scope, &entry.event_id)));
    let proofs = tokio::time::timeout(PROOFS_DEADLINE, proofs).await.unwrap_or_default();
    let proofs = proofs.into_iter().chain(std::iter::repeat_with(|| (ProofState::Unknown, None)));
    let row = |(entry, (proof, event)): (ActivityEntry, (ProofState, Option<Vec<u8>>))| {
        let at = entry.received();
        let is_report = entry.machine_uuid.is_some_and(|machine| computers.is_service(machine));
        let session = event.as_deref().filter(|_| activity.is_embedded()).and_then(session_of);
        let change = event.filter(|_| entry.event_type == ConsentChange::EVENT_TYPE);
        ActivityLine {
            summary: change.and_then(|event| ReportedChange::read(&event)).map(|change| change.in_words(computers)),
            session: session.map(|session| session.to_string()),
            received: at.map(|at| Moment::new(at, now)),
            id: entry.event_id,
            kind: entry.event_type,
            lane: entry.lane,
            agent: entry.agent_id,
            computer: entry.machine_uuid.map(|machine| computers.name(machine).to_owned()).unwrap_or_default(),
            proof,
            at,
            is_report,
        }
    };
    entries.into_iter().zip(proofs).map(row).collect()
}

/// The state of a proof, and the canonical bytes of its event.
async fn proof(activity: &Activity, scope: &RecordScope, event_id: &str) -> (ProofState, Option<Vec<u8>>) {
    #[derive(Deserialize)]
    struct Read {
        status: String,
        canonical_b64: Option<String>,
    }
    let Ok(event_id) = event_id.parse::<EventId>() else { return (ProofState::Unknown, None) };
    let Ok(answer) = activity.proof(scope, event_id).await else { return (ProofState::Unknown, None) };
    let Ok(read) = serde_json::from_slice::<Read>(&answer.body) else { return (ProofState::Unknown, None) };
    let state = match read.status.as_str() {
        "included" => ProofState::Included,
        "pending" => ProofState::Pending,
        _ => ProofState::Unknown,
    };
    (state, read.canonical_b64.and_then(|text| BASE64_STANDARD.decode(text).ok()))
}

/// A change of a consent level, read from its event.
#[derive(Debug, Deserialize)]
pub struct ReportedChange {
    pub level: String,
    pub previous_level: Option<String>,
    pub machine_uuid: Option<MachineUuid>,
    pub lane: Option<String>,
    pub set_by: Option<String>,
    pub agent_id: Option<RegistrationId>,
    pub reason: Option<String>,
    pub pause: Option<ReportedPause>,
    pub paused_until: Option<Timestamp>,
}

/// The start or end of a pause, if the change is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedPause {
    Began,
    Ended,
}

impl ReportedChange {
    /// Reads the payload of an event.
    pub fn read(event: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Event {
            payload: ReportedChange,
        }
        serde_json::from_slice::<Event>(event).ok().map(|event| event.payload)
    }

    /// The lane, or all.
    pub fn lane_words(&self) -> String {
        self.lane.as_ref().map_or_else(|| "all lanes".to_owned(), |lane| domain::foreign::visible(lane))
    }

    /// The computer, or all.
    pub fn computer_words(&self, computers: &Computers) -> String {
        self.machine_uuid.map_or("all computers", |machine| computers.name(machine)).to_owned()
    }

    /// The level before.
    pub fn before(&self) -> String {
        self.previous_level.as_deref().map_or_else(|| "not set".to_owned(), words)
    }

    /// The new level.
    pub fn after(&self) -> String {
        words(&self.level)
    }

    /// The author of the change.
    pub fn author(&self, computers: &Computers) -> String {
        match (self.set_by.as_deref(), self.agent_id) {
            (Some("person"), _) => "you".to_owned(),
            (Some("computer"), _) => {
                self.machine_uuid.map_or("a computer", |machine| computers.name(machine)).to_owned()
            }
            (_, Some(agent)) => computers.agent(agent),
            _ => "an agent".to_owned(),
        }
    }

    fn in_words(&self, computers: &Computers) -> String {
        let (author, lane, computer) = (self.author(computers), self.lane_words(), self.computer_words(computers));
        match (self.pause, self.paused_until) {
            (Some(ReportedPause::Began), Some(until)) => {
                return format!("{author} paused recording on {computer} until {}", until.format("%-d %B, %H:%M UTC"));
            }
            (Some(ReportedPause::Ended), _) => return format!("{author} ended the pause of recording on {computer}"),
            _ => {}
        }
        format!("{author} set {lane} on {computer}: {} → {}", self.before(), self.after())
    }
}

fn words(level: &str) -> String {
    level
        .parse::<ConsentLevel>()
        .map_or_else(|_| domain::foreign::visible(level), |level| level_words(level).to_owned())
}

/// Rows in groups by day, newest first.
pub fn grouped(rows: Vec<ActivityLine>, now: Timestamp) -> Vec<DayGroup> {
    let today = Day::of(now);
    let mut days: Vec<(Option<Day>, DayGroup)> = Vec::new();
    for row in rows {
        let day = row.at.map(Day::of);
        let group = match days.last_mut() {
            Some((known, group)) if *known == day => group,
            _ => {
                days.push((day, DayGroup { title: title(day, today), folds: Vec::new() }));
                let Some((_, group)) = days.last_mut() else { continue };
                group
            }
        };
        match group.folds.last_mut() {
            Some(fold) if fold.rows.last().is_some_and(|last| is_alike(last, &row)) => fold.rows.push(row),
            _ => group.folds.push(Fold { rows: vec![row], summary: String::new() }),
        }
    }
    let folded = |(_, DayGroup { title, folds })| DayGroup { title, folds: folds.into_iter().flat_map(fold).collect() };
    days.into_iter().map(folded).collect()
}

/// One fold of all rows, or one per row if there are fewer than [`FOLD_MIN`].
fn fold(Fold { rows, .. }: Fold) -> Vec<Fold> {
    let [first, ..] = rows.as_slice() else { return Vec::new() };
    if rows.len() < FOLD_MIN && !(first.is_report && rows.len() > 1) {
        return rows.into_iter().map(|row| Fold { rows: vec![row], summary: String::new() }).collect();
    }
    let summary = first.summary.clone().unwrap_or_default();
    vec![Fold { rows, summary }]
}

fn is_alike(one: &ActivityLine, other: &ActivityLine) -> bool {
    let is_near = || match (one.at, other.at) {
        (Some(one), Some(other)) => (one - other).num_seconds().abs() <= SAVE_SECONDS,
        _ => false,
    };
    one.kind == other.kind
        && one.lane == other.lane
        && one.agent == other.agent
        && one.computer == other.computer
        && one.proof == other.proof
        && one.summary == other.summary
        && (!one.is_report || is_near())
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

    fn row(kind: &str, seconds_ago: i64, now: Timestamp) -> ActivityLine {
        ActivityLine {
            id: String::new(),
            kind: kind.to_owned(),
            lane: "memory".to_owned(),
            agent: "codex".to_owned(),
            computer: "laptop".to_owned(),
            summary: None,
            session: None,
            received: None,
            proof: ProofState::Included,
            at: Some(now - TimeDelta::seconds(seconds_ago)),
            is_report: kind == "consent.changed",
        }
    }

    fn sizes(rows: Vec<ActivityLine>, now: Timestamp) -> Vec<(String, Vec<usize>)> {
        let sizes = |group: DayGroup| (group.title, group.folds.iter().map(|fold| fold.rows.len()).collect());
        grouped(rows, now).into_iter().map(sizes).collect()
    }

    #[test]
    fn neighbours_that_look_alike_are_folded_within_a_day() {
        let now = Day::from(20_000).begin() + TimeDelta::hours(1);
        let kinds = ["a", "a", "a", "b", "b", "a"];
        let mut rows: Vec<ActivityLine> = (0..).zip(kinds).map(|(number, kind)| row(kind, number, now)).collect();
        rows.extend((0..4).map(|number| row("a", 3_601 + number, now)));
        rows.push(row("c", 3 * 86_400, now));
        let expected = [
            ("Today, 4 October 2024".to_owned(), vec![3, 1, 1, 1]),
            ("Yesterday, 3 October 2024".to_owned(), vec![4]),
            ("Tuesday, 1 October 2024".to_owned(), vec![1]),
        ];
        assert_eq!(sizes(rows, now), expected);
    }

    #[test]
    fn rows_whose_content_differs_stay_rows_of_their_own() {
        let now = Day::from(20_000).begin() + TimeDelta::hours(1);
        let change =
            |summary: &str| ActivityLine { summary: Some(summary.to_owned()), ..row("consent.changed", 0, now) };
        let rows =
            vec![change("ada set all"), change("codex set all"), change("codex set all"), change("codex set llm")];
        assert_eq!(sizes(rows, now)[0].1, [1, 2, 1]);
    }

    #[test]
    fn the_consent_changes_of_one_save_are_one_line() {
        let now = Day::from(20_000).begin() + TimeDelta::hours(1);
        let rows = [0, 0, 60, 60, 60, 600].map(|ago| row("consent.changed", ago, now));
        assert_eq!(sizes(rows.into(), now)[0].1, [2, 3, 1]);
        let mut other = row("a", 1, now);
        other.proof = ProofState::Unknown;
        let rows = vec![row("a", 0, now), row("a", 0, now), row("a", 0, now), other];
        assert_eq!(sizes(rows, now)[0].1, [3, 1]);
    }
}
