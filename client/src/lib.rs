//! A typed client of attache's two HTTP surfaces, used by the command line and the tests.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use client::{Client, Credential, Settings};
//! use domain::secret::Secret;
//!
//! let attache = Client::new(&Settings::of("https://attache.example.com"))?;
//! let registered = attache.register_anonymous().await?;
//! let claim = attache.claim(&registered.claim_token, None).await?;
//! println!("open {} and type {}", claim.verification_uri, claim.user_code.expose());
//! let tokens = attache.claimed(&registered.claim_token, &claim, |_| {}).await?;
//! let agent = attache.with(Credential::Bearer(tokens.access_token));
//! println!("{:?}", agent.account_summary().await?.sections.account);
//! # Ok(())
//! # }
//! ```
//!
//! - **Retries**: reads, polls and events (which are idempotent on their id) are retried when the server cannot be reached, does
//!   not answer in time or reports a temporary error; all other requests only when no connection was made, so that they cannot have
//!   been executed. `Retry-After` is obeyed; otherwise delays grow exponentially with jitter ([`RetrySettings`]).
//! - **Polls** keep the interval that the server names and slow down on `slow_down` ([`Client::attached`], [`Client::claimed`]).
//! - **Streams** are reconnected after the last received message ([`stream::BatchStream`]).
//! - **The log** must continue the checkpoint of the last observation ([`witness::Witness`]).
//! - Bodies are the types of [`wire`]; credentials are a [`Secret`], and no error message contains one.

mod account;
mod activity;
mod agent_auth;
mod consent;
mod device;
mod error;
mod events;
mod exchange;
mod knowledge;
mod poll;
mod settings;
pub mod stream;
pub mod witness;

use std::sync::Arc;

use domain::secret::Secret;

pub use activity::ActivityQuery;
pub use error::{Error, Refusal};
pub use settings::{RetrySettings, Settings};
pub use witness::{Observed, Violation, Witness, WitnessError};

/// Connects to one server. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    settings: Arc<Settings>,
    credential: Credential,
}

/// The credential of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// No credential.
    #[default]
    None,
    /// An access token, a machine secret, or an API key, sent as `Authorization: Bearer`.
    Bearer(Secret),
    /// The session cookie of a signed-in browser, as `name=value`.
    Cookie(Secret),
}

impl Client {
    /// A client without a credential. Fails if an address is not an HTTP URL; does not connect.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        for address in [Some(&settings.base_url), settings.rag_url.as_ref()].into_iter().flatten() {
            let known = reqwest::Url::parse(address).ok();
            if !known.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
                return Err(Error::Address(address.clone()));
            }
        }
        // Fails if the process has installed a provider already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("attache/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            // The client does not follow redirects, so that a credential is sent to this server only.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .build()
            .map_err(Error::Client)?;
        Ok(Self { http, settings: Arc::new(settings.trimmed()), credential: Credential::None })
    }

    /// The same client with another credential.
    #[must_use]
    pub fn with(&self, credential: Credential) -> Self {
        Self { credential, ..self.clone() }
    }

    /// The credential that requests carry.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Base URL of the account and agent API, without a slash at the end.
    pub fn base_url(&self) -> &str {
        &self.settings.base_url
    }

    /// Base URL of the knowledge API, without a slash at the end.
    pub fn rag_url(&self) -> &str {
        self.settings.rag_url.as_deref().unwrap_or(&self.settings.base_url)
    }
}
