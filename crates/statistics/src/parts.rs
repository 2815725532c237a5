//! The parts of the log as one service: each request goes to the parts that have its computers, and pages of several are merged
//! (`docs/decisions/0047-log-parts.md`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::ids::EventId;
use domain::log_part::LogPart;
use domain::recorder::Recorders;
use domain::usage::{Day, QuotaUsed, UsageWindow};
use futures_util::future::{join_all, try_join_all};
use http::StatusCode;
use proofs::proof::AuditProof;
use serde_json::{Value, json};
use store::usage::CountedUsage;
use uuid::Uuid;

use crate::contract::{ActivityQuery, Passed, RecordScope};
use crate::log::read::{Cursor, PageQuery, invalid};
use crate::log::{
    DayCounts, DayQuery, Log, LogError, MODEL_DAYS_MAX, ModelDay, RecordedEvent, RecordedModelUse, RecordedSession,
    SessionFilter, SessionPage, TimelinePage,
};

/// The parts that the configuration names. Clones share them.
///
/// A part is opened later if its server is away: until then its computers get an error, and the others notice nothing.
#[derive(Debug, Clone)]
pub struct Logs(Arc<BTreeMap<LogPart, PartSlot>>);

/// A part, once it is open. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PartSlot(Arc<OnceLock<Log>>);

impl PartSlot {
    /// An open part.
    pub fn open(log: Log) -> Self {
        let slot = Self::default();
        slot.fill(log);
        slot
    }

    /// The log, if it is open.
    pub fn get(&self) -> Option<&Log> {
        self.0.get()
    }

    /// Sets the log; the first one stays.
    pub fn fill(&self, log: Log) {
        // Only the pass that opens parts calls it, one after the other.
        let _ = self.0.set(log);
    }
}

/// The last entry of a page of several parts: by time of receipt, then by part, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PartCursor {
    received_at_ms: i64,
    part: LogPart,
    id: i64,
}

impl PartCursor {
    fn of(part: LogPart, Cursor { received_at_ms, id }: Cursor) -> Self {
        Self { received_at_ms, part, id }
    }

    const LAST: Self = Self { received_at_ms: i64::MAX, part: LogPart::new(u16::MAX), id: i64::MAX };

    /// A cursor of the first part is that of a log without parts.
    fn written(self) -> String {
        let Self { received_at_ms, part, id } = self;
        if part.is_first() {
            return Cursor { received_at_ms, id }.written();
        }
        let bytes = [&received_at_ms.to_be_bytes()[..], &id.to_be_bytes(), &part.number().to_be_bytes()].concat();
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    fn read(text: &str) -> Option<Self> {
        if let Some(Cursor { received_at_ms, id }) = Cursor::read(text) {
            return Some(Self { received_at_ms, part: LogPart::FIRST, id });
        }
        let bytes: [u8; 18] = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (numbers, part) = bytes.split_at(16);
        let [received_at_ms, id] = [&numbers[..8], &numbers[8..]].map(|half| half.try_into().map(i64::from_be_bytes));
        let part = LogPart::new(u16::from_be_bytes(part.try_into().ok()?));
        Some(Self { received_at_ms: received_at_ms.ok()?, part, id: id.ok()? })
    }

    /// The cursor of one part with the same later events.
    fn within(self, part: LogPart) -> Cursor {
        let Self { received_at_ms, part: own, id } = self;
        match part.cmp(&own) {
            std::cmp::Ordering::Less => Cursor { received_at_ms, id: i64::MAX },
            std::cmp::Ordering::Equal => Cursor { received_at_ms, id },
            std::cmp::Ordering::Greater => Cursor { received_at_ms, id: i64::MIN },
        }
    }
}

impl Logs {
    /// A log without further parts.
    pub fn single(log: Log) -> Self {
        Self::new(log, BTreeMap::new())
    }

    /// The first part, and further ones.
    pub fn new(first: Log, further: BTreeMap<LogPart, PartSlot>) -> Self {
        let mut parts = further;
        parts.insert(LogPart::FIRST, PartSlot::open(first));
        Self(Arc::new(parts))
    }

    /// The first part.
    pub fn first(&self) -> &Log {
        // `new` puts it there, open.
        self.0.get(&LogPart::FIRST).and_then(PartSlot::get).unwrap_or_else(|| unreachable!("the first part is open"))
    }

    /// All parts with their places, by number.
    pub fn slots(&self) -> impl Iterator<Item = (LogPart, &PartSlot)> {
        self.0.iter().map(|(part, slot)| (*part, slot))
    }

    /// A part that is configured.
    pub fn slot(&self, part: LogPart) -> Option<&PartSlot> {
        self.0.get(&part)
    }

    /// The open parts, by number.
    pub fn iter(&self) -> impl Iterator<Item = (LogPart, &Log)> {
        self.slots().filter_map(|(part, slot)| Some((part, slot.get()?)))
    }

    /// The parts that are not open.
    pub fn away(&self) -> Vec<LogPart> {
        self.slots().filter(|(_, slot)| slot.get().is_none()).map(|(part, _)| part).collect()
    }

    /// A part, if it is configured and open.
    pub fn get(&self, part: LogPart) -> Result<&Log, LogError> {
        let slot = self.0.get(&part).ok_or(LogError::UnknownPart(part))?;
        slot.get().ok_or(LogError::PartAway(part))
    }

    /// The logs with computers of the scope.
    fn of(&self, scope: &RecordScope) -> Result<Vec<(LogPart, &Log)>, LogError> {
        parts_of(scope).into_iter().map(|part| Ok((part, self.get(part)?))).collect()
    }

    /// A page of activity, newest first.
    #[boxed]
    pub async fn activity(&self, scope: &RecordScope, query: &ActivityQuery) -> Result<Passed, LogError> {
        let parts = self.of(scope)?;
        if let [(LogPart::FIRST, log)] = parts[..] {
            return log.activity(scope, query).await;
        }
        let wanted = match PageQuery::read(query) {
            Ok(wanted) => wanted,
            Err(refusal) => return Ok(refusal),
        };
        let Some(before) = query.cursor.as_deref().map_or(Some(PartCursor::LAST), PartCursor::read) else {
            return Ok(invalid("invalid_cursor"));
        };
        let pages = parts.iter().map(|(part, log)| {
            let wanted = &wanted;
            async move {
                let rows = log.page_rows(scope, wanted, before.within(*part)).await?;
                let placed = rows.into_iter().map(|row| (PartCursor::of(*part, row.place()), row));
                Ok::<_, LogError>(placed.collect::<Vec<_>>())
            }
        });
        let mut rows: Vec<_> = try_join_all(pages).await?.into_iter().flatten().collect();
        rows.sort_by(|(one, _), (other, _)| other.cmp(one));
        let next = wanted.end_of(&mut rows).map(|(place, _)| place.written());
        let read = (rows.len(), rows.last().map(|(place, _)| place.received_at_ms));
        let mut of_parts: BTreeMap<LogPart, Vec<_>> = BTreeMap::new();
        for (place, row) in rows {
            of_parts.entry(place.part).or_default().push(row);
        }
        let (mut entries, mut unread): (Vec<(PartCursor, Value)>, u32) = (Vec::new(), 0);
        for (part, log) in parts {
            let Some(rows) = of_parts.remove(&part) else { continue };
            let (found, too_long) = log.page_entries(scope, rows, &wanted).await?;
            unread += too_long;
            entries.extend(found.into_iter().map(|(cursor, entry)| (PartCursor::of(part, cursor), entry)));
        }
        entries.sort_by(|(one, _), (other, _)| other.cmp(one));
        let events: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(wanted.written(&events, next.as_deref(), read, unread))
    }

    /// The audit proof of an event, from the part that has it.
    #[boxed]
    pub async fn proof(&self, scope: &RecordScope, event_id: EventId) -> Result<Passed, LogError> {
        let (mut absent, mut failed) = (None, None);
        let asked = parts_of(scope).into_iter().map(|part| async move { self.get(part)?.proof(scope, event_id).await });
        for answer in join_all(asked).await {
            match answer {
                Ok(proof) if proof.status == StatusCode::NOT_FOUND => absent = Some(proof),
                Ok(proof) => return Ok(proof),
                Err(error) => failed = Some(error),
            }
        }
        // A part that does not answer may have the event.
        match (failed, absent) {
            (Some(error), _) => Err(error),
            (None, Some(absent)) => Ok(absent),
            (None, None) => Err(LogError::UnknownPart(LogPart::FIRST)),
        }
    }
}

impl Logs {
    /// The proofs of events, each against a checkpoint of its part.
    #[boxed]
    pub async fn included_proofs(&self, scope: &RecordScope, ids: &[EventId]) -> Result<Vec<AuditProof>, LogError> {
        let mut proofs = Vec::new();
        for (_, log) in self.of(scope)? {
            proofs.extend(log.included_proofs(scope, ids).await?);
        }
        Ok(proofs)
    }

    /// The next event of a chain, from the part of the chain.
    #[boxed]
    pub async fn follower(
        &self,
        scope: &RecordScope,
        event: &AuditProof,
        received_at_ms: i64,
    ) -> Result<Option<EventId>, LogError> {
        for (_, log) in self.of(scope)? {
            if let Some(next) = log.follower(scope, event, received_at_ms).await? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Counts events of the scope per day and lane.
    #[boxed]
    pub async fn days(&self, scope: &RecordScope, wanted: &DayQuery) -> Result<DayCounts, LogError> {
        let counted = try_join_all(self.of(scope)?.into_iter().map(|(_, log)| log.days(scope, wanted))).await?;
        let mut sum = DayCounts::default();
        for DayCounts { events, more, since } in counted {
            for (of, count) in events {
                *sum.events.entry(of).or_default() += count;
            }
            sum.more.extend(more.into_iter().filter(|of| !sum.more.contains(of)).collect::<Vec<_>>());
            // Days before the latest of these are not counted in each part.
            sum.since = sum.since.max(since);
        }
        if let Some(since) = sum.since {
            sum.events.retain(|(day, _), _| *day >= since);
        }
        Ok(sum)
    }

    /// A page of sessions; `None` if the cursor is invalid.
    #[boxed]
    pub async fn sessions(&self, scope: &RecordScope, wanted: &SessionFilter) -> Result<Option<SessionPage>, LogError> {
        let parts = self.of(scope)?;
        if let [(LogPart::FIRST, log)] = parts[..] {
            return log.sessions(scope, wanted).await;
        }
        let before = wanted.cursor.as_deref().map_or(Some(PartCursor::LAST), PartCursor::read);
        let Some(before) = before else { return Ok(None) };
        let mut rows = Vec::new();
        for (part, log) in &parts {
            let found = log.session_rows(scope, wanted, before.within(*part)).await?;
            rows.extend(found.into_iter().map(|row| (PartCursor::of(*part, row.place()), row)));
        }
        rows.sort_by(|(one, _), (other, _)| other.cmp(one));
        let next = wanted.end_of(&mut rows).map(|(place, _)| place.written());
        let order: Vec<_> = rows.iter().map(|(place, row)| (place.part, row.number)).collect();
        let mut of_parts: BTreeMap<LogPart, Vec<_>> = BTreeMap::new();
        for (place, row) in rows {
            of_parts.entry(place.part).or_default().push(row);
        }
        let mut sessions = Vec::with_capacity(order.len());
        for (part, log) in parts {
            let Some(rows) = of_parts.remove(&part) else { continue };
            sessions.extend(log.described(rows).await?.into_iter().map(|session| session.of_part(part)));
        }
        sessions.sort_by_key(|session| order.iter().position(|place| *place == session.place()));
        Ok(Some(SessionPage { sessions, next }))
    }

    /// A session, if a computer of the scope recorded it.
    #[boxed]
    pub async fn session(&self, scope: &RecordScope, id: Uuid) -> Result<Option<RecordedSession>, LogError> {
        for (part, log) in self.of(scope)? {
            if let Some(session) = log.session(scope, id).await? {
                return Ok(Some(session.of_part(part)));
            }
        }
        Ok(None)
    }

    /// A page of the events of a session, newest first.
    #[boxed]
    pub async fn timeline(
        &self,
        session: &RecordedSession,
        before: Option<i64>,
        limit: u16,
    ) -> Result<TimelinePage, LogError> {
        self.get(session.part)?.timeline(session, before, limit).await
    }

    /// The use of models by day.
    #[boxed]
    pub async fn model_days(&self, scope: &RecordScope, first: Day, end: Day) -> Result<Vec<ModelDay>, LogError> {
        let parts = self.of(scope)?;
        let counted = try_join_all(parts.iter().map(|(_, log)| log.model_days(scope, first, end))).await?;
        let mut sums: BTreeMap<_, RecordedModelUse> = BTreeMap::new();
        for ModelDay { day, agent, project, used } in counted.into_iter().flatten() {
            let sum = sums.entry((Reverse(day), agent, project, used.model.clone())).or_insert_with(|| {
                RecordedModelUse { model: used.model.clone(), calls: 0, input_tokens: 0, output_tokens: 0 }
            });
            sum.calls += used.calls;
            sum.input_tokens += used.input_tokens;
            sum.output_tokens += used.output_tokens;
        }
        let day = |((Reverse(day), agent, project, _), used)| ModelDay { day, agent, project, used };
        Ok(sums.into_iter().take(MODEL_DAYS_MAX as usize).map(day).collect())
    }

    /// Usage of computers in a window beyond the counted leaves of each part.
    #[boxed]
    pub async fn usage_beyond(
        &self,
        counted: &CountedUsage,
        recorders: &Recorders,
        window: UsageWindow,
        events_max: u32,
    ) -> Result<QuotaUsed, LogError> {
        let mut sum = QuotaUsed::default();
        for part in &recorders.parts {
            let log = self.get(*part)?;
            sum += log.usage_beyond(counted.leaves(*part), &recorders.computers, window, events_max).await?;
        }
        Ok(sum)
    }

    /// The newest events that a reader of `shown` sees, at most `events_max` of each computer, agent kind and lane.
    #[boxed]
    pub async fn newest_events(&self, shown: &Recorders, events_max: u32) -> Result<Vec<RecordedEvent>, LogError> {
        let mut events = Vec::new();
        for part in &shown.parts {
            events.extend(self.get(*part)?.newest_events(shown, events_max).await?);
        }
        Ok(events)
    }

    /// The numbers of leaves of all open parts.
    #[boxed]
    pub async fn leaves(&self) -> Result<Vec<(LogPart, u64)>, LogError> {
        let mut leaves = Vec::new();
        for (part, log) in self.iter() {
            leaves.push((part, log.leaves().await?));
        }
        Ok(leaves)
    }

    /// The keys of all parts that answer, by number of the part.
    #[boxed]
    pub async fn keys(&self) -> Result<Passed, LogError> {
        let mut keys = self.first().key_list().await?;
        let further = self.iter().filter(|(part, _)| !part.is_first());
        for (part, listed) in join_all(further.map(|(part, log)| async move { (part, log.key_list().await) })).await {
            match listed {
                Ok(of_part) => keys.extend(of_part.into_iter().map(|mut key| {
                    key["log"] = json!(part);
                    key
                })),
                Err(error) => tracing::warn!(
                    log.part = %part,
                    error = domain::reasons(&error),
                    "the keys of a part of the log cannot be read: they are not listed"
                ),
            }
        }
        Ok(Passed::json(StatusCode::OK, &json!({ "keys": keys })))
    }
}

/// The parts with computers of a scope; the first one if it has none.
fn parts_of(scope: &RecordScope) -> Vec<LogPart> {
    let named = &scope.shown.parts;
    if named.is_empty() { vec![LogPart::FIRST] } else { named.iter().copied().collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(received_at_ms: i64, part: u16, id: i64) -> PartCursor {
        PartCursor { received_at_ms, part: LogPart::new(part), id }
    }

    #[test]
    fn a_cursor_of_the_first_part_is_that_of_a_log_without_parts() {
        let plain = Cursor { received_at_ms: 1_767_225_600_000, id: 7 }.written();
        assert_eq!(cursor(1_767_225_600_000, 0, 7).written(), plain);
        assert_eq!(PartCursor::read(&plain), Some(cursor(1_767_225_600_000, 0, 7)));
        let further = cursor(5, 3, 9);
        assert_eq!(PartCursor::read(&further.written()), Some(further));
        for wrong in ["", "AAAA", &format!("{}AA", further.written())] {
            assert_eq!(PartCursor::read(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn each_part_continues_exactly_where_the_merged_page_ended(
            rows in proptest::collection::vec((0..4_i64, 0..3_u16, 0..5_i64), 1..40), end in (0..4_i64, 0..3_u16, 0..5_i64),
        ) {
            let end = cursor(end.0, end.1, end.2);
            for (received_at_ms, part, id) in rows {
                let row = cursor(received_at_ms, part, id);
                let own = Cursor { received_at_ms, id };
                prop_assert_eq!(row < end, own < end.within(row.part));
            }
        }
    }
}
