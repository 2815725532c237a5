//! Finds recorded events for a person: filtered pages, numbers per day, and the events next to one in its chain.
//!
//! The embedded log filters by lane, computer, agent kind and time in its indexes. Type and text have no index, and an external service
//! filters only by lane and start; the rest of the filter is compared with a limited number of read entries
//! (`docs/decisions/0016-account-reads.md`). The text is also found in the sentences and payloads of the embedded log.

pub use store::held::Unclassified;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use actors::upstream::Upstream;
use chrono::DateTime;
use domain::Timestamp;
use domain::consent::ConsentLevel;
use domain::envelope::Lane;
use domain::ids::{EventId, HeldId, MachineUuid, UserAccountId};
use domain::registry::{Registry, Summary, SummaryNames, Tone};
use domain::usage::Day;
use proofs::proof::AuditProof;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use statistics::contract::{ActivityQuery, EntryFilter, Passed, RecordScope, TextFilter, Unavailable};
use statistics::log::{DayCounts, DayQuery, LogError};
use statistics::parts::Logs;
use store::StoreError;
use store::held::HeldScope;

use super::scope_of_account;
use crate::services::Ports;

/// Entries per read of a search.
const READ: u16 = 500;
/// Maximum number of frequent sentences.
const FREQUENT_MAX: usize = 8;
/// Days of [`Activity::days`].
pub const DAYS: i64 = 30;
/// Separates the cursor of the service from the last entry of a page that ends within a page of the service.
const WITHIN: char = '~';

/// `[activity]`: the pages of recorded events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActivitySettings {
    /// Events on a page, 1 to 500.
    pub page_events: u16,
    /// Maximum number of entries that one request reads for a filter without an index; the next request continues.
    pub search_events_max: u32,
    /// Maximum number of events of an export.
    pub export_events_max: u32,
    /// TOML file with prices of models, in place of the built-in table.
    pub prices: Option<PathBuf>,
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self { page_events: 50, search_events_max: 5_000, export_events_max: 100_000, prices: None }
    }
}

impl ActivitySettings {
    /// Values outside of their range, each with its name and the reason.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if !(1..=READ).contains(&self.page_events) {
            problems.push(("page_events".to_owned(), format!("must be from 1 to {READ}")));
        }
        for (name, value) in
            [("search_events_max", self.search_events_max), ("export_events_max", self.export_events_max)]
        {
            if value == 0 {
                problems.push((name.to_owned(), "must be at least 1".to_owned()));
            }
        }
        problems
    }
}

/// A filter of events; `None` in a member does not restrict it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityFilter {
    /// Only events of this computer.
    pub machine: Option<MachineUuid>,
    /// The agent kind.
    pub agent: Option<String>,
    /// The event type.
    pub event_type: Option<String>,
    /// Only events of this lane.
    pub lane: Option<Lane>,
    /// The first day.
    pub first: Option<Day>,
    /// The last day.
    pub last: Option<Day>,
    /// Text in the type, the lane, the agent kind, the id, the level or the name of the computer, and in the embedded log also in the sentence
    /// and the payload; compared without case.
    pub text: Option<String>,
    /// How the work went; the embedded log only.
    pub tone: Option<Tone>,
}

/// Numbers of events of the last [`DAYS`] days.
#[derive(Debug, Default)]
pub struct ActivityCounts {
    /// By day and lane.
    pub days: DayCounts,
    /// With a filter without an index: the most frequent sentences without their measures, each with its number of events.
    pub frequent: Vec<(String, u64)>,
}

/// An entry of activity. Members that the service did not send are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ActivityEntry {
    /// Id of the event.
    pub event_id: String,
    /// Type of the event.
    pub event_type: String,
    /// Lane of the event.
    pub lane: String,
    /// Only events of this agent kind.
    pub agent_id: String,
    /// The computer that recorded it.
    pub machine_uuid: Option<MachineUuid>,
    /// Time of receipt.
    pub received_at: Option<String>,
    /// Declared consent level.
    pub consent_level: String,
    /// Epoch of the chain.
    pub chain_epoch: Option<u64>,
    /// Position in the epoch.
    pub seq: Option<u64>,
    /// Id of the receipt.
    pub receipt_id: String,
    /// The event in a sentence; the embedded log only.
    pub summary: Option<String>,
    /// How the work went; the embedded log only.
    pub tone: Option<Tone>,
    /// `included` or `pending`; the embedded log only.
    pub proof_status: Option<String>,
}

impl ActivityEntry {
    /// Time of receipt, if it could be read.
    pub fn received(&self) -> Option<Timestamp> {
        self.received_at.as_deref()?.parse().ok()
    }
}

/// The wanted page of a search.
#[derive(Debug, Clone, Copy)]
pub struct PageOf<'c> {
    /// `next` of the page before.
    pub cursor: Option<&'c str>,
    /// Maximum number of events.
    pub events_max: u16,
    /// Reads every body, as [`ActivityQuery::is_complete`] says.
    pub is_complete: bool,
}

impl<'c> PageOf<'c> {
    /// A page that need not be complete.
    pub fn new(cursor: Option<&'c str>, events_max: u16) -> Self {
        Self { cursor, events_max, is_complete: false }
    }
}

/// A page of a search.
#[derive(Debug, Default)]
pub struct ActivityFound {
    /// The events, newest first, each with its JSON text.
    pub entries: Vec<(ActivityEntry, Box<RawValue>)>,
    /// Cursor of the next page; `None` after the last event.
    pub next: Option<String>,
    /// Number of entries that were read.
    pub searched: u32,
    /// The oldest entry that was read, if the search stopped at its limit before the page was full.
    pub stopped_at: Option<Timestamp>,
    /// Number of events with a payload that was too long to compare with the text.
    pub unread: u32,
}

/// A page of the statistics service.
struct UpstreamPage {
    entries: Vec<(ActivityEntry, Box<RawValue>)>,
    next: Option<String>,
    /// Number of events that were read, and the time of the last one.
    searched: u32,
    oldest: Option<Timestamp>,
    unread: u32,
}

/// Why events could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ActivityError {
    /// The statistics service did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The statistics service refused the request, or its answer is not a page of events.
    #[error("the answer of the statistics service is not a page of events")]
    Unreadable,
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The names of computers, for the filter by text.
pub trait ComputerNames {
    /// Its name, as the page shows it.
    fn name_of(&self, machine: MachineUuid) -> &str;

    /// The computers with a name that contains a text in lower case.
    fn named_like(&self, text: &str) -> Vec<MachineUuid>;
}

/// Reads recorded events. Clones share everything.
#[derive(Debug, Clone)]
pub struct Activity {
    ports: Ports,
    upstream: Upstream,
    settings: ActivitySettings,
    choices: Arc<ActivityChoices>,
    registry: Arc<Registry>,
}

/// The values that a person chooses from.
#[derive(Debug, Default)]
pub struct ActivityChoices {
    /// Agent kinds that the account has events of.
    pub agents: Vec<String>,
    /// Event types of the registry.
    pub types: Vec<String>,
}

impl Activity {
    /// `settings` is the section `[activity]`; `agents` are the agent kinds.
    pub fn new(
        ports: Ports,
        upstream: Upstream,
        settings: ActivitySettings,
        agents: Vec<String>,
        registry: Arc<Registry>,
    ) -> Self {
        let choices = ActivityChoices { agents, types: registry.names().map(str::to_owned).collect() };
        Self { ports, upstream, settings, choices: Arc::new(choices), registry }
    }

    /// The sentence of an event in canonical bytes, with a reader's names; `None` if the bytes are not an event.
    pub fn summary(&self, canonical: &[u8], names: &impl SummaryNames) -> Option<Summary> {
        #[derive(Deserialize)]
        struct Recorded {
            event_type: String,
            consent_level: ConsentLevel,
            payload: Map<String, Value>,
        }
        let event: Recorded = serde_json::from_slice(canonical).ok()?;
        Some(self.registry.summary(&event.event_type, event.consent_level, &event.payload, names))
    }

    /// The sentence for an event of a type with a payload that is not known.
    pub fn title(&self, event_type: &str) -> Summary {
        self.registry.title(event_type)
    }

    /// The values that a person chooses from.
    pub fn choices(&self) -> &ActivityChoices {
        &self.choices
    }

    /// The settings of the section `[activity]`.
    pub fn settings(&self) -> &ActivitySettings {
        &self.settings
    }

    /// The events that an account may see.
    #[boxed]
    pub async fn scope(&self, account: &UserAccountId) -> Result<RecordScope, StoreError> {
        scope_of_account(&self.ports.store, account).await
    }

    /// The held events of an account, newest first, and whether there are more.
    #[boxed]
    pub async fn held(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<(Vec<Unclassified>, bool), StoreError> {
        self.ports.store.held_unclassified(&HeldScope::Account(account.clone()), rows_max).await
    }

    /// The body of a held event, if it is stored and has at most `bytes_max` bytes.
    #[boxed]
    pub async fn held_body(&self, id: HeldId, bytes_max: u32) -> Result<Option<Vec<u8>>, StoreError> {
        self.ports.store.held_body(id, bytes_max).await
    }

    /// Whether the log is embedded: only then it counts days and finds the next event of a chain.
    pub fn is_embedded(&self) -> bool {
        self.log().is_some()
    }

    fn log(&self) -> Option<&Logs> {
        match &self.upstream {
            Upstream::Embedded { log, .. } => Some(log),
            Upstream::External(_) => None,
        }
    }

    /// At most `events_max` events that fit a filter, newest first. Reads at most `activity.search_events_max` entries.
    pub async fn search(
        &self,
        scope: &RecordScope,
        filter: &ActivityFilter,
        names: &(impl ComputerNames + Sync),
        PageOf { cursor, events_max, is_complete }: PageOf<'_>,
    ) -> Result<ActivityFound, ActivityError> {
        let fits_all = if self.is_embedded() { filter.has_index() } else { filter.is_served() };
        let limit = if fits_all { events_max } else { READ };
        let (mut upstream, mut within) = match cursor.map(|cursor| cursor.rsplit_once(WITHIN)) {
            Some(Some((upstream, last))) => {
                (Some(upstream.to_owned()).filter(|at| !at.is_empty()), Some(last.to_owned()))
            }
            Some(None) => (cursor.map(str::to_owned), None),
            None => (None, None),
        };
        let mut result = ActivityFound::default();
        loop {
            let UpstreamPage { entries, next, searched, oldest, unread } = self
                .page(scope, filter, names, PageOf { cursor: upstream.as_deref(), events_max: limit, is_complete })
                .await?;
            result.searched = result.searched.saturating_add(searched);
            result.unread = result.unread.saturating_add(unread);
            let count = entries.len();
            // New events shift the first page, so the last returned entry may be on a later one.
            let position = within.as_ref().map(|last| entries.iter().position(|(entry, _)| entry.event_id == *last));
            let skip = position.map_or(0, |place| place.map_or(count, |place| place.saturating_add(1)));
            if position.flatten().is_some() {
                within = None;
            }
            for (place, (entry, raw)) in entries.into_iter().enumerate() {
                if place < skip {
                    continue;
                }
                let id = entry.event_id.clone();
                result.entries.push((entry, raw));
                if result.entries.len() >= usize::from(events_max) && place + 1 < count {
                    result.stopped_at = None;
                    result.next = Some(format!("{}{WITHIN}{id}", upstream.unwrap_or_default()));
                    return Ok(result);
                }
            }
            result.stopped_at = oldest.or(result.stopped_at);
            let is_full = result.entries.len() >= usize::from(events_max);
            if is_full || next.is_none() {
                result.stopped_at = None;
            }
            if is_full || next.is_none() || result.searched >= self.settings.search_events_max {
                result.next = next;
                return Ok(result);
            }
            upstream = next;
        }
    }

    async fn page(
        &self,
        scope: &RecordScope,
        filter: &ActivityFilter,
        names: &(impl ComputerNames + Sync),
        page: PageOf<'_>,
    ) -> Result<UpstreamPage, ActivityError> {
        #[derive(Deserialize)]
        struct Page {
            events: Vec<Box<RawValue>>,
            next_cursor: Option<String>,
            searched: Option<u32>,
            oldest_ms: Option<i64>,
            unread: Option<u32>,
        }
        let mut query = filter.query(page);
        if self.is_embedded() {
            query.entries = filter.entries(names);
        }
        let answer = self.upstream.activity(scope, &query).await?;
        let page = serde_json::from_slice::<Page>(&answer.body).ok().filter(|_| answer.status.is_success());
        let page = page.ok_or(ActivityError::Unreadable)?;
        let read = |raw: Box<RawValue>| serde_json::from_str(raw.get()).map(|entry| (entry, raw));
        let mut entries: Vec<(ActivityEntry, Box<RawValue>)> =
            page.events.into_iter().map(read).collect::<Result<_, _>>().map_err(|_| ActivityError::Unreadable)?;
        let last = || entries.last().and_then(|(entry, _)| entry.received());
        let oldest = page.oldest_ms.and_then(DateTime::from_timestamp_millis).or_else(last);
        let searched = page.searched.unwrap_or_else(|| u32::try_from(entries.len()).unwrap_or(u32::MAX));
        if !self.is_embedded() {
            entries.retain(|(entry, _)| filter.fits(entry, names));
        }
        Ok(UpstreamPage { entries, next: page.next_cursor, searched, oldest, unread: page.unread.unwrap_or_default() })
    }

    /// Numbers of events of the last [`DAYS`] days, by lane; `None` if the statistics service is external. They do not depend on the days
    /// of the filter; the most frequent sentences do. A filter by type, text or tone counts among the newest `activity.search_events_max` events.
    pub async fn days(
        &self,
        scope: &RecordScope,
        filter: &ActivityFilter,
        names: &(impl ComputerNames + Sync),
    ) -> Result<Option<ActivityCounts>, ActivityError> {
        let Some(log) = self.log() else { return Ok(None) };
        let end = Day::of(self.ports.clock.now()).next();
        let first = Day::from(end.number() - DAYS);
        if !filter.has_index() {
            return Ok(Some(self.counted(scope, filter, first, names).await?));
        }
        let wanted = DayQuery { first, end, machine: filter.machine, agent: filter.agent.clone(), lane: filter.lane };
        Ok(Some(ActivityCounts { days: log.days(scope, &wanted).await?, frequent: Vec::new() }))
    }

    /// Counts the events since a day that fit a filter without an index, by reading entries.
    async fn counted(
        &self,
        scope: &RecordScope,
        filter: &ActivityFilter,
        since: Day,
        names: &(impl ComputerNames + Sync),
    ) -> Result<ActivityCounts, ActivityError> {
        let (mut counts, mut cursor, mut searched) = (DayCounts::default(), None::<String>, 0_u32);
        let mut subjects: HashMap<String, u64> = HashMap::new();
        let days = filter.first.unwrap_or(since)..=filter.last.unwrap_or(Day::of(self.ports.clock.now()));
        let of_all_days = ActivityFilter { first: Some(since), last: None, ..filter.clone() };
        loop {
            let of_days = PageOf::new(cursor.as_deref(), READ);
            let page = self.page(scope, &of_all_days, names, of_days).await?;
            for (entry, _) in &page.entries {
                let (Some(day), Ok(lane)) = (entry.received().map(Day::of), entry.lane.parse::<Lane>()) else {
                    continue;
                };
                *counts.events.entry((day, lane)).or_default() += 1;
                if let Some(sentence) = entry.summary.as_deref().filter(|_| days.contains(&day)) {
                    *subjects.entry(subject(sentence)).or_default() += 1;
                }
            }
            searched = searched.saturating_add(page.searched);
            cursor = page.next;
            let is_cut = cursor.is_some() && searched >= self.settings.search_events_max;
            if is_cut {
                counts.since = page.oldest.map(Day::of);
            }
            if cursor.is_none() || is_cut {
                return Ok(ActivityCounts { days: counts, frequent: most_frequent(subjects) });
            }
        }
    }

    /// The audit proof of an event, as the statistics service answers.
    #[boxed]
    pub async fn proof(&self, scope: &RecordScope, event: EventId) -> Result<Passed, Unavailable> {
        self.upstream.proof(scope, event).await
    }

    /// The event that follows another one in its chain; `None` if there is none yet, or if the statistics service is external.
    #[boxed]
    pub async fn follower(
        &self,
        scope: &RecordScope,
        proof: &AuditProof,
        received_at_ms: i64,
    ) -> Result<Option<EventId>, ActivityError> {
        let Some(log) = self.log() else { return Ok(None) };
        Ok(log.follower(scope, proof, received_at_ms).await?)
    }

    /// The verifier keys of the log, the active one first; empty if the statistics service does not answer.
    #[boxed]
    pub async fn keys(&self) -> Vec<String> {
        let Ok(answer) = self.upstream.keys().await else { return Vec::new() };
        let Ok(mut keys) = serde_json::from_slice::<wire::activity::LogKeys>(&answer.body) else { return Vec::new() };
        keys.keys.sort_by_key(|key| key.retired_at.is_some());
        keys.keys.into_iter().map(|key| key.vkey).collect()
    }
}

/// A sentence without its measures: "Ran Bash · npm test" of "Ran Bash · npm test · exit status 1 · 2.1 s".
fn subject(sentence: &str) -> String {
    let is_measure =
        |part: &str| part.starts_with(|first: char| first.is_ascii_digit()) || part.starts_with("exit status ");
    sentence
        .split(" · ")
        .enumerate()
        .filter(|(place, part)| *place == 0 || !is_measure(part))
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join(" · ")
}

/// The subjects with the most events; equal ones in the order of their names.
fn most_frequent(subjects: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut frequent: Vec<(String, u64)> = subjects.into_iter().collect();
    frequent.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    frequent.truncate(FREQUENT_MAX);
    frequent
}

impl ActivityFilter {
    /// Whether the filter is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the embedded log has an index for the whole filter.
    fn has_index(&self) -> bool {
        self.event_type.is_none() && self.text.is_none() && self.tone.is_none()
    }

    /// Whether the contract has a parameter for the whole filter.
    fn is_served(&self) -> bool {
        Self { lane: None, first: None, ..self.clone() }.is_empty()
    }

    fn query(&self, PageOf { cursor, events_max, is_complete }: PageOf<'_>) -> ActivityQuery {
        let millis = |day: Day| day.begin().timestamp_millis();
        ActivityQuery {
            limit: Some(events_max),
            cursor: cursor.map(str::to_owned),
            since: self.first.map(|day| millis(day).to_string()),
            lane: self.lane,
            machine: self.machine,
            agent: self.agent.clone(),
            until: self.last.map(|day| millis(Day::from(day.number().saturating_add(1)))),
            entries: None,
            is_complete,
        }
    }

    /// The part of the filter that has no index in the embedded log.
    fn entries(&self, names: &impl ComputerNames) -> Option<EntryFilter> {
        let text = self.text.as_ref().map(|text| {
            let text = text.to_lowercase();
            TextFilter { machines: names.named_like(&text), text }
        });
        (!self.has_index()).then(|| EntryFilter { event_type: self.event_type.clone(), text, tone: self.tone })
    }

    /// An entry without a member that the filter names does not fit.
    fn fits(&self, entry: &ActivityEntry, names: &impl ComputerNames) -> bool {
        let day = || entry.received().map(Day::of);
        self.machine.is_none_or(|machine| entry.machine_uuid == Some(machine))
            && self.agent.as_ref().is_none_or(|agent| entry.agent_id == *agent)
            && self.event_type.as_ref().is_none_or(|event_type| entry.event_type == *event_type)
            && self.tone.is_none_or(|tone| entry.tone == Some(tone))
            && self.lane.is_none_or(|lane| entry.lane == lane.as_str())
            && self.first.is_none_or(|first| day().is_some_and(|day| day >= first))
            && self.last.is_none_or(|last| day().is_some_and(|day| day <= last))
            && self.text.as_ref().is_none_or(|text| {
                let text = text.to_lowercase();
                let name = entry.machine_uuid.map(|machine| names.name_of(machine)).unwrap_or_default();
                let fields = [&entry.event_type, &entry.lane, &entry.agent_id, &entry.event_id, &entry.consent_level];
                fields.into_iter().map(String::as_str).chain([name]).any(|field| field.to_lowercase().contains(&text))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_differ_in_measures_have_one_subject() {
        for (sentence, expected) in [
            ("Ran Bash · npm test · exit status 1 · 2.1 s", "Ran Bash · npm test"),
            ("gpt-5.2 · 9,893 → 484 tokens · 3.1 s", "gpt-5.2"),
            ("2 results", "2 results"),
            ("Prompt", "Prompt"),
        ] {
            assert_eq!(subject(sentence), expected);
        }
        let counts = [("b", 2), ("a", 2), ("c", 3)].map(|(name, count)| (name.to_owned(), count));
        let names = most_frequent(counts.into()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names, ["c", "a", "b"]);
    }
}
