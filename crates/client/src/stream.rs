//! The stream of a batch, resumed after interruptions (`docs/protocol/batches.md#stream` and
//! `docs/decisions/0024-batches.md`).

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use domain::ids::BatchId;
use futures_util::StreamExt;
use http::Method;
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};
use tokio::time::Instant;
use wire::knowledge::{BatchMessage, BatchRequest, X_BATCH_ID};

use crate::exchange::{ApiRequest, unreadable};
use crate::{Client, Error};

type ByteStream = Pin<Box<dyn futures_util::Stream<Item = Result<Bytes, Error>> + Send>>;

/// The messages of a batch. Dropping the stream does not stop the batch.
pub struct BatchStream {
    client: Client,
    batch: BatchId,
    /// Id of the last received message.
    heard: Option<String>,
    messages: SseByteStream<ByteStream>,
    ended: bool,
    /// Successful attempts to resume since the last message.
    attempts: usize,
    /// Start of the current interruption.
    broken_since: Option<Instant>,
}

impl BatchStream {
    pub(crate) async fn begun(client: &Client, request: &BatchRequest) -> Result<Self, Error> {
        let url = client.rag("/v1/batch-add");
        let response = client.ask_stream(ApiRequest::new(Method::POST, url.clone()).json(request)?).await?;
        let named = response.headers().get(X_BATCH_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
        let batch = named.parse().map_err(|source: domain::ids::InvalidId| unreadable(&url, source))?;
        Ok(Self::of(client, batch, None, response))
    }

    pub(crate) async fn joined(client: &Client, batch: BatchId, after: Option<&str>) -> Result<Self, Error> {
        let response = join(client, batch, after).await?;
        Ok(Self::of(client, batch, after.map(str::to_owned), response))
    }

    fn of(client: &Client, batch: BatchId, heard: Option<String>, response: Response) -> Self {
        Self {
            client: client.clone(),
            batch,
            heard,
            ended: has_ended(&response),
            messages: messages(client, response),
            attempts: 0,
            broken_since: None,
        }
    }

    /// Id of the batch, with which it can be joined or cancelled.
    pub fn batch(&self) -> BatchId {
        self.batch
    }

    /// Id of the last received message, after which the stream can be joined.
    pub fn heard(&self) -> Option<&str> {
        self.heard.as_deref()
    }

    /// The next message; `None` after the last one. An interrupted stream is resumed after the last received message,
    /// without duplicates or gaps.
    pub async fn next(&mut self) -> Option<Result<BatchMessage, Error>> {
        while !self.ended {
            match self.messages.next().await {
                Some(Ok(Sse { data: Some(data), id, .. })) => return Some(self.read(&data, id)),
                // A comment or an event without data.
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => {}
            }
            if let Err(error) = self.join_again().await {
                self.ended = true;
                return Some(Err(error));
            }
        }
        None
    }

    fn read(&mut self, data: &str, id: Option<String>) -> Result<BatchMessage, Error> {
        let message = serde_json::from_str(data).map_err(|source| {
            self.ended = true;
            unreadable(&self.client.rag("/v1/batch-add"), source)
        })?;
        (self.attempts, self.broken_since) = (0, None);
        self.heard = id.or(self.heard.take());
        self.ended = matches!(message, BatchMessage::Complete | BatchMessage::Error { fatal: true, .. });
        Ok(message)
    }

    async fn join_again(&mut self) -> Result<(), Error> {
        let broken =
            |source: Option<Error>| Error::Broken { batch: self.batch.to_string(), source: source.map(Box::new) };
        let settings = &self.client.settings;
        if self.attempts >= settings.retry.retries_max.max(1) {
            return Err(broken(None));
        }
        self.attempts += 1;
        let since = *self.broken_since.get_or_insert_with(Instant::now);
        loop {
            match join(&self.client, self.batch, self.heard.as_deref()).await {
                Ok(response) => {
                    self.ended = has_ended(&response);
                    self.messages = messages(&self.client, response);
                    return Ok(());
                }
                Err(error) if error.is_temporary() && since.elapsed() < settings.rejoin_for => {
                    tokio::time::sleep(settings.retry.delay_min).await;
                }
                Err(error) => return Err(broken(Some(error))),
            }
        }
    }
}

impl fmt::Debug for BatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchStream").field("batch", &self.batch).field("heard", &self.heard).finish_non_exhaustive()
    }
}

async fn join(client: &Client, batch: BatchId, after: Option<&str>) -> Result<Response, Error> {
    let ask = ApiRequest::get(client.rag(&format!("/v1/batch-add/{batch}")));
    let ask = match after {
        Some(after) => ask.header("last-event-id", after)?,
        None => ask,
    };
    client.ask_stream(ask).await
}

/// Whether the batch has ended and its last message was received before.
fn has_ended(response: &Response) -> bool {
    response.status() == http::StatusCode::NO_CONTENT
}

fn messages(client: &Client, response: Response) -> SseByteStream<ByteStream> {
    SseByteStream::new(Box::pin(client.lines(response)) as ByteStream)
}
