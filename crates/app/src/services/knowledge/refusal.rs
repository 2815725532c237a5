//! Why an operation of the knowledge API is refused.

use std::time::Duration;

use actors::InfraError;
use actors::Unavailable;
use domain::filter::FilterIssue;
use store::StoreError;

/// The reason.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// An argument breaks a rule.
    #[error("{path}: {rule}")]
    Invalid {
        /// Place of the argument, such as `contents[0].content`; empty for the request as a whole.
        path: String,
        /// The rule, for the sender of the request.
        rule: String,
    },
    /// Filter settings break rules.
    #[error("the filter settings break {} rules", .0.len())]
    Filter(Vec<FilterIssue>),
    /// A space does not exist, or the credential does not permit this operation in it.
    #[error("a space does not exist or is not accessible")]
    SpaceForbidden,
    /// The object does not exist, or it is not visible to the credential.
    #[error("not found")]
    NotFound,
    /// An earlier request with the same `Idempotency-Key` had another body.
    #[error("the key belongs to another request")]
    KeyReused,
    /// The account has reached its maximum number of running batches.
    #[error("the account has too many batches in progress")]
    TooManyBatches {
        /// Delay after which the client may retry.
        retry_after: Duration,
    },
    /// The account has reached the memory limit of its plan.
    #[error("the account keeps as much as it may")]
    QuotaExceeded,
    /// The store or an actor failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl Refusal {
    /// An argument at `path` breaks `rule`.
    pub fn invalid(path: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), rule: rule.into() }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}
