//! Endpoints that an account is notified at (`docs/decisions/0033-notifications.md`).

pub use store::webhook::DeliveryRecord;

use actors::webhook::{EndpointRefusal, EndpointRules, WebhookSettings};
use actors::{InfraError, Unavailable};
use domain::Timestamp;
use domain::clock::delta;
use domain::ids::{UserAccountId, WebhookId};
use domain::live::Live;
use domain::web_url::WebUrl;
use domain::webhook::{
    DisabledWhy, EndpointDescription, NotificationKind, SigningSecret, TEST, Webhook, chosen_kinds, notification_id,
};
use store::StoreError;
use store::webhook::{NewWebhook, UpdateResult, WebhookUpdate};

use super::Ports;
use super::confirmation::RecentlySignedIn;

const DELIVERIES_MAX: usize = 50;

/// Creates, changes and tests endpoints. Clones share the database.
#[derive(Debug, Clone)]
pub struct Webhooks {
    ports: Ports,
    settings: Live<WebhookSettings>,
    rules: EndpointRules,
}

/// The properties of an endpoint that its owner chooses.
#[derive(Debug)]
pub struct NewEndpoint {
    /// URL that notifications are sent to.
    pub url: WebUrl,
    /// The owner's words about it.
    pub description: EndpointDescription,
    /// The selected kinds of notification.
    pub kinds: Vec<NotificationKind>,
    /// Whether it gets notifications.
    pub enabled: bool,
}

/// The properties that change.
#[derive(Debug, Default)]
pub struct EndpointChange {
    /// The new URL.
    pub url: Option<WebUrl>,
    /// The new description.
    pub description: Option<EndpointDescription>,
    /// The new kinds.
    pub kinds: Option<Vec<NotificationKind>>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
}

/// Why an endpoint is not created, changed or tested.
#[derive(Debug, thiserror::Error)]
pub enum WebhookRefusal {
    /// Webhooks are off (`webhooks.enabled`).
    #[error("webhooks are off")]
    Off,
    /// The URL is not permitted.
    #[error("the URL is refused: it {0}")]
    Url(EndpointRefusal),
    /// No kind is named.
    #[error("no kind is named")]
    NoKinds,
    /// The account has reached its maximum number of endpoints.
    #[error("the account has too many endpoints")]
    TooMany,
    /// The account has no such endpoint.
    #[error("the account has no such endpoint")]
    NotFound,
    /// The endpoint is disabled, or too many deliveries wait for it.
    #[error("the endpoint is disabled, or too much waits for it")]
    NotTestable,
    /// An operator has disabled the endpoint, so its owner cannot enable it.
    #[error("an operator has disabled the endpoint")]
    DisabledByOperator,
    /// The store failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for WebhookRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for WebhookRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}

impl Webhooks {
    /// `settings` is the section `[webhooks]`.
    pub fn new(ports: Ports, settings: Live<WebhookSettings>) -> Self {
        let rules = EndpointRules::new(&settings.get());
        Self { ports, settings, rules }
    }

    /// Whether webhooks are on.
    pub fn are_on(&self) -> bool {
        self.settings.get().enabled
    }

    /// How long a replaced secret signs too.
    pub fn old_secret_kept(&self) -> std::time::Duration {
        self.settings.get().old_secret_kept
    }

    /// The endpoints of an account, newest first.
    #[boxed]
    pub async fn list(&self, account: &UserAccountId) -> Result<Vec<Webhook>, WebhookRefusal> {
        self.on()?;
        let rows_max = usize::try_from(self.settings.get().per_account_max).unwrap_or(usize::MAX);
        Ok(self.ports.store.webhooks_of_account(account, rows_max).await?)
    }

    /// One endpoint of an account.
    #[boxed]
    pub async fn find(&self, id: WebhookId, account: &UserAccountId) -> Result<Webhook, WebhookRefusal> {
        self.on()?;
        self.ports.store.webhook_of_account(id, account).await?.ok_or(WebhookRefusal::NotFound)
    }

    /// The newest deliveries of an endpoint.
    #[boxed]
    pub async fn deliveries(
        &self,
        id: WebhookId,
        account: &UserAccountId,
    ) -> Result<Vec<DeliveryRecord>, WebhookRefusal> {
        self.find(id, account).await?;
        Ok(self.ports.store.webhook_deliveries(id, account, DELIVERIES_MAX).await?)
    }

    /// Adds an endpoint and returns it with the secret of its signatures.
    #[boxed]
    pub async fn create(
        &self,
        account: UserAccountId,
        endpoint: NewEndpoint,
        _: RecentlySignedIn,
    ) -> Result<(Webhook, SigningSecret), WebhookRefusal> {
        self.on()?;
        self.rules.check(&endpoint.url).map_err(WebhookRefusal::Url)?;
        let kinds = chosen_kinds(&endpoint.kinds).ok_or(WebhookRefusal::NoKinds)?;
        let Ports { store, clock, rng } = &self.ports;
        let (now, secret) = (clock.now(), SigningSecret::mint(rng));
        let webhook = Webhook {
            id: rng.uuid_v7(now).into(),
            account,
            url: endpoint.url,
            description: endpoint.description,
            kinds,
            created_at: now,
            disabled: (!endpoint.enabled).then_some((now, DisabledWhy::Owner)),
            failing_since: None,
            dropped: None,
            old_secret_until: None,
        };
        let new = NewWebhook { webhook: webhook.clone(), secret: secret.clone() };
        let (store, per_account_max) = (store.clone(), self.settings.get().per_account_max);
        let added = actors::detached(async move { store.webhook_create(&new, per_account_max).await }).await??;
        if added { Ok((webhook, secret)) } else { Err(WebhookRefusal::TooMany) }
    }

    /// Changes an endpoint.
    #[boxed]
    pub async fn change(
        &self,
        id: WebhookId,
        account: &UserAccountId,
        change: EndpointChange,
        _: RecentlySignedIn,
    ) -> Result<Webhook, WebhookRefusal> {
        self.on()?;
        if let Some(url) = &change.url {
            self.rules.check(url).map_err(WebhookRefusal::Url)?;
        }
        let kinds = change.kinds.as_deref().map(|named| chosen_kinds(named).ok_or(WebhookRefusal::NoKinds));
        let change = WebhookUpdate {
            kinds: kinds.transpose()?,
            url: change.url.map(|url| url.as_str().to_owned()),
            description: change.description,
            enabled: change.enabled,
        };
        let (store, owner, now) = (self.ports.store.clone(), account.clone(), self.ports.clock.now());
        let work = async move { store.webhook_change(id, &owner, &change, now).await };
        match actors::detached(work).await?? {
            UpdateResult::Updated => self.find(id, account).await,
            UpdateResult::Unknown => Err(WebhookRefusal::NotFound),
            UpdateResult::DisabledByOperator => Err(WebhookRefusal::DisabledByOperator),
        }
    }

    /// Replaces the secret of an endpoint. The replaced one signs too for `webhooks.old_secret_kept`.
    #[boxed]
    pub async fn rotate(
        &self,
        id: WebhookId,
        account: &UserAccountId,
        _: RecentlySignedIn,
    ) -> Result<(Webhook, SigningSecret), WebhookRefusal> {
        self.on()?;
        let Ports { store, clock, rng } = &self.ports;
        let secret = SigningSecret::mint(rng);
        let overlap = delta(self.settings.get().old_secret_kept);
        let until: Timestamp = clock.now() + overlap;
        let (store, owner, new) = (store.clone(), account.clone(), secret.clone());
        let work = async move { store.webhook_rotate(id, &owner, &new, until).await };
        if !actors::detached(work).await?? {
            return Err(WebhookRefusal::NotFound);
        }
        Ok((self.find(id, account).await?, secret))
    }

    /// Deletes an endpoint with its deliveries.
    #[boxed]
    pub async fn delete(&self, id: WebhookId, account: UserAccountId) -> Result<(), WebhookRefusal> {
        self.on()?;
        let store = self.ports.store.clone();
        let deleted = actors::detached(async move { store.webhook_delete(id, &account).await }).await??;
        if deleted { Ok(()) } else { Err(WebhookRefusal::NotFound) }
    }

    /// Sends a test to an endpoint, like any other notification.
    #[boxed]
    pub async fn test(&self, id: WebhookId, account: &UserAccountId) -> Result<(), WebhookRefusal> {
        self.find(id, account).await?;
        let Ports { store, clock, rng } = &self.ports;
        let now = clock.now();
        let notification = notification_id(TEST, rng.uuid_v7(now), now);
        let (store, owner, waiting_max) = (store.clone(), account.clone(), self.settings.get().waiting_max);
        let work = async move { store.webhook_test(id, &owner, notification, now, waiting_max).await };
        if actors::detached(work).await?? { Ok(()) } else { Err(WebhookRefusal::NotTestable) }
    }

    fn on(&self) -> Result<(), WebhookRefusal> {
        if self.are_on() { Ok(()) } else { Err(WebhookRefusal::Off) }
    }
}
