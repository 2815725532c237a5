//! Numbers of events per UTC day and lane (`docs/decisions/0016-account-reads.md`).
//!
//! Counts come from the index of activity, per source and day. A day that has ended never changes, so its counts are cached.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::TimeDelta;
use domain::envelope::Lane;
use domain::ids::MachineUuid;
use domain::recorder::Recorder;
use domain::usage::Day;
use serde::Serialize;
use store::pool::query;

use super::error::{During, LogError};
use super::handle::Log;
use super::read::{Cursor, is_shown};
use crate::contract::RecordScope;

/// Largest count of one source and day; a source with more events counts as this many.
pub const EVENTS_MAX: u32 = 10_000;
/// Maximum number of index entries that one call reads; after the statement that exceeds it, earlier days are not counted.
const BUDGET: u64 = 300_000;
/// Pairs of source and day of one statement.
const PAIRS: usize = 64;
/// Events of the service itself that one call reads.
const REPORTS_MAX: u16 = 500;
/// Time after the end of a day from which its counts are cached: the events of that day are committed and indexed by then.
const SETTLED_AFTER: TimeDelta = TimeDelta::hours(1);

/// The events to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayQuery {
    /// The first day.
    pub first: Day,
    /// The day after the last one.
    pub end: Day,
    /// Only events of this recorder of the scope.
    pub machine: Option<MachineUuid>,
    /// Only events of this agent kind.
    pub agent: Option<String>,
    /// Only events of this lane.
    pub lane: Option<Lane>,
}

/// Numbers of events per day and lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// Numbers of events; a day and lane without events is absent.
    pub events: BTreeMap<(Day, Lane), u64>,
    /// Days and lanes with more events than the stored count.
    pub more: Vec<(Day, Lane)>,
    /// The first counted day; earlier days are left out if later days exceed the limit of index entries.
    pub since: Option<Day>,
}

/// A source and a day, as the statement takes them.
#[derive(Debug, Clone, Copy, Serialize)]
struct Pair {
    source: i64,
    day: i64,
}

/// `(source, day, events)`. Parameters: pairs; milliseconds of a day; maximum count; on SQLite the number of the last indexed event.
const COUNT: [&str; 2] = [
    "SELECT CAST(r.value ->> 'source' AS INTEGER), CAST(r.value ->> 'day' AS INTEGER), (SELECT COUNT(*) FROM (SELECT 1 FROM activity n
        WHERE n.source_id = r.value ->> 'source' AND n.received_at_ms >= (r.value ->> 'day') * $2
            AND n.received_at_ms < ((r.value ->> 'day') + 1) * $2 AND n.id <= $4 LIMIT $3))
    FROM json_each($1) r",
    "SELECT r.source, r.day, c.events FROM jsonb_to_recordset($1::JSONB) AS r (source BIGINT, day BIGINT)
    CROSS JOIN LATERAL (SELECT COUNT(*) AS events FROM (SELECT 1 FROM events n WHERE n.source_id = r.source
        AND n.received_at_ms >= r.day * $2 AND n.received_at_ms < (r.day + 1) * $2 LIMIT $3) AS n) c",
];

impl Log {
    /// Counts events of the scope per day and lane.
    #[boxed]
    pub async fn days(&self, scope: &RecordScope, wanted: &DayQuery) -> Result<DayCounts, LogError> {
        let mut counts = self.reported(scope, wanted).await?;
        let lanes = self.lanes_of(scope, wanted).await?;
        let mut left = BUDGET;
        let mut day = wanted.end;
        while day > wanted.first && left > 0 && !lanes.is_empty() {
            day = Day::from(day.number() - 1);
            for (source, events) in self.of_day(day, &lanes, &mut left).await? {
                let Some(lane) = lanes.get(&source) else { continue };
                if events > 0 {
                    *counts.events.entry((day, *lane)).or_default() += u64::from(events);
                }
                if events >= EVENTS_MAX && !counts.more.contains(&(day, *lane)) {
                    counts.more.push((day, *lane));
                }
            }
        }
        counts.since = (left == 0 && day > wanted.first).then_some(day);
        Ok(counts)
    }

    /// The sources of computers, each with its lane.
    async fn lanes_of(&self, scope: &RecordScope, wanted: &DayQuery) -> Result<HashMap<i64, Lane>, LogError> {
        let mut lanes = HashMap::new();
        for lane in Lane::ALL.iter().filter(|lane| wanted.lane.is_none_or(|wanted| wanted == **lane)) {
            let computers = scope.shown.computers.iter().filter(|known| is_wanted(known, wanted));
            let sources = self.sources_of(computers, Some(*lane), wanted.agent.as_deref()).await?;
            lanes.extend(sources.into_iter().map(|source| (source, *lane)));
        }
        Ok(lanes)
    }

    /// Counts of all sources on one day.
    async fn of_day(&self, day: Day, lanes: &HashMap<i64, Lane>, left: &mut u64) -> Result<Vec<(i64, u32)>, LogError> {
        let is_settled = day.next().begin() + SETTLED_AFTER <= self.clock.now();
        let cached = |source: &i64| self.ended.get(*source, day).map(|events| (*source, events));
        let mut counts: Vec<(i64, u32)> =
            if is_settled { lanes.keys().filter_map(cached).collect() } else { Vec::new() };
        let cached_sources: HashSet<i64> = counts.iter().map(|(source, _)| *source).collect();
        let unknown: Vec<i64> = lanes.keys().copied().filter(|source| !cached_sources.contains(source)).collect();
        for sources in unknown.chunks(PAIRS) {
            // Read before the statement: an event leaves the memory only after it was indexed.
            let recent = self.recent.of_day(&sources.iter().copied().collect(), day);
            let pairs: Vec<Pair> = sources.iter().map(|source| Pair { source: *source, day: day.number() }).collect();
            let pairs = serde_json::to_string(&pairs).unwrap_or_default();
            let postgres = self.pool.is_postgres();
            let count =
                query(COUNT[usize::from(postgres)]).bind(&pairs).bind(Day::MILLISECONDS).bind(i64::from(EVENTS_MAX));
            let count = if postgres { count } else { count.bind(recent.indexed) };
            let rows: Vec<(i64, i64, i64)> = count.fetch_all(&self.pool).await.during("count the events of days")?;
            for (source, _, events) in rows {
                let unindexed = recent.events.get(&source).copied().unwrap_or_default();
                let events = u32::try_from(events).unwrap_or(EVENTS_MAX).saturating_add(unindexed).min(EVENTS_MAX);
                *left = left.saturating_sub(events.into());
                if is_settled && unindexed == 0 {
                    self.ended.insert(source, day, events);
                }
                counts.push((source, events));
            }
        }
        Ok(counts)
    }

    /// Counts the service's own events. They are few, and each is read, because events about foreign computers are not counted.
    async fn reported(&self, scope: &RecordScope, wanted: &DayQuery) -> Result<DayCounts, LogError> {
        let mut counts = DayCounts::default();
        let service = scope.shown.service.iter().filter(|known| is_wanted(known, wanted));
        let sources = self.sources_of(service, wanted.lane, wanted.agent.as_deref()).await?;
        if sources.is_empty() {
            return Ok(counts);
        }
        let millis = |day: Day| day.begin().timestamp_millis();
        let end = Cursor { received_at_ms: millis(wanted.end), id: i64::MIN };
        let rows = self.activity_rows(&sources, millis(wanted.first), end, REPORTS_MAX).await?;
        let is_cut = rows.len() >= usize::from(REPORTS_MAX);
        let mut last = None;
        for row in &rows {
            let Ok(lane) = row.lane.parse::<Lane>() else { continue };
            let day = Day::from(row.received_at_ms.div_euclid(Day::MILLISECONDS));
            last = Some((day, lane));
            if is_shown(&scope.shown, row.machine_id.into(), row.report.as_deref()) {
                *counts.events.entry((day, lane)).or_default() += 1;
            }
        }
        counts.more.extend(last.filter(|_| is_cut));
        Ok(counts)
    }
}

fn is_wanted(recorder: &Recorder, wanted: &DayQuery) -> bool {
    wanted.machine.is_none_or(|machine| recorder.machine == machine)
}
