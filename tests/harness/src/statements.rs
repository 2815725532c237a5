//! The statements on the way to PostgreSQL, counted by a relay that reads the protocol.
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A relay to PostgreSQL; it ends when it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// `postgres://…` of the same database, through the relay.
    pub url: String,
    executed: Arc<Mutex<Vec<String>>>,
    listening: JoinHandle<()>,
}

impl Relay {
    /// Listens, and passes connections on to the server of `url`.
    ///
    /// # Panics
    /// When `url` names no host and port, and when no port is free.
    pub async fn to(url: &str) -> Self {
        let (before, rest) = url.split_once('@').unwrap_or_else(|| panic!("{url}"));
        let (server, database) = rest.split_once('/').unwrap_or_else(|| panic!("{url}"));
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap_or_else(|error| panic!("{error}"));
        let own = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
        let separator = if database.contains('?') { '&' } else { '?' };
        // Encrypted statements could not be counted.
        let url = format!("{before}@{own}/{database}{separator}sslmode=disable");
        let executed: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&executed);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(connection) = TcpStream::connect(&server).await else { continue };
                let (client_read, mut client_write) = client.into_split();
                let (mut server_read, server_write) = connection.into_split();
                let seen = Arc::clone(&seen);
                drop(tokio::spawn(async move { copy(&mut server_read, &mut client_write).await.map(drop) }));
                drop(tokio::spawn(async move { pass(client_read, server_write, &seen).await }));
            }
        });
        Self { url, executed, listening }
    }

    /// The statements since the last call, in order, without the settings of a new connection, `ROLLBACK` of idle connections, and the
    /// preparation of statements.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.executed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Passes the messages of a client on.
async fn pass(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let startup = body(&mut client).await?;
    server.write_all(&startup).await?;
    loop {
        let kind = client.read_u8().await?;
        let message = body(&mut client).await?;
        // Length, then the text of a simple query, or the name of a portal.
        let text = message.get(4..).unwrap_or_default();
        let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        let statement = match kind {
            b'Q' if text == "ROLLBACK" || text.contains("statement_timeout") => None,
            b'Q' => Some(text),
            b'E' => Some("a prepared statement".to_owned()),
            _ => None,
        };
        seen.lock().unwrap_or_else(PoisonError::into_inner).extend(statement);
        server.write_u8(kind).await?;
        server.write_all(&message).await?;
    }
}

/// Reads a length and the rest of the message; the length includes its own four bytes.
async fn body(client: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let length = client.read_u32().await?;
    let mut message = vec![0; usize::try_from(length).map_err(io::Error::other)?.max(4)];
    let (head, rest) = message.split_at_mut(4);
    head.copy_from_slice(&length.to_be_bytes());
    client.read_exact(rest).await?;
    Ok(message)
}
