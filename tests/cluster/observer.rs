//! Reads the checkpoints of all nodes during a run: one root for each size, signed by one key, and no node returns to a smaller tree.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blackbox::client::{Client, Credential};
use reqwest::Method;

use crate::load::lock;
use crate::merkle::Hash;
use crate::note::Key;

/// Pause between two looks at all nodes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Timeout of a request: a frozen node does not respond.
const DEADLINE: Duration = Duration::from_secs(1);

/// The checkpoints that were seen.
#[derive(Debug)]
pub struct Observer {
    /// The number of the observed part of the log.
    pub part: usize,
    pub key: Key,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    roots: BTreeMap<u64, Hash>,
    /// The size that each node named last, by its address.
    sizes: BTreeMap<String, u64>,
    looks: u64,
}

impl Observer {
    /// Pins the key of a part of the log that this node publishes.
    pub async fn pin(client: &Client, url: &str, part: usize) -> Self {
        let keys = client.get(&format!("{url}/api/v1/audit/keys"), Credential::None).await.expect(200);
        let key = Key::parse(keys["keys"][part]["vkey"].as_str().unwrap());
        Self { part, key, seen: Mutex::default() }
    }

    /// Requests the checkpoint of each of these nodes repeatedly.
    pub async fn look(self: Arc<Self>, client: Client, urls: Arc<Mutex<Vec<String>>>) {
        loop {
            let now = lock(&urls).clone();
            for url in now {
                let request = client.request(Method::GET, &self.checkpoint(&url), &Credential::None);
                let answer = client.try_send(request.timeout(DEADLINE)).await;
                if let Some(answer) = answer.filter(|answer| answer.status == 200) {
                    self.sees(&url, std::str::from_utf8(&answer.body).unwrap());
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The address of the checkpoint at a node.
    pub fn checkpoint(&self, url: &str) -> String {
        let part = if self.part == 0 { String::new() } else { format!("?log={}", self.part) };
        format!("{url}/api/v1/audit/checkpoint{part}")
    }

    /// The address of the proof that one tree begins with the other.
    pub fn consistency(&self, url: &str, from: u64, to: u64) -> String {
        let part = if self.part == 0 { String::new() } else { format!("&log={}", self.part) };
        format!("{url}/api/v1/audit/consistency?from={from}&to={to}{part}")
    }

    /// Verifies and records a checkpoint that a node showed; returns its size.
    pub fn sees(&self, url: &str, note: &str) -> u64 {
        let (size, root) = self.key.open(note);
        let seen = &mut *lock(&self.seen);
        assert_eq!(*seen.roots.entry(size).or_insert(root), root, "two roots of the tree with {size} leaves: {note}");
        let last = seen.sizes.entry(url.to_owned()).or_default();
        assert!(*last <= size, "{url} returned from {last} leaves to {size}");
        *last = size;
        seen.looks += 1;
        size
    }

    /// The root of each size that was seen, and the number of checkpoints that were read.
    pub fn seen(&self) -> (BTreeMap<u64, Hash>, u64) {
        let seen = lock(&self.seen);
        (seen.roots.clone(), seen.looks)
    }
}
