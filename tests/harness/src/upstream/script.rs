//! Scripted responses of the fake: honest, or one of the faults of a peer.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The response to one request. Only some scripts accept the event; with [`Script::having_stored`], any script accepts it.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) stores: bool,
    manner: Manner,
}

#[derive(Debug, Clone)]
enum Manner {
    Honest,
    Twice,
    Late(Duration),
    Gated(Arc<Notify>),
    Drip(Duration),
    Reset,
    Hang,
    Huge(u64),
    Reply(Reply),
}

impl Script {
    /// As in the contract: accepts the event and answers with its receipt.
    pub fn honest() -> Self {
        Self { stores: true, manner: Manner::Honest }
    }

    /// Takes the event and sends the same answer two times in a row on the connection.
    pub fn twice() -> Self {
        Self { stores: true, manner: Manner::Twice }
    }

    /// Takes the event at once and answers honestly only after `delay`, past the client's deadline for instance.
    pub fn late(delay: Duration) -> Self {
        Self { stores: true, manner: Manner::Late(delay) }
    }

    /// Takes the event at once and answers honestly after the test notified `gate`.
    pub fn gated(gate: Arc<Notify>) -> Self {
        Self { stores: true, manner: Manner::Gated(gate) }
    }

    /// Takes the event and answers honestly, one byte of the body every `pause`.
    pub fn drip(pause: Duration) -> Self {
        Self { stores: true, manner: Manner::Drip(pause) }
    }

    /// Resets the connection instead of answering.
    pub fn reset() -> Self {
        Self { stores: false, manner: Manner::Reset }
    }

    /// Never answers, until the client leaves.
    pub fn hang() -> Self {
        Self { stores: false, manner: Manner::Hang }
    }

    /// 200 with a JSON body of `bytes` blanks.
    pub fn huge(bytes: u64) -> Self {
        Self { stores: false, manner: Manner::Huge(bytes) }
    }

    /// Exactly this status, these headers, these bytes.
    pub fn reply(reply: Reply) -> Self {
        Self { stores: false, manner: Manner::Reply(reply) }
    }

    /// A bare 5xx.
    pub fn broken(status: u16) -> Self {
        Self::reply(Reply::json(status, &json!({"error": "internal"})))
    }

    /// 200 with a body that is no receipt.
    pub fn garbage() -> Self {
        Self::reply(Reply::new(200).header("Content-Type", "text/html").body("<html>It works!</html>"))
    }

    /// 409: the position is taken, or the epoch is closed.
    pub fn chain_conflict() -> Self {
        Self::reply(Reply::json(409, &json!({"error": "chain_conflict"})))
    }

    /// 422: the link does not fit.
    pub fn chain_broken() -> Self {
        Self::reply(Reply::json(422, &json!({"error": "chain_broken"})))
    }

    /// 429 with `Retry-After`, in seconds.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        let reply = Reply::json(429, &json!({"error": "rate_limited"}));
        Self::reply(reply.header("Retry-After", retry_after_seconds.to_string()))
    }

    /// The same, but the service stores the event before.
    #[must_use]
    pub fn having_stored(self) -> Self {
        Self { stores: true, ..self }
    }

    /// Sends the response; `honest` is the contract's response. Returns whether the connection can serve another request.
    pub(super) async fn say(self, stream: &mut TcpStream, honest: Reply) -> bool {
        let said = match self.manner {
            Manner::Honest => stream.write_all(&honest.bytes()).await,
            Manner::Twice => stream.write_all(&honest.bytes().repeat(2)).await,
            Manner::Late(delay) => {
                tokio::time::sleep(delay).await;
                stream.write_all(&honest.bytes()).await
            }
            Manner::Gated(gate) => {
                gate.notified().await;
                stream.write_all(&honest.bytes()).await
            }
            Manner::Drip(pause) => drip(stream, &honest, pause).await,
            // A socket closed without lingering sends a reset instead of an orderly end.
            Manner::Reset => stream.set_zero_linger().and(Err(std::io::ErrorKind::ConnectionReset.into())),
            Manner::Hang => hang(stream).await,
            Manner::Huge(bytes) => huge(stream, bytes).await,
            Manner::Reply(reply) => stream.write_all(&reply.bytes()).await,
        };
        said.is_ok()
    }
}

/// A whole answer. `Content-Length` is always added and always true.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Reply {
    /// An empty answer.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// A JSON answer.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status).header("Content-Type", "application/json").body(body.to_string())
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body, of any bytes.
    #[must_use]
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// The bytes on the wire.
    fn bytes(&self) -> Vec<u8> {
        [self.head(self.body.len() as u64).as_bytes(), &self.body].concat()
    }

    fn head(&self, length: u64) -> String {
        let status = format!("HTTP/1.1 {} Scripted", self.status);
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let length = format!("Content-Length: {length}");
        let lines: Vec<String> = iter::once(status).chain(headers).chain([length, "\r\n".to_owned()]).collect();
        lines.join("\r\n")
    }
}

async fn drip(stream: &mut TcpStream, reply: &Reply, pause: Duration) -> std::io::Result<()> {
    stream.write_all(reply.head(reply.body.len() as u64).as_bytes()).await?;
    for byte in &reply.body {
        tokio::time::sleep(pause).await;
        stream.write_all(&[*byte]).await?;
    }
    Ok(())
}

/// Waits for the client to leave.
async fn hang(stream: &mut TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 64]).await? > 0 {}
    Err(std::io::ErrorKind::UnexpectedEof.into())
}

async fn huge(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let head = Reply::new(200).header("Content-Type", "application/json").head(bytes);
    stream.write_all(head.as_bytes()).await?;
    tokio::io::copy(&mut tokio::io::repeat(b' ').take(bytes), stream).await.map(drop)
}
