//! A relay between a server and its database, which loses or holds data, as a network or a frozen machine does.
//!
//! ```no_run
//! # async fn a_test() {
//! let Some(database) = harness::postgres::database().await else { return };
//! let relay = harness::relay::Relay::before(&database.url).await;
//! println!("{}", relay.url);
//! relay.lose_open_connections();
//! # }
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A relay to a database. Dropping it closes all connections.
#[derive(Debug)]
pub struct Relay {
    /// `postgres://…` with the address of the relay, as the configuration key `database.url` takes it.
    pub url: String,
    state: watch::Sender<State>,
    target: watch::Sender<SocketAddr>,
    accepting: JoinHandle<()>,
}

/// How connections are treated, which are numbered in the order in which they were accepted.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Whether the relay forwards no bytes in either direction; it still accepts connections.
    is_frozen: bool,
    /// Connections below this number are black holes: data on them is lost, and neither side learns when the other closes.
    lost: u64,
    /// Number of the next connection.
    accepted: u64,
}

impl Relay {
    /// Starts a relay before the database of a URL; the host of the URL must be an IP address.
    ///
    /// # Panics
    /// When the URL has no address and port, or no port is free.
    pub async fn before(url: &str) -> Self {
        let (start, target, end) = parts(url);
        let target = watch::Sender::new(target);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap_or_else(|error| panic!("no port: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("no address: {error}"));
        let state = watch::Sender::new(State::default());
        let accepting = tokio::spawn(accept(listener, target.subscribe(), state.clone()));
        Self { url: format!("{start}@{address}/{end}"), state, target, accepting }
    }

    /// Forwards new connections to the database of another URL, as the host name of a primary does after a failover. Open connections stay.
    ///
    /// # Panics
    /// When the URL has no address and port.
    pub fn leads_to(&self, url: &str) {
        self.target.send_replace(parts(url).1);
    }

    /// Freezes the database: the relay accepts connections, and forwards no bytes.
    pub fn freeze(&self) {
        self.state.send_modify(|state| state.is_frozen = true);
    }

    /// Ends [`Self::freeze`]: data that was sent since then arrives.
    pub fn thaw(&self) {
        self.state.send_modify(|state| state.is_frozen = false);
    }

    /// Number of connections that were accepted so far.
    pub fn accepted(&self) -> u64 {
        self.state.borrow().accepted
    }

    /// Waits until this number of connections was accepted.
    ///
    /// # Panics
    /// When it takes longer than 30 seconds.
    pub async fn accepts(&self, connections: u64) {
        let mut state = self.state.subscribe();
        let accepted = state.wait_for(|state| state.accepted >= connections);
        let accepted = tokio::time::timeout(Duration::from_secs(30), accepted).await;
        assert!(accepted.is_ok(), "fewer than {connections} connections were accepted");
    }

    /// Makes every open connection a black hole until the relay is dropped; new connections work. Returns the number of connections so far.
    pub fn lose_open_connections(&self) -> u64 {
        self.state.send_modify(|state| state.lost = state.accepted);
        self.accepted()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Splits a URL into its start with the user, the address, and the rest.
fn parts(url: &str) -> (&str, SocketAddr, &str) {
    let (start, rest) = url.split_once('@').unwrap_or_else(|| panic!("no user in {url}"));
    let (target, end) = rest.split_once('/').unwrap_or((rest, ""));
    (start, target.parse().unwrap_or_else(|error| panic!("{target}: {error}")), end)
}

async fn accept(listener: TcpListener, target: watch::Receiver<SocketAddr>, state: watch::Sender<State>) {
    // Ends with this task.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = state.borrow().accepted;
        state.send_modify(|state| state.accepted += 1);
        let target = *target.borrow();
        connections.spawn(relay(client, target, number, state.subscribe()));
        while connections.try_join_next().is_some() {}
    }
}

async fn relay(client: TcpStream, target: SocketAddr, number: u64, mut state: watch::Receiver<State>) {
    passes(&mut state, number).await;
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Small messages must not wait for others.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = pump(from_client, to_server, number, state.clone());
    let back = pump(from_server, to_client, number, state);
    tokio::join!(there, back);
}

/// Passes bytes on until one side closes or fails.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: u64, mut state: watch::Receiver<State>) {
    let mut bytes = vec![0; 65_536];
    loop {
        let read = from.read(&mut bytes).await;
        passes(&mut state, number).await;
        match read {
            Ok(0) | Err(_) => break,
            Ok(read) => {
                if to.write_all(&bytes[..read]).await.is_err() {
                    break;
                }
            }
        }
    }
    // Fails only if the other side is gone.
    let _ = to.shutdown().await;
}

/// Waits while the relay is frozen, and without end if the connection is a black hole.
async fn passes(state: &mut watch::Receiver<State>, number: u64) {
    let open = state.wait_for(|state| !state.is_frozen || number < state.lost).await;
    if open.is_ok_and(|state| number < state.lost) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, PgConnection};

    use super::*;

    #[tokio::test]
    async fn a_relay_passes_freezes_and_loses() {
        let Some(database) = crate::postgres::database().await else { return };
        let relay = Relay::before(&database.url).await;
        let brief = Duration::from_millis(300);
        let mut connection = PgConnection::connect(&relay.url).await.unwrap();
        connection.ping().await.unwrap();
        relay.freeze();
        assert!(tokio::time::timeout(brief, PgConnection::connect(&relay.url)).await.is_err());
        assert!(tokio::time::timeout(brief, connection.ping()).await.is_err());
        relay.thaw();
        connection.ping().await.unwrap();
        assert_eq!(relay.lose_open_connections(), 2);
        assert!(tokio::time::timeout(brief, connection.ping()).await.is_err());
        PgConnection::connect(&relay.url).await.unwrap().ping().await.unwrap();
    }
}
