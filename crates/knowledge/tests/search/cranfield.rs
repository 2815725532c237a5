//! Guards the quality of the ranking, lexical and default, on the Cranfield collection, if it is available.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::{env, fs};

use domain::Rng;
use domain::ids::MemoryId;
use knowledge::backfill::{Step, step};
use knowledge::embed::{Embedder, EmbeddingProvider, EmbeddingSettings};
use knowledge::search::{Embed as _, Search, Settings};
use serde_json::Value;
use store::memory::MemoryScope;

use crate::remembered::Remembered;
use crate::world::{World, query};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_alone_rank_as_well_as_bm25_does_and_the_default_better() {
    let folder = env::var_os("ATTACHE_TEST_DATA")
        .map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from)
        .join("cranfield");
    let Ok(documents) = fs::read_to_string(folder.join("docs.jsonl")) else {
        eprintln!("SKIPPED: no collection in {}: this test has shown nothing", folder.display());
        return;
    };
    let world = World::on_sqlite().await;
    let account = world.account("ada@example.com").await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut names: HashMap<MemoryId, String> = HashMap::new();
    for line in documents.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (id, title) = (text(&line["id"]), text(&line["title"]));
        names.insert(world.add_as(&id, &account, &title, &text(&line["text"]), &[]).await, id);
    }
    let mut relevant: HashMap<String, HashSet<String>> = HashMap::new();
    for line in fs::read_to_string(folder.join("qrels.tsv")).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[2] != "0" {
            relevant.entry(fields[0].to_owned()).or_default().insert(fields[1].to_owned());
        }
    }
    let judged: Vec<(String, HashSet<String>)> = fs::read_to_string(folder.join("queries.jsonl"))
        .unwrap()
        .lines()
        .filter_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            Some((text(&line["text"]), relevant.remove(&text(&line["id"]))?))
        })
        .collect();
    let scope = MemoryScope::Account(account);
    let ndcg = async |provider: EmbeddingProvider| {
        let settings = EmbeddingSettings { provider, ..EmbeddingSettings::default() };
        let embedder = Remembered::of(Embedder::new(&settings, &Rng::seeded(1)).unwrap());
        while step(&world.store, &embedder, 256).await.unwrap() != Step::Done {}
        let search = Search::new(world.store.clone(), embedder.clone(), Settings::default());
        let mut sum = 0.0;
        for (text, relevant) in &judged {
            let answer = search.search(&query(text, &scope)).await.unwrap();
            assert_eq!(answer.by_words_alone, None);
            let gains = (2_u8..).map(|place| 1.0 / f64::from(place).log2());
            let hits = answer.found.iter().zip(gains.clone());
            let reached: f64 =
                hits.filter(|(hit, _)| relevant.contains(&names[&hit.memory.id])).map(|(_, gain)| gain).sum();
            sum += reached / gains.take(relevant.len().min(10)).sum::<f64>();
        }
        if embedder.model().is_some() {
            embedder.save();
        }
        #[expect(clippy::cast_precision_loss, reason = "a hundred queries")]
        let queries = judged.len() as f64;
        sum / queries
    };
    let words = ndcg(EmbeddingProvider::None).await;
    assert!(words >= 0.37, "nDCG@10 of words alone is {words}");
    let default = ndcg(EmbeddingProvider::Bundled).await;
    assert!(default >= 0.47, "nDCG@10 of the default is {default}");
    eprintln!("nDCG@10: words alone {words:.4}, default {default:.4}");
}
