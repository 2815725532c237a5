//! Vector search in the database.

use domain::ids::UserAccountId;
use domain::memory::ModelId;
use store::chunk::near::prepare::NearVectorsState;
use store::chunk::{AccountStatistics, ChunkId, ChunkLimits};
use store::memory::MemoryScope;
use store::{Pool, Store};

use crate::memories::{Draft, model, space};
use crate::world::World;
use harness::on_each_database;

async fn account_index(store: &Store, account: &UserAccountId) -> AccountStatistics {
    store.account_indexes_in(&MemoryScope::Account(account.clone()), 1).await.unwrap()[0]
}

async fn kept(world: &World, account: &UserAccountId, key: &'static str, vectors: &[[f32; 4]]) -> Draft {
    let mut draft = Draft::new(world, account, key, &[]);
    draft.texts = (0..vectors.len()).map(|at| format!("{key} {at}")).collect();
    draft.vectors = vectors.iter().map(|vector| vector.to_vec()).collect();
    draft.put(&world.store, 10_000).await;
    draft
}

/// The texts of the near chunks, nearest first.
async fn texts(store: &Store, account: &UserAccountId, near: &[(ChunkId, f32)]) -> Vec<String> {
    assert!(near.is_sorted_by(|a, b| a.1 >= b.1), "{near:?}");
    let ids: Vec<ChunkId> = near.iter().map(|(id, _)| *id).collect();
    let chunks = store.chunks(&ids, &MemoryScope::Account(account.clone()), None).await.unwrap();
    let text = |id: &ChunkId| chunks.iter().find(|chunk| chunk.chunk == *id).unwrap().content.clone();
    ids.iter().map(text).collect()
}

async fn near(world: &World, account: &UserAccountId, query: [f32; 4], count: usize) -> Vec<String> {
    let account_index = account_index(&world.store, account).await;
    let near =
        world.store.nearest(&account_index, &model(), &query, ChunkLimits::any(count), usize::MAX).await.unwrap();
    texts(&world.store, account, &near).await
}

/// Rows of the copy that differ from the vectors.
async fn differences(world: &World) -> i64 {
    const SQL: &str = "SELECT COUNT(*) FROM vectors v FULL JOIN vectors_near n ON n.chunk_id = v.chunk_id
        WHERE v.model IS DISTINCT FROM COALESCE(n.model, '') OR n.vector <> vectors_near_unpacked(v.vector)";
    let Pool::Postgres(pool) = world.store.pool() else { panic!("not PostgreSQL") };
    store::pool::scalar(SQL).fetch_one(pool).await.unwrap()
}

on_each_database! {
    async fn a_database_that_cannot_compare_says_why(world: &World) {
        match world.store.near_prepare().await.unwrap() {
            NearVectorsState::Absent(why) if world.store.pool().is_postgres() => assert!(why.contains("pgvector"), "{why}"),
            NearVectorsState::Absent(why) => assert!(why.contains("not PostgreSQL"), "{why}"),
            // The cluster has the extension.
            can => assert!(world.store.pool().is_postgres() && can == NearVectorsState::Filling, "{can:?}"),
        }
    }
}

#[tokio::test]
async fn without_postgresql_there_is_nothing_to_fill_and_nothing_near() {
    let world = World::on_sqlite().await;
    let ada = world.account("ada@example.com").await;
    kept(&world, &ada, "1", &[[1.0, 0.0, 0.0, 0.0]]).await;
    let (store, account_index) = (&world.store, account_index(&world.store, &ada).await);
    assert!(store.near_fill(1).await.unwrap());
    assert!(store.nearest(&account_index, &model(), &[1.0; 4], ChunkLimits::any(9), 0).await.unwrap().is_empty());
    assert!(
        store
            .nearest_in_spaces(&[account_index], &[], &model(), &[1.0; 4], ChunkLimits::any(9))
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.graph_missing(&model(), 0).await.unwrap(), None);
    assert_eq!(store.graph_count(&model()).await.unwrap(), 0);
    assert!(!store.graph_make(account_index.number, &model()).await.unwrap());
}

#[tokio::test]
async fn pgvector_has_every_vector_that_was_kept_and_none_that_was_forgotten() {
    let Some(world) = World::on_pgvector().await else { return };
    let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
    // 16-bit numbers of all magnitudes, with both signs.
    let odd = [[65_504.0, -6.1e-5, 5.96e-8, -0.0], [0.333, -1e-6, -65_504.0, 1.0]];
    kept(&world, &bob, "odd", &odd).await;
    let mut page = kept(&world, &ada, "page", &[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]).await;
    let note = kept(&world, &ada, "note", &[[0.9, 0.1, 0.0, 0.0]]).await;
    Draft::new(&world, &ada, "waits", &["waits"]).put(&world.store, 9).await;
    assert_eq!(differences(&world).await, 0);
    let query = [1.0, 0.0, 0.0, 0.0];
    assert_eq!(near(&world, &ada, query, 9).await, ["page 0", "note 0", "page 1"]);
    assert_eq!(near(&world, &ada, query, 2).await, ["page 0", "note 0"]);
    page.vectors.reverse();
    page.texts = vec!["other 0".into(), "other 1".into()];
    page.put(&world.store, 9).await;
    assert_eq!(near(&world, &ada, query, 9).await, ["other 1", "note 0", "other 0"]);
    assert!(world.store.memory_delete(note.id, &ada).await.unwrap());
    assert_eq!(near(&world, &ada, query, 9).await, ["other 1", "other 0"]);
    let waiting = world.store.chunks_to_embed(&model(), 9).await.unwrap();
    let vectors: Vec<(ChunkId, Vec<f32>)> = waiting.iter().map(|chunk| (chunk.chunk, query.to_vec())).collect();
    assert_eq!(world.store.vectors_put(&model(), &vectors).await.unwrap(), 1);
    assert_eq!(near(&world, &ada, query, 1).await.len(), 1);
    assert_eq!(differences(&world).await, 0);
    // Vectors of another model, and of another length.
    let other = ModelId { name: "other".into(), dimensions: 3 };
    assert_eq!(world.store.vectors_put(&other, &[(waiting[0].chunk, vec![0.0, 0.0, 1.0])]).await.unwrap(), 1);
    assert_eq!(near(&world, &ada, query, 9).await, ["other 1", "other 0"]);
    let at = account_index(&world.store, &ada).await;
    assert_eq!(
        world.store.nearest(&at, &other, &[0.0, 0.0, 2.0], ChunkLimits::any(9), 9).await.unwrap(),
        [(waiting[0].chunk, 1.0)]
    );
    assert!(world.store.nearest(&at, &model(), &[f32::NAN; 4], ChunkLimits::any(9), 9).await.unwrap().is_empty());
    assert_eq!(differences(&world).await, 0);
}

#[tokio::test]
async fn pgvector_looks_only_where_it_may() {
    let Some(world) = World::on_pgvector().await else { return };
    let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
    let (red, blue) = (space(&world, &ada).await, space(&world, &ada).await);
    for (account, key, spaces) in [
        (&ada, "ada", vec![]),
        (&ada, "ada red", vec![red]),
        (&bob, "bob", vec![]),
        (&bob, "bob red", vec![red]),
        (&bob, "bob both", vec![red, blue]),
    ] {
        let mut draft = kept(&world, account, key, &[[1.0, 0.0, 0.0, 0.0]]).await;
        draft.spaces = spaces;
        draft.put(&world.store, 9).await;
    }
    let query = [0.5, 0.5, 0.0, 0.0];
    assert_eq!(near(&world, &ada, query, 9).await, ["ada 0", "ada red 0"]);
    assert_eq!(near(&world, &bob, query, 9).await, ["bob 0", "bob red 0", "bob both 0"]);
    let (ada_index, bob_index) = (account_index(&world.store, &ada).await, account_index(&world.store, &bob).await);
    for (account_indexes, spaces, found) in [
        (vec![ada_index, bob_index], vec![red], 3),
        (vec![ada_index, bob_index], vec![blue, red], 3),
        (vec![ada_index, bob_index], vec![blue], 1),
        (vec![bob_index], vec![red], 2),
        (vec![ada_index], vec![blue], 0),
        (vec![ada_index, bob_index], vec![], 0),
        (vec![], vec![red], 0),
    ] {
        let near = world
            .store
            .nearest_in_spaces(&account_indexes, &spaces, &model(), &query, ChunkLimits::any(9))
            .await
            .unwrap();
        assert_eq!(near.len(), found, "{account_indexes:?} {spaces:?}");
        assert!(near.iter().all(|(_, cosine)| (cosine - 0.5_f32.sqrt()).abs() < 1e-3), "{near:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pgvector_takes_over_stored_vectors_while_others_write() {
    const KEYS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let Some(world) = World::on_unprepared_pgvector().await else { return };
    let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
    let mut drafts = Vec::new();
    for (key, account) in KEYS.into_iter().zip([&ada, &bob].into_iter().cycle()) {
        drafts.push(kept(&world, account, key, &[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]).await);
    }
    let (one, two) = (world.second().await, world.second().await);
    let (first, second) = tokio::join!(one.near_prepare(), two.near_prepare());
    assert_eq!((first.unwrap(), second.unwrap()), (NearVectorsState::Filling, NearVectorsState::Filling));
    let fill = async |store: &Store| while !store.near_fill(3).await.unwrap() {};
    let write = async {
        for (at, draft) in drafts.iter_mut().enumerate() {
            draft.vectors.reverse();
            draft.texts = vec![format!("{at} a"), format!("{at} b")];
            draft.put(&world.store, 99).await;
            if at % 3 == 0 {
                world.store.memory_delete(draft.id, &draft.account).await.unwrap();
            }
        }
    };
    tokio::join!(fill(&one), fill(&two), write);
    assert_eq!(world.store.near_prepare().await.unwrap(), NearVectorsState::Whole);
    assert_eq!(differences(&world).await, 0);
    assert_eq!(near(&world, &bob, [1.0, 0.0, 0.0, 0.0], 9).await.len(), 6);
    // Disabled permanently, as described in the readme, and enabled again.
    world.tamper("DROP FUNCTION vectors_near_follow CASCADE; DROP TABLE vectors_near, vectors_near_filled").await;
    kept(&world, &bob, "later", &[[1.0, 0.0, 0.0, 0.0]]).await;
    assert_eq!(world.store.near_prepare().await.unwrap(), NearVectorsState::Filling);
    fill(&world.store).await;
    assert_eq!(differences(&world).await, 0);
    assert_eq!(near(&world, &bob, [1.0, 0.0, 0.0, 0.0], 9).await.len(), 7);
}

#[tokio::test]
async fn pgvector_spreads_its_results_over_memories() {
    let Some(world) = World::on_pgvector().await else { return };
    let ada = world.account("ada@example.com").await;
    let near_by = |at: u16| [1.0, f32::from(at) / 1_000.0, 0.0, 0.0];
    let space = space(&world, &ada).await;
    for (key, from, to) in [("long", 0, 40), ("longer", 20, 80), ("short", 100, 102)] {
        let mut draft = Draft::new(&world, &ada, key, &[]);
        draft.texts = (from..to).map(|at| format!("{key} {at}")).collect();
        draft.vectors = (from..to).map(|at| near_by(at).to_vec()).collect();
        draft.spaces = vec![space];
        draft.put(&world.store, 9).await;
    }
    let (store, at) = (&world.store, account_index(&world.store, &ada).await);
    for graph in [false, true] {
        if graph {
            assert!(store.graph_make(at.number, &model()).await.unwrap());
        }
        let each = |chunks_max, each_max| ChunkLimits { chunks_max, each_max: Some(each_max) };
        for (wanted, expected) in [
            (each(9, 2), vec!["long 0", "long 1", "longer 20", "longer 21", "short 100", "short 101"]),
            (each(4, 1), vec!["long 0", "longer 20", "short 100"]),
            (each(2, 1), vec!["long 0", "longer 20"]),
        ] {
            let exact_max = if graph { 0 } else { 1_000 };
            let anywhere = store.nearest(&at, &model(), &near_by(0), wanted, exact_max).await.unwrap();
            let there = store.nearest_in_spaces(&[at], &[space], &model(), &near_by(0), wanted).await.unwrap();
            assert_eq!(texts(store, &ada, &anywhere).await, expected, "by graph: {graph}");
            assert_eq!(texts(store, &ada, &there).await, expected);
        }
    }
}

/// A graph is built randomly and may miss a few neighbours.
#[tokio::test]
async fn pgvector_walks_through_a_large_account_index_and_finds_the_same() {
    let Some(world) = World::on_pgvector().await else { return };
    let ada = world.account("ada@example.com").await;
    let point = |at: u16| {
        // Spread over the sphere without any order.
        let raw = [0.7, 1.3, 2.1, 3.7].map(|step| (f32::from(at) * step + step * step).sin());
        let length = raw.iter().map(|part| part * part).sum::<f32>().sqrt();
        raw.map(|part| part / length)
    };
    let many = kept(&world, &ada, "many", &(0..1_000).map(point).collect::<Vec<_>>()).await;
    let at = account_index(&world.store, &ada).await;
    assert_eq!(world.store.graph_missing(&model(), 1_000).await.unwrap(), None);
    assert_eq!(world.store.graph_missing(&model(), 999).await.unwrap(), Some(at.number));
    let found = async |exact_max: usize| {
        let mut results = Vec::new();
        for query in [0, 250, 600] {
            results.push(
                world.store.nearest(&at, &model(), &point(query), ChunkLimits::any(20), exact_max).await.unwrap(),
            );
        }
        results
    };
    let exact = found(usize::MAX).await;
    assert_eq!(found(0).await, exact, "without a graph, everything is compared");
    assert_eq!(world.store.graph_count(&model()).await.unwrap(), 0);
    assert!(world.store.graph_make(at.number, &model()).await.unwrap());
    assert_eq!(world.store.graph_count(&model()).await.unwrap(), 1);
    assert!(world.store.graph_make(at.number, &model()).await.unwrap(), "made already");
    assert_eq!(world.store.graph_missing(&model(), 0).await.unwrap(), None);
    let chunks = |found: &[Vec<(ChunkId, f32)>]| -> Vec<Vec<ChunkId>> {
        found.iter().map(|near| near.iter().map(|(chunk, _)| *chunk).collect()).collect()
    };
    let by_graph = chunks(&found(0).await);
    let same: usize =
        chunks(&exact).iter().zip(&by_graph).map(|(a, b)| a.iter().filter(|c| b.contains(c)).count()).sum();
    assert!(same >= 54, "{same} of 60");
    let long = ModelId { name: "long".into(), dimensions: 3_000 };
    assert!(!world.store.graph_make(at.number, &long).await.unwrap());
    // Deleted vectors are still in the graph but in no result; the remaining ones are found, however many are deleted.
    kept(&world, &ada, "new", &[point(0), point(1)]).await;
    assert!(world.store.memory_delete(many.id, &ada).await.unwrap());
    let left = AccountStatistics { chunks: 2, ..at };
    let near = world.store.nearest(&left, &model(), &point(0), ChunkLimits::any(20), 0).await.unwrap();
    assert_eq!(texts(&world.store, &ada, &near).await, ["new 0", "new 1"]);
    // The graph of another model replaces it.
    let other = ModelId { name: "it's other".into(), dimensions: 4 };
    assert!(world.store.graph_make(at.number, &other).await.unwrap());
    assert_eq!(world.store.graph_missing(&model(), 0).await.unwrap(), Some(at.number));
    assert_eq!(world.store.graph_missing(&other, 0).await.unwrap(), None);
    assert_eq!(
        (world.store.graph_count(&model()).await.unwrap(), world.store.graph_count(&other).await.unwrap()),
        (0, 1)
    );
}
