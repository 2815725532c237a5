//! Lists of memories: pages, newest first, with filters.

use chrono::{Days, NaiveDate};
use domain::ids::MemoryId;
use domain::memory::{MemoryType, Tag};
use store::memory::{Memory, MemoryFilter};
use uuid::Uuid;
use wire::knowledge::{EXCERPT_CHARS, MEMORIES_LIMIT, MEMORIES_LIMIT_MAX};

use super::access::KnowledgeAccess;
use super::memories::Memories;
use super::refusal::Refusal;

const TAGS_LISTED: usize = 100;

/// Arguments of a list, not yet checked.
#[derive(Debug, Clone, Default)]
pub struct ListParams {
    /// Memories of this space, of all accounts; `None` for everything that a search without spaces covers.
    pub space: Option<Uuid>,
    /// Memories of this type.
    pub kind: Option<MemoryType>,
    /// Memories with this tag.
    pub tag: Option<Tag>,
    /// Memories that were added on this day (UTC).
    pub day: Option<NaiveDate>,
    /// The last memory of the previous page.
    pub cursor: Option<MemoryId>,
    /// Memories of a page.
    pub limit: Option<usize>,
}

/// A page of a list.
#[derive(Debug)]
pub struct MemoryPage {
    /// The memories, each with the start of its text and the spaces that the party may see.
    pub memories: Vec<Memory>,
    /// The cursor of the next page.
    pub next: Option<MemoryId>,
}

impl Memories {
    /// A page of memories, the newest first.
    #[boxed]
    pub async fn list(&self, access: &KnowledgeAccess, params: &ListParams) -> Result<MemoryPage, Refusal> {
        let limit = params.limit.unwrap_or(MEMORIES_LIMIT);
        if !(1..=MEMORIES_LIMIT_MAX).contains(&limit) {
            return Err(Refusal::invalid("limit", format!("must be an integer from 1 to {MEMORIES_LIMIT_MAX}")));
        }
        let named: Vec<Uuid> = params.space.into_iter().collect();
        let scope = access.to_search(&named, &self.ports).await?;
        let day = params.day.map(ids_of_day);
        let before = [params.cursor, day.map(|(_, end)| end)].into_iter().flatten().min();
        let filter =
            MemoryFilter { kind: params.kind, tag: params.tag.clone(), from: day.map(|(begin, _)| begin), before };
        let mut memories = self.ports.store.memories_listed(&scope, &filter, limit + 1, EXCERPT_CHARS).await?;
        let has_more = memories.len() > limit;
        memories.truncate(limit);
        for memory in memories.iter_mut().filter(|memory| memory.account != access.account) {
            // The other spaces of another account's memory are private to its owner.
            memory.spaces.retain(|space| params.space.is_some_and(|named| space.as_uuid() == named));
        }
        let next = memories.last().filter(|_| has_more).map(|memory| memory.id);
        Ok(MemoryPage { memories, next })
    }

    /// The most frequent tags of the account, with the number of memories of each.
    #[boxed]
    pub async fn tags(&self, access: &KnowledgeAccess) -> Result<Vec<(Tag, u64)>, Refusal> {
        Ok(self.ports.store.tags_of_account(&access.account, TAGS_LISTED).await?)
    }
}

/// The smallest id of the day and of the next one: ids of version 7 start with the milliseconds of their time (RFC 9562, section 5.7).
fn ids_of_day(day: NaiveDate) -> (MemoryId, MemoryId) {
    let smallest = |day: NaiveDate| {
        let millis = day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis();
        Uuid::from_u128(u128::from(u64::try_from(millis).unwrap_or(0).min((1 << 48) - 1)) << 80).into()
    };
    (smallest(day), smallest(day.checked_add_days(Days::new(1)).unwrap_or(day)))
}

#[cfg(test)]
mod tests {
    use domain::Rng;

    use super::*;

    #[test]
    fn a_day_begins_and_ends_at_midnight() {
        let (begin, end) = ids_of_day("2026-01-02".parse().unwrap());
        let id = |time: &str| MemoryId::from(Rng::seeded(1).uuid_v7(time.parse().unwrap()));
        for (time, is_in) in [
            ("2026-01-01T23:59:59.999Z", false),
            ("2026-01-02T00:00:00Z", true),
            ("2026-01-02T23:59:59.999Z", true),
            ("2026-01-03T00:00:00Z", false),
        ] {
            assert_eq!((begin..end).contains(&id(time)), is_in, "{time}");
        }
    }
}
