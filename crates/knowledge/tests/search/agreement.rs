//! Vector search in memory and in the database agree.

use domain::Rng;
use domain::ids::SpaceId;
use domain::memory::ModelId;
use knowledge::index::database::{Pgvector, Upkeep};
use knowledge::index::{Index, Settings};
use store::chunk::{ChunkId, ChunkLimits};
use store::memory::MemoryScope;

use crate::world::World;

const DIMENSIONS: u16 = 64;
const MEMORIES: usize = 120;
const CHUNKS: usize = 10;
const COUNT: usize = 30;

fn direction(rng: &Rng) -> Vec<f32> {
    let bytes: Vec<u8> = rng.bytes::<{ DIMENSIONS as usize }>().to_vec();
    let raw: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte) - 127.5).collect();
    let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.iter().map(|value| value / length).collect()
}

/// Equal except for the last results, which may have nearly the same similarity as the next ones.
fn assert_same(a: &[(ChunkId, f32)], b: &[(ChunkId, f32)]) {
    // The error of a cosine in memory is at most 0.002.
    const OFF: f32 = 0.005;
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a.1 - b.1).abs() < OFF), "{a:?}\n{b:?}");
    for (one, other) in [(a, b), (b, a)] {
        let last = other.last().map_or(0.0, |near| near.1);
        for (chunk, cosine) in one.iter().filter(|near| near.1 > last + OFF) {
            assert!(other.iter().any(|near| near.0 == *chunk), "{chunk} at {cosine} is missing\n{a:?}\n{b:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgvector_and_memory_agree() {
    let Some(world) = World::on_pgvector().await else { return };
    let model = ModelId { name: "directions".into(), dimensions: DIMENSIONS };
    let rng = Rng::seeded(11);
    let settings = |pgvector, exact| Settings { pgvector, pgvector_exact_max: exact, ..Settings::default() };
    let in_memory = Index::new(world.store.clone(), settings(Pgvector::Off, 0));
    let (exact, by_graph) = (
        Index::new(world.store.clone(), settings(Pgvector::Required, usize::MAX)),
        Index::new(world.store.clone(), settings(Pgvector::Auto, 100)),
    );
    let ada = world.account("ada@example.com").await;
    let (red, blue) = (world.space(&ada).await, world.space(&ada).await);
    let spaces: [&[SpaceId]; 4] = [&[], &[red], &[blue], &[red, blue]];
    let mut memories = Vec::new();
    for at in 0..MEMORIES {
        if at == MEMORIES / 2 {
            // Half of the vectors are stored before the start, half after it.
            for index in [&exact, &by_graph] {
                index.prepare().await.unwrap();
                while index.keep_up(Some(&model)).await.unwrap() == Upkeep::Copying {}
                assert!(index.by_database(&model) && index.account_indexes() == 0);
            }
        }
        let vectors: Vec<Vec<f32>> = (0..CHUNKS).map(|_| direction(&rng)).collect();
        memories.push(world.add_vectors(&ada, &format!("{at}"), &model, &vectors, spaces[at % 4]).await);
    }
    for memory in memories.iter().step_by(7) {
        assert!(world.store.memory_delete(*memory, &ada).await.unwrap());
    }
    let account_indexes = world.store.account_indexes_in(&MemoryScope::Account(ada), 9).await.unwrap();
    let number = account_indexes[0].number;
    assert_eq!(exact.keep_up(Some(&model)).await.unwrap(), Upkeep::Done);
    let no_graphs = Settings { pgvector_graphs_max: 0, ..settings(Pgvector::Auto, 100) };
    let without_graphs = Index::new(world.store.clone(), no_graphs);
    without_graphs.prepare().await.unwrap();
    assert_eq!(without_graphs.keep_up(Some(&model)).await.unwrap(), Upkeep::Done, "their number is limited");
    assert_eq!(by_graph.keep_up(Some(&model)).await.unwrap(), Upkeep::GraphMissing(number));
    by_graph.make_graph(number, &model).await.unwrap();
    assert_eq!(by_graph.keep_up(Some(&model)).await.unwrap(), Upkeep::Done);
    let mut missed = 0;
    for _ in 0..20 {
        let query: std::sync::Arc<[f32]> = direction(&rng).into();
        for within in [None, Some(vec![red]), Some(vec![red, blue]), Some(vec![])] {
            let near = async |index: &Index, wanted: ChunkLimits| {
                let within = within.clone().map(Into::into);
                index
                    .nearest(&world.store, &account_indexes, &model, std::sync::Arc::clone(&query), within, wanted)
                    .await
                    .unwrap()
            };
            let any = ChunkLimits::any(COUNT);
            let (a, b, c) = (near(&in_memory, any).await, near(&exact, any).await, near(&by_graph, any).await);
            assert_same(&a, &b);
            let spread = ChunkLimits::spread(COUNT, COUNT / 2);
            assert_same(&near(&in_memory, spread).await, &near(&exact, spread).await);
            if within.is_some() {
                assert_eq!(b, c, "a search of spaces always compares all");
            } else {
                missed += b.iter().filter(|near| c.iter().all(|other| other.0 != near.0)).count();
            }
        }
    }
    assert!(missed <= COUNT, "the graph missed {missed} of {}", 20 * COUNT);
    assert!(in_memory.bytes() > 0 && exact.bytes() == 0);
}
