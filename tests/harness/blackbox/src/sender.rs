//! Honest senders on a bad network: they send chains event by event and resend each event unchanged until they get 202. At random they
//! close the connection, send an event twice concurrently, or lose an event that they have sent, as a crashed sender does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::Rng;
use harness::event::{Chain, Machine};
use harness::upstream::{Script, Upstream};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::client::{Client, Response};
use crate::oracle::{Oracle, Outgoing};

/// State that all senders of one server share.
pub struct Traffic {
    /// All events and responses.
    pub oracle: Oracle,
    /// The HTTP client.
    pub client: Client,
    /// The computers that send.
    pub machines: Vec<Machine>,
    /// The address of the server; the last one while it is down.
    pub url: watch::Sender<String>,
    /// Whether senders stop drawing new events; they still resend those without a 202.
    pub stop: watch::Sender<bool>,
    /// The external statistics service, unless the server has its embedded one.
    pub upstream: Option<Arc<Upstream>>,
}

/// A chain and its event in flight.
struct Line {
    machine: usize,
    chain: Chain,
    pending: Option<Pending>,
    /// Whether the sender lost an event without a response, so that the server may have more of the chain.
    lost_one: bool,
}

struct Pending {
    outgoing: Outgoing,
    /// The chain after the event is accepted.
    then: Chain,
    /// Whether its type is not registered, so that it is held.
    unforwardable: bool,
}

/// Number of recent events that are resent at random after their 202.
const REMEMBERED: usize = 32;
/// Pause before an event is resent.
const RESEND_PAUSE: Duration = Duration::from_millis(5);

/// Sends events of `chains` until [`Traffic::stop`] is set and each event has a 202.
pub async fn send(traffic: Arc<Traffic>, chains: Vec<(usize, Chain)>, rng: Rng) {
    let mut lines: Vec<Line> =
        chains.into_iter().map(|(machine, chain)| Line { machine, chain, pending: None, lost_one: false }).collect();
    let mut answered: Vec<(usize, Outgoing)> = Vec::new();
    loop {
        let stopping = *traffic.stop.borrow();
        if stopping && lines.iter().all(|line| line.pending.is_none()) {
            return;
        }
        let at = index(&rng, lines.len());
        let line = &mut lines[at];
        if line.pending.is_none() {
            if stopping {
                continue;
            }
            if let Some((machine, old)) = answered.get(index(&rng, 10 * REMEMBERED)) {
                resend(&traffic, *machine, old).await;
            }
            line.draw(&traffic, &rng);
        }
        if let Some(done) = line.advance(&traffic, &rng).await {
            answered.push((line.machine, done));
            if answered.len() > REMEMBERED {
                answered.swap_remove(index(&rng, REMEMBERED));
            }
        }
    }
}

/// A random index below `length`.
fn index(rng: &Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap()
}

/// Resends an event that has a 202; the oracle compares the receipts.
async fn resend(traffic: &Traffic, machine: usize, old: &Outgoing) {
    if let Some(response) = traffic.post(machine, old.body.clone()).await
        && response.status == 202
    {
        traffic.accepted(old, &response);
    }
}

impl Line {
    /// Draws the next event.
    fn draw(&mut self, traffic: &Traffic, rng: &Rng) {
        if rng.below(80) == 0 {
            self.chain.begin_epoch();
        }
        let unforwardable = rng.below(12) == 0;
        let mut then = self.chain.clone();
        let event = if unforwardable {
            self.chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"))
        } else {
            then.next_with(|event| event["payload"]["content"] = json!("x".repeat(index(rng, 600))))
        };
        let outgoing = traffic.oracle.sends(&event, self.machine);
        if !unforwardable && let Some(upstream) = &traffic.upstream {
            misbehave(upstream, &outgoing.id, rng);
        }
        self.pending = Some(Pending { outgoing, then, unforwardable });
    }

    /// Sends the pending event once; returns it when it has a 202.
    async fn advance(&mut self, traffic: &Traffic, rng: &Rng) -> Option<Outgoing> {
        let pending = self.pending.as_ref()?;
        let body = pending.outgoing.body.clone();
        let mut responses = match rng.below(10) {
            // Hangs up at any time between the first byte sent and the last byte received.
            0 => {
                let timeout = Duration::from_micros(rng.below(4000));
                [tokio::time::timeout(timeout, traffic.post(self.machine, body)).await.ok().flatten(), None]
            }
            1 => {
                let both = tokio::join!(traffic.post(self.machine, body.clone()), traffic.post(self.machine, body));
                [both.0, both.1]
            }
            _ => [traffic.post(self.machine, body).await, None],
        };
        // The server may handle either of two concurrent requests first, and one may forward an event that the other reported as held.
        responses.sort_by_key(|response| {
            response.as_ref().is_some_and(|response| response.json().get("receipt_id").is_some())
        });
        let (mut accepted, mut received) = (false, false);
        for response in responses.into_iter().flatten() {
            received = true;
            match response.status {
                202 => accepted |= traffic.accepted(&pending.outgoing, &response) || pending.unforwardable,
                409 => return self.resync(&response.json()),
                424 => assert_eq!(response.json()["retryable"], true, "{response:?}"),
                other => panic!("{other}: {}", String::from_utf8_lossy(&response.body)),
            }
        }
        if accepted {
            let Pending { outgoing, then, unforwardable } = self.pending.take()?;
            self.chain = then;
            // A held event does not show the head of the chain.
            self.lost_one &= unforwardable;
            return Some(outgoing);
        }
        // A crashed sender continues after its last response. Only the embedded log checks positions.
        if traffic.upstream.is_none() && !*traffic.stop.borrow() && !pending.unforwardable && rng.below(25) == 0 {
            (self.pending, self.lost_one) = (None, true);
        }
        if received {
            tokio::time::sleep(RESEND_PAUSE).await;
        } else {
            traffic.moved().await;
        }
        None
    }

    /// Continues at the position that a conflict names; only a sender that lost an event may get one.
    fn resync(&mut self, conflict: &Value) -> Option<Outgoing> {
        assert!(self.lost_one, "a conflict for a sender that lost no event: {conflict}");
        assert_eq!(conflict["error"], "chain_conflict", "{conflict}");
        let expected = &conflict["expected"];
        self.chain.epoch = expected["chain_epoch"].as_u64().unwrap();
        self.chain.seq = expected["seq"].as_u64().unwrap();
        expected["prev"].as_str().unwrap().clone_into(&mut self.chain.prev);
        (self.pending, self.lost_one) = (None, false);
        None
    }
}

impl Traffic {
    async fn post(&self, machine: usize, body: Bytes) -> Option<Response> {
        let url = self.url.borrow().clone();
        let response = self.client.event(&url, &self.machines[machine], body).await;
        if response.is_some() {
            self.oracle.answered();
        }
        response
    }

    /// Records a 202; returns whether it has a receipt.
    fn accepted(&self, event: &Outgoing, response: &Response) -> bool {
        let body = response.json();
        let receipt = body["receipt_id"].as_str();
        match receipt {
            Some(receipt) => self.oracle.receipt(&event.id, receipt),
            None => self.oracle.held(&event.id, body["warning"].as_str().unwrap()),
        }
        receipt.is_some()
    }

    /// Waits after a request without a response: the server restarts at another address, or the network failed and the address stays.
    async fn moved(&self) {
        let mut url = self.url.subscribe();
        // After either, the sender resends.
        let _ = tokio::time::timeout(RESEND_PAUSE, url.changed()).await;
    }
}

/// Scripts faults of the external service for some events. After a fault that stored the event, no script refuses it: such a service
/// would not be idempotent.
fn misbehave(upstream: &Upstream, event_id: &str, rng: &Rng) {
    while rng.below(8) == 0 {
        upstream.for_event(
            event_id,
            match rng.below(5) {
                0 => Script::reset(),
                1 => Script::hang(),
                2 => Script::broken(503),
                3 => Script::garbage(),
                // A refusal of the content: the event is held, and forwarded when it is resent.
                _ => Script::reply(harness::upstream::Reply::new(400)),
            },
        );
    }
    while rng.below(8) == 0 {
        upstream.for_event(
            event_id,
            match rng.below(4) {
                0 => Script::reset().having_stored(),
                1 => Script::hang().having_stored(),
                2 => Script::broken(500).having_stored(),
                _ => Script::garbage().having_stored(),
            },
        );
    }
    let last = match rng.below(16) {
        0 => Some(Script::twice()),
        // Before the timeout of the client, or after it.
        1 => Some(Script::late(Duration::from_millis(rng.below(600)))),
        _ => None,
    };
    if let Some(last) = last {
        upstream.for_event(event_id, last);
    }
}
