//! Why a command failed: a message for people, and for scripts an exit code and a JSON object (`docs/exit-codes.md`).

use std::error::Error;
use std::time::Duration;

use serde_json::{Value, json};

/// The kind of a failure; each has its own exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The command or the server refused, or a failure of no other kind occurred.
    Refused,
    /// The arguments are wrong.
    Usage,
    /// The log of a server was rolled back, forked or replaced.
    LogViolated,
    /// An object in the arguments does not exist.
    NotFound,
    /// A credential is missing, or the server does not accept it for the request.
    Unauthorized,
    /// No server responded.
    Unreachable,
    /// The server stopped because its restart budget is spent.
    GaveUp,
    /// The same command may succeed later.
    Temporary,
    /// The configuration is invalid.
    Configuration,
}

impl FailureKind {
    /// All kinds, by exit code.
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Usage,
        Self::LogViolated,
        Self::NotFound,
        Self::Unauthorized,
        Self::Unreachable,
        Self::GaveUp,
        Self::Temporary,
        Self::Configuration,
    ];

    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::LogViolated => 3,
            Self::NotFound => 4,
            Self::Unauthorized => 5,
            Self::Unreachable => 7,
            // EX_SOFTWARE, EX_TEMPFAIL and EX_CONFIG of sysexits.h.
            Self::GaveUp => 70,
            Self::Temporary => 75,
            Self::Configuration => 78,
        }
    }

    /// The error code of a failure without a code of the server.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "failed",
            Self::Usage => "usage",
            Self::LogViolated => "log_violated",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::Unreachable => "unreachable",
            Self::GaveUp => "gave_up",
            Self::Temporary => "temporarily_unavailable",
            Self::Configuration => "invalid_configuration",
        }
    }

    /// One line for the list of exit codes.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Refused => "refused or failed, for a reason that no other code names",
            Self::Usage => "wrong usage: an unknown command or option, or a missing argument",
            Self::LogViolated => "the log of the server was rolled back, forked or replaced",
            Self::NotFound => "the object of the arguments does not exist",
            Self::Unauthorized => "no credential, or one that the server does not accept for this",
            Self::Unreachable => "no server answered",
            Self::GaveUp => "the server stopped, because its restart budget is spent",
            Self::Temporary => "the server cannot answer at the moment; try again later",
            Self::Configuration => "the configuration is invalid",
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    kind: FailureKind,
    reason: String,
    /// Error code of the server, if it refused.
    error: Option<String>,
    /// HTTP status of the refusal.
    status: Option<u16>,
    /// Delay before the same request may succeed.
    retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of this kind.
    pub fn of(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), error: None, status: None, retry_after: None }
    }

    /// A refusal with this reason. Errors go through [`Failure::caused`], which keeps their causes.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::of(FailureKind::Refused, reason)
    }

    /// An object in the arguments does not exist.
    pub fn not_found(reason: impl Into<String>) -> Self {
        Self::of(FailureKind::NotFound, reason)
    }

    /// A credential is missing or not accepted.
    pub fn unauthorized(reason: impl Into<String>) -> Self {
        Self::of(FailureKind::Unauthorized, reason)
    }

    /// A refusal with the whole chain of causes of `error`.
    pub fn caused(error: impl Error + 'static) -> Self {
        Self::refused(domain::reasons(&error))
    }

    /// A failed request, described by `reason`.
    pub fn of_request(error: &client::Error, reason: impl Into<String>) -> Self {
        let refusal = error.refusal();
        Self {
            error: refusal.map(|refusal| refusal.body.error.clone()),
            status: refusal.map(|refusal| refusal.status),
            retry_after: refusal.and_then(|refusal| refusal.retry_after),
            ..Self::of(kind_of(error), reason)
        }
    }

    /// The message for people.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The kind of the failure.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Delay requested by the server.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The same failure with another message.
    #[must_use]
    pub fn with_reason(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The same failure with another line of advice.
    #[must_use]
    pub fn advised(self, advice: &str) -> Self {
        let reason = format!("{}\n  {advice}", self.reason);
        self.with_reason(reason)
    }

    /// The failure as a JSON object for scripts.
    pub fn described(&self) -> Value {
        let is_retryable = matches!(self.kind, FailureKind::Unreachable | FailureKind::Temporary);
        let mut value = json!({
            "error": self.error.as_deref().unwrap_or(self.kind.name()),
            "message": self.reason,
            "status": self.status,
            "retryable": is_retryable,
            "exit_code": self.kind.exit_code(),
        });
        if let Some(after) = self.retry_after {
            value["retry_after"] = json!(after.as_secs());
        }
        value
    }
}

fn kind_of(error: &client::Error) -> FailureKind {
    match error {
        client::Error::Unreachable { .. } => FailureKind::Unreachable,
        client::Error::Broken { .. } => FailureKind::Temporary,
        client::Error::Refused(refusal) if refusal.is_temporary() => FailureKind::Temporary,
        // Without an error code of attache, another program answered, and its status says nothing about the request.
        client::Error::Refused(refusal) if refusal.body.error.starts_with("http_") => FailureKind::Refused,
        client::Error::Refused(refusal) => match refusal.status {
            401 | 403 => FailureKind::Unauthorized,
            404 => FailureKind::NotFound,
            _ => FailureKind::Refused,
        },
        _ => FailureKind::Refused,
    }
}

/// Result of a command.
pub type Done = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_an_exit_code_and_a_name_of_its_own() {
        let codes: BTreeSet<u8> = FailureKind::ALL.iter().map(|kind| kind.exit_code()).collect();
        let names: BTreeSet<&str> = FailureKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!((codes.len(), names.len()), (FailureKind::ALL.len(), FailureKind::ALL.len()));
        assert!(!codes.contains(&0), "0 is success");
    }

    #[test]
    fn a_failure_without_a_request_is_described_by_its_kind() {
        let described = Failure::not_found("no profile \"x\"").described();
        let expected = json!({
            "error": "not_found", "message": "no profile \"x\"", "status": null, "retryable": false, "exit_code": 4,
        });
        assert_eq!(described, expected);
        assert_eq!(Failure::of(FailureKind::Unreachable, "away").described()["retryable"], true);
    }
}
