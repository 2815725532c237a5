//! An honest sender with a bad network: it sends its chains event by event, sends again unchanged whatever was not answered 202, hangs
//! up in the middle, sends twice at once, and sometimes forgets what it sent, as one does who crashes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::Rng;
use harness::upstream::{Answer as Script, Upstream};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::client::{Answer, Client};
use crate::event::{Chain, Machine};
use crate::oracle::{Oracle, Outgoing};

/// What all senders share.
pub struct World {
    pub oracle: Oracle,
    pub client: Client,
    pub machines: Vec<Machine>,
    /// Where the server is; the last known place while it is down.
    pub url: watch::Sender<String>,
    /// Whether senders come to an end: what is not answered yet is still sent until it is.
    pub stop: watch::Sender<bool>,
    /// The statistics service behind the server, when it is not the embedded one.
    pub upstream: Option<Arc<Upstream>>,
}

/// A chain, and what of it is on its way.
struct Line {
    machine: usize,
    chain: Chain,
    pending: Option<Pending>,
    /// An event was given up without an answer, so the server may know more of the chain than the sender.
    forgot: bool,
}

struct Pending {
    outgoing: Outgoing,
    /// The chain as it is once the event is taken.
    then: Chain,
    /// It can only be held.
    hopeless: bool,
}

/// Receipts of late that are asked for again.
const REMEMBERED: usize = 32;
/// The pause of a sender that was told to come again.
const RESEND_PAUSE: Duration = Duration::from_millis(5);

/// Sends on `chains` until told to stop, and then until everything is answered.
pub async fn send(world: Arc<World>, chains: Vec<(usize, Chain)>, rng: Rng) {
    let mut lines: Vec<Line> =
        chains.into_iter().map(|(machine, chain)| Line { machine, chain, pending: None, forgot: false }).collect();
    let mut answered: Vec<(usize, Outgoing)> = Vec::new();
    loop {
        let stopping = *world.stop.borrow();
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
                resend(&world, *machine, old).await;
            }
            line.draw(&world, &rng);
        }
        if let Some(done) = line.advance(&world, &rng).await {
            answered.push((line.machine, done));
            if answered.len() > REMEMBERED {
                answered.swap_remove(index(&rng, REMEMBERED));
            }
        }
    }
}

/// A place in something of this length.
fn index(rng: &Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap()
}

/// Asks once more for what was answered already; the oracle compares.
async fn resend(world: &World, machine: usize, old: &Outgoing) {
    if let Some(answer) = world.post(machine, old.body.clone()).await
        && answer.status == 202
    {
        world.accepted(old, &answer);
    }
}

impl Line {
    /// Writes the next event.
    fn draw(&mut self, world: &World, rng: &Rng) {
        if rng.below(80) == 0 {
            self.chain.begin_epoch();
        }
        let hopeless = rng.below(12) == 0;
        let mut then = self.chain.clone();
        let event = if hopeless {
            self.chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"))
        } else {
            then.next_with(|event| event["payload"]["content"] = json!("x".repeat(index(rng, 600))))
        };
        let outgoing = world.oracle.sends(&event, self.machine);
        if !hopeless && let Some(upstream) = &world.upstream {
            misbehave(upstream, &outgoing.id, rng);
        }
        self.pending = Some(Pending { outgoing, then, hopeless });
    }

    /// Sends what is pending, once in some manner; gives it back when it is answered for good.
    async fn advance(&mut self, world: &World, rng: &Rng) -> Option<Outgoing> {
        let pending = self.pending.as_ref()?;
        let body = pending.outgoing.body.clone();
        let mut answers = match rng.below(10) {
            // Hangs up somewhere between the first byte out and the last byte in.
            0 => {
                let patience = Duration::from_micros(rng.below(4000));
                [tokio::time::timeout(patience, world.post(self.machine, body)).await.ok().flatten(), None]
            }
            1 => {
                let both = tokio::join!(world.post(self.machine, body.clone()), world.post(self.machine, body));
                [both.0, both.1]
            }
            _ => [world.post(self.machine, body).await, None],
        };
        // Of two at once either may have been handled first, and one that was held may be forwarded by the other.
        answers.sort_by_key(|answer| answer.as_ref().is_some_and(|answer| answer.json().get("receipt_id").is_some()));
        let (mut taken, mut heard) = (false, false);
        for answer in answers.into_iter().flatten() {
            heard = true;
            match answer.status {
                202 => taken |= world.accepted(&pending.outgoing, &answer) || pending.hopeless,
                409 => return self.resync(&answer.json()),
                424 => assert_eq!(answer.json()["retryable"], true, "{answer:?}"),
                other => panic!("{other}: {}", String::from_utf8_lossy(&answer.body)),
            }
        }
        if taken {
            let Pending { outgoing, then, hopeless } = self.pending.take()?;
            self.chain = then;
            // Being held says nothing of where the chain is.
            self.forgot &= hopeless;
            return Some(outgoing);
        }
        // One who crashes goes on from what was answered last. Where nobody judges positions, nothing would be shown by it.
        if world.upstream.is_none() && !*world.stop.borrow() && !pending.hopeless && rng.below(25) == 0 {
            (self.pending, self.forgot) = (None, true);
        }
        if heard {
            tokio::time::sleep(RESEND_PAUSE).await;
        } else {
            world.moved().await;
        }
        None
    }

    /// Only one who forgot an event may find the chain further on; the answer says where it is.
    fn resync(&mut self, conflict: &Value) -> Option<Outgoing> {
        assert!(self.forgot, "a conflict for a sender that resends in order: {conflict}");
        assert_eq!(conflict["error"], "chain_conflict", "{conflict}");
        let expected = &conflict["expected"];
        self.chain.epoch = expected["chain_epoch"].as_u64().unwrap();
        self.chain.seq = expected["seq"].as_u64().unwrap();
        expected["prev"].as_str().unwrap().clone_into(&mut self.chain.prev);
        (self.pending, self.forgot) = (None, false);
        None
    }
}

impl World {
    async fn post(&self, machine: usize, body: Bytes) -> Option<Answer> {
        let url = self.url.borrow().clone();
        let answer = self.client.event(&url, &self.machines[machine], body).await;
        if answer.is_some() {
            self.oracle.answered();
        }
        answer
    }

    /// A 202; says whether it brought a receipt.
    fn accepted(&self, event: &Outgoing, answer: &Answer) -> bool {
        let body = answer.json();
        let receipt = body["receipt_id"].as_str();
        match receipt {
            Some(receipt) => self.oracle.receipt(&event.id, receipt),
            None => self.oracle.held(&event.id, body["warning"].as_str().unwrap()),
        }
        receipt.is_some()
    }

    /// There was no answer: the server was killed and comes back somewhere else, or it was the network and nothing changes.
    async fn moved(&self) {
        let mut url = self.url.subscribe();
        // Either is a reason to try again.
        let _ = tokio::time::timeout(RESEND_PAUSE, url.changed()).await;
    }
}

/// Most events go through at once; the others meet some of the ways in which a peer can fail. What is scripted after a failure that
/// stored the event never says that it did not: such a service would not be idempotent.
fn misbehave(upstream: &Upstream, event_id: &str, rng: &Rng) {
    while rng.below(8) == 0 {
        upstream.for_event(
            event_id,
            match rng.below(5) {
                0 => Script::reset(),
                1 => Script::hang(),
                2 => Script::broken(503),
                3 => Script::garbage(),
                // Cannot be forwarded as it is, it says: held, and healed by the resend.
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
        // Before the client's deadline, or after it.
        1 => Some(Script::late(Duration::from_millis(rng.below(600)))),
        _ => None,
    };
    if let Some(last) = last {
        upstream.for_event(event_id, last);
    }
}
