//! A balancer in front of several nodes: round robin over those whose `/readyz` is 200, connections that are used again, no second try.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use blackbox::client::{Client, Credential};
use blackbox::process::Server;
use blackbox::raw::response;

/// How often each node is asked whether it is ready.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// A node, as the balancer knows it.
struct Node {
    /// `127.0.0.1:<port>` of its public listener.
    address: String,
    operator: String,
    is_ready: bool,
    /// Open connections that no request uses.
    idle: Vec<TcpStream>,
    answered: u64,
}

/// The balancer; its checks end when it is dropped.
pub struct Balancer {
    nodes: Arc<Mutex<Vec<Node>>>,
    next: AtomicUsize,
    checks: JoinHandle<()>,
}

impl Balancer {
    /// In front of these servers, none of which is ready before the first check.
    pub fn new(servers: &[Server]) -> Self {
        let nodes = Arc::new(Mutex::new(servers.iter().map(Node::of).collect::<Vec<_>>()));
        let checks = tokio::spawn(check(Arc::clone(&nodes)));
        Self { nodes, next: AtomicUsize::new(0), checks }
    }

    /// The server that took the place of the one with this number.
    pub fn replace(&self, number: usize, server: &Server) {
        let answered = self.nodes()[number].answered;
        self.nodes()[number] = Node { answered, ..Node::of(server) };
    }

    /// Whether the node with this number gets requests.
    pub fn is_ready(&self, number: usize) -> bool {
        self.nodes()[number].is_ready
    }

    /// Number of requests that each node has answered.
    pub fn answered(&self) -> Vec<u64> {
        self.nodes().iter().map(|node| node.answered).collect()
    }

    /// Sends a request to the next node that is ready, once. The error says what the client of a balancer without a second try gets.
    pub async fn send(&self, request: &str) -> Result<(u16, String), String> {
        let (number, address, idle) = self.chosen().ok_or("no node is ready")?;
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("node {number}: {what}: {error}");
        let mut stream = match idle {
            Some(stream) => stream,
            None => TcpStream::connect(&address).await.map_err(|error| failed("no connection", &error))?,
        };
        stream.write_all(request.as_bytes()).await.map_err(|error| failed("not sent", &error))?;
        let (status, text) = response(&mut stream).await;
        if status == 0 {
            return Err(failed("no response", &text));
        }
        let mut nodes = self.nodes();
        let node = &mut nodes[number];
        node.answered += 1;
        let is_same = node.address == address;
        if is_same && !text.to_lowercase().contains("\r\nconnection: close\r\n") {
            node.idle.push(stream);
        }
        Ok((status, text))
    }

    /// The next node, with one of its idle connections that the server has not closed.
    fn chosen(&self) -> Option<(usize, String, Option<TcpStream>)> {
        let mut nodes = self.nodes();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let total = nodes.len();
        let number = (first..first + total).map(|number| number % total).find(|number| nodes[*number].is_ready)?;
        let node = &mut nodes[number];
        let mut idle = None;
        while let Some(stream) = node.idle.pop() {
            if stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
                idle = Some(stream);
                break;
            }
        }
        Some((number, node.address.clone(), idle))
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.checks.abort();
    }
}

impl Node {
    fn of(server: &Server) -> Self {
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        Self { address, operator: server.operator.clone(), is_ready: false, idle: Vec::new(), answered: 0 }
    }
}

async fn check(nodes: Arc<Mutex<Vec<Node>>>) {
    let client = Client::new();
    loop {
        let operators: Vec<String> = {
            let nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.iter().map(|node| node.operator.clone()).collect()
        };
        for (number, operator) in operators.into_iter().enumerate() {
            let request = client.request(reqwest::Method::GET, &format!("{operator}/readyz"), &Credential::None);
            let is_ready = client.try_send(request).await.is_some_and(|response| response.status == 200);
            let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
            if nodes[number].operator == operator {
                nodes[number].is_ready = is_ready;
            }
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
}
