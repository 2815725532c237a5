//! The model inside the program, on threads of its own.
//!
//! 1. A call puts its texts into one of two lines: searches, or content.
//! 2. A thread that is free takes texts, of searches first, until it has [`super::EmbeddingSettings::batch_tokens_max`] tokens. Texts of
//!    several calls go together, and a long call is shared by all threads.
//! 3. The thread that finishes the last text of a call answers it.
//!
//! **If a computation panics:** the calls whose texts were in it get [`EmbedError::BrokeOff`]; the thread goes on.

mod line;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use minilm::{Model, Scratch, Tokens};

use super::error::EmbedError;
use super::settings::EmbeddingSettings;
use super::urgency::Urgency;
use line::{Lines, Text};

/// The threads. They end with the last clone.
#[derive(Debug, Clone)]
pub(super) struct Bundled(Arc<Open>);

/// Closes the lines when nobody can put texts into them any more.
#[derive(Debug)]
struct Open(Arc<Lines>);

impl Bundled {
    /// Starts the threads. The first of them that gets work reads the model.
    pub(super) fn new(settings: &EmbeddingSettings) -> std::io::Result<Self> {
        let threads = match settings.threads {
            0 => thread::available_parallelism()?.get(),
            threads => threads,
        };
        let lines = Arc::new(Lines::default());
        let open = Open(lines.clone());
        let model = Arc::new(OnceLock::new());
        for number in 0..threads {
            let worker =
                Worker { lines: lines.clone(), model: model.clone(), batch_tokens_max: settings.batch_tokens_max };
            thread::Builder::new().name(format!("embed-{number}")).spawn(move || worker.work())?;
        }
        Ok(Self(Arc::new(open)))
    }

    pub(super) async fn embed(&self, texts: Vec<String>, urgency: Urgency) -> Result<Vec<Vec<f32>>, EmbedError> {
        let answer = self.0.0.put(texts, urgency);
        answer.await.unwrap_or(Err(EmbedError::BrokeOff))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Worker {
    lines: Arc<Lines>,
    model: Arc<OnceLock<Result<Model, String>>>,
    batch_tokens_max: usize,
}

impl Worker {
    fn work(self) {
        let mut scratch = Scratch::default();
        while let Some((text, urgency)) = self.lines.take() {
            match self.model.get_or_init(|| Model::bundled().map_err(|why| why.to_string())) {
                Ok(model) => {
                    let computed = catch_unwind(AssertUnwindSafe(|| self.compute(model, text, urgency, &mut scratch)));
                    if computed.is_err() {
                        tracing::error!("an embedding broke off: its texts get no vectors");
                        scratch = Scratch::default();
                    }
                }
                Err(why) => text.fail(EmbedError::Model(why.clone())),
            }
        }
    }

    /// One computation: the text, and as many more of its line as fit.
    fn compute(&self, model: &Model, first: Text, urgency: Urgency, scratch: &mut Scratch) {
        let mut tokens: Vec<Tokens> = vec![model.tokens(first.as_str())];
        let mut texts = vec![first];
        let mut count = tokens[0].len();
        while count < self.batch_tokens_max
            && let Some(text) = self.lines.take_one_of(urgency)
        {
            let more = model.tokens(text.as_str());
            count += more.len();
            tokens.push(more);
            texts.push(text);
        }
        for (text, vector) in texts.into_iter().zip(model.embed(&tokens, scratch)) {
            text.answer(vector);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    fn bundled(threads: usize) -> Bundled {
        Bundled::new(&EmbeddingSettings { threads, ..EmbeddingSettings::default() }).unwrap()
    }

    fn texts(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{} boats on the lake", "many ".repeat(number % 40))).collect()
    }

    #[tokio::test]
    async fn calls_that_share_threads_get_their_own_vectors_in_order() {
        let bundled = bundled(3);
        let calls = (1..8).map(|count| bundled.embed(texts(count * 5), Urgency::Content));
        let (together, alone) = (join_all(calls).await, bundled.embed(texts(35), Urgency::Query).await.unwrap());
        for (answer, count) in together.into_iter().zip(1..) {
            let answer = answer.unwrap();
            assert_eq!(answer.len(), count * 5);
            for (one, other) in answer.iter().flatten().zip(alone.iter().flatten()) {
                assert!((one - other).abs() < 1e-5, "{one} {other}");
            }
        }
    }

    #[tokio::test]
    async fn a_search_overtakes_content() {
        let bundled = bundled(1);
        let content = bundled.embed(texts(300), Urgency::Content);
        let search = bundled.embed(texts(1), Urgency::Query);
        // Polled in this order, so that all content waits when the search arrives.
        let first = tokio::select! {
            biased;
            _ = content => Urgency::Content,
            found = search => { found.unwrap(); Urgency::Query }
        };
        assert_eq!(first, Urgency::Query);
    }

    #[tokio::test]
    async fn threads_end_with_the_last_clone() {
        let bundled = bundled(2);
        let lines = Arc::downgrade(&bundled.0.0);
        bundled.clone().embed(texts(3), Urgency::Content).await.unwrap();
        assert!(lines.upgrade().is_some());
        drop(bundled);
        tokio::task::spawn_blocking(move || {
            while lines.upgrade().is_some() {
                thread::yield_now();
            }
        })
        .await
        .unwrap();
    }
}
