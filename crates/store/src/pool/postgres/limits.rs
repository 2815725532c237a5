//! Times and numbers that bound the use of the connections.

use std::time::Duration;

use super::super::DatabaseSettings;

/// Time that the server has beyond `statement_timeout` to report that a statement took too long.
const SLACK: Duration = Duration::from_secs(1);

/// Bounds of the connections of one pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of connections that are lent at once.
    pub(super) lent_max: u32,
    /// Longest wait for a connection.
    pub(super) acquire: Duration,
    /// Longest time for opening one.
    pub(super) connect: Duration,
    /// Time without an answer after which the server is examined.
    pub(super) silent_after: Duration,
    /// Longest time for trying an idle connection, which leaves time for opening another.
    pub(super) trial: Duration,
    /// Longest time for one statement, with its answer; `None` without a time-out of statements.
    pub(super) statement: Option<Duration>,
}

impl Limits {
    /// One connection is left for [`examine`](super::examination), so that all together are at most `connections_max`.
    pub(super) fn of(settings: &DatabaseSettings) -> Self {
        let timeout = settings.statement_timeout;
        Self {
            lent_max: settings.connections_max.saturating_sub(1).max(1),
            acquire: settings.acquire_timeout,
            connect: settings.connect_timeout,
            silent_after: settings.silent_after,
            trial: settings.silent_after.min(settings.acquire_timeout / 2),
            statement: (!timeout.is_zero()).then(|| timeout.saturating_add(SLACK)),
        }
    }

    /// Longest time for opening a connection to one of `count` servers, so that the others can be tried while a request waits.
    pub(super) fn connect_to_one_of(&self, count: usize) -> Duration {
        match u32::try_from(count) {
            Ok(count) if count > 1 => self.connect.min(self.acquire / count),
            _ => self.connect,
        }
    }
}
