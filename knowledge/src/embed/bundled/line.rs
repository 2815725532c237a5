//! Two lines of texts that wait for a thread, and the calls that they belong to.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::embed::error::EmbedError;
use crate::embed::urgency::Urgency;

type Embeddings = Result<Vec<Vec<f32>>, EmbedError>;

/// The lines. They are as long as all calls together that wait: a call gives its texts away and then waits.
#[derive(Debug, Default)]
pub(super) struct Lines {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    queries: VecDeque<Text>,
    content: VecDeque<Text>,
    closed: bool,
}

/// One text of a call.
#[derive(Debug)]
pub(super) struct Text {
    content: String,
    place: usize,
    call: Arc<Mutex<Call>>,
}

#[derive(Debug)]
struct Call {
    vectors: Vec<Vec<f32>>,
    missing: usize,
    /// Gone once answered. When the last text goes without an answer, the caller sees that nobody will answer.
    caller: Option<oneshot::Sender<Embeddings>>,
}

impl Lines {
    /// Texts at the end of their line; the answer comes when all have a vector.
    pub(super) fn put(&self, texts: Vec<String>, urgency: Urgency) -> oneshot::Receiver<Embeddings> {
        let (caller, answer) = oneshot::channel();
        let (vectors, missing) = (vec![Vec::new(); texts.len()], texts.len());
        let call = Arc::new(Mutex::new(Call { vectors, missing, caller: Some(caller) }));
        let texts = texts.into_iter().enumerate().map(|(place, content)| Text { content, place, call: call.clone() });
        self.waiting().line(urgency).extend(texts);
        self.arrived.notify_all();
        answer
    }

    /// The next text, of a search if there is one. Waits; nothing comes any more once the lines are closed.
    pub(super) fn take(&self) -> Option<(Text, Urgency)> {
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

    /// One more text of this line, if one waits.
    pub(super) fn take_one_of(&self, urgency: Urgency) -> Option<Text> {
        self.waiting().next(urgency)
    }

    /// Nothing will be put any more.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.arrived.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Every change is one call on a queue: a panic in between leaves nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn line(&mut self, urgency: Urgency) -> &mut VecDeque<Text> {
        match urgency {
            Urgency::Query => &mut self.queries,
            Urgency::Content => &mut self.content,
        }
    }

    /// The next text that somebody still wants.
    fn next(&mut self, urgency: Urgency) -> Option<Text> {
        std::iter::from_fn(|| self.line(urgency).pop_front()).find(Text::is_wanted)
    }
}

impl Text {
    pub(super) fn as_str(&self) -> &str {
        &self.content
    }

    /// Gives the text its vector, and the caller all of them when this was the last.
    pub(super) fn answer(self, vector: Vec<f32>) {
        let mut call = self.call();
        call.vectors[self.place] = vector;
        call.missing -= 1;
        if call.missing == 0 {
            let vectors = std::mem::take(&mut call.vectors);
            call.answer(Ok(vectors));
        }
    }

    /// Fails the whole call.
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
            // Whoever has gone does not want to know.
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
        let lines = Lines::default();
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
    async fn a_call_is_answered_by_its_last_text_and_told_when_one_is_lost() {
        let lines = Lines::default();
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
