//! What was sent and what was answered, remembered outside of the server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use crate::process::PATIENCE;

/// An event that was sent at least once, and everything that was ever answered to it.
#[derive(Debug, Clone)]
pub struct Sent {
    pub body: Bytes,
    /// `hash_chain.self`.
    pub seal: String,
    /// Which of the machines sent it.
    pub machine: usize,
    /// The receipt of a 202, however often.
    pub receipt: Option<String>,
    /// A 202 that said `held`.
    pub held: bool,
}

/// The memory. A contradiction between two answers fails at once.
#[derive(Debug)]
pub struct Oracle {
    sent: Mutex<BTreeMap<String, Sent>>,
    answers: watch::Sender<u64>,
}

impl Oracle {
    pub fn new() -> Self {
        Self { sent: Mutex::default(), answers: watch::Sender::new(0) }
    }

    /// Before an event goes out for the first time.
    pub fn sends(&self, event: &Value, machine: usize) -> Outgoing {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (id, body) = (text(&event["event_id"]), Bytes::from(event.to_string()));
        let seal = text(&event["hash_chain"]["self"]);
        let sent = Sent { body: body.clone(), seal, machine, receipt: None, held: false };
        assert!(self.lock().insert(id.clone(), sent).is_none(), "{id} is not new");
        Outgoing { id, body }
    }

    /// 202 with a receipt: the first is remembered, every other must be the same (P3).
    pub fn receipt(&self, id: &str, receipt: &str) {
        let mut sent = self.lock();
        let known = &mut sent.get_mut(id).unwrap().receipt;
        let first = known.get_or_insert_with(|| receipt.to_owned());
        assert_eq!(first, receipt, "{id} was answered 202 twice, with two receipts");
    }

    /// 202 with `held`. What was forwarded before can never be held afterwards.
    pub fn held(&self, id: &str, warning: &str) {
        let mut sent = self.lock();
        let known = sent.get_mut(id).unwrap();
        assert_eq!(known.receipt, None, "{id} has a receipt, and yet it was held: {warning}");
        known.held = true;
    }

    /// Any answer: the clock by which the server is killed.
    pub fn answered(&self) {
        self.answers.send_modify(|answers| *answers += 1);
    }

    /// Waits until `more` further requests were answered.
    pub async fn wait_for_answers(&self, more: u64) {
        let mut answers = self.answers.subscribe();
        let goal = *answers.borrow() + more;
        let came = tokio::time::timeout(PATIENCE, answers.wait_for(|answers| *answers >= goal)).await;
        assert!(came.is_ok(), "{more} further answers do not come");
    }

    /// Everything.
    pub fn all(&self) -> BTreeMap<String, Sent> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Sent>> {
        // A panic under this lock is a failing test already; it need not fail once more here.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event as its sender keeps it until it is answered.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub id: String,
    pub body: Bytes,
}
