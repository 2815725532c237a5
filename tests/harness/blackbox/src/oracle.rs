//! Events sent and responses received, stored outside of the server: the oracle of the crash tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use crate::TIME_LIMIT;

/// An event that was sent at least once, and all responses to it.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The exact bytes of the request.
    pub body: Bytes,
    /// `hash_chain.self`.
    pub seal: String,
    /// The sender, as an index into the machines.
    pub machine: usize,
    /// The receipt id of a 202.
    pub receipt: Option<String>,
    /// Whether a 202 had `held`.
    pub held: bool,
}

/// All events by id. A contradiction between two responses fails the test immediately.
#[derive(Debug)]
pub struct Oracle {
    sent: Mutex<BTreeMap<String, Sent>>,
    responses: watch::Sender<u64>,
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}

impl Oracle {
    /// An oracle of no events.
    pub fn new() -> Self {
        Self { sent: Mutex::default(), responses: watch::Sender::new(0) }
    }

    /// Records an event before it is sent for the first time.
    pub fn sends(&self, event: &Value, machine: usize) -> Outgoing {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (id, body) = (text(&event["event_id"]), Bytes::from(event.to_string()));
        let seal = text(&event["hash_chain"]["self"]);
        let sent = Sent { body: body.clone(), seal, machine, receipt: None, held: false };
        assert!(self.lock().insert(id.clone(), sent).is_none(), "{id} is not new");
        Outgoing { id, body }
    }

    /// Records a 202 with a receipt; asserts that each one for the same event is the same (P3).
    pub fn receipt(&self, id: &str, receipt: &str) {
        let mut sent = self.lock();
        let known = &mut sent.get_mut(id).unwrap().receipt;
        let first = known.get_or_insert_with(|| receipt.to_owned());
        assert_eq!(first, receipt, "{id} was answered 202 twice, with two receipts");
    }

    /// Records a 202 with `held`; asserts that the event was not forwarded before.
    pub fn held(&self, id: &str, warning: &str) {
        let mut sent = self.lock();
        let known = sent.get_mut(id).unwrap();
        assert_eq!(known.receipt, None, "{id} was held although it has a receipt: {warning}");
        known.held = true;
    }

    /// Counts a response; the server is killed after a number of responses.
    pub fn answered(&self) {
        self.responses.send_modify(|responses| *responses += 1);
    }

    /// Waits for `more` further responses, for each at most [`TIME_LIMIT`].
    pub async fn wait_for_responses(&self, more: u64) {
        let mut responses = self.responses.subscribe();
        let goal = *responses.borrow_and_update() + more;
        while *responses.borrow_and_update() < goal {
            let next = tokio::time::timeout(TIME_LIMIT, responses.changed()).await;
            let received = *responses.borrow();
            assert!(next.is_ok(), "no further response: {} of {more} are missing", goal - received);
        }
    }

    /// A copy of all events, by id.
    pub fn all(&self) -> BTreeMap<String, Sent> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Sent>> {
        // A panic under this lock has failed the test already.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event that its sender keeps until a response is received.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// `event_id`.
    pub id: String,
    /// The exact bytes of the request.
    pub body: Bytes,
}
