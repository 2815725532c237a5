//! Why the server does not start.

use knowledge::index::database::PrepareError;

use crate::installation::OpenError;

/// Why the server does not start. The messages name a remedy.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The databases cannot be opened, or do not belong together.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The main database failed.
    #[error("the database failed")]
    Store(#[from] store::StoreError),
    /// The signing keys cannot be read.
    #[error("the signing keys cannot be read")]
    Keys(#[from] domain::token::KeyError),
    /// The file of event types cannot be read.
    #[error("the event registry: {0}")]
    Registry(String),
    /// The file of prices cannot be read.
    #[error("the prices of models: {0}")]
    Prices(String),
    /// The mail transport cannot be set up.
    #[error("the mail: {0}")]
    Mail(String),
    /// An OpenID provider cannot be set up.
    #[error("the OpenID providers: {0}")]
    Providers(String),
    /// A stage of the knowledge API cannot be set up.
    #[error("the knowledge API: {0}")]
    Knowledge(String),
    /// The client of webhooks cannot be set up.
    #[error("the webhooks: {0}")]
    Webhooks(String),
    /// The guides for agents cannot be rendered.
    #[error("the guides cannot be rendered")]
    Guides(#[from] askama::Error),
    /// An actor did not start.
    #[error("the actors did not start: {0}")]
    Actors(String),
}

impl From<PrepareError> for BuildError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Store(error) => Self::Store(error),
            absent @ PrepareError::Absent(_) => Self::Knowledge(absent.to_string()),
        }
    }
}
