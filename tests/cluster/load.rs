//! Senders: each has a chain, and resends the same bytes until they are acknowledged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use blackbox::client::{Client, Credential, Response};
use bytes::Bytes;
use domain::Rng;
use harness::event::{Chain, Machine};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::availability::Availability;
use crate::ledger::Ledger;
use crate::scale::index;

/// Time after which a sender gives up a request and tries another node.
const REQUEST_DEADLINE: Duration = Duration::from_secs(3);
/// Pause before the same bytes are sent again.
const RESEND_PAUSE: Duration = Duration::from_millis(20);
/// One of this number of events is sent to any node instead of the chain's node, except by the first sender of each node.
const STRAY_EVERY: u64 = 10;
/// One of this number of acknowledged events is sent again.
const AGAIN_EVERY: u64 = 40;

/// A node as its clients see it.
#[derive(Debug)]
pub struct Target {
    pub url: String,
    pub availability: Mutex<Availability>,
}

/// The state that all senders share.
#[derive(Debug)]
pub struct Shared {
    pub client: Client,
    pub targets: Mutex<Vec<Arc<Target>>>,
    pub ledger: Mutex<Ledger>,
    /// The balancer's URL, through which all events are sent while there is one.
    pub balancer: Mutex<Option<String>>,
    /// Responses of the balancer that are no acknowledgement, and the number of its acknowledgements.
    pub refused: Mutex<(Vec<String>, usize)>,
    /// The longest time from the first attempt at an untouched node until the acknowledgement, of chains that the test has not locked.
    pub waited: Mutex<Duration>,
    /// The computer with locked chains.
    pub locked: Mutex<Option<usize>>,
    pub stop: watch::Sender<bool>,
}

/// Locks a mutex, ignoring a panic of a previous holder: that panic is reported elsewhere.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running senders.
pub struct Load {
    pub shared: Arc<Shared>,
    senders: JoinSet<()>,
}

impl Load {
    /// Starts a sender for each chain, and a sender of events that are held.
    pub fn start(shared: Arc<Shared>, chains: Vec<(usize, Chain)>, holder: Machine, rng: &Rng) -> Self {
        let mut senders = JoinSet::new();
        for (number, (machine, chain)) in chains.into_iter().enumerate() {
            let rng = Rng::seeded(rng.below(u64::MAX));
            let sender = Sender { shared: Arc::clone(&shared), number, machine, chain, rng };
            senders.spawn(sender.run());
        }
        senders.spawn(hold(Arc::clone(&shared), holder));
        Self { shared, senders }
    }

    /// Fails if a sender has failed.
    pub fn assert_alive(&mut self) {
        if let Some(ended) = self.senders.try_join_next() {
            ended.unwrap();
            panic!("a sender ended before the end");
        }
    }

    /// Ends the traffic; each started event is sent until it is acknowledged.
    pub async fn end(&mut self) {
        self.shared.stop.send_replace(true);
        let whole = async {
            while let Some(ended) = self.senders.join_next().await {
                ended.unwrap();
            }
        };
        let ended = tokio::time::timeout(2 * blackbox::TIME_LIMIT, whole).await;
        assert!(ended.is_ok(), "each event is acknowledged after the last fault");
    }
}

struct Sender {
    shared: Arc<Shared>,
    number: usize,
    machine: usize,
    chain: Chain,
    rng: Rng,
}

impl Sender {
    async fn run(mut self) {
        while !*self.shared.stop.borrow() {
            let event = self.chain.next_with(|event| event["payload"]["content"] = json!("x".repeat(600)));
            lock(&self.shared.ledger).sends(self.machine, &event);
            let id = event["event_id"].as_str().unwrap().to_owned();
            let body = Bytes::from(event.to_string());
            let targets = lock(&self.shared.targets).len();
            // Others wait at a node that is stopped; without these, no event would be sent to the nodes that are measured.
            let stays = self.number < targets;
            let stray = !stays && self.rng.below(STRAY_EVERY) == 0;
            let node = if stray { index(&self.rng, targets) } else { self.number % targets };
            self.deliver(&id, &body, node).await;
            if !stays && self.rng.below(AGAIN_EVERY) == 0 {
                let node = index(&self.rng, targets);
                if let Some(response) = self.post(&body, node).await {
                    self.takes(&id, &response);
                }
            }
        }
    }

    /// Sends the event until it is acknowledged, at first to this node, and to the next one after each request without a response.
    async fn deliver(&self, id: &str, body: &Bytes, mut node: usize) {
        let mut waiting: Option<Instant> = None;
        loop {
            if self.is_untouched(node) && !self.is_locked() {
                waiting = waiting.or_else(|| Some(Instant::now()));
            }
            let response = self.post(body, node).await;
            if response.as_ref().is_some_and(|response| self.takes(id, response)) {
                break;
            }
            if response.is_none() {
                node = (node + 1) % lock(&self.shared.targets).len();
            }
            tokio::time::sleep(RESEND_PAUSE).await;
        }
        if let Some(waiting) = waiting.filter(|_| !self.is_locked()) {
            let longest = &mut *lock(&self.shared.waited);
            *longest = (*longest).max(waiting.elapsed());
        }
    }

    fn is_untouched(&self, node: usize) -> bool {
        let target = Arc::clone(&lock(&self.shared.targets)[node]);
        lock(&target.availability).is_untouched()
    }

    fn is_locked(&self) -> bool {
        *lock(&self.shared.locked) == Some(self.machine)
    }

    /// Sends these bytes once; an acknowledgement counts for the node.
    async fn post(&self, body: &Bytes, node: usize) -> Option<Response> {
        let target = Arc::clone(&lock(&self.shared.targets)[node]);
        let balancer = lock(&self.shared.balancer).clone();
        let url = balancer.as_ref().unwrap_or(&target.url);
        let response = send(&self.shared, &self.chain.machine, body, url).await;
        if balancer.is_some() {
            let refused = &mut *lock(&self.shared.refused);
            match &response {
                Some(response) if response.status == 202 => refused.1 += 1,
                Some(response) => {
                    refused.0.push(format!("{}: {}", response.status, String::from_utf8_lossy(&response.body)));
                }
                None => refused.0.push("no response".to_owned()),
            }
        } else if response.as_ref().is_some_and(|response| response.status == 202) {
            lock(&target.availability).takes();
        }
        response
    }

    /// Records a 202; returns `false` for a refusal that asks for another attempt, and fails the test for any other response.
    fn takes(&self, id: &str, response: &Response) -> bool {
        if response.status == 202 {
            lock(&self.shared.ledger).acknowledged(id, &response.receipt());
            return true;
        }
        assert_retryable(response);
        false
    }
}

/// A refusal that asks for another attempt: the server's 424, or the balancer's 502.
fn assert_retryable(response: &Response) {
    match response.status {
        424 => assert_eq!(response.json()["retryable"], true, "{response:?}"),
        502 => assert_eq!(response.json()["error"], "balancer", "{response:?}"),
        _ => panic!("a permanent refusal of a correct event: {response:?}"),
    }
}

async fn send(shared: &Shared, machine: &Machine, body: &Bytes, url: &str) -> Option<Response> {
    let request = shared.client.request(Method::POST, &format!("{url}/api/v1/events"), &Credential::from(machine));
    let request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
    shared.client.try_send(request.timeout(REQUEST_DEADLINE)).await
}

/// Sends events of an unregistered type, which are held: they change the row that all nodes share.
async fn hold(shared: Arc<Shared>, machine: Machine) {
    let chain = Chain::new(&machine);
    let mut node = 0;
    while !*shared.stop.borrow() {
        let event = chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"));
        let body = Bytes::from(event.to_string());
        loop {
            let url = lock(&shared.balancer).clone();
            let url = url.unwrap_or_else(|| {
                let targets = lock(&shared.targets);
                targets[node % targets.len()].url.clone()
            });
            node += 1;
            if let Some(response) = send(&shared, &machine, &body, &url).await {
                if response.status == 202 {
                    response.warning();
                    lock(&shared.ledger).held.insert(event["event_id"].as_str().unwrap().to_owned());
                    break;
                }
                assert_retryable(&response);
            }
            tokio::time::sleep(RESEND_PAUSE).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
