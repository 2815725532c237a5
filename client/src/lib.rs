//! A typed client of attache's two HTTP surfaces: what the command line and the tests speak to a server with.
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
//! - **Sent again** is only what may be: questions, polls and events (which are idempotent on their id) when the server cannot be reached, does
//!   not answer in time or says that the same request may come later; everything else only when no connection came about at all, so that it
//!   cannot have been done. `Retry-After` is obeyed, and otherwise delays grow and vary ([`RetrySettings`]).
//! - **Polls** keep the interval that the server names and slow down when it says so ([`Client::attached`], [`Client::claimed`]).
//! - **Streams** are joined again where they broke off ([`stream::BatchStream`]).
//! - **The log** has to continue the checkpoint that was seen before ([`witness::Witness`]).
//! - Bodies are those of [`wire`]; what opens something is a [`Secret`], and errors never show one.

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

/// What a request shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Nothing.
    #[default]
    None,
    /// An access token, a computer's secret, or a key of the knowledge API.
    Bearer(Secret),
    /// A signed-in browser's cookie, as `name=value`.
    Cookie(Secret),
}

impl Client {
    /// A client that shows nothing yet; nothing is sent.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        for address in [Some(&settings.base_url), settings.rag_url.as_ref()].into_iter().flatten() {
            let known = reqwest::Url::parse(address).ok();
            if !known.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
                return Err(Error::Address(address.clone()));
            }
        }
        // Fails when the process has chosen one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("attache/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            // What is asked for goes to this server or nowhere: a credential does not follow a redirect.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .build()
            .map_err(Error::Client)?;
        Ok(Self { http, settings: Arc::new(settings.trimmed()), credential: Credential::None })
    }

    /// The same client, showing a credential.
    #[must_use]
    pub fn with(&self, credential: Credential) -> Self {
        Self { credential, ..self.clone() }
    }

    /// What it shows.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Where the account and agent API is.
    pub fn base_url(&self) -> &str {
        &self.settings.base_url
    }

    /// Where the knowledge API is.
    pub fn rag_url(&self) -> &str {
        self.settings.rag_url.as_deref().unwrap_or(&self.settings.base_url)
    }
}
