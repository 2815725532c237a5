//! One OpenID provider: its cached metadata, the authorization request and the exchange of a code.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::ids::Email;
use domain::{Clock, Digest};
use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::OidcState;
use super::fetch::{FetchError, Fetched, fetch};
use super::id_token::{self, Address, Claims, Expected, TokenFault};
use super::keys::KeyFault;
use super::metadata::{DiscoveryFault, Metadata, discover};
use crate::config::{OidcSettings, SigninSettings};

/// Number of hex digits in the hash of a subject.
const SUBJECT_DIGITS: usize = 16;

/// Time for which the metadata and keys of a provider are cached. An unknown signing key refreshes them earlier.
const CACHED_FOR: Duration = Duration::from_hours(1);

/// Minimum age of the cached metadata before an unknown signing key causes a refresh.
const RENEW_AFTER: Duration = Duration::from_mins(1);

/// Time for which a provider that failed is not requested again: other sign-ins fail at once.
const AWAY_FOR: Duration = Duration::from_secs(5);

/// Why a sign-in fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// No provider of this name.
    Unknown,
    /// The state in the browser does not match.
    NotStartedHere,
    /// The provider refused, or its response confirms no identity.
    Refused,
    /// The provider has not verified the address.
    Unverified,
    /// The address is in no domain of `signin.domains`.
    NotAdmitted,
    /// The provider does not respond, or not as the protocol requires.
    Away,
}

/// All providers of the configuration.
#[derive(Debug, Default)]
pub struct Providers(BTreeMap<String, Provider>);

impl Providers {
    /// Sets the providers up; none is requested yet.
    pub fn new(settings: &SigninSettings, base_url: &str, clock: &Clock) -> Result<Self, String> {
        if settings.oidc.is_empty() {
            return Ok(Self::default());
        }
        let http = http_client::builder()
            .timeout(settings.provider_timeout)
            // A redirect would let a provider make us ask whom it likes.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| error.to_string())?;
        let provider = |settings_of: &OidcSettings| {
            let provider = Provider {
                redirect: format!("{base_url}/signin/oidc/{}/callback", settings_of.name),
                settings: settings_of.clone(),
                max_age: settings.fresh_within,
                http: http.clone(),
                clock: clock.clone(),
                known: Mutex::default(),
            };
            (settings_of.name.clone(), provider)
        };
        Ok(Self(settings.oidc.iter().map(provider).collect()))
    }

    /// The provider of this name.
    pub fn named(&self, name: &str) -> Option<&Provider> {
        self.0.get(name)
    }
}

/// A configured provider and its cached metadata.
#[derive(Debug)]
pub struct Provider {
    settings: OidcSettings,
    redirect: String,
    /// How long ago the person may have signed in there. A session proves a sign-in, not that the provider remembers a person who
    /// signed in last week. Not a part of the errand: who holds a browser does not say how recent is recent.
    max_age: Duration,
    http: reqwest::Client,
    clock: Clock,
    /// Concurrent requests for the metadata wait for the same response.
    known: Mutex<Known>,
}

/// Cached facts about a provider.
#[derive(Debug, Default)]
struct Known {
    /// Its metadata, and the time of the response.
    metadata: Option<(Instant, Arc<Metadata>)>,
    /// The time of its last failure.
    away_at: Option<Instant>,
}

/// The response of the token endpoint (OpenID Connect Core, section 3.1.3.3).
#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    token_type: String,
    id_token: String,
}

/// The reason of the token endpoint (RFC 6749, section 5.2).
#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
}

#[derive(Deserialize)]
struct UserInfo {
    sub: String,
    #[serde(flatten)]
    address: Address,
}

/// What a provider says about a person who signed in.
#[derive(Debug)]
pub struct ProviderIdentity {
    claims: Map<String, Value>,
    /// The first 16 hex digits of the SHA-256 of issuer, line feed and subject: it differs between persons, without their data.
    pub subject_hash: String,
}

impl ProviderIdentity {
    /// Whether a claim is this text, or a list with it. An address counts only if the provider has verified it.
    pub fn has(&self, claim: &str, value: &str) -> bool {
        match self.claims.get(claim) {
            Some(Value::String(text)) => text == value,
            Some(Value::Array(values)) => values.iter().any(|own| own == value),
            _ => false,
        }
    }
}

impl Provider {
    /// The URL of the authorization request.
    #[boxed]
    pub async fn authorize(&self, errand: &OidcState) -> Result<String, Denial> {
        let metadata = self.metadata(CACHED_FOR).await?;
        let max_age = if errand.redirect.is_some() { Duration::ZERO } else { self.max_age };
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, errand.verifier.as_bytes()));
        let mut url = metadata.authorization_endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", self.redirect_of(errand))
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &errand.state)
            .append_pair("nonce", &errand.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("max_age", &max_age.as_secs().to_string())
            .extend_pairs(errand.redirect.as_ref().map(|_| ("prompt", "login")));
        Ok(url.into())
    }

    fn redirect_of<'e>(&'e self, errand: &'e OidcState) -> &'e str {
        errand.redirect.as_deref().unwrap_or(&self.redirect)
    }

    /// Exchanges a code for the e-mail address of the person, if the provider has verified it.
    #[boxed]
    pub async fn identify(&self, code: String, errand: &OidcState) -> Result<Email, Denial> {
        let claims = self.claims(&code, errand).await?;
        self.address(claims.address)
    }

    /// Exchanges a code for all that the provider says about the person.
    #[boxed]
    pub async fn identity(&self, code: String, errand: &OidcState) -> Result<ProviderIdentity, Denial> {
        let Claims { sub, address, mut others, .. } = self.claims(&code, errand).await?;
        if let Ok(email) = self.address(address) {
            others.insert("email".to_owned(), email.as_str().into());
        }
        let digest = Digest::of(format!("{}\n{sub}", self.settings.issuer).as_bytes()).to_string();
        others.insert("sub".to_owned(), sub.into());
        let subject_hash = digest.chars().take(SUBJECT_DIGITS).collect();
        Ok(ProviderIdentity { claims: others, subject_hash })
    }

    /// The claims of the ID token, with the address from the user info endpoint if the token has none.
    async fn claims(&self, code: &str, errand: &OidcState) -> Result<Claims, Denial> {
        let metadata = self.metadata(CACHED_FOR).await?;
        let tokens = self.exchange(&metadata, code, errand).await?;
        let mut claims = self.verify(&metadata, &tokens, errand);
        if claims.as_ref().is_err_and(|fault| *fault == TokenFault::Key(KeyFault::Unknown)) {
            // The provider may have begun to sign with a new key since it was asked.
            claims = self.verify(&*self.metadata(RENEW_AFTER).await?, &tokens, errand);
        }
        let mut claims = claims.map_err(|fault| self.refused("identity token", &fault))?;
        // Many providers return the address only from the user info endpoint.
        let Some(endpoint) = metadata.userinfo_endpoint.clone().filter(|_| claims.address.email.is_none()) else {
            return Ok(claims);
        };
        let response = self.fetch("user info", self.http.get(endpoint).bearer_auth(&tokens.access_token)).await?;
        let user: UserInfo = response.success().map_err(|error| self.refused("user info", &error))?;
        // Section 5.3.2: the response could be about another person.
        if user.sub != claims.sub {
            return Err(self.refused("user info", &Fault("it is about another subject".to_owned())));
        }
        claims.address = user.address;
        Ok(claims)
    }

    /// Redeems the code.
    async fn exchange(&self, metadata: &Metadata, code: &str, errand: &OidcState) -> Result<Tokens, Denial> {
        let response = self.fetch("exchange", self.token_request(metadata, code, errand)).await?;
        if let (true, Ok(TokenRefusal { error })) = (!response.status.is_success(), response.json()) {
            return Err(self.refused("exchange", &Fault(domain::brief(&error))));
        }
        let tokens: Tokens = response.success().map_err(|error| self.away("exchange", &error))?;
        if tokens.token_type.eq_ignore_ascii_case("bearer") {
            Ok(tokens)
        } else {
            Err(self.refused("exchange", &Fault("its access token is not a bearer token".to_owned())))
        }
    }

    /// The request to the token endpoint (OpenID Connect Core, section 3.1.3.1).
    fn token_request(&self, metadata: &Metadata, code: &str, errand: &OidcState) -> RequestBuilder {
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", self.redirect_of(errand))
            .append_pair("code_verifier", &errand.verifier);
        let mut request = self.http.post(metadata.token_endpoint.clone());
        match client_secret {
            Some(secret) if !metadata.has_secret_in_body => {
                // RFC 6749, section 2.3.1: both are encoded as in a form.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                request = request.basic_auth(encoded(client_id), Some(encoded(secret)));
            }
            secret => {
                form.append_pair("client_id", client_id);
                form.extend_pairs(secret.iter().map(|secret| ("client_secret", secret)));
            }
        }
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish())
    }

    fn verify(&self, metadata: &Metadata, tokens: &Tokens, errand: &OidcState) -> Result<Claims, TokenFault> {
        let now = self.clock.now();
        let expected = Expected {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce: &errand.nonce,
            access_token: &tokens.access_token,
            age_max: errand.age_max(self.max_age, now),
            now,
        };
        id_token::verify(&tokens.id_token, &metadata.keys, &metadata.algorithms, &expected)
    }

    fn address(&self, Address { email, email_verified }: Address) -> Result<Email, Denial> {
        let email = email.ok_or(Denial::Unverified)?;
        if email_verified != Some(true) {
            tracing::info!(
                oidc.provider = self.settings.name,
                "an address that the provider did not verify was refused"
            );
            return Err(Denial::Unverified);
        }
        email.parse().map_err(|_| Denial::Unverified)
    }

    async fn fetch(&self, step: &str, request: RequestBuilder) -> Result<Fetched, Denial> {
        fetch(request).await.map_err(|error| self.away(step, &error))
    }

    /// The metadata of the provider, not older than `age_max`.
    async fn metadata(&self, age_max: Duration) -> Result<Arc<Metadata>, Denial> {
        let mut known = self.known.lock().await;
        if let Some((at, metadata)) = known.metadata.as_ref()
            && at.elapsed() < age_max
        {
            return Ok(Arc::clone(metadata));
        }
        if known.away_at.is_some_and(|at| at.elapsed() < AWAY_FOR) {
            return Err(Denial::Away);
        }
        let mut discovered = discover(&self.http, &self.settings.issuer).await;
        if let Err(fault) = &discovered
            && !matches!(fault, DiscoveryFault::Fetch(FetchError::TooLong))
        {
            // Once more: a connection that had gone stale is the likeliest reason. After a timeout the person has waited long enough.
            discovered = discover(&self.http, &self.settings.issuer).await;
        }
        let metadata = match discovered {
            Ok(metadata) => Arc::new(metadata),
            Err(fault) => {
                known.away_at = Some(Instant::now());
                return Err(self.away("discovery", &fault));
            }
        };
        *known = Known { metadata: Some((Instant::now(), Arc::clone(&metadata))), away_at: None };
        Ok(metadata)
    }

    /// The provider did not respond as the protocol requires.
    fn away(&self, step: &str, error: &(dyn Error + 'static)) -> Denial {
        self.report(step, error, "invalid response of an OpenID provider");
        Denial::Away
    }

    /// The provider responded, and its response identifies no person.
    fn refused(&self, step: &str, error: &(dyn Error + 'static)) -> Denial {
        self.report(step, error, "the response of an OpenID provider was refused");
        Denial::Refused
    }

    fn report(&self, step: &str, error: &(dyn Error + 'static), message: &str) {
        tracing::warn!(
            oidc.provider = self.settings.name,
            oidc.step = step,
            error = domain::reasons(error),
            "{message}"
        );
    }
}

/// The rule that a response breaks, or the error that the provider reports.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);
