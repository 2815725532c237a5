//! The result of one check.

use domain::log_part::LogPart;
use serde::Serialize;

use commands::terminal::{BAD, GOOD, STRONG, WARNING, styled};

/// Result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Good,
    /// It works, but the operator should take notice.
    Doubtful,
    Bad,
}

/// Result of one check with its description.
#[derive(Debug, Serialize)]
pub struct Finding {
    pub(super) about: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    /// Advice for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, state: State::Good, found: found.into(), advice: None }
    }

    pub(super) fn doubtful(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { about, state: State::Doubtful, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn bad(about: &'static str, found: impl std::fmt::Display, advice: impl Into<String>) -> Self {
        Self { about, state: State::Bad, found: found.to_string(), advice: Some(advice.into()) }
    }

    /// The same about the server of another database.
    pub(super) fn of(self, database: &'static str) -> Self {
        Self { about: database, found: format!("{}: {}", self.about, self.found), ..self }
    }

    /// The same about a further part of the log.
    pub(super) fn of_part(self, part: LogPart) -> Self {
        Self { about: "log part", found: format!("{part}: {}", self.found), ..self }
    }

    pub(super) fn line(&self) -> String {
        let mark = match self.state {
            State::Good => styled(GOOD, "✓"),
            State::Doubtful => styled(WARNING, "?"),
            State::Bad => styled(BAD, "✗"),
        };
        let advice = self.advice.as_ref().map(|advice| format!("\n{:15}{advice}", "")).unwrap_or_default();
        format!("{mark} {}{}{advice}", styled(STRONG, format!("{:13}", self.about)), self.found)
    }
}
