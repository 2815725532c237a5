//! Measures the quality of the ranking: nDCG@10 and recall@100 per set and mode, as a Markdown table with 95 %
//! bootstrap intervals.
//!
//! `cargo run --release -p attache-knowledge --example ranking -- FOLDER…`
//!
//! A folder is a set: `docs.jsonl` (`id`, `title`, `text`, optional `chunks`), `queries.jsonl` (`id`, `text`),
//! `qrels.tsv` (query, document, grade) and `vectors.bin`: for every embedded text (a query, or a chunk under its title
//! and a line feed) its SHA-256 and 384 32-bit floats, little-endian.
#![expect(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a tool: a fault in its input ends it at once")]

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use domain::ids::UserAccountId;
use domain::memory::{MemoryType, ModelId};
use domain::usage::ByPlan;
use domain::{Digest, Rng, Timestamp};
use knowledge::backfill::text_of;
use knowledge::search::{Embed, Search, SearchQuery, Settings};
use serde_json::Value;
use store::memory::{ChunkPut, MemoryPut, MemoryQuota, MemoryScope, Put};
use store::{DatabaseSettings, Store};

const DIMENSIONS: u16 = 384;
const RESAMPLES: usize = 2_000;
const DEPTH: usize = 100;

#[tokio::main]
async fn main() {
    println!("| set | mode | queries | nDCG@10 | recall@100 |\n|---|---|---|---|---|");
    for folder in std::env::args().skip(1) {
        let set = Set::read(Path::new(&folder));
        let temporary = tempfile::tempdir().unwrap();
        let settings = match std::env::var("DATABASE_URL") {
            Ok(url) => DatabaseSettings { url: Some(url), ..DatabaseSettings::default() },
            Err(_) => DatabaseSettings::default(),
        };
        let store = Store::open(&settings, &temporary.path().join("attache.db")).await.unwrap();
        store.migrate().await.unwrap();
        let (account, names) = keep(&store, &set, &folder).await;
        let vectors = Vectors { model: Some(model()), of: Arc::clone(&set.vectors) };
        let words = Vectors { model: None, ..vectors.clone() };
        let meaning = Settings { meaning_weight: 1.0, ..Settings::default() };
        let by_words = run(&store, words, Settings::default(), &set, &account, &names).await;
        let by_meaning = run(&store, vectors.clone(), meaning, &set, &account, &names).await;
        let default = run(&store, vectors, Settings::default(), &set, &account, &names).await;
        let fused: Vec<Vec<String>> = by_words.iter().zip(&by_meaning).map(|(a, b)| reciprocal(a, b)).collect();
        for (mode, ranked) in [("bm25", &by_words), ("vectors", &by_meaning), ("rrf", &fused), ("default", &default)] {
            let mut ndcg: Vec<f64> = Vec::new();
            let mut recall: Vec<f64> = Vec::new();
            for ((id, _), ranked) in set.queries.iter().zip(ranked) {
                let relevant = &set.relevant[id];
                let hit = |id: &String| if relevant.contains(id) { 1.0 } else { 0.0 };
                let gain = |at: usize| 1.0 / (at as f64 + 2.0).log2();
                let ideal: f64 = (0..relevant.len().min(10)).map(gain).sum();
                ndcg.push(ranked.iter().take(10).enumerate().map(|(at, id)| hit(id) * gain(at)).sum::<f64>() / ideal);
                recall.push(ranked.iter().take(DEPTH).map(hit).sum::<f64>() / relevant.len() as f64);
            }
            let name = Path::new(&folder).file_name().unwrap().to_string_lossy();
            println!("| {name} | {mode} | {} | {} | {} |", ndcg.len(), interval(&ndcg), interval(&recall));
        }
    }
}

/// Stores the documents of a set, and maps each memory to its document.
async fn keep(store: &Store, set: &Set, name: &str) -> (UserAccountId, HashMap<String, String>) {
    let (rng, now) = (Rng::seeded(1), Timestamp::from_timestamp(1_767_225_600, 0).unwrap());
    let address = format!("{:.20}@example.com", Digest::of(name.as_bytes()).to_string()).parse().unwrap();
    let account = store.person_sign_in(&address, true, now, &rng).await.unwrap().account.unwrap();
    let (mut names, model) = (HashMap::new(), model());
    for document in &set.documents {
        let text = |chunk: &String| text_of(&document.title, chunk);
        let vectors: Vec<&Vec<f32>> =
            document.chunks.iter().map(|chunk| &set.vectors[&Digest::of(text(chunk).as_bytes())]).collect();
        let chunks: Vec<ChunkPut<'_>> = document
            .chunks
            .iter()
            .zip(vectors)
            .map(|(content, vector)| ChunkPut { content, vector: Some(vector) })
            .collect();
        let put = MemoryPut {
            id: rng.uuid_v7(now).into(),
            account: &account,
            kind: MemoryType::Note,
            title: &document.title,
            url: None,
            content: "",
            dedupe: Digest::of(document.id.as_bytes()),
            chunks: &chunks,
            model: Some(&model),
            spaces: &[],
            key_spaces: None,
            quota: MemoryQuota { memories_max: u32::MAX, bytes_max: ByPlan::new(|_| 0) },
        };
        let Put::Created(id) = store.memory_put(&put, now).await.unwrap() else {
            panic!("{} comes twice", document.id)
        };
        names.insert(id.to_string(), document.id.clone());
    }
    (account, names)
}

async fn run(
    store: &Store,
    vectors: Vectors,
    settings: Settings,
    set: &Set,
    account: &UserAccountId,
    names: &HashMap<String, String>,
) -> Vec<Vec<String>> {
    let search = Search::new(store.clone(), vectors, settings);
    let mut ranked = Vec::new();
    for (_, text) in &set.queries {
        let scope = MemoryScope::Account(account.clone());
        let query = SearchQuery { text: text.clone(), limit: DEPTH, threshold: 0.0, scope };
        let answer = search.search(&query).await.unwrap();
        ranked.push(answer.found.iter().map(|hit| names[&hit.memory.id.to_string()].clone()).collect());
    }
    ranked
}

/// Reciprocal rank fusion, k = 60.
fn reciprocal(a: &[String], b: &[String]) -> Vec<String> {
    let mut scores: HashMap<&String, f64> = HashMap::new();
    for list in [a, b] {
        for (at, id) in list.iter().enumerate() {
            *scores.entry(id).or_default() += 1.0 / (61.0 + at as f64);
        }
    }
    let mut all: Vec<(&String, f64)> = scores.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    all.into_iter().map(|(id, _)| id.clone()).collect()
}

/// The mean and its 95 % bootstrap interval.
fn interval(values: &[f64]) -> String {
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>();
    let rng = Rng::seeded(9);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut drawn = (0..values.len()).map(|_| {
                let number = u64::from_le_bytes(rng.bytes());
                values[usize::try_from(number % values.len() as u64).unwrap()]
            });
            mean(&mut drawn) / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |part: usize| means[RESAMPLES * part / 1_000];
    format!("{:.3} ({:.3}–{:.3})", mean(&mut values.iter().copied()) / values.len() as f64, at(25), at(975))
}

fn model() -> ModelId {
    ModelId { name: "measured".into(), dimensions: DIMENSIONS }
}

struct Document {
    id: String,
    title: String,
    chunks: Vec<String>,
}

struct Set {
    documents: Vec<Document>,
    queries: Vec<(String, String)>,
    relevant: HashMap<String, HashSet<String>>,
    vectors: Arc<HashMap<Digest, Vec<f32>>>,
}

impl Set {
    fn read(folder: &Path) -> Self {
        let lines = |name: &str| -> Vec<Value> {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let documents = lines("docs.jsonl").into_iter().map(|line| Document {
            id: text(&line["id"]),
            title: text(&line["title"]),
            chunks: match line["chunks"].as_array() {
                Some(chunks) => chunks.iter().map(text).collect(),
                None => vec![text(&line["text"])],
            },
        });
        let mut relevant: HashMap<String, HashSet<String>> = HashMap::new();
        for line in fs::read_to_string(folder.join("qrels.tsv")).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if fields[2] != "0" {
                relevant.entry(fields[0].into()).or_default().insert(fields[1].into());
            }
        }
        let queries = lines("queries.jsonl");
        let queries = queries.iter().map(|line| (text(&line["id"]), text(&line["text"])));
        let bytes = fs::read(folder.join("vectors.bin")).unwrap();
        let vectors = bytes.chunks_exact(32 + 4 * usize::from(DIMENSIONS)).map(|row| {
            let (key, numbers) = row.split_at(32);
            let numbers = numbers.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
            (Digest::try_from(key).unwrap(), numbers)
        });
        Self {
            documents: documents.collect(),
            queries: queries.filter(|(id, _)| relevant.contains_key(id)).collect(),
            vectors: Arc::new(vectors.collect()),
            relevant,
        }
    }
}

#[derive(Clone)]
struct Vectors {
    model: Option<ModelId>,
    of: Arc<HashMap<Digest, Vec<f32>>>,
}

impl Embed for Vectors {
    type Error = Infallible;

    fn model(&self) -> Option<&ModelId> {
        self.model.as_ref()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Infallible> {
        Ok(texts.iter().map(|text| self.of[&Digest::of(text.as_bytes())].clone()).collect())
    }

    async fn embed_query(&self, text: String) -> Result<Vec<f32>, Infallible> {
        Ok(self.of[&Digest::of(text.as_bytes())].clone())
    }
}
