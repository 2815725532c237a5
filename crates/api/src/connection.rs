//! State shared between a connection and its current request.
//!
//! HTTP/1.1 answers the requests of a connection one after the other, so the place of the request in progress is stored here: one object
//! for each connection. All requests share only the [gate](super::gate).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use axum::http::Extensions;
use hyper::body::Incoming;

use super::gate::Gate;

/// A connection; its requests have it as the extension [`Peer`].
#[derive(Debug)]
pub struct Connection {
    peer: SocketAddr,
    /// User id of the process at the other end of a local socket.
    uid: Option<u32>,
    /// Whether its request has a place in the gate.
    has_place: AtomicBool,
    /// Number of exchanges that started plus number that ended: odd while a request is being answered.
    exchanges: AtomicU32,
    /// Whether the client may still be sending bytes of a body that the server does not read.
    lingers: AtomicBool,
    /// The body of the current request, if its handler did not read it to its end.
    unread: Mutex<Option<Incoming>>,
}

/// The connection of a request.
#[derive(Debug, Clone)]
pub struct Peer(pub Arc<Connection>);

impl Peer {
    /// The connection of this request.
    pub fn of(request: &Request) -> Self {
        Self::in_extensions(request.extensions())
    }

    /// The connection of the request with these extensions.
    pub fn in_extensions(extensions: &Extensions) -> Self {
        let peer = extensions.get::<Self>().cloned();
        // Every listener of this server inserts the extension.
        peer.unwrap_or_else(|| Self(Arc::new(Connection::new((Ipv4Addr::UNSPECIFIED, 0).into()))))
    }
}

impl Connection {
    /// A connection from this peer.
    pub fn new(peer: SocketAddr) -> Self {
        let no = || AtomicBool::new(false);
        Self { peer, uid: None, has_place: no(), exchanges: AtomicU32::new(0), lingers: no(), unread: Mutex::default() }
    }

    /// A connection of a process on this computer, which runs as this user.
    pub fn of_process(uid: u32) -> Self {
        Self { uid: Some(uid), ..Self::new((Ipv4Addr::LOCALHOST, 0).into()) }
    }

    /// User id of the process at the other end; `None` on the network.
    pub fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// The address at its other end.
    pub fn address(&self) -> IpAddr {
        self.peer.ip()
    }

    /// Whether a request is being answered.
    pub fn is_busy(&self) -> bool {
        self.exchanges() % 2 == 1
    }

    /// Number of exchanges that started plus number that ended: odd while a request is being answered.
    pub fn exchanges(&self) -> u32 {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// Starts an exchange, which ends when the result is dropped.
    pub fn begin(self: &Arc<Self>) -> Exchange {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        Exchange(Arc::clone(self))
    }

    /// Whether the client may still be sending bytes of a body that the server does not read: closing at once would reset the connection,
    /// and the client would lose the response.
    pub fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Sets whether the connection lingers after the current response.
    pub fn set_lingers(&self, lingers: bool) {
        self.lingers.store(lingers, Ordering::Relaxed);
    }

    /// Stores the rest of a body that a handler dropped.
    pub(super) fn leave_unread(&self, body: Incoming) {
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// The rest of the body of the current request, if its handler dropped it before its end.
    pub fn take_unread(&self) -> Option<Incoming> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes a place for the request; `None` if all places are taken.
    pub fn enter<'g>(&'g self, gate: &'g Gate) -> Option<ConnectionPermit<'g>> {
        self.step_in(gate).then_some(ConnectionPermit { connection: self, gate })
    }

    /// Takes a place again after [`step_out`](Self::step_out); `false` if all places are taken.
    pub fn step_in(&self, gate: &Gate) -> bool {
        let entered = gate.enter();
        self.has_place.store(entered, Ordering::Relaxed);
        entered
    }

    /// Gives the place of the request back, while it waits for its client.
    pub fn step_out(&self, gate: &Gate) {
        if self.has_place.swap(false, Ordering::Relaxed) {
            gate.leave();
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Exchange(Arc<Connection>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.exchanges.fetch_add(1, Ordering::Relaxed);
    }
}

/// The place of a request; it is free again when dropped.
#[derive(Debug)]
pub struct ConnectionPermit<'g> {
    connection: &'g Connection,
    gate: &'g Gate,
}

impl Drop for ConnectionPermit<'_> {
    fn drop(&mut self) {
        self.connection.step_out(self.gate);
    }
}

#[cfg(test)]
mod tests {
    use domain::live::Live;

    use super::*;

    fn connection() -> Connection {
        Connection::new((Ipv4Addr::LOCALHOST, 1).into())
    }

    #[test]
    fn a_full_gate_refuses_until_a_request_ends_or_its_limit_is_raised() {
        let requests_max = Live::new(2);
        let gate = Gate::new(requests_max.clone());
        let [one, two, three] = [connection(), connection(), connection()];
        let (first, second) = (one.enter(&gate).unwrap(), two.enter(&gate).unwrap());
        for _ in 0..3 {
            assert!(three.enter(&gate).is_none());
        }
        drop(first);
        let third = three.enter(&gate).unwrap();
        assert!(one.enter(&gate).is_none());
        requests_max.set(1);
        drop(second);
        assert!(one.enter(&gate).is_none(), "the third request is in progress");
        requests_max.set(2);
        assert!(one.enter(&gate).is_some());
        drop(third);
    }

    #[test]
    fn a_request_that_waits_for_its_body_has_no_place_and_gives_none_back_twice() {
        let gate = Gate::new(1);
        let [waiting, other] = [connection(), connection()];
        let place = waiting.enter(&gate).unwrap();
        waiting.step_out(&gate);
        let others = other.enter(&gate).unwrap();
        assert!(!waiting.step_in(&gate), "the other one has it");
        drop(place);
        assert!(waiting.enter(&gate).is_none(), "nothing was given back");
        drop(others);
        assert!(waiting.enter(&gate).is_some());
    }
}
