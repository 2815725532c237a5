//! Why a command failed.

use std::error::Error;

/// Why a command failed; each variant has its own exit code.
#[derive(Debug)]
pub enum Failure {
    /// The request was refused or failed; exit code 1.
    Refused(String),
    /// The log of a server was rolled back, forked or replaced; exit code 3.
    LogViolated(String),
    /// The configuration is invalid; exit code 78.
    Configuration(String),
    /// The server stopped because its restart budget is spent; exit code 70.
    GaveUp(String),
}

impl Failure {
    /// A refusal with this reason. Errors go through [`Failure::caused`], which keeps their causes.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(reason.into())
    }

    /// A refusal with the whole chain of causes of `error`.
    pub fn caused(error: impl Error + 'static) -> Self {
        Self::Refused(domain::reasons(&error))
    }
}

/// Result of a command.
pub type Done = Result<(), Failure>;
