//! Errors of embedding.

use super::http::HttpFailure;

/// Texts that got no vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// `provider = "none"`: there will never be any.
    #[error("embedding is switched off")]
    Off,
    /// The model inside the program cannot be read.
    #[error("{0}")]
    Model(String),
    /// The computation broke off.
    #[error("the embedding of these texts broke off")]
    BrokeOff,
    /// The endpoint.
    #[error(transparent)]
    Http(#[from] HttpFailure),
}
