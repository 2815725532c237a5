//! The ranking does not get worse unnoticed: words alone on the Cranfield collection, where it is at hand.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::{env, fs};

use domain::ids::MemoryId;
use domain::memory::ModelId;
use knowledge::search::{Embed, Search, Settings};
use serde_json::Value;
use store::memory::Scope;

use crate::world::{Broken, World, query};

#[derive(Clone)]
struct NoModel;

impl Embed for NoModel {
    type Error = Broken;

    fn model(&self) -> Option<&ModelId> {
        None
    }

    async fn embed(&self, _: Vec<String>) -> Result<Vec<Vec<f32>>, Broken> {
        Err(Broken)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_alone_rank_as_well_as_bm25_does() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");
    let folder =
        env::var_os("ATTACHE_TEST_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from).join("cranfield");
    let Ok(documents) = fs::read_to_string(folder.join("docs.jsonl")) else {
        eprintln!("SKIPPED: no collection in {}: this test has shown nothing", folder.display());
        return;
    };
    let world = World::sqlite().await;
    let account = world.account("ada@example.com").await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut names: HashMap<MemoryId, String> = HashMap::new();
    for (at, line) in documents.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        // A title is what makes two of them the same here.
        let title = format!("{} {at}", text(&line["title"]));
        names.insert(world.add(&account, &title, &text(&line["text"]), &[]).await, text(&line["id"]));
    }
    let mut relevant: HashMap<String, HashSet<String>> = HashMap::new();
    for line in fs::read_to_string(folder.join("qrels.tsv")).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[2] != "0" {
            relevant.entry(fields[0].to_owned()).or_default().insert(fields[1].to_owned());
        }
    }
    let search = Search::new(world.store.clone(), NoModel, Settings::default());
    let scope = Scope::Account(account);
    let (mut sum, mut queries) = (0.0, 0.0);
    for line in fs::read_to_string(folder.join("queries.jsonl")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let Some(relevant) = relevant.get(&text(&line["id"])) else { continue };
        let answer = search.search(&query(&text(&line["text"]), &scope)).await.unwrap();
        let gains = (2_u8..).map(|place| 1.0 / f64::from(place).log2());
        let hits = answer.found.iter().zip(gains.clone());
        let reached: f64 =
            hits.filter(|(found, _)| relevant.contains(&names[&found.memory.id])).map(|(_, gain)| gain).sum();
        sum += reached / gains.take(relevant.len().min(10)).sum::<f64>();
        queries += 1.0;
    }
    assert!(sum / queries >= 0.37, "nDCG@10 is {}", sum / queries);
}
