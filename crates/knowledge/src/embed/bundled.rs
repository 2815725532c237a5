//! The bundled model, on its own threads.
//!
//! 1. A call puts its texts into one of two queues: queries or content.
//! 2. A free thread takes texts, queries first, up to [`BATCH_TOKENS_MAX`] tokens. It
//!    combines texts of several calls, and several threads share the texts of one call.
//! 3. The thread that embeds the last text of a call answers the call.
//!
//! **If a computation panics:** the calls with a text in it fail with [`EmbedError::BrokeOff`]; the thread continues.

mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use minilm::{Model, Scratch, TokenizedText};

use super::error::EmbedError;
use super::settings::EmbeddingSettings;
use super::urgency::Urgency;
use queue::{QueuedText, TextQueues};

/// Maximum number of tokens per computation. A query waits for at most one computation, about 1 ms per 6 tokens.
const BATCH_TOKENS_MAX: usize = 256;

/// Handle of the threads, which end when the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct Bundled(Arc<CloseOnDrop>);

/// Closes the queues when it is dropped.
#[derive(Debug)]
struct CloseOnDrop(Arc<TextQueues>);

impl Bundled {
    /// Starts the threads. The first thread with work loads the model.
    pub(super) fn new(settings: &EmbeddingSettings) -> std::io::Result<Self> {
        let threads = match settings.threads {
            0 => thread::available_parallelism()?.get(),
            threads => threads,
        };
        let lines = Arc::new(TextQueues::default());
        let open = CloseOnDrop(lines.clone());
        let model = Arc::new(OnceLock::new());
        for number in 0..threads {
            let worker = Worker { lines: lines.clone(), model: model.clone() };
            thread::Builder::new().name(format!("embed-{number}")).spawn(move || worker.work())?;
        }
        Ok(Self(Arc::new(open)))
    }

    pub(super) async fn embed(&self, texts: Vec<String>, urgency: Urgency) -> Result<Vec<Vec<f32>>, EmbedError> {
        let answer = self.0.0.put(texts, urgency);
        answer.await.unwrap_or(Err(EmbedError::BrokeOff))
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Worker {
    lines: Arc<TextQueues>,
    model: Arc<OnceLock<Result<Model, String>>>,
}

impl Worker {
    fn work(self) {
        let mut scratch = Scratch::default();
        while let Some((text, urgency)) = self.lines.take() {
            match self.model.get_or_init(|| Model::bundled().map_err(|why| domain::reasons(&why))) {
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

    /// Embeds a text, together with as many texts of the same queue as fit into a batch.
    fn compute(&self, model: &Model, first: QueuedText, urgency: Urgency, scratch: &mut Scratch) {
        let mut tokens: Vec<TokenizedText> = vec![model.tokens(first.as_str())];
        let mut texts = vec![first];
        let mut count = tokens[0].len();
        while count < BATCH_TOKENS_MAX
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
        // Polled in this order, so that all content is queued before the query.
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
