//! Searches of an account with many memories.

use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::ids::{SpaceId, UserAccountId};
use domain::memory::{MemoryType, ModelId, note_digest};
use domain::usage::ByPlan;
use domain::{Clock, Rng};
use serde_json::json;
use store::memory::{ChunkPut, MemoryPut, MemoryQuota};
use store::{DatabaseSettings, Store};

use super::key_holder::KeyHolder;
use super::words::Words;
use crate::floor::{Floor, scan};
use crate::options::{Options, Result};
use crate::plan::Plan;
use crate::process::{self, measure_with, say};
use crate::product::{Product, Upstream};
use crate::report::{Contestant, Finding, Report, Section};
use crate::{client, measurement};

/// Chunks per memory, and their length: a page of usual size.
const CHUNKS_OF_A_MEMORY: usize = 10;
const CHUNK_CHARS: usize = 500;
const QUERIES: usize = 500;
/// Number of queries of common words.
const COMMON_QUERIES: usize = 50;
/// Of this many memories, the first ones are in the old space, and one each is in the scattered space.
const SPACE_SHARE: usize = 10;
/// Number of memories in the small space, the oldest ones.
const SMALL_SPACE: usize = 20;

/// `search` by one client, one search after the other.
pub fn among(chunks: usize, name: &'static str, options: &Options, report: &mut Report) -> Result<()> {
    let product = Product::start(options, Upstream::Embedded)?;
    let (few, many) = (KeyHolder::new(&product, "few@example.com")?, KeyHolder::new(&product, "many@example.com")?);
    let words = Words::new(options.seed);
    let queries: Vec<String> = (0..QUERIES).map(|_| words.query()).collect();
    // Loads the model and fills buffers before memory is measured.
    let note = json!({ "contents": [{ "content": words.text(CHUNK_CHARS) }] });
    client::hear(product.address, &few.post("/v1/batch-add", &note))?;
    let search = |holder: &KeyHolder, query: &str| holder.post("/v1/search", &json!({ "query": query }));
    let warm: Vec<_> = queries.iter().map(|query| search(&few, query)).collect();
    client::send_all(product.address, &warm, 1)?;
    let usage_before = product.server.usage()?.resident_bytes;

    let loading = Instant::now();
    let spaces = load(&product, chunks, options.seed)?;
    say(&format!("  {chunks} chunks loaded in {:.0} s", loading.elapsed().as_secs_f64()));
    let requests: Vec<_> = queries.iter().map(|query| search(&many, query)).collect();
    let mut filtered = Filtered::new(&many, &spaces, &queries, &words);
    let first = Instant::now();
    let answer = client::send_all(product.address, &requests[..1], 1)?[0].json(200)?;
    let first = first.elapsed();
    if answer["results"].as_array().is_none_or(Vec::is_empty) {
        return Err("a search found nothing".into());
    }
    let indexed = product.server.usage()?.resident_bytes;
    let mut section = Section {
        name,
        goals: Vec::new(),
        floors: [Floor::Query, Floor::Scan].map(|floor| Contestant::new(floor.name())).into(),
        product: None,
    };
    let mut ours = Contestant::new("attache");
    let texts = serde_json::to_vec(&queries)?;
    let (seconds, rows, seed) = (options.seconds.to_string(), chunks.to_string(), options.seed.to_string());
    for _ in 0..options.rounds {
        let asked = ["floor", Floor::Query.command(), "--seconds", &seconds];
        let scanned = ["floor", Floor::Scan.command(), "--seconds", &seconds, "--rows", &rows, "--seed", &seed];
        for (contestant, outcome) in
            section.floors.iter_mut().zip([measure_with(&asked, &texts)?, process::measure(&scanned)?])
        {
            contestant.samples.push(measurement::sample(&outcome, 0, outcome.own_cpu_seconds, outcome.own_peak_bytes)?);
        }
        let plan = Plan::cycling(&requests, 1, options.seconds);
        let sample = measurement::measure(&product.server, product.address, &plan, 200)?;
        say(&format!("  p50 {:.0} µs, p99 {:.0} µs", sample.p50_us, sample.p99_us));
        ours.samples.push(sample);
        filtered.measure(&product, options)?;
    }
    let after = product.server.usage()?.resident_bytes;
    let [embedding, scan] = [0, 1].map(|floor: usize| section.floors[floor].median(|sample| sample.p50_us));
    let (p50, p99) = (ours.median(|sample| sample.p50_us), ours.median(|sample| sample.p99_us));
    section.product = Some(ours);
    report.section(&section);
    let goal = embedding + 1.3 * scan;
    let mut found = Finding::of(
        format!("{chunks} chunks, one client; embedding a query alone {}, F5 {}", ms(embedding), ms(scan)),
        format!("p50 {}, p99 {}", ms(p50), ms(p99)),
    );
    if name == "search_100k" {
        found = found.should(format!("p50 ≤ embedding + 1.3 × F5 = {}", ms(goal)), p50 <= goal);
    } else if name == "search_1m" {
        found = found.should("p99 ≤ 50 ms", p99 <= 50_000.0);
    }
    report.find(name, found);
    filtered.publish(name, p99, report);
    report.find(name, Finding::of("first search, which reads the vectors", ms(first.as_secs_f64() * 1e6)));
    report.find(name, memory(chunks, [usage_before, indexed, after]));
    Ok(())
}

/// Searches of spaces and of common words; their costs are compared with searches of all memories.
#[derive(Debug)]
struct Filtered {
    cases: Vec<(Case, Vec<Bytes>, Contestant)>,
}

/// A kind of query, and the searched space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    what: &'static str,
    is_common: bool,
    is_filtered: bool,
}

impl Filtered {
    fn new(holder: &KeyHolder, spaces: &Spaces, queries: &[String], words: &Words) -> Self {
        let common: Vec<String> = (0..COMMON_QUERIES).map(|_| words.common_query()).collect();
        let places = [
            ("all memories", None),
            ("the space of the oldest tenth", Some(spaces.old)),
            ("a space of each tenth memory", Some(spaces.scattered)),
            ("a small space of the oldest memories", Some(spaces.small)),
        ];
        let mut cases = Vec::new();
        for (is_common, queries) in [(false, queries), (true, &common)] {
            // Searches of all memories are measured by the scenario itself.
            for (what, space) in places.iter().skip(usize::from(!is_common)) {
                let body = |query: &String| match space {
                    Some(space) => json!({ "query": query, "spaces": [space] }),
                    None => json!({ "query": query }),
                };
                let requests = queries.iter().map(|query| holder.post("/v1/search", &body(query))).collect();
                cases.push((Case { what, is_common, is_filtered: space.is_some() }, requests, Contestant::new(what)));
            }
        }
        Self { cases }
    }

    fn measure(&mut self, product: &Product, options: &Options) -> Result<()> {
        for (case, requests, contestant) in &mut self.cases {
            let plan = Plan::cycling(requests, 1, options.seconds);
            let sample = measurement::measure(&product.server, product.address, &plan, 200)?;
            let words = if case.is_common { ", common words" } else { "" };
            say(&format!("  {}{words}: p50 {:.0} µs, p99 {:.0} µs", case.what, sample.p50_us, sample.p99_us));
            contestant.samples.push(sample);
        }
        Ok(())
    }

    /// A filtered search must not cost more than an unfiltered one: `all` is the p99 of the searches of all memories.
    fn publish(&self, name: &'static str, all: f64, report: &mut Report) {
        let of_common = self.cases.iter().find(|(case, ..)| case.is_common && !case.is_filtered);
        let all_common = of_common.map_or(all, |(.., contestant)| contestant.median(|sample| sample.p99_us));
        for (case, _, contestant) in &self.cases {
            let (p50, p99) = (contestant.median(|sample| sample.p50_us), contestant.median(|sample| sample.p99_us));
            let words = if case.is_common { "; common words alone" } else { "" };
            let mut found =
                Finding::of(format!("in {}{words}", case.what), format!("p50 {}, p99 {}", ms(p50), ms(p99)));
            if case.is_filtered {
                let goal = if case.is_common { all_common } else { all };
                found = found.should(format!("p99 ≤ {} of all memories", ms(goal)), p99 <= goal);
            }
            report.find(name, found);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
fn memory(chunks: usize, [before, indexed, after]: [u64; 3]) -> Finding {
    let each = |bytes: u64| bytes.saturating_sub(before) as f64 * 100_000.0 / chunks as f64 / 1e6;
    Finding::of(
        "memory per 100,000 chunks after the first search, and after all (with the database's caches)",
        format!("{:.0} MB, {:.0} MB", each(indexed), each(after)),
    )
}

/// The spaces besides the default one, which contains all memories.
#[derive(Debug, Clone, Copy)]
struct Spaces {
    old: SpaceId,
    scattered: SpaceId,
    small: SpaceId,
}

impl Spaces {
    async fn new(store: &Store, account: &UserAccountId, rng: &Rng, clock: &Clock) -> Result<Self> {
        let mut made = Vec::new();
        for name in ["old", "scattered", "small"] {
            let space = SpaceId::from(rng.uuid_v7(clock.now()));
            store.space_create(space, account, &name.parse()?, false, u32::MAX, clock.now()).await?;
            made.push(space);
        }
        Ok(Self { old: made[0], scattered: made[1], small: made[2] })
    }

    /// The spaces of the n-th memory.
    fn of(&self, default: SpaceId, nth: usize, memories: usize) -> Vec<SpaceId> {
        let mut spaces = vec![default];
        spaces.extend((nth < memories / SPACE_SHARE).then_some(self.old));
        spaces.extend(nth.is_multiple_of(SPACE_SHARE).then_some(self.scattered));
        spaces.extend((nth < SMALL_SPACE).then_some(self.small));
        spaces
    }
}

/// Writes chunks into the database of the running server, with generated vectors: embedding 100,000 texts takes half an
/// hour and is not measured.
fn load(product: &Product, chunks: usize, seed: u64) -> Result<Spaces> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let store = Store::open(&DatabaseSettings::default(), &product.database()).await?;
        // The newest key belongs to the searching client.
        let account: UserAccountId = store.api_keys(1).await?.pop().ok_or("no key")?.account;
        let (words, rng, clock) = (Words::new(seed + 1), Rng::seeded(seed), Clock::system());
        let model = ModelId { name: minilm::NAME.to_owned(), dimensions: u16::try_from(minilm::DIMENSIONS)? };
        let space = store.space_default(rng.uuid_v7(clock.now()).into(), &account, clock.now()).await?;
        let spaces = Spaces::new(&store, &account, &rng, &clock).await?;
        let mut row = 0;
        let mut said = Instant::now();
        while row < chunks {
            let rows = row..(row + CHUNKS_OF_A_MEMORY).min(chunks);
            let texts: Vec<String> = rows.clone().map(|_| words.text(CHUNK_CHARS)).collect();
            let vectors: Vec<Vec<f32>> = rows.clone().map(|row| scan::vector(row, seed)).collect();
            let pieces: Vec<ChunkPut<'_>> = texts
                .iter()
                .zip(&vectors)
                .map(|(content, vector)| ChunkPut { content, vector: Some(vector.as_slice()) })
                .collect();
            let content = texts.join("\n\n");
            let put = MemoryPut {
                id: rng.uuid_v7(clock.now()).into(),
                account: &account,
                kind: MemoryType::Note,
                title: &format!("memory {row}"),
                url: None,
                content: &content,
                dedupe: note_digest(&content),
                chunks: &pieces,
                model: Some(&model),
                spaces: &spaces.of(space, row / CHUNKS_OF_A_MEMORY, chunks / CHUNKS_OF_A_MEMORY),
                key_spaces: None,
                quota: MemoryQuota { memories_max: u32::MAX, bytes_max: ByPlan::new(|_| 0) },
            };
            store.memory_put(&put, clock.now()).await?;
            row = rows.end;
            if said.elapsed() > Duration::from_secs(30) {
                say(&format!("  {row} chunks loaded"));
                said = Instant::now();
            }
        }
        Ok(spaces)
    })
}

fn ms(microseconds: f64) -> String {
    format!("{:.2} ms", microseconds / 1000.0)
}
