//! The deadlines for the head of a request.
//!
//! hyper has one deadline for the idle time and the head, which starts at the last response: an idle client would have as long as a client
//! that sends its head byte by byte. Here the time between two requests has a separate deadline, and the deadline of a head starts at its
//! first byte. For the first head, only the latter applies, from the start of the connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use api::connection::Connection;
use tokio::time::{Instant, Sleep};

use super::place::Place;

/// Timeouts of a connection that waits for a request.
#[derive(Debug, Clone, Copy)]
pub struct HeadDeadlines {
    /// Maximum time for a head, from its first byte.
    pub head: Duration,
    /// Maximum time between a response and the first byte of the next head.
    pub idle: Duration,
}

/// The exceeded deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// No request has started: the connection can be closed without loss.
    Idle,
    /// A head has started and has not ended.
    Head,
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    /// The timer is not set for the next wait.
    Unset,
    /// As [`Unset`](Self::Unset), and some bytes of a head have arrived.
    Begun,
    Idle {
        since: Instant,
    },
    Head,
}

/// The timer of one connection.
#[derive(Debug)]
pub struct HeadTimer {
    deadlines: HeadDeadlines,
    place: Place,
    /// Count of [`Connection::exchanges`] at the start of the wait.
    exchanges: u32,
    wait: Wait,
    /// Set again for each wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl HeadTimer {
    /// The timer of a new connection.
    pub fn new(deadlines: HeadDeadlines, place: Place) -> Self {
        Self { deadlines, place, exchanges: 0, wait: Wait::Begun, timer: None }
    }

    /// Bytes were read.
    pub fn on_read(&mut self, connection: &Connection) {
        if self.awaits_request(connection) && !matches!(self.wait, Wait::Head) {
            self.wait = Wait::Begun;
        }
    }

    /// Bytes were written: the client still gets its response.
    pub fn on_write(&mut self) {
        if let Wait::Idle { .. } = self.wait {
            self.wait = Wait::Unset;
        }
    }

    /// Whether no request is in progress. Resets the wait if a request has arrived since.
    fn awaits_request(&mut self, connection: &Connection) -> bool {
        let exchanges = connection.exchanges();
        if exchanges != self.exchanges {
            self.exchanges = exchanges;
            self.wait = Wait::Unset;
        }
        !connection.is_busy()
    }

    /// Called while nothing can be read. Ready when a deadline has passed.
    pub fn poll_late(&mut self, connection: &Connection, context: &mut Context<'_>) -> Poll<Late> {
        if !self.awaits_request(connection) {
            return Poll::Pending;
        }
        let HeadDeadlines { head, idle } = self.deadlines;
        match self.wait {
            Wait::Unset => {
                let since = Instant::now();
                self.wait = Wait::Idle { since };
                self.set(since + head.min(idle));
            }
            Wait::Begun => {
                self.wait = Wait::Head;
                self.set(Instant::now() + head);
            }
            Wait::Idle { .. } | Wait::Head => {}
        }
        loop {
            let Some(timer) = &mut self.timer else { return Poll::Pending };
            ready!(timer.as_mut().poll(context));
            let Wait::Idle { since } = self.wait else { return Poll::Ready(Late::Head) };
            let now = Instant::now();
            if now >= since + idle || self.place.is_crowded() {
                return Poll::Ready(Late::Idle);
            }
            self.set((now + head).min(since + idle));
        }
    }

    fn set(&mut self, until: Instant) {
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(until),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(until))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;
    use api::addresses::Taken;

    const DEADLINES: HeadDeadlines = HeadDeadlines { head: Duration::from_secs(10), idle: Duration::from_secs(75) };

    fn begun(place: Place) -> (HeadTimer, Arc<Connection>) {
        (HeadTimer::new(DEADLINES, place), Arc::new(Connection::new((Ipv4Addr::LOCALHOST, 1).into())))
    }

    /// Which deadline passes, and after how many seconds.
    async fn late(timer: &mut HeadTimer, connection: &Connection) -> (Late, u64) {
        let begun = Instant::now();
        let late = std::future::poll_fn(|context| timer.poll_late(connection, context)).await;
        (late, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_longer_than_a_head_that_has_begun() {
        let (mut timer, connection) = begun(Place::default());
        assert_eq!(late(&mut timer, &connection).await, (Late::Head, 10), "the first request");

        let (mut timer, connection) = begun(Place::default());
        timer.on_read(&connection);
        drop(connection.begin());
        assert_eq!(late(&mut timer, &connection).await, (Late::Idle, 75));
        timer.on_read(&connection);
        assert_eq!(late(&mut timer, &connection).await, (Late::Head, 10));
        timer.on_read(&connection);
        assert_eq!(late(&mut timer, &connection).await, (Late::Head, 0), "more bytes give no more time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_progress_and_a_response_that_is_still_read_are_not_idle() {
        let (mut timer, connection) = begun(Place::default());
        timer.on_read(&connection);
        let exchange = connection.begin();
        let answering = tokio::time::timeout(Duration::from_mins(10), late(&mut timer, &connection)).await;
        assert!(answering.is_err(), "{answering:?}");
        drop(exchange);
        for _ in 0..3 {
            let reading = tokio::time::timeout(Duration::from_secs(70), late(&mut timer, &connection)).await;
            assert!(reading.is_err(), "{reading:?}");
            timer.on_write();
        }
        assert_eq!(late(&mut timer, &connection).await, (Late::Idle, 75));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_no_longer_than_a_head_while_places_are_scarce() {
        let places = Arc::new(Semaphore::new(4));
        let place = || Place::new(Arc::clone(&places).try_acquire_owned().ok(), 4, Taken::default());
        let (mut timer, connection) = begun(place());
        drop(connection.begin());
        let others = [place(), place()];
        assert_eq!(late(&mut timer, &connection).await, (Late::Idle, 10), "a quarter is free");
        drop(others);
        timer.on_write();
        assert_eq!(late(&mut timer, &connection).await, (Late::Idle, 75));
    }
}
