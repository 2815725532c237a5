//! Times and numbers that limit the use of the connections.

use std::time::Duration;

use super::super::DatabaseSettings;

/// Additional time after `statement_timeout` in which the server can report the timeout.
const SLACK: Duration = Duration::from_secs(1);

/// Limits of the connections of one pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of connections that are lent at the same time.
    pub(super) lent_max: u32,
    /// Timeout of waiting for a connection.
    pub(super) acquire: Duration,
    /// Timeout of opening a connection.
    pub(super) connect: Duration,
    /// Time without a response after which the server is examined.
    pub(super) silent_after: Duration,
    /// Timeout of testing an idle connection; shorter than `acquire`, so that time is left for opening another.
    pub(super) trial: Duration,
    /// Timeout of one statement, including its response; `None` without a statement timeout.
    pub(super) statement: Option<Duration>,
}

impl Limits {
    /// Reserves one connection for [`examine`](super::examination), so that the total is at most `connections_max`.
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

    /// Timeout of opening a connection to one of `count` servers, so that the others can be tried while a request waits.
    pub(super) fn connect_to_one_of(&self, count: usize) -> Duration {
        match u32::try_from(count) {
            Ok(count) if count > 1 => self.connect.min(self.acquire / count),
            _ => self.connect,
        }
    }
}
