//! Typed client of both HTTP surfaces of attache, used by the command line and the tests.
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
//! - **Retries**: idempotent requests (reads, polls, and events by their id) are retried if the server cannot be
//!   reached, does not respond in time, or asks for a retry. Other requests are retried only if no connection was made.
//!   Delays follow `Retry-After`, or an exponential backoff with jitter ([`RetrySettings`]).
//! - **Polls** keep the interval of the server, and slow down on request ([`Client::attached`], [`Client::claimed`]).
//! - **Streams** are resumed after an interruption ([`stream::BatchStream`]).
//! - **Checkpoints** of the log must continue the last observed one ([`witness::Witness`]).
//! - Bodies are types of [`wire`]. Credentials are [`Secret`]s, which errors never contain.

mod account;
mod activity;
mod agent_auth;
mod agent_sessions;
mod consent;
mod device;
mod error;
mod events;
mod exchange;
mod knowledge;
mod poll;
mod rules;
mod settings;
pub mod stream;
mod webhooks;
pub mod witness;

use std::sync::Arc;

use domain::secret::Secret;

pub use activity::ActivityQuery;
pub use agent_sessions::{SessionQuery, TimelineQuery};
pub use error::{Error, Refusal};
pub use settings::{RetrySettings, Settings};
pub use witness::{Observation, Violation, Witness, WitnessError};

/// A client of one server. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    settings: Arc<Settings>,
    credential: Credential,
}

/// The credential of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// No credential.
    #[default]
    None,
    /// An access token, a machine secret, or an API key.
    Bearer(Secret),
    /// The session cookie of a browser, as `name=value`.
    Cookie(Secret),
}

impl Client {
    /// A client without a credential. Sends nothing.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        for address in [Some(&settings.base_url), settings.rag_url.as_ref()].into_iter().flatten() {
            let parsed = reqwest::Url::parse(address).ok();
            if !parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
                return Err(Error::Address(address.clone()));
            }
        }
        let http = http_client::builder()
            .user_agent(concat!("attache/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            // Redirects are not followed, so that credentials reach only this server.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .build()
            .map_err(Error::Client)?;
        Ok(Self { http, settings: Arc::new(settings.trimmed()), credential: Credential::None })
    }

    /// Returns the client with another credential.
    #[must_use]
    pub fn with(&self, credential: Credential) -> Self {
        Self { credential, ..self.clone() }
    }

    /// The credential of requests.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Base URL of the account and agent API.
    pub fn base_url(&self) -> &str {
        &self.settings.base_url
    }

    /// Base URL of the knowledge API.
    pub fn rag_url(&self) -> &str {
        self.settings.rag_url.as_deref().unwrap_or(&self.settings.base_url)
    }
}
