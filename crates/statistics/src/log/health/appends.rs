//! The result of the last append of this process.

use std::sync::{Mutex, PoisonError};

use domain::Timestamp;

use crate::log::error::LogError;

/// Time and error of this process's last append; `None` if it succeeded.
#[derive(Debug, Default)]
pub struct Appends(Mutex<Option<(Timestamp, String)>>);

impl Appends {
    /// Records how an append ended. A group that was rejected because of its content is not a failure of the log.
    pub fn note<T>(&self, appended: &Result<T, LogError>, now: Timestamp) {
        let failure = match appended {
            Ok(_) => None,
            Err(error) if error.is_unavailable() => Some((now, domain::reasons(error))),
            Err(_) => return,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Time and reason of the failure of the last append; `None` if it succeeded.
    pub fn failure(&self) -> Option<(Timestamp, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
