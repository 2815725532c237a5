//! Hints to other processes that rows changed: `NOTIFY` of PostgreSQL (`docs/decisions/0029-several-nodes.md`).
//!
//! A hint is sent in the transaction of the change, so it arrives after the commit or not at all. A hint may be lost with the connection
//! that listens: a reader that needs every change also reads at intervals (`registrations_changed_since`, `devices_changed_since`).

use std::time::Duration;

use domain::Digest;
use domain::secret::SecretHash;

use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{Pool, PostgresListener, Tx, query};

/// Channel of the hints. A channel belongs to one database.
const CHANNEL: &str = "attache_changes";

/// Timeout of a check of the listening connection.
const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// A change that other processes have to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The registration with this claim token.
    Registration(SecretHash),
    /// The device code with this hash.
    Device(SecretHash),
    /// Several registrations, or the signing keys.
    Others,
}

impl Change {
    /// `registration <hash>`, `device <hash>` or `others`.
    fn text(&self) -> String {
        match self {
            Self::Registration(token) => format!("registration {}", Digest::from(*token)),
            Self::Device(code) => format!("device {}", Digest::from(*code)),
            Self::Others => "others".to_owned(),
        }
    }

    /// Any other text, for example from a newer version, is parsed as `Others`.
    fn parse(text: &str) -> Self {
        let hash = |text: &str| text.parse::<Digest>().map(SecretHash::from);
        match text.split_once(' ').map(|(noun, text)| (noun, hash(text))) {
            Some(("registration", Ok(token))) => Self::Registration(token),
            Some(("device", Ok(code))) => Self::Device(code),
            _ => Self::Others,
        }
    }
}

/// A connection that receives hints. It counts as a connection of the pool until it is dropped.
#[derive(Debug)]
pub struct ChangeListener(PostgresListener);

impl Store {
    /// Listens for hints. `None` on SQLite, without `database.notify`, and with a single connection, which requests need.
    #[boxed]
    pub async fn changes_listen(&self) -> Result<Option<ChangeListener>, StoreError> {
        let Pool::Postgres(pool) = &self.pool else { return Ok(None) };
        if !self.notifies || pool.lent_max() < 2 {
            return Ok(None);
        }
        let listening = async {
            let mut listener = pool.listener().await?;
            // A lost connection is an error of `ChangeListener::next`, so that the caller knows that hints may be lost.
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok::<_, sqlx::Error>(listener)
        };
        Ok(Some(ChangeListener(listening.during(Operation::ListenForChanges).await?)))
    }

    /// Sends a hint with the transaction `tx`. Does nothing on SQLite, where only one node uses the database.
    pub(crate) async fn announce(&self, tx: &mut Tx<'_>, change: &Change) -> Result<(), sqlx::Error> {
        const SQL: &str = "SELECT pg_notify($1, $2)";
        if !self.notifies || !tx.is_postgres() {
            return Ok(());
        }
        query(SQL).bind(CHANNEL).bind(change.text()).execute(tx).await.map(drop)
    }
}

impl ChangeListener {
    /// The next hint. An error means that the connection is lost and hints may be lost.
    #[boxed]
    pub async fn next(&mut self) -> Result<Change, StoreError> {
        let next = async {
            let notification = self.0.try_recv().await?;
            notification.ok_or_else(|| sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into()))
        };
        let notification = next.during(Operation::ListenForChanges).await?;
        Ok(Change::parse(notification.payload()))
    }

    /// Sends a query on this connection: a broken connection receives nothing and reports no error.
    #[boxed]
    pub async fn check(&mut self) -> Result<(), StoreError> {
        let request = async {
            let answer = tokio::time::timeout(CHECK_DEADLINE, sqlx::query("SELECT 1").execute(&mut *self.0)).await;
            answer.map_err(|_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))?.map(drop)
        };
        request.during(Operation::ListenForChanges).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_read_as_it_was_written_and_an_unknown_one_is_some_change() {
        let hash = SecretHash::from(Digest::of(b"token"));
        for change in [Change::Registration(hash), Change::Device(hash), Change::Others] {
            assert_eq!(Change::parse(&change.text()), change);
        }
        for text in ["", "device", "device 12", "session 12"] {
            assert_eq!(Change::parse(text), Change::Others);
        }
    }
}
