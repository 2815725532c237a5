//! Sign-in with an OpenID Connect provider (`docs/decisions/0003-sign-in.md`; OpenID Connect Core 1.0, section 3.1;
//! RFC 7636).
//!
//! [`Providers`] speak the protocol. An [`OidcState`] connects the two requests of the browser: the one that leaves for the provider and
//! the one that returns. It is valid for one return.

mod fetch;
mod id_token;
mod keys;
mod metadata;
mod provider;

use std::time::Duration;

use actors::InfraError;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::secret::Secret;
use domain::signin::ReturnPath;
use domain::{Clock, Rng, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::provider::{Denial, Provider, ProviderIdentity, Providers};
use super::Ports;

/// Time within which the browser has to return. Its cookie expires earlier; this limit holds for a client that keeps the cookie longer.
const RETURNS_WITHIN: TimeDelta = TimeDelta::hours(1);

/// The state of a sign-in while the browser is at the provider. The browser stores it, sealed by the server.
#[derive(Debug, Serialize, Deserialize)]
pub struct OidcState {
    /// Name of the provider.
    pub provider: String,
    /// `state`: the value that the provider sends back.
    pub state: String,
    /// Value that the ID token contains.
    nonce: String,
    /// PKCE code verifier.
    verifier: String,
    /// Page after the sign-in.
    pub next: Option<String>,
    /// Redirect URI of an operator's sign-in; a person's is in the provider's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redirect: Option<String>,
    /// End of the time within which the browser has to return.
    expires_at: Timestamp,
}

impl OidcState {
    /// Starts a sign-in at this provider.
    pub fn begin(provider: String, next: Option<&ReturnPath>, (clock, rng): (&Clock, &Rng)) -> Self {
        let random = || BASE64_URL_SAFE_NO_PAD.encode(rng.bytes::<32>());
        Self {
            provider,
            state: random(),
            nonce: random(),
            verifier: random(),
            next: next.map(|next| next.as_str().to_owned()),
            redirect: None,
            expires_at: clock.now() + RETURNS_WITHIN,
        }
    }

    /// The same for an operator, who returns to this redirect URI. The provider asks for credentials, even if it remembers the operator.
    #[must_use]
    pub fn for_operator(self, redirect: String) -> Self {
        Self { redirect: Some(redirect), ..self }
    }

    /// Maximum time since the sign-in at the provider: for an operator, the time since this one began.
    fn age_max(&self, of_people: Duration, now: Timestamp) -> Duration {
        if self.redirect.is_none() {
            return of_people;
        }
        let begun_at = self.expires_at - RETURNS_WITHIN;
        (now - begun_at).to_std().unwrap_or_default()
    }

    /// Whether the browser may still return.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }

    /// Whether this is the first return with this state. The store remembers it until it expires.
    #[boxed]
    pub async fn use_once(&self, ports: &Ports) -> Result<bool, InfraError> {
        let (store, expires_at) = (ports.store.clone(), self.expires_at);
        let hash = Secret::presented(&self.state).hash();
        Ok(actors::detached(async move { store.signin_errand_use(&hash, expires_at).await }).await??)
    }
}
