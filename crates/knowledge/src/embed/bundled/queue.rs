//! The two queues of texts, and the calls that wait for them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::embed::error::EmbedError;
use crate::embed::urgency::Urgency;

type Embeddings = Result<Vec<Vec<f32>>, EmbedError>;

/// The queues. Their length is bounded by the number of callers, because a call waits until all its texts are embedded.
#[derive(Debug, Default)]
pub(super) struct TextQueues {
    waiting: Mutex<QueuedTexts>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct QueuedTexts {
    queries: VecDeque<QueuedText>,
    content: VecDeque<QueuedText>,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct QueuedText {
    content: String,
    place: usize,
    call: Arc<Mutex<Call>>,
}

#[derive(Debug)]
struct Call {
    vectors: Vec<Vec<f32>>,
    missing: usize,
    /// `None` once answered. If all texts of a call are dropped without an answer, the caller sees the closed channel.
    caller: Option<oneshot::Sender<Embeddings>>,
}

impl TextQueues {
    /// Queues the texts of a call; the receiver gets the vectors when all texts are embedded.
    pub(super) fn put(&self, texts: Vec<String>, urgency: Urgency) -> oneshot::Receiver<Embeddings> {
        let (caller, answer) = oneshot::channel();
        let (vectors, missing) = (vec![Vec::new(); texts.len()], texts.len());
        let call = Arc::new(Mutex::new(Call { vectors, missing, caller: Some(caller) }));
        let texts =
            texts.into_iter().enumerate().map(|(place, content)| QueuedText { content, place, call: call.clone() });
        self.waiting().queue(urgency).extend(texts);
        self.arrived.notify_all();
        answer
    }

    /// Takes the next text, queries first. Blocks until there is one; returns `None` once the queues are closed.
    pub(super) fn take(&self) -> Option<(QueuedText, Urgency)> {
        let mut waiting = self.waiting();
        loop {
            for urgency in [Urgency::Query, Urgency::Content] {
                if let Some(text) = waiting.next(urgency) {
                    return Some((text, urgency));
                }
            }
            if waiting.closed {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes one more text of a queue without blocking.
    pub(super) fn take_one_of(&self, urgency: Urgency) -> Option<QueuedText> {
        self.waiting().next(urgency)
    }

    /// Closes the queues and wakes all threads.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.arrived.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, QueuedTexts> {
        // Every change is a single queue operation, so a panic cannot leave an inconsistent state.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuedTexts {
    fn queue(&mut self, urgency: Urgency) -> &mut VecDeque<QueuedText> {
        match urgency {
            Urgency::Query => &mut self.queries,
            Urgency::Content => &mut self.content,
        }
    }

    fn next(&mut self, urgency: Urgency) -> Option<QueuedText> {
        std::iter::from_fn(|| self.queue(urgency).pop_front()).find(QueuedText::is_wanted)
    }
}

impl QueuedText {
    pub(super) fn as_str(&self) -> &str {
        &self.content
    }

    /// Stores the vector of the text, and answers the call if it was the last.
    pub(super) fn answer(self, vector: Vec<f32>) {
        let mut call = self.call();
        call.vectors[self.place] = vector;
        call.missing -= 1;
        if call.missing == 0 {
            let vectors = std::mem::take(&mut call.vectors);
            call.answer(Ok(vectors));
        }
    }

    pub(super) fn fail(self, why: EmbedError) {
        self.call().answer(Err(why));
    }

    fn is_wanted(&self) -> bool {
        self.call().caller.as_ref().is_some_and(|caller| !caller.is_closed())
    }

    fn call(&self) -> MutexGuard<'_, Call> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn answer(&mut self, answer: Embeddings) {
        if let Some(caller) = self.caller.take() {
            // The caller may have been dropped.
            let _ = caller.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn searches_go_first_and_abandoned_texts_not_at_all() {
        let lines = TextQueues::default();
        let _content = lines.put(texts(&["a", "b"]), Urgency::Content);
        drop(lines.put(texts(&["gone"]), Urgency::Query));
        let _search = lines.put(texts(&["q"]), Urgency::Query);
        let order: Vec<String> = (0..3).map(|_| lines.take().unwrap().0.content).collect();
        assert_eq!(order, ["q", "a", "b"]);
        assert!(lines.take_one_of(Urgency::Query).is_none());
        lines.close();
        assert!(lines.take().is_none());
    }

    #[tokio::test]
    async fn a_call_returns_its_last_text_and_reports_a_lost_one() {
        let lines = TextQueues::default();
        let whole = lines.put(texts(&["a", "b"]), Urgency::Content);
        let (a, b) = (lines.take().unwrap().0, lines.take().unwrap().0);
        b.answer(vec![2.0]);
        a.answer(vec![1.0]);
        assert_eq!(whole.await.unwrap().unwrap(), [[1.0], [2.0]]);

        let torn = lines.put(texts(&["a", "b"]), Urgency::Content);
        lines.take().unwrap().0.answer(vec![1.0]);
        drop(lines.take());
        assert!(torn.await.is_err());
    }
}
