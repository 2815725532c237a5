//! The fetch floor: the HTTP client of the fetcher, without processing of the content.

use std::collections::BTreeMap;
use std::io::stdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use reqwest::Client;
use tokio::task::JoinSet;

use crate::options::Result;
use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::usage::usage;

/// Fetches each URL once with `at_once` concurrent requests, and prints the outcome.
pub async fn measure(at_once: usize) -> Result<()> {
    let addresses: Arc<Vec<String>> = Arc::new(serde_json::from_reader(stdin().lock())?);
    // The client requires a TLS provider, though no request is encrypted. Fails if the process already has a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().http1_only().build()?;
    let next = Arc::new(AtomicUsize::new(0));
    let usage_before = usage(std::process::id())?;
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..at_once.max(1) {
        let (addresses, client, next) = (Arc::clone(&addresses), client.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut fetched = Vec::new();
            while let Some(address) = addresses.get(next.fetch_add(1, Ordering::Relaxed)) {
                let start = Instant::now();
                let answer = client.get(address).send().await?;
                let status = answer.status().as_u16();
                std::hint::black_box(answer.bytes().await?);
                fetched.push((status, nanoseconds(start.elapsed())));
            }
            Ok::<_, reqwest::Error>(fetched)
        });
    }
    let mut latencies: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    while let Some(fetched) = tasks.join_next().await {
        for (status, took) in fetched?? {
            latencies.entry(status).or_default().push(took);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cost = usage(std::process::id())?.since(usage_before);
    let good = Answers::of(latencies.remove(&200).unwrap_or_default(), String::new());
    let mut outcome = Outcome::of(200, good, seconds, cost);
    outcome.statuses.extend(latencies.into_iter().map(|(status, took)| (status, Answers::of(took, String::new()))));
    outcome.print()
}
