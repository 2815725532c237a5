//! One OpenID provider: its cached metadata, the authorization request and the exchange of a code.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::clock::delta;
use domain::ids::Email;
use domain::{Clock, Timestamp};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdTokenClaims, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreUserInfoClaims,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, DiscoveryError,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, IssuerUrl, Nonce, OAuth2TokenResponse,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, SignatureVerificationError, TokenResponse,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::OidcState;
use crate::config::{OidcSettings, SigninSettings};
use async_recursion::async_recursion as boxed;

/// Maximum size of a response of a provider, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Minimum age of the cached metadata before an unknown signing key causes a refresh.
const RENEW_AFTER: Duration = Duration::from_mins(1);

/// Time for which a provider that failed is not requested again: other sign-ins fail at once.
const AWAY_FOR: Duration = Duration::from_secs(5);

/// By how much a provider's clock may be behind or before ours.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(60);

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
            let redirect = format!("{base_url}/signin/oidc/{}/callback", settings_of.name);
            let provider = Provider {
                issuer: IssuerUrl::new(settings_of.issuer.clone()).map_err(|error| error.to_string())?,
                redirect: RedirectUrl::new(redirect).map_err(|error| error.to_string())?,
                settings: settings_of.clone(),
                max_age: settings.fresh_within,
                cached_for: settings.provider_cached_for,
                http: http.clone(),
                clock: clock.clone(),
                known: Mutex::default(),
            };
            Ok((settings_of.name.clone(), provider))
        };
        settings.oidc.iter().map(provider).collect::<Result<_, _>>().map(Self)
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
    issuer: IssuerUrl,
    redirect: RedirectUrl,
    /// How long ago the person may have signed in there. A session proves a sign-in, not that the provider remembers a person who
    /// signed in last week. Not a part of the errand: who holds a browser does not say how recent is recent.
    max_age: Duration,
    cached_for: Duration,
    http: reqwest::Client,
    clock: Clock,
    /// Concurrent requests for the metadata wait for the same response.
    known: Mutex<Known>,
}

/// Cached facts about a provider.
#[derive(Debug, Default)]
struct Known {
    /// Its metadata, and the time of the response.
    metadata: Option<(Instant, Arc<CoreProviderMetadata>)>,
    /// The time of its last failure.
    away_at: Option<Instant>,
}

type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

impl Provider {
    /// The URL of the authorization request.
    #[boxed]
    pub async fn authorize(&self, errand: &OidcState) -> Result<String, Denial> {
        let metadata = self.metadata(self.cached_for).await?;
        let client = self.client(&metadata);
        let (state, nonce) = (errand.state.clone(), errand.nonce.clone());
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(errand.verifier.clone()));
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new);
        let request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                move || CsrfToken::new(state),
                move || Nonce::new(nonce),
            )
            .add_scopes(scopes)
            .set_pkce_challenge(challenge)
            .set_max_age(self.max_age);
        Ok(request.url().0.to_string())
    }

    /// Exchanges a code for the e-mail address of the person, if the provider has verified it.
    #[boxed]
    pub async fn identify(&self, code: String, errand: &OidcState) -> Result<Email, Denial> {
        let mut metadata = self.metadata(self.cached_for).await?;
        let client = self.client(&metadata);
        let http = |request| fetch(self.http.clone(), request);
        let request =
            client.exchange_code(AuthorizationCode::new(code)).map_err(|error| self.away("exchange", &error))?;
        let key = PkceCodeVerifier::new(errand.verifier.clone());
        let token = request.set_pkce_verifier(key).request_async(&http).await.map_err(|error| match error {
            openidconnect::RequestTokenError::ServerResponse(refusal) => {
                self.refused("exchange", &Fault(refusal.to_string()))
            }
            // Its text may contain parts of the response.
            openidconnect::RequestTokenError::Request(error) => self.away("exchange", &error),
            _ => self.away("exchange", &Unreadable),
        })?;
        let id_token = token.id_token().ok_or_else(|| self.refused("identity token", &Unreadable))?;
        let nonce = Nonce::new(errand.nonce.clone());
        let mut claims = self.verify(&metadata, id_token, &nonce);
        if let Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) = claims {
            // The provider may have begun to sign with a new key since it was asked.
            metadata = self.metadata(RENEW_AFTER).await?;
            claims = self.verify(&metadata, id_token, &nonce);
        }
        let claims = claims.map_err(|error| self.refused("identity token", &error))?;
        self.is_for_us(&claims)?;
        self.signed_in_lately(&claims)?;
        if let Some(email) = claims.email() {
            return self.address(email, claims.email_verified());
        }
        // Many providers return the address only from the user info endpoint.
        let subject = Some(claims.subject().clone());
        let request = client.user_info(token.access_token().clone(), subject).map_err(|_| Denial::Unverified)?;
        let more: CoreUserInfoClaims = request.request_async(&http).await.map_err(|error| match error {
            openidconnect::UserInfoError::Request(error) => self.away("user info", &error),
            _ => self.refused("user info", &Unreadable),
        })?;
        self.address(more.email().ok_or(Denial::Unverified)?, more.email_verified())
    }

    /// OpenID Connect Core, section 3.1.3.7, step 5: a token that was issued to another client is not ours to use.
    fn is_for_us(&self, claims: &CoreIdTokenClaims) -> Result<(), Denial> {
        match claims.authorized_party() {
            Some(party) if **party != self.settings.client_id => {
                Err(self.refused("identity token", &Fault("it was issued to another client".to_owned())))
            }
            _ => Ok(()),
        }
    }

    /// OpenID Connect Core, section 3.1.3.7: a client that sent `max_age` checks `auth_time`.
    fn signed_in_lately(&self, claims: &CoreIdTokenClaims) -> Result<(), Denial> {
        let age_max = delta(self.max_age);
        let since =
            self.clock.now().checked_sub_signed(age_max).and_then(|since| since.checked_sub_signed(CLOCKS_DIFFER));
        match (claims.auth_time(), since) {
            (Some(at), _) if is_ahead(at, self.clock.now()) => Err(self.refused(
                "identity token",
                &Fault("the person signed in there in the future: do the clocks differ?".to_owned()),
            )),
            (Some(at), Some(since)) if at < since => {
                Err(self.refused("identity token", &Fault("the person signed in there too long ago".to_owned())))
            }
            (Some(_), _) => Ok(()),
            (None, _) => {
                Err(self
                    .refused("identity token", &Fault("it does not say when the person signed in there".to_owned())))
            }
        }
    }

    fn address(&self, email: &openidconnect::EndUserEmail, verified: Option<bool>) -> Result<Email, Denial> {
        if verified != Some(true) {
            tracing::info!(
                oidc.provider = self.settings.name,
                "an address that the provider did not verify was refused"
            );
            return Err(Denial::Unverified);
        }
        email.as_str().parse().map_err(|_| Denial::Unverified)
    }

    fn verify(
        &self,
        metadata: &CoreProviderMetadata,
        token: &openidconnect::core::CoreIdToken,
        nonce: &Nonce,
    ) -> Result<CoreIdTokenClaims, ClaimsVerificationError> {
        let clock = self.clock.clone();
        // Signatures with a key pair alone: a key that both sides know would let the client's secret sign, and `none` anybody.
        let mut algorithms = metadata.id_token_signing_alg_values_supported().clone();
        algorithms.retain(|algorithm| {
            !matches!(
                algorithm,
                CoreJwsSigningAlgorithm::None
                    | CoreJwsSigningAlgorithm::HmacSha256
                    | CoreJwsSigningAlgorithm::HmacSha384
                    | CoreJwsSigningAlgorithm::HmacSha512
            )
        });
        let client = self.client(metadata);
        let now = clock.now();
        let issued = move |at| {
            if is_ahead(at, now) {
                Err("it was issued in the future: do the clocks differ?".to_owned())
            } else {
                Ok(())
            }
        };
        let verifier = client.id_token_verifier().set_allowed_algs(algorithms);
        let verifier = verifier.set_time_fn(move || clock.now()).set_issue_time_verifier_fn(issued);
        token.claims(&verifier, nonce).cloned()
    }

    fn client(&self, metadata: &CoreProviderMetadata) -> Client {
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let methods = metadata.token_endpoint_auth_methods_supported();
        let has = |method| methods.is_some_and(|methods| methods.contains(&method));
        let in_body = has(CoreClientAuthMethod::ClientSecretPost) && !has(CoreClientAuthMethod::ClientSecretBasic);
        CoreClient::from_provider_metadata(
            metadata.clone(),
            ClientId::new(client_id.clone()),
            client_secret.clone().map(ClientSecret::new),
        )
        .set_redirect_uri(self.redirect.clone())
        .set_auth_type(if in_body { AuthType::RequestBody } else { AuthType::BasicAuth })
    }

    /// The metadata of the provider, not older than `age_max`.
    async fn metadata(&self, age_max: Duration) -> Result<Arc<CoreProviderMetadata>, Denial> {
        let mut known = self.known.lock().await;
        if let Some((at, metadata)) = known.metadata.as_ref()
            && at.elapsed() < age_max
        {
            return Ok(Arc::clone(metadata));
        }
        if known.away_at.is_some_and(|at| at.elapsed() < AWAY_FOR) {
            return Err(Denial::Away);
        }
        let http = |request| fetch(self.http.clone(), request);
        let mut found = CoreProviderMetadata::discover_async(self.issuer.clone(), &http).await;
        if matches!(found, Err(ref error) if !is_timeout(error)) {
            // Once more: a connection that had gone stale is the likeliest reason.
            found = CoreProviderMetadata::discover_async(self.issuer.clone(), &http).await;
        }
        match found {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *known = Known { metadata: Some((Instant::now(), Arc::clone(&metadata))), away_at: None };
                Ok(metadata)
            }
            Err(error) => {
                known.away_at = Some(Instant::now());
                Err(match error {
                    DiscoveryError::Request(error) => self.away("discovery", &error),
                    DiscoveryError::Validation(error) => self.away("discovery", &Fault(error)),
                    _ => self.away("discovery", &Unreadable),
                })
            }
        }
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

/// Whether a moment that a provider names lies further in the future than clocks may differ.
fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at.signed_duration_since(now) > CLOCKS_DIFFER
}

/// A timeout is not retried: the person has waited long enough.
fn is_timeout(error: &DiscoveryError<FetchError>) -> bool {
    matches!(error, DiscoveryError::Request(FetchError::TooLong))
}

/// A response that breaks the protocol. Its text is not shown, because it may contain tokens or addresses.
#[derive(Debug, thiserror::Error)]
#[error("the answer cannot be read")]
struct Unreadable;

/// The rule that a response breaks, or the error that the provider reports.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);

/// Why a request to a provider failed.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("no answer: {0}")]
    Http(&'static str),
    #[error("no answer: it took too long")]
    TooLong,
    #[error("the answer is too large")]
    TooLarge,
    #[error("the request cannot be made")]
    Request,
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        // Not the error's own text: it holds the URL.
        match error {
            error if error.is_timeout() => Self::TooLong,
            error if error.is_connect() => Self::Http("no connection"),
            _ => Self::Http("the connection broke"),
        }
    }
}

async fn fetch(client: reqwest::Client, request: HttpRequest) -> Result<HttpResponse, FetchError> {
    let request = reqwest::Request::try_from(request).map_err(|_| FetchError::Request)?;
    let mut answer = client.execute(request).await?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = HttpResponse::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}
