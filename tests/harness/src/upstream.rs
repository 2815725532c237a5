//! A fake external statistics service that records requests, checks them, and fails on request.
//!
//! It implements the upstream contract over a real socket, on raw TCP because most faults that it must produce are below HTTP. A request
//! passes three modules:
//!
//! 1. `wire` reads the request strictly: input that an honest client would not send is a *surprise*.
//! 2. `judge` records it, checks it against the contract, and decides the honest response. It is the oracle: the product may only claim
//!    to have forwarded the events in it.
//! 3. `script` sends a response, in the manner that the test has scripted.
//!
//! Surprises and unused scripts fail the test when the fake is dropped.

mod judge;
mod script;
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use judge::Judge;
pub use judge::Taken;
pub use script::{Reply, Script};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
pub use wire::Request;

/// The bearer token that the fake expects: the product's `upstream.token`.
pub const TOKEN: &str = "upstream-token-of-the-tests";
/// Timeout of a test that waits for an expected request or state.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The fake. Lives until it is dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    state: Arc<State>,
    /// The accept loop, which owns every connection; `None` while the service is down.
    accepting: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    judge: Mutex<Judge>,
    /// Number of completely read requests.
    seen: watch::Sender<usize>,
}

impl Upstream {
    /// Starts the service on a free loopback port.
    ///
    /// # Panics
    /// When no port can be bound.
    #[expect(clippy::expect_used, reason = "without its upstream a test has nothing to show")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State { judge: Mutex::default(), seen: watch::Sender::new(0) });
        let accepting = Mutex::new(Some(tokio::spawn(accept(listener, Arc::clone(&state)))));
        Self { address, state, accepting }
    }

    /// `http://127.0.0.1:…`, the product's `upstream.url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Scripts the next request that has no script; called again, the one after it.
    pub fn next(&self, response: Script) {
        self.judge().next.push_back(response);
    }

    /// Scripts the next delivery of one event; called again, the delivery after it.
    pub fn for_event(&self, event_id: impl Into<String>, response: Script) {
        self.judge().for_event.entry(event_id.into()).or_default().push_back(response);
    }

    /// How every request is answered that no script names. Honestly, until this is called.
    pub fn always(&self, response: Script) {
        self.judge().always = response;
    }

    /// All completely read requests, in the order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.judge().requests.clone()
    }

    /// The accepted events by id: the oracle.
    pub fn taken(&self) -> BTreeMap<String, Taken> {
        self.judge().taken.clone()
    }

    /// Waits until at least `count` requests have arrived, answered or not.
    ///
    /// # Panics
    /// When they do not arrive.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut seen = self.state.seen.subscribe();
        let arrived = tokio::time::timeout(TIME_LIMIT, seen.wait_for(|seen| *seen >= count)).await;
        assert!(arrived.is_ok(), "{count} requests expected upstream, {} arrived", self.judge().requests.len());
    }

    /// Stops the service: its port refuses and its connections are cut. It keeps its events.
    pub async fn go_down(&self) {
        let accepting = lock(&self.accepting).take();
        if let Some(accepting) = accepting {
            accepting.abort();
            // Until the task has ended, it accepts and its connections answer.
            drop(accepting.await);
        }
    }

    /// Restarts the service on the same port.
    ///
    /// # Panics
    /// When another process has bound the port.
    #[expect(clippy::expect_used, reason = "without its upstream a test has nothing to show")]
    pub async fn come_back(&self) {
        self.go_down().await;
        let bound = async {
            loop {
                // The aborted accept loop releases the port when the runtime drops it.
                match TcpListener::bind(self.address).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let listener = tokio::time::timeout(TIME_LIMIT, bound).await.expect("the port is still free");
        *lock(&self.accepting) = Some(tokio::spawn(accept(listener, Arc::clone(&self.state))));
    }

    /// Removes and returns the surprises, for tests that provoke them.
    pub fn take_surprises(&self) -> Vec<String> {
        std::mem::take(&mut self.judge().surprises)
    }

    /// Fails the test if a request violated the contract, or a script was not used.
    /// Dropping the fake does the same.
    ///
    /// # Panics
    /// On these.
    pub fn assert_no_surprises(&self) {
        let complaints = self.judge().complaints();
        assert!(complaints.is_empty(), "the upstream was surprised:\n{}", complaints.join("\n"));
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        lock(&self.state.judge)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(accepting) = lock(&self.accepting).take() {
            accepting.abort();
        }
        if !thread::panicking() {
            self.assert_no_surprises();
        }
    }
}

/// Serves every connection until the task is aborted; the connections end with it.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection, request after request, until either side ends it.
async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut unread = bytes::BytesMut::new();
    loop {
        let request = match wire::read(&mut stream, &mut unread).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(surprise) => {
                lock(&state.judge).surprises.push(surprise.to_string());
                return;
            }
        };
        let (response, honest) = lock(&state.judge).hear(request);
        state.seen.send_modify(|seen| *seen += 1);
        if !response.say(&mut stream, honest).await {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under this lock is a failing test already; the others need not fail with it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
