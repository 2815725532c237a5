//! Searches of spaces and of common words: their results, and their bounded work.

use std::collections::{BTreeMap, BTreeSet};

use domain::Rng;
use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::language::Language;
use domain::words::{asked, counted};
use store::Store;
use store::chunk::common::CommonWordsLimits;
use store::chunk::words::QueryStem;
use store::chunk::{AccountStatistics, ChunkId, ChunkLimits};
use store::memory::MemoryScope;

use crate::memories::{Draft, space};
use crate::world::World;
use harness::on_each_database;

const MEMORIES_MAX: u32 = 10_000;

/// From common to rare.
const WORDS: [&str; 8] = ["heat", "wing", "slab", "zebra", "tower", "copper", "violin", "quartz"];

/// A chunk in the reference implementation.
#[derive(Debug)]
struct Known {
    memory: MemoryId,
    stems: BTreeSet<String>,
    spaces: Vec<SpaceId>,
}

/// An account with memories of random words in random spaces; some are changed, linked to another space or deleted later.
struct Library {
    account_index: AccountStatistics,
    spaces: [SpaceId; 3],
    chunks: BTreeMap<ChunkId, Known>,
}

impl Library {
    async fn new(world: &World, memories: u64) -> Self {
        let (store, rng) = (&world.store, Rng::seeded(7));
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let spaces = [space(world, &ada).await, space(world, &ada).await, space(world, &ada).await];
        let text = || {
            let words: Vec<&str> =
                (0_u64..).zip(WORDS).filter(|(place, _)| rng.below(place + 2) == 0).map(|(_, word)| word).collect();
            words.join(" ")
        };
        let mut drafts = Vec::new();
        for nth in 0..memories {
            // Chunks of another account are in the same spaces.
            let account = if nth % 5 == 0 { &bob } else { &ada };
            let texts: Vec<String> = (0..=rng.below(4)).map(|_| text()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut draft = Draft::new(world, account, String::leak(nth.to_string()), &texts);
            draft.title = "";
            draft.spaces = spaces.into_iter().filter(|_| rng.below(4) == 0).collect();
            draft.put(store, MEMORIES_MAX).await;
            drafts.push(draft);
        }
        for (nth, draft) in drafts.iter_mut().enumerate() {
            match nth % 13 {
                3 => drop(store.memory_delete(draft.id, &draft.account).await.unwrap()),
                5 => {
                    draft.texts = vec![text(), text()];
                    draft.put(store, MEMORIES_MAX).await;
                }
                7 => {
                    draft.spaces = spaces.to_vec();
                    draft.put(store, MEMORIES_MAX).await;
                }
                _ => {}
            }
        }
        let account_index = account_index(store, &ada).await;
        let everything: Vec<ChunkId> = (0..100_000).collect();
        let mut chunks = BTreeMap::new();
        for chunk in store.chunks(&everything, &MemoryScope::Account(ada.clone()), None).await.unwrap() {
            let memory = store.memory_by_id(chunk.memory, &MemoryScope::Account(ada.clone())).await.unwrap().unwrap();
            let stems = counted("", &chunk.content, Language::English).stems.into_keys().collect();
            chunks.insert(chunk.chunk, Known { memory: chunk.memory, stems, spaces: memory.spaces });
        }
        Self { account_index, spaces, chunks }
    }

    /// Chunks in any of the spaces, or all chunks, newest first.
    fn within<'l>(&'l self, spaces: Option<&'l [SpaceId]>) -> impl Iterator<Item = (ChunkId, &'l Known)> {
        let is_in = move |known: &Known| spaces.is_none_or(|all| known.spaces.iter().any(|one| all.contains(one)));
        self.chunks.iter().rev().filter(move |(_, known)| is_in(known)).map(|(chunk, known)| (*chunk, known))
    }

    fn scopes(&self) -> Vec<Option<Vec<SpaceId>>> {
        let [red, green, blue] = self.spaces;
        vec![None, Some(vec![red]), Some(vec![green, blue]), Some(self.spaces.to_vec()), Some(vec![])]
    }
}

async fn account_index(store: &Store, account: &UserAccountId) -> AccountStatistics {
    store.account_indexes_in(&MemoryScope::Account(account.clone()), 1).await.unwrap()[0]
}

/// Stems of a query, rarest first: the order of [`WORDS`] reversed.
fn stems(query: &str) -> Vec<QueryStem> {
    asked(query, 32).stems(Language::English).into_iter().map(|stem| QueryStem { stem, weight: 1.0 }).collect()
}

fn sorted(mut chunks: Vec<ChunkId>) -> Vec<ChunkId> {
    chunks.sort_unstable();
    chunks
}

/// Puts memories of one chunk each.
async fn fill(world: &World, account: &UserAccountId, keys: std::ops::Range<usize>, text: &str, spaces: &[SpaceId]) {
    for nth in keys {
        let mut draft = Draft::new(world, account, String::leak(format!("{nth}")), &[text]);
        (draft.title, draft.spaces) = ("", spaces.to_vec());
        draft.put(&world.store, MEMORIES_MAX).await;
    }
}

/// All rows of `space_chunks`.
async fn places(world: &World) -> Vec<String> {
    const SQLITE: &str = "SELECT hex(space_id) || account_index || '/' || chunk_id FROM space_chunks ORDER BY 1";
    const POSTGRES: &str =
        "SELECT CAST(space_id AS TEXT) || account_index || '/' || chunk_id FROM space_chunks ORDER BY 1";
    let pool = world.store.pool();
    let places = if pool.is_postgres() { POSTGRES } else { SQLITE };
    store::pool::scalar(places).fetch_all(pool).await.unwrap()
}

/// Fills `space_chunks` from the tables that determine it.
const FILL: &str = "INSERT INTO space_chunks (space_id, account_index, chunk_id)
    SELECT l.space_id, m.account_index, c.id
    FROM memory_spaces l JOIN memories m ON m.id = l.memory_id JOIN chunks c ON c.memory_id = l.memory_id";

on_each_database! {
    async fn a_ranked_search_of_spaces_is_the_search_of_all_without_other_spaces(world: &World) {
        let library = Library::new(world, 150).await;
        let store = &world.store;
        for query in ["heat", "heat wing", "quartz violin heat", "zebra tower slab copper"] {
            let ranked = async |spaces: Option<&[SpaceId]>, wanted| {
                store.chunks_with_words(&library.account_index, &stems(query), spaces, wanted).await.unwrap()
            };
            let all = ranked(None, ChunkLimits::any(100_000)).await;
            let stems: Vec<String> = stems(query).into_iter().map(|asked| asked.stem).collect();
            let having = library.within(None).filter(|(_, known)| stems.iter().any(|stem| known.stems.contains(stem)));
            assert_eq!(sorted(all.clone()), sorted(having.map(|(chunk, _)| chunk).collect()), "{query}");
            for spaces in library.scopes() {
                let spaces = spaces.as_deref();
                let within: BTreeSet<ChunkId> = library.within(spaces).map(|(chunk, _)| chunk).collect();
                let expected: Vec<ChunkId> = all.iter().copied().filter(|chunk| within.contains(chunk)).collect();
                assert_eq!(ranked(spaces, ChunkLimits::any(100_000)).await, expected, "{query} {spaces:?}");
                let few = ranked(spaces, ChunkLimits::any(7)).await;
                assert_eq!(few, expected[..few.len()], "{query} {spaces:?}");
                assert_eq!(few.len(), expected.len().min(7));
            }
        }
    }

    /// Below the newest chunks of the spaces, all chunks with the rarest word are candidates, up to the limit of entries.
    async fn candidates_for_common_words_are_those_of_a_complete_walk(world: &World) {
        let library = Library::new(world, 150).await;
        for query in ["heat", "wing heat", "slab wing heat", "quartz violin heat"] {
            let stems = stems(query);
            for spaces in library.scopes() {
                let spaces = spaces.as_deref();
                for (chunks_max, is_ranked) in [(40, false), (40, true), (90, false), (90, true), (1_000, true)] {
                    let reach = CommonWordsLimits { chunks_max, walked_max: 10_000, is_ranked };
                    let candidates = world.store.chunks_with_common_words(&library.account_index, &stems, spaces, reach).await.unwrap();
                    assert_eq!(candidates.iter().collect::<BTreeSet<_>>().len(), candidates.len(), "none twice");
                    let within: Vec<(ChunkId, &Known)> = library.within(spaces).collect();
                    let newest = match spaces {
                        None => 0,
                        Some(_) if within.len() < chunks_max => within.len(),
                        Some(_) => chunks_max / 2,
                    };
                    let (newest, below) = within.split_at(newest);
                    let newest: BTreeSet<ChunkId> = newest.iter().map(|(chunk, _)| *chunk).collect();
                    let having = |stems: &[QueryStem]| -> BTreeSet<ChunkId> {
                        let having = below.iter().filter(|(_, known)| stems.iter().all(|asked| known.stems.contains(&asked.stem)));
                        having.map(|(chunk, _)| *chunk).collect()
                    };
                    let candidates: BTreeSet<ChunkId> = candidates.into_iter().collect();
                    assert!(candidates.is_superset(&newest), "{query} {spaces:?} {chunks_max}");
                    let rest: BTreeSet<ChunkId> = candidates.difference(&newest).copied().collect();
                    let (every, rarest) = (having(&stems), having(&stems[..1]));
                    let room = chunks_max - newest.len();
                    assert!(rest.is_subset(&rarest));
                    assert_eq!(rest.len(), rarest.len().min(room), "{query} {spaces:?} {chunks_max}");
                    // Chunks with every word take precedence over chunks with only the rarest.
                    assert!(every.len() > room || rest.is_superset(&every), "{query} {spaces:?} {chunks_max}");
                    assert!(every.len() <= room || rest.is_subset(&every), "{query} {spaces:?} {chunks_max}");
                }
            }
        }
    }

    async fn a_walk_ends_after_its_entries(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        fill(world, &ada, 0..1, "zebra heat", &[]).await;
        fill(world, &ada, 1..60, "zebra", &[]).await;
        let account_index = account_index(store, &ada).await;
        let found = async |walked_max, is_ranked| {
            let reach = CommonWordsLimits { chunks_max: 5, walked_max, is_ranked };
            store.chunks_with_common_words(&account_index, &stems("zebra heat"), None, reach).await.unwrap()
        };
        let (near, far) = (found(20, true).await, found(1_000, true).await);
        assert_eq!((near.len(), far.len()), (found(20, false).await.len(), found(1_000, false).await.len()));
        let all = store.chunks_with_words(&account_index, &stems("zebra"), None, ChunkLimits::any(100)).await.unwrap();
        let oldest = all.iter().min().unwrap();
        assert!(!near.contains(oldest) && far.contains(oldest), "{near:?} {far:?}");
        assert_eq!((near.len(), far.len()), (5, 5));
        let memories = async |walked_max| {
            store.chunks_of_newest_memories(&account_index, &stems("zebra heat"), None, 10, walked_max).await.unwrap()
        };
        assert_eq!((memories(20).await, memories(1_000).await), (vec![], vec![*oldest]));
    }

    /// Only one entry of a word is read, so newer chunks outside the space cannot be part of the work.
    async fn an_old_space_is_found_behind_any_number_of_newer_chunks(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let (small, large) = (space(world, &ada).await, space(world, &ada).await);
        fill(world, &ada, 0..8, "heat wing", &[small]).await;
        fill(world, &ada, 8..68, "heat wing", &[large]).await;
        fill(world, &ada, 68..168, "heat wing", &[]).await;
        // One late memory in each space.
        fill(world, &ada, 168..169, "heat wing", &[small, large]).await;
        let account_index = account_index(store, &ada).await;
        let reach = CommonWordsLimits { chunks_max: 20, walked_max: 1, is_ranked: false };
        let found = async |space| {
            let within = Some(&[space][..]);
            let candidates = store.chunks_with_common_words(&account_index, &stems("heat wing"), within, reach).await.unwrap();
            let memories = store.chunks_of_newest_memories(&account_index, &stems("heat wing"), within, 5, 1).await.unwrap();
            (candidates.len(), memories.len())
        };
        assert_eq!(found(small).await, (9, 5));
        let (chunks, memories) = found(large).await;
        // Half are the newest of the space; the walk starts below them, so its first entries are in the space again.
        assert!(chunks > 10, "{chunks}");
        assert_eq!(memories, 5);
    }

    async fn of_each_of_the_newest_memories_one_chunk_is_found(world: &World) {
        let library = Library::new(world, 60).await;
        for spaces in library.scopes() {
            let spaces = spaces.as_deref();
            let stems = stems("wing heat");
            let actual = world.store.chunks_of_newest_memories(&library.account_index, &stems, spaces, 7, 10_000).await.unwrap();
            let mut expected: Vec<(ChunkId, MemoryId)> = Vec::new();
            for (chunk, known) in library.within(spaces) {
                // In a space, the words are not looked up.
                let is_asked = spaces.is_some() || stems.iter().all(|asked| known.stems.contains(&asked.stem));
                if is_asked && expected.iter().all(|(_, memory)| *memory != known.memory) {
                    expected.push((chunk, known.memory));
                }
            }
            expected.truncate(7);
            assert_eq!(actual, expected.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), "{spaces:?}");
        }
    }

    async fn the_texts_of_chunks_come_with_their_titles(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        Draft::new(world, &ada, "1", &["heat", "wing"]).put(store, 9).await;
        let account_index = account_index(store, &ada).await;
        let chunks = store.chunks_with_words(&account_index, &stems("heat wing"), None, ChunkLimits::any(9)).await.unwrap();
        let texts = store.chunk_texts(&[chunks.clone(), vec![i64::MAX]].concat()).await.unwrap();
        let mut contents: Vec<(&str, &str, u32)> =
            texts.iter().map(|text| (text.title.as_str(), text.content.as_str(), text.words)).collect();
        contents.sort_unstable();
        let words = counted("A title", "heat", Language::English).length;
        assert_eq!(contents, [("A title", "heat", words), ("A title", "wing", words)]);
        assert_eq!(sorted(texts.iter().map(|text| text.chunk).collect()), sorted(chunks));
        assert!(store.chunk_texts(&[]).await.unwrap().is_empty());
    }

    async fn the_chunks_of_spaces_are_those_of_their_memories(world: &World) {
        let library = Library::new(world, 80).await;
        let rows = places(world).await;
        let of_ada: usize = library.chunks.values().map(|known| known.spaces.len()).sum();
        assert!(rows.len() > of_ada && of_ada > 20, "{} {of_ada}", rows.len());
        world.tamper("DELETE FROM space_chunks").await;
        assert!(places(world).await.is_empty());
        world.tamper(FILL).await;
        assert_eq!(places(world).await, rows);
    }
}
