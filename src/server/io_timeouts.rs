//! The socket of a connection, with timeouts for waiting on its client.
//!
//! - A write fails if the client reads no bytes for `write_deadline`, which ends the connection. The timer exists only while a write waits.
//! - A read that waits for a request ends at one of the [deadlines for its head](super::head_timer): with the end of the stream on an idle
//!   connection, or with an error in the middle of a head.
//! - The [bytes of its heads](super::head_bytes) are counted. Only hyper may write, since it knows which responses are still unwritten, so
//!   the socket continues a refused head with bytes that hyper refuses, and replaces hyper's response, which has no body.
//! - A connection that [lingers](Connection::lingers) continues to read for a second after its last response, and discards the
//!   bytes: closing a socket with unread bytes resets the connection, and the client would lose the response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use api::connection::Connection;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::head_bytes::{self, HeadBytes, HeadRefusal};
use super::head_timer::{HeadTimer, Late};

/// The end of a head that every parser refuses.
const MALFORMED: &[u8] = b"\0\r\n\r\n";

/// Header of a response without a body.
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";

/// Maximum time until the client has read the last response, which is a short refusal.
const LINGER_DEADLINE: Duration = Duration::from_secs(1);

/// A socket with timeouts.
#[derive(Debug)]
pub struct Patient<S> {
    socket: S,
    /// Maximum time until the client reads some of the written bytes.
    write_deadline: Duration,
    connection: Arc<Connection>,
    heads: HeadTimer,
    head_bytes: HeadBytes,
    /// Why the head that is being read is refused.
    refusal: Option<HeadRefusal>,
    /// The unwritten rest of the response to a refused head.
    response: Option<Bytes>,
    /// The timer of a waiting write.
    stalled: Option<Pin<Box<Sleep>>>,
    /// The timer while the socket discards bytes after the last response.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// Wraps the socket of this connection.
    pub fn new(
        socket: S,
        write_deadline: Duration,
        connection: Arc<Connection>,
        (heads, head_bytes): (HeadTimer, HeadBytes),
    ) -> Self {
        let (refusal, response, stalled, lingering) = (None, None, None, None);
        Self { socket, write_deadline, connection, heads, head_bytes, refusal, response, stalled, lingering }
    }

    /// The refusal of a head instead of this response, which hyper writes to a head that it cannot parse.
    fn instead_of(&self, response: &[u8]) -> Option<HeadRefusal> {
        let is_empty = |response: &[u8]| response.windows(EMPTY.len()).any(|part| part == EMPTY);
        match response.get(8..12)? {
            b" 400" | b" 414" if is_empty(response) => Some(self.refusal.unwrap_or(HeadRefusal::Malformed)),
            b" 431" => Some(self.refusal.unwrap_or_else(|| self.head_bytes.too_large())),
            _ => None,
        }
    }

    /// The result of a write, or a timeout error after `write_deadline`.
    fn in_time(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.heads.on_write();
            if self.stalled.is_some() {
                self.stalled = None;
            }
            return written;
        }
        let deadline = self.write_deadline;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(deadline)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    /// Writes the response to a refused head instead of hyper's response, which starts with `head` and has `length` bytes; `None` for any
    /// other response.
    fn poll_replaced(
        &mut self,
        head: &[u8],
        length: usize,
        context: &mut Context<'_>,
    ) -> Option<Poll<io::Result<usize>>> {
        if self.response.is_none() {
            let refusal = self.instead_of(head)?;
            api::error::count_refusal(refusal.reason());
            self.response = Some(refusal.response().into());
            // The client may still be sending the rest of its head.
            self.connection.set_lingers(true);
        }
        while let Some(rest) = self.response.as_ref().filter(|rest| !rest.is_empty()) {
            let written = Pin::new(&mut self.socket).poll_write(context, rest);
            match self.in_time(written, context) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(bytes)) => self.response.as_mut()?.advance(bytes),
                other => return Some(other),
            }
        }
        self.response = None;
        Some(Poll::Ready(Ok(length)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let is_busy = this.connection.is_busy();
        if let Some(refusal) = this.head_bytes.refusal(&this.connection) {
            this.refusal = Some(refusal);
            if buf.remaining() < MALFORMED.len() {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the head is refused")));
            }
            buf.put_slice(MALFORMED);
            return Poll::Ready(Ok(()));
        }
        let filled = buf.filled().len();
        let read = if is_busy || buf.remaining() <= head_bytes::FREE {
            Pin::new(&mut this.socket).poll_read(context, buf)
        } else {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(head_bytes::FREE));
            let read = Pin::new(&mut this.socket).poll_read(context, &mut part);
            let bytes = part.filled().len();
            buf.advance(bytes);
            read
        };
        if let Poll::Ready(read) = read {
            let bytes = &buf.filled()[filled..];
            if !bytes.is_empty() {
                this.heads.on_read(&this.connection);
                if !is_busy {
                    this.head_bytes.count(bytes);
                }
            }
            return Poll::Ready(read);
        }
        match ready!(this.heads.poll_late(&this.connection, context)) {
            // The end of the stream between two requests is an orderly end of the connection.
            Late::Idle => Poll::Ready(Ok(())),
            Late::Head => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not send a whole head")))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(written) = self.poll_replaced(buf, buf.len(), context) {
            return written;
        }
        let written = Pin::new(&mut self.socket).poll_write(context, buf);
        self.in_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let head = bufs.first().map_or(&[][..], |buf| buf);
        if let Some(written) = self.poll_replaced(head, bufs.iter().map(|buf| buf.len()).sum(), context) {
            return written;
        }
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, bufs);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.socket).poll_shutdown(context))?;
            if !this.connection.lingers() {
                return Poll::Ready(Ok(()));
            }
        }
        let lingering = this.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_DEADLINE)));
        let mut unwanted = [0; 4096];
        while lingering.as_mut().poll(context).is_pending() {
            let mut buf = ReadBuf::new(&mut unwanted);
            match ready!(Pin::new(&mut this.socket).poll_read(context, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                // The client has closed its side too, or the connection is lost.
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    use api::receiving::ReceiveMemory;

    use super::super::head_bytes::HeadLimits;
    use super::super::head_timer::HeadDeadlines;
    use super::super::place::Place;
    use super::*;

    const WRITE_DEADLINE: Duration = Duration::from_secs(30);

    fn pair() -> (Patient<DuplexStream>, DuplexStream, Arc<Connection>) {
        let connection = Arc::new(Connection::new((Ipv4Addr::LOCALHOST, 1).into()));
        let (ours, theirs) = tokio::io::duplex(8);
        let deadlines = HeadDeadlines { head: Duration::from_secs(10), idle: Duration::from_secs(75) };
        let heads = HeadTimer::new(deadlines, Place::default());
        let limits = HeadLimits { bytes_max: 16, memory: ReceiveMemory::new(0) };
        let heads = (heads, HeadBytes::new(&limits));
        (Patient::new(ours, WRITE_DEADLINE, Arc::clone(&connection), heads), theirs, connection)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_ends_the_connection_and_a_slow_one_does_not() {
        let (mut ours, mut theirs, _) = pair();
        let begun = Instant::now();
        let reading = tokio::spawn(async move {
            let mut read = [0; 8];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut read).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 40]).await.unwrap();
        let _still_open = reading.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(80), "longer than the deadline, with progress");
        let begun = Instant::now();
        assert_eq!(ours.write_all(&[0; 40]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), WRITE_DEADLINE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_client_may_finish_and_an_endless_one_may_not() {
        for (lingers, pieces, took) in
            [(false, 0, Duration::ZERO), (true, 5, Duration::from_millis(500)), (true, 1000, LINGER_DEADLINE)]
        {
            let (mut ours, mut theirs, connection) = pair();
            connection.set_lingers(lingers);
            let sending = tokio::spawn(async move {
                for _ in 0..pieces {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    if theirs.write_all(&[0; 8]).await.is_err() {
                        return;
                    }
                }
            });
            let begun = Instant::now();
            ours.shutdown().await.unwrap();
            assert_eq!(begun.elapsed(), took);
            drop(ours);
            sending.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_ends_as_idle_and_one_in_the_middle_of_a_head_with_an_error() {
        let (mut ours, mut theirs, connection) = pair();
        drop(connection.begin());
        let (begun, mut read) = (Instant::now(), [0; 8]);
        assert_eq!(ours.read(&mut read).await.unwrap(), 0);
        assert_eq!(begun.elapsed(), Duration::from_secs(75));
        theirs.write_all(b"G").await.unwrap();
        assert_eq!(ours.read(&mut read).await.unwrap(), 1);
        let begun = Instant::now();
        assert_eq!(ours.read(&mut read).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
    }
}
