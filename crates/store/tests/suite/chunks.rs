//! Chunks, and their search.

use domain::ids::UserAccountId;
use domain::language::Language;
use domain::memory::ModelId;
use domain::words::asked;
use store::Store;
use store::chunk::common::CommonWordsLimits;
use store::chunk::follow::Followed;
use store::chunk::vector::packed;
use store::chunk::words::QueryStem;
use store::chunk::{AccountStatistics, ChunkId, ChunkLimits};
use store::memory::MemoryScope;

use crate::memories::{Draft, model, space};
use crate::world::World;
use harness::on_each_vector_index;

async fn account_index(store: &Store, account: &UserAccountId) -> AccountStatistics {
    store.account_indexes_in(&MemoryScope::Account(account.clone()), 1).await.unwrap()[0]
}

fn stems(query: &str) -> Vec<QueryStem> {
    asked(query, 32).stems(Language::English).into_iter().map(|stem| QueryStem { stem, weight: 1.0 }).collect()
}

/// The texts of the chunks that have the words of a query.
async fn texts(store: &Store, account: &UserAccountId, query: &str) -> Vec<String> {
    let account_index = account_index(store, account).await;
    let ids = store.chunks_with_words(&account_index, &stems(query), None, ChunkLimits::any(10)).await.unwrap();
    in_order(store, account, &ids).await
}

async fn in_order(store: &Store, account: &UserAccountId, ids: &[ChunkId]) -> Vec<String> {
    let chunks = store.chunks(ids, &MemoryScope::Account(account.clone()), None).await.unwrap();
    let text = |id: &ChunkId| chunks.iter().find(|chunk| chunk.chunk == *id).unwrap().content.clone();
    ids.iter().map(text).collect()
}

/// All memories and the last change that a follower from `since` reads.
async fn follow(store: &Store, account_index: i64, mut since: i64, page: usize) -> (Vec<Followed>, i64) {
    let mut all = Vec::new();
    loop {
        let changes = store.account_index_changes(account_index, since, &model(), page).await.unwrap();
        if changes.memories.is_empty() {
            assert_eq!(changes.upto, since);
            return (all, since);
        }
        assert!(changes.upto > since);
        since = changes.upto;
        all.extend(changes.memories);
    }
}

on_each_vector_index! {
    async fn chunks_are_found_by_any_form_of_their_words_best_first(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let mut draft = Draft::new(world, &ada, "1", &["heat conducts, heated heating heats", "the heat of a wing", "wings"]);
        draft.title = "";
        draft.put(store, 9).await;
        let mut titled = Draft::new(world, &ada, "2", &["nothing of the kind"]);
        titled.title = "Café über 東京都";
        titled.put(store, 9).await;
        assert_eq!(texts(store, &ada, "HEAT").await, ["heat conducts, heated heating heats", "the heat of a wing"]);
        assert_eq!(texts(store, &ada, "heating wing").await[0], "the heat of a wing");
        for query in ["cafe", "ÜBER", "東京"] {
            assert_eq!(texts(store, &ada, query).await, ["nothing of the kind"], "{query}");
        }
        let counted = asked("heat wing absent", 9).stems(Language::English);
        let account_index = account_index(store, &ada).await;
        assert_eq!(store.stems_counted(account_index.number, &counted).await.unwrap(), [2, 2, 0]);
        assert!(account_index.length_average() > 1.0);
        assert!(store.chunks_with_words(&account_index, &[], None, ChunkLimits::any(10)).await.unwrap().is_empty());
    }

    async fn of_each_memory_only_its_share_is_found(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let shared = space(world, &ada).await;
        for (key, chunks) in [("first", 1), ("second", 70), ("third", 3), ("fourth", 130)] {
            let mut draft = Draft::new(world, &ada, key, &[]);
            // Later chunks of a memory are longer and rank lower; the last one does not match.
            draft.texts = (1..=chunks).map(|nth| format!("{key} heat wing{}", " more".repeat(nth))).collect();
            draft.texts.push(format!("{key} alone"));
            draft.spaces = vec![shared];
            draft.put(store, 9).await;
        }
        let at = account_index(store, &ada).await;
        for spaces in [None, Some([shared])] {
            let found = async |chunks_max, each_max| {
                let wanted = ChunkLimits { chunks_max, each_max: Some(each_max) };
                let spaces = spaces.as_ref().map(<[_; 1]>::as_slice);
                let ids = store.chunks_with_words(&at, &stems("heat wing"), spaces, wanted).await.unwrap();
                let texts = in_order(store, &ada, &ids).await;
                let what = |text: &String| (text.split(' ').next().unwrap().to_owned(), text.matches("more").count());
                texts.iter().map(what).collect::<Vec<_>>()
            };
            let named = |found: &[(&str, usize)]| -> Vec<(String, usize)> {
                found.iter().map(|(key, nth)| ((*key).to_owned(), *nth)).collect()
            };
            let mut all = found(100, 2).await;
            assert!(all.is_sorted_by_key(|(_, nth)| *nth), "best first: {all:?}");
            assert_eq!(found(5, 2).await, all[..5]);
            all.sort();
            let twos = [("fourth", 1), ("fourth", 2), ("second", 1), ("second", 2), ("third", 1), ("third", 2)];
            assert_eq!(all, [named(&[("first", 1)]), named(&twos)].concat());
        }
    }

    /// Any typed text is parsed as words.
    async fn no_query_is_an_error(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        Draft::new(world, &ada, "1", &["near or not near, and a column: stems"]).put(store, 9).await;
        let account_index = account_index(store, &ada).await;
        for query in [
            "\"", "'", "near(a b)", "NOT", "OR OR", "a AND", "stems:near", "*", "-x", "^near", "(", "near*", "{a}", "\\",
            "x'; DROP TABLE words; --", "%", "_", "\0near", "$1", "🦀🦀", "\u{202e}near", "null", "[]", "\u{1}",
        ] {
            let stems = stems(query);
            store.chunks_with_words(&account_index, &stems, None, ChunkLimits::any(10)).await.unwrap();
            let reach = CommonWordsLimits { chunks_max: 10, walked_max: 10, is_ranked: true };
            store.chunks_with_common_words(&account_index, &stems, None, reach).await.unwrap();
            store.chunks_of_newest_memories(&account_index, &stems, None, 10, 10).await.unwrap();
            let names: Vec<String> = stems.into_iter().map(|asked| asked.stem).collect();
            store.stems_counted(account_index.number, &names).await.unwrap();
        }
        assert_eq!(texts(store, &ada, "near(").await.len(), 1);
    }

    async fn words_and_chunks_stay_within_their_scope(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let shared = space(world, &ada).await;
        for account in [&ada, &bob] {
            Draft::new(world, account, "1", &["a secret"]).put(store, 9).await;
            let mut linked = Draft::new(world, account, "2", &["a shared secret"]);
            linked.spaces = vec![shared];
            linked.put(store, 9).await;
        }
        assert_eq!(texts(store, &ada, "secret").await.len(), 2);
        let in_shared = MemoryScope::Spaces(vec![shared]);
        let account_indexes = store.account_indexes_in(&in_shared, 9).await.unwrap();
        assert_eq!(account_indexes.len(), 2);
        assert_eq!(store.account_indexes_in(&in_shared, 1).await.unwrap().len(), 1);
        let stems = stems("shared secret");
        let (mut ranked, mut common, mut newest) = (Vec::new(), Vec::new(), Vec::new());
        for account_index in &account_indexes {
            let reach = CommonWordsLimits { chunks_max: 10, walked_max: 10, is_ranked: true };
            let within = Some(&[shared][..]);
            ranked.extend(store.chunks_with_words(account_index, &stems, within, ChunkLimits::any(10)).await.unwrap());
            common.extend(store.chunks_with_common_words(account_index, &stems, within, reach).await.unwrap());
            newest.extend(store.chunks_of_newest_memories(account_index, &stems, within, 10, 10).await.unwrap());
        }
        for mut found in [ranked, common, newest] {
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 2);
        }
        let everything: Vec<ChunkId> = (0..100).collect();
        let contents = async |scope: &MemoryScope| -> Vec<String> {
            let chunks = store.chunks(&everything, scope, None).await.unwrap();
            chunks.into_iter().map(|chunk| chunk.content).collect()
        };
        assert_eq!(contents(&in_shared).await, ["a shared secret", "a shared secret"]);
        assert_eq!(contents(&MemoryScope::Account(bob)).await.len(), 2);
        assert!(contents(&MemoryScope::Spaces(vec![])).await.is_empty());
    }

    /// More chunks than one statement inserts, and one without words in between.
    async fn every_chunk_of_a_long_memory_has_its_own_words_and_its_own_vector(world: &World) {
        const COUNT: u16 = 300;
        const SILENT: usize = 7;
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let text = |at: u16| if usize::from(at) == SILENT { "…".to_owned() } else { format!("common word{at}") };
        let vector = |at: u16| vec![f32::from(at), 1.0, 0.0, 0.0];
        let mut long = Draft::new(world, &ada, "1", &[]);
        (long.title, long.texts) = ("", (0..COUNT).map(text).collect());
        long.vectors = (0..COUNT).map(vector).collect();
        long.put(store, 9).await;
        let at = account_index(store, &ada).await;
        assert_eq!(store.stems_counted(at.number, &["common".into()]).await.unwrap(), [u32::from(COUNT) - 1]);
        let (followed, _) = follow(store, at.number, 0, 10).await;
        let chunks: Vec<ChunkId> = followed[0].vectors.iter().map(|(chunk, _)| *chunk).collect();
        let of = async |model: &ModelId| -> Vec<(String, Option<Vec<f32>>)> {
            let chunks = store.chunks(&chunks, &MemoryScope::Account(ada.clone()), Some(model)).await.unwrap();
            chunks.into_iter().map(|chunk| (chunk.content, chunk.vector)).collect()
        };
        let rows = of(&model()).await;
        assert_eq!(rows.len(), usize::from(COUNT));
        for at in (0..COUNT).filter(|at| usize::from(*at) != SILENT) {
            assert!(rows.contains(&(text(at), Some(vector(at)))), "{at}");
            assert_eq!(texts(store, &ada, &format!("word{at}")).await, [text(at)]);
        }
        // Vectors of another model, all at once, in reverse order.
        let other = ModelId { name: "other".into(), dimensions: 4 };
        let vectors: Vec<(ChunkId, Vec<f32>)> = chunks.iter().rev().copied().zip((0..COUNT).map(vector)).collect();
        assert_eq!(store.vectors_put(&other, &vectors).await.unwrap(), usize::from(COUNT));
        for (chunk, vector) in &vectors {
            let chunks = store.chunks(&[*chunk], &MemoryScope::Account(ada.clone()), Some(&other)).await.unwrap();
            assert_eq!(chunks[0].vector.as_ref(), Some(vector));
        }
        assert!(store.all_embedded(&other).await.unwrap());
    }

    async fn a_memory_is_stemmed_in_its_language(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let text = "In den alten Häusern am Ufer wohnen seit vielen Jahren Fischer, und die Fähre zur Insel fährt um sieben Uhr morgens ab.";
        Draft::new(world, &ada, "1", &[text]).put(store, 9).await;
        let statistics = account_index(store, &ada).await;
        assert_eq!(statistics.languages().iter().collect::<Vec<_>>(), [Language::English, Language::German]);
        assert_eq!(texts(store, &ada, "haus").await, [text]);
    }

    async fn chunks_without_a_vector_of_the_model_are_embedded_later(world: &World) {
        let (store, ada, bob) =
            (&world.store, world.account("ada@example.com").await, world.account("bob@example.com").await);
        let mut draft = Draft::new(world, &ada, "1", &["done"]);
        draft.vectors = vec![vec![1.0, 0.0, 0.0, 0.0]];
        draft.put(store, 9).await;
        assert!(store.all_embedded(&model()).await.unwrap());
        Draft::new(world, &ada, "2", &["first", "second"]).put(store, 9).await;
        Draft::new(world, &bob, "3", &["third"]).put(store, 9).await;
        let waiting = store.chunks_to_embed(&model(), 10).await.unwrap();
        assert_eq!(waiting.len(), 3);
        assert_eq!(waiting[0].title, "A title");
        assert_eq!(store.chunks_to_embed(&model(), 2).await.unwrap().len(), 2);
        let before = account_index(store, &ada).await;
        let mut vectors: Vec<(ChunkId, Vec<f32>)> =
            waiting.iter().map(|waiting| (waiting.chunk, vec![0.0, 1.0, 0.0, 0.0])).collect();
        // A chunk that is deleted by then.
        vectors.push((i64::MAX, vec![0.0; 4]));
        assert_eq!(store.vectors_put(&model(), &vectors).await.unwrap(), 3);
        assert!(store.all_embedded(&model()).await.unwrap());
        let (news, _) = follow(store, before.number, before.changes, 1).await;
        assert_eq!(news.len(), 1);
        assert_eq!(news[0].vectors.len(), 2);
        // Another model starts with chunks that have vectors of the first.
        let other = ModelId { name: "other".into(), dimensions: 4 };
        assert_eq!(store.chunks_to_embed(&other, 10).await.unwrap().len(), 4);
        let chunks = store.chunks(&[waiting[0].chunk], &MemoryScope::Account(ada.clone()), Some(&model())).await.unwrap();
        assert_eq!(chunks[0].vector.as_deref(), Some(&[0.0, 1.0, 0.0, 0.0][..]));
        let chunks = store.chunks(&[waiting[0].chunk], &MemoryScope::Account(ada), Some(&other)).await.unwrap();
        assert_eq!(chunks[0].vector, None);
    }

    async fn a_reader_of_the_changes_knows_every_chunk(world: &World) {
        const KEYS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let red = space(world, &ada).await;
        let mut drafts = Vec::new();
        for key in KEYS {
            let mut draft = Draft::new(world, &ada, key, &["text"]);
            draft.vectors = vec![vec![0.5; 4]];
            draft.put(store, 9).await;
            drafts.push(draft);
        }
        let number = account_index(store, &ada).await.number;
        let (all, upto) = follow(store, number, 0, 4).await;
        let ids: Vec<_> = all.iter().map(|followed| followed.memory).collect();
        assert_eq!(ids, drafts.iter().map(|draft| draft.id).collect::<Vec<_>>());
        assert_eq!(all[0].vectors[0].1, packed(&[0.5; 4]));
        // A link, a deletion, a change: each is returned once, including deletions.
        drafts[0].spaces = vec![red];
        drafts[0].put(store, 9).await;
        store.memory_delete(drafts[1].id, &ada).await.unwrap();
        drafts[2].texts = vec!["other".into()];
        drafts[2].put(store, 9).await;
        for page in [1, 2, 100] {
            let (news, _) = follow(store, number, upto, page).await;
            let last = |at: usize| news.iter().rfind(|followed| followed.memory == drafts[at].id).unwrap();
            assert_eq!(last(0).spaces, [red]);
            assert!(last(1).vectors.is_empty());
            assert_eq!(last(2).vectors.len(), 1);
            assert!(news.iter().all(|followed| drafts[..3].iter().any(|draft| draft.id == followed.memory)));
        }
        // A follower that is further behind than the stored deletions starts from the beginning.
        world.tamper_memory("UPDATE account_indexes SET changes = changes + 200000").await;
        let changes = store.account_index_changes(number, upto, &model(), 100).await.unwrap();
        assert!(changes.anew);
        assert_eq!(changes.memories.len(), 5);
    }
}
