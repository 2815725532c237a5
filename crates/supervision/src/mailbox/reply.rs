//! The reply channel from an actor to the sender of a message.

use std::fmt;

use tokio::sync::oneshot;

use super::meter::Permit;

/// The channel for an actor's reply. Every message that arrives through a handle or a directory carries one.
///
/// It is also the message's place in the queue: answer it, drop it or [`park`](Self::park) it as soon as the message is handled.
pub struct Reply<T> {
    // Declared first, so that a dropped message frees its place before its sender is notified.
    permit: Option<Permit>,
    port: Option<oneshot::Sender<T>>,
}

impl<T> Reply<T> {
    /// Creates a channel for a sender that waits for the reply.
    pub(crate) fn awaited(permit: Permit) -> (Self, oneshot::Receiver<T>) {
        let (port, answer) = oneshot::channel();
        (Self { permit: Some(permit), port: Some(port) }, answer)
    }

    /// Creates a channel that discards the reply.
    pub(crate) fn unheard(permit: Permit) -> Self {
        Self { permit: Some(permit), port: None }
    }

    /// Sends the reply. Returns whether the sender still waited for it.
    pub fn send(mut self, answer: T) -> bool {
        // Freed before the reply: the sender's next message must find the place free.
        self.permit = None;
        self.port.is_some_and(|port| port.send(answer).is_ok())
    }

    /// Whether no sender waits for the reply: the message was sent with `send`, or the sender is gone or timed out.
    pub fn is_closed(&self) -> bool {
        self.port.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Frees the place in the queue now, for a reply that another task sends or that comes much later. The message no longer counts for
    /// the detection of stuck handlers, and the actor has to limit the number of parked replies.
    #[must_use]
    pub fn park(mut self) -> Self {
        self.permit = None;
        self
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
