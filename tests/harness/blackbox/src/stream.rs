//! A reader of the event stream of a batch that checks each byte.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use serde_json::Value;

/// An open stream.
pub struct Stream {
    body: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    unread: Vec<u8>,
    /// The id of the batch, from the header `X-Batch-Id`.
    pub batch: String,
    /// The id of the last message, with which a client reconnects.
    pub last: Option<String>,
    next: Option<u32>,
    /// Number of comments so far, which keep the connection open.
    pub heartbeats: usize,
    /// Called with each message; fails the test if it is wrong.
    pub judge: fn(&Value),
}

impl Stream {
    /// Asserts the status and the headers of the response.
    pub async fn open(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let headers =
            [header("content-type"), header("cache-control"), header("x-accel-buffering"), header("x-batch-id")];
        let response = if status == 200 { response } else { panic!("{status}: {}", response.text().await.unwrap()) };
        let [kind, cache, buffering, batch] = headers.map(Option::unwrap);
        assert_eq!(
            (kind.as_str(), cache.as_str(), buffering.as_str()),
            ("text/event-stream", "no-cache, no-transform", "no")
        );
        let body = Box::pin(response.bytes_stream());
        Self { body, unread: Vec::new(), batch, last: None, next: None, heartbeats: 0, judge: |_| {} }
    }

    /// The next message; `None` once the server has closed the stream.
    pub async fn next(&mut self) -> Option<Value> {
        let message = self.next_or_cut().await;
        if message.is_none() {
            assert!(self.unread.is_empty(), "half a message: {:?}", String::from_utf8_lossy(&self.unread));
        }
        message.iter().for_each(self.judge);
        message
    }

    /// The next message of a server that may be killed while it sends: an incomplete message counts as none.
    pub async fn next_or_cut(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                if let Some(message) = self.read(&String::from_utf8(block).unwrap()) {
                    return Some(message);
                }
                continue;
            }
            match self.body.next().await {
                Some(Ok(chunk)) => self.unread.extend_from_slice(&chunk),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Parses one block: `id: <batch>:<seq>` and one line of `data:`, a comment, or the error that ends only this stream.
    fn read(&mut self, block: &str) -> Option<Value> {
        if block.starts_with(':') {
            self.heartbeats += 1;
            return None;
        }
        if let Some(data) = block.strip_prefix("data: ") {
            // The error that ends a stream after the credential was revoked has no id: it is no message of the batch.
            let message: Value = serde_json::from_str(data.trim_end()).unwrap();
            assert_eq!((&message["type"], &message["fatal"]), (&"error".into(), &true.into()), "{message}");
            return Some(message);
        }
        let lines: Vec<&str> = block.trim_end_matches('\n').split('\n').collect();
        assert_eq!(lines.len(), 2, "{block:?}");
        let id = lines[0].strip_prefix("id: ").unwrap_or_else(|| panic!("{block:?}"));
        let (batch, seq) = id.rsplit_once(':').unwrap();
        let seq: u32 = seq.parse().unwrap();
        assert_eq!(batch, self.batch);
        assert!(self.next.is_none_or(|next| next == seq), "{id} after {:?}", self.last);
        (self.next, self.last) = (Some(seq + 1), Some(id.to_owned()));
        let data = lines[1].strip_prefix("data: ").unwrap_or_else(|| panic!("{block:?}"));
        let message: Value = serde_json::from_str(data).unwrap();
        assert_shape(&message);
        Some(message)
    }

    /// All remaining messages.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }

    /// All messages of a stream that was opened at its start; asserts [`assert_whole`].
    pub async fn whole(mut self) -> Vec<Value> {
        let messages = self.rest().await;
        assert_whole(&messages);
        messages
    }
}

/// Asserts that a message has exactly the members of its type.
fn assert_shape(message: &Value) {
    let members: BTreeSet<&str> = message.as_object().unwrap().keys().map(String::as_str).collect();
    let exactly = |fields: &[&str]| assert_eq!(members, fields.iter().copied().collect(), "{message}");
    match message["type"].as_str().unwrap() {
        "progress" => exactly(&["type", "processed", "total"]),
        "success" => exactly(&["type", "id", "url", "index"]),
        "complete" => exactly(&["type"]),
        "error" => {
            assert!(members.is_superset(&["type", "index", "error", "message"].into()), "{message}");
            assert!(members.is_subset(&["type", "index", "error", "message", "url", "title"].into()), "{message}");
        }
        "skipped" => {
            assert!(members.is_superset(&["type", "index", "reason"].into()), "{message}");
            assert!(members.is_subset(&["type", "index", "reason", "url"].into()), "{message}");
        }
        other => panic!("{other}"),
    }
}

/// Asserts the order of a whole stream: progress 0; for each item one outcome, followed by progress; then `complete`.
pub fn assert_whole(messages: &[Value]) {
    let total = usize::try_from(messages[0]["total"].as_u64().unwrap()).unwrap();
    assert_eq!((messages[0]["type"].as_str(), messages[0]["processed"].as_u64()), (Some("progress"), Some(0)));
    assert_eq!(messages.len(), 2 * total + 2, "{messages:?}");
    for (nth, pair) in messages[1..=2 * total].chunks(2).enumerate() {
        assert!(matches!(pair[0]["type"].as_str().unwrap(), "success" | "error" | "skipped"), "{pair:?}");
        assert_eq!(pair[1]["type"], "progress");
        assert_eq!(pair[1]["processed"].as_u64(), Some(nth as u64 + 1));
        assert_eq!(pair[1]["total"].as_u64(), Some(total as u64));
    }
    let named: Vec<u64> = messages.iter().filter_map(|message| message["index"].as_u64()).collect();
    let different: BTreeSet<u64> = named.iter().copied().collect();
    assert_eq!(named.len(), different.len(), "an item has two outcomes");
    assert_eq!(messages.last().unwrap()["type"], "complete");
}
