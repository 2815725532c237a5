//! One request to an endpoint.

use std::sync::Arc;
use std::time::Duration;

use domain::web_url::WebUrl;
use domain::webhook::message_id;
use domain::{Clock, retry_after};
use knowledge::fetch::address::AddressRules;
use knowledge::fetch::{FetchError, JudgingResolver, SystemResolver};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use reqwest::redirect::Policy;
use store::webhook::DueDelivery;

use super::settings::WebhookSettings;

/// Timeout of connecting, including name resolution and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends notifications to permitted addresses, without proxies and redirects. Clones share the client.
#[derive(Debug, Clone)]
pub struct WebhookSender {
    http: reqwest::Client,
    rules: EndpointRules,
    user_agent: String,
}

/// Why a text cannot be the URL of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointRefusal {
    /// A URL without TLS.
    #[error("must begin with https://")]
    Insecure,
    /// A port that is not permitted.
    #[error("must have a port that the server permits; {0} is none")]
    Port(u16),
    /// A literal address that is not permitted.
    #[error("must not be in a private network")]
    Address,
}

/// The URLs that endpoints may have. Clones share the list.
#[derive(Debug, Clone)]
pub struct EndpointRules {
    addresses: Arc<AddressRules>,
    ports: Arc<[u16]>,
    allow_http: bool,
}

impl EndpointRules {
    /// The rules of `[webhooks]`.
    pub fn new(settings: &WebhookSettings) -> Self {
        Self {
            addresses: Arc::new(AddressRules::new(settings.allow_private.clone())),
            ports: settings.ports.clone().into(),
            allow_http: settings.allow_http,
        }
    }

    /// Checks the URL itself. A host name is checked again when it is resolved, for each connection.
    pub fn check(&self, url: &WebUrl) -> Result<(), EndpointRefusal> {
        if !url.is_https() && !self.allow_http {
            return Err(EndpointRefusal::Insecure);
        }
        if !self.ports.contains(&url.port()) {
            return Err(EndpointRefusal::Port(url.port()));
        }
        if self.addresses.allow_literal(url) { Ok(()) } else { Err(EndpointRefusal::Address) }
    }
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Sent {
    /// There was a response.
    Answered {
        /// Status of the response.
        status: u16,
        /// Value of `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No response, for this reason.
    Failed(String),
}

impl WebhookSender {
    /// Creates the client. `base_url` is part of the user agent.
    pub fn new(settings: &WebhookSettings, base_url: &str) -> Result<Self, reqwest::Error> {
        let rules = EndpointRules::new(settings);
        let resolver = JudgingResolver::new(Arc::new(SystemResolver::default()), Arc::clone(&rules.addresses));
        let http = http_client::builder()
            .dns_resolver(Arc::new(resolver))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(Policy::none())
            .referer(false)
            .no_proxy()
            .http1_only()
            // A connection serves one delivery, so every delivery checks the address.
            .pool_max_idle_per_host(0)
            .build()?;
        let user_agent = format!("attache/{} (+{base_url})", env!("CARGO_PKG_VERSION"));
        Ok(Self { http, rules, user_agent })
    }

    /// Sends a notification once, within `timeout`. The body of the response is not read.
    pub(super) async fn send(&self, due: &DueDelivery, timeout: Duration, clock: &Clock) -> Sent {
        let Ok(url) = due.url.parse::<WebUrl>() else { return Sent::Failed("the URL is invalid".into()) };
        if let Err(refusal) = self.rules.check(&url) {
            return Sent::Failed(format!("the URL {refusal}"));
        }
        let (id, timestamp) = (message_id(due.notification), clock.now().timestamp());
        let signatures: Vec<String> =
            due.secrets.iter().map(|secret| secret.signature(&id, timestamp, &due.body)).collect();
        let request = self
            .http
            .post(url.as_url().clone())
            .timeout(timeout)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, &self.user_agent)
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signatures.join(" "))
            .body(due.body.clone());
        match request.send().await {
            Ok(response) => Sent::Answered {
                status: response.status().as_u16(),
                retry_after: response
                    .headers()
                    .get(RETRY_AFTER)
                    .and_then(|value| retry_after(value.to_str().ok()?, clock.now())),
            },
            Err(error) => Sent::Failed(match FetchError::from(&error) {
                FetchError::BlockedAddress => "the host is in a network that notifications are not sent to".to_owned(),
                error => error.to_string(),
            }),
        }
    }
}
