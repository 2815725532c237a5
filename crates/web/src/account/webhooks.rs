//! Endpoints that the account is notified at.

use std::collections::BTreeMap;

use api::HttpState;
use api::named::Named;
use app::services::confirmation::RecentSignIn;
use app::services::webhooks::DeliveryRecord;
use app::services::webhooks::{EndpointChange, NewEndpoint, WebhookRefusal, Webhooks};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::ids::WebhookId;
use domain::webhook::{DisabledWhy, EndpointDescription, NotificationKind, SigningSecret, Webhook};

use super::AccountOwner;
use super::kinds::{KindTick, is_on_at_first, is_sent, sent, ticks};
use super::undo::{ConfirmForm, UndoPage, gone, lines};
use crate::visitor::{sign_in_again, sign_in_path};
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};

const PATH: &str = "/account/webhooks";

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct WebhookPages {
    site: Site,
    webhooks: Webhooks,
    recent: RecentSignIn,
}

impl FromRef<HttpState> for WebhookPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), webhooks: FromRef::from_ref(state), recent: FromRef::from_ref(state) }
    }
}

#[derive(Template)]
#[template(path = "account/webhooks.html")]
struct WebhooksPage {
    frame: PageLayout,
    tab: &'static str,
    rows: Vec<WebhookRow>,
    form: EndpointForm,
    fresh: bool,
    /// URL for signing in again and returning here.
    sign_in: String,
}

struct WebhookRow {
    id: String,
    url: String,
    description: String,
    state: WebhookState,
    kinds: String,
}

/// The state of an endpoint, as a dot and words.
struct WebhookState {
    dot: &'static str,
    badge: &'static str,
    word: &'static str,
}

impl WebhookState {
    fn of(webhook: &Webhook) -> Self {
        let (dot, badge, word) = match (webhook.disabled, webhook.failing_since) {
            (Some((_, DisabledWhy::Owner)), _) => ("is-idle", "off", "Disabled"),
            (Some((_, DisabledWhy::Gone)), _) => ("is-ended", "bad", "Disabled: it answered 410 Gone"),
            (Some((_, DisabledWhy::Failing)), _) => ("is-ended", "bad", "Disabled: it failed for days"),
            (Some((_, DisabledWhy::Operator)), _) => ("is-ended", "bad", "Disabled by the operator"),
            (None, Some(_)) => ("is-idle", "warn", "Failing"),
            (None, None) => ("is-live", "is-good", "Enabled"),
        };
        Self { dot, badge, word }
    }
}

/// The fields of an endpoint, with the fault of the sent form.
struct EndpointForm {
    url: String,
    description: String,
    kinds: Vec<KindTick>,
    fault: Option<String>,
}

impl EndpointForm {
    fn new(url: &str, description: &str, is_on: impl Fn(NotificationKind) -> bool) -> Self {
        Self { url: url.to_owned(), description: description.to_owned(), kinds: ticks(is_on), fault: None }
    }

    fn sent(form: &WebhookForm, fault: String) -> Self {
        let field = |name: &str| form.get(name).map_or("", String::as_str);
        Self { fault: Some(fault), ..Self::new(field("url"), field("description"), |kind| is_sent(form, kind)) }
    }
}

#[derive(Template)]
#[template(path = "account/webhook.html")]
struct WebhookPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    url: String,
    state: WebhookState,
    is_enabled: bool,
    by_operator: bool,
    disabled: Option<Moment>,
    failing: Option<Moment>,
    dropped: Option<(u64, Moment)>,
    created: Moment,
    old_secret_until: Option<Moment>,
    deliveries: Vec<DeliveryRow>,
    form: EndpointForm,
    fresh: bool,
    sign_in: String,
}

struct DeliveryRow {
    kind: String,
    created: Moment,
    badge: &'static str,
    word: &'static str,
    tries: u32,
    error: Option<String>,
    next: Option<Moment>,
}

#[derive(Template)]
#[template(path = "account/webhook_secret.html")]
struct SecretPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    url: String,
    secret: String,
    is_replaced: bool,
    hours_kept: u64,
}

/// `url`, `description`, `enabled`, and a field for each ticked kind.
type WebhookForm = BTreeMap<String, String>;

/// The properties of a sent form, or its fault in words.
fn typed(form: &WebhookForm) -> Result<NewEndpoint, String> {
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let url = field("url").parse().map_err(|error| format!("The URL cannot be used: {error}."))?;
    let description: EndpointDescription =
        field("description").parse().map_err(|error| format!("The description {error}."))?;
    let kinds = sent(form).ok_or("Choose the kinds again.")?;
    let enabled = form.contains_key("enabled");
    Ok(NewEndpoint { url, description, kinds, enabled })
}

/// The words for a refusal that the person can correct in the form.
fn mendable(refusal: &WebhookRefusal) -> Option<String> {
    match refusal {
        WebhookRefusal::Url(refusal) => Some(format!("The URL {refusal}.")),
        WebhookRefusal::NoKinds => Some("Choose at least one kind of notification.".to_owned()),
        WebhookRefusal::TooMany => Some("You have the maximum number of webhooks. Delete one first.".to_owned()),
        WebhookRefusal::DisabledByOperator => {
            Some("The operator disabled this webhook, so you cannot enable it.".to_owned())
        }
        WebhookRefusal::Off | WebhookRefusal::NotFound | WebhookRefusal::NotTestable | WebhookRefusal::Infra(_) => None,
    }
}

impl WebhookPages {
    fn refused(&self, owner: &AccountOwner, refusal: WebhookRefusal) -> PageError {
        match refusal {
            WebhookRefusal::NotFound => gone(&self.site, &owner.visitor),
            refusal => PageError::of(&self.site)(refusal),
        }
    }

    fn id(&self, owner: &AccountOwner, id: &str) -> Result<WebhookId, PageError> {
        id.parse().map_err(|_| gone(&self.site, &owner.visitor))
    }

    fn fresh(&self, owner: &AccountOwner) -> bool {
        self.recent.is_recent(owner.visitor.signed_in_at)
    }

    fn to(&self, id: WebhookId, said: &str) -> Response {
        self.site.to(&format!("{PATH}/{id}"), said)
    }

    async fn draw_list(&self, owner: &AccountOwner, status: StatusCode, form: EndpointForm) -> PageResult {
        let rows = self.webhooks.list(&owner.account).await.map_err(|refusal| self.refused(owner, refusal))?;
        let row = |webhook: &Webhook| WebhookRow {
            id: webhook.id.to_string(),
            url: webhook.url.as_str().to_owned(),
            description: webhook.description.as_str().to_owned(),
            state: WebhookState::of(webhook),
            kinds: webhook.kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", "),
        };
        Ok(page(
            status,
            &WebhooksPage {
                frame: PageLayout::new(&self.site, Some(&owner.visitor)),
                tab: "access",
                rows: rows.iter().map(row).collect(),
                form,
                fresh: self.fresh(owner),
                sign_in: sign_in_path(&self.site, PATH),
            },
        ))
    }

    async fn draw_one(
        &self,
        owner: &AccountOwner,
        id: WebhookId,
        status: StatusCode,
        form: Option<EndpointForm>,
    ) -> PageResult {
        let refused = |refusal| self.refused(owner, refusal);
        let webhook = self.webhooks.find(id, &owner.account).await.map_err(refused)?;
        let deliveries = self.webhooks.deliveries(id, &owner.account).await.map_err(refused)?;
        let now = self.site.ports.clock.now();
        let row = |delivery: DeliveryRecord| {
            let (badge, word) = match (delivery.next_try_at, delivery.is_delivered) {
                (Some(_), _) if delivery.tries > 0 => ("warn", "Failed for now"),
                (Some(_), _) => ("off", "Waiting"),
                (None, true) => ("is-good", "Delivered"),
                (None, false) => ("bad", "Given up"),
            };
            DeliveryRow {
                kind: delivery.kind,
                created: Moment::new(delivery.created_at, now),
                badge,
                word,
                tries: delivery.tries,
                error: delivery.error,
                next: delivery.next_try_at.filter(|_| delivery.tries > 0).map(|at| Moment::new(at, now)),
            }
        };
        let current = || {
            let description = webhook.description.as_str();
            EndpointForm::new(webhook.url.as_str(), description, |kind| webhook.kinds.contains(&kind))
        };
        Ok(page(
            status,
            &WebhookPage {
                frame: PageLayout::new(&self.site, Some(&owner.visitor)),
                tab: "access",
                id: id.to_string(),
                url: webhook.url.as_str().to_owned(),
                state: WebhookState::of(&webhook),
                is_enabled: webhook.disabled.is_none(),
                by_operator: matches!(webhook.disabled, Some((_, DisabledWhy::Operator))),
                disabled: webhook.disabled.map(|(at, _)| Moment::new(at, now)),
                failing: webhook.failing_since.map(|at| Moment::new(at, now)),
                dropped: webhook.dropped.map(|(dropped, at)| (dropped, Moment::new(at, now))),
                created: Moment::new(webhook.created_at, now),
                old_secret_until: webhook.old_secret_until.filter(|until| *until > now).map(|at| Moment::new(at, now)),
                deliveries: deliveries.into_iter().map(row).collect(),
                form: form.unwrap_or_else(current),
                fresh: self.fresh(owner),
                sign_in: sign_in_path(&self.site, &format!("{PATH}/{id}")),
            },
        ))
    }

    fn secret_page(
        &self,
        owner: &AccountOwner,
        webhook: &Webhook,
        secret: &SigningSecret,
        is_replaced: bool,
    ) -> Response {
        page(
            StatusCode::OK,
            &SecretPage {
                frame: PageLayout::new(&self.site, Some(&owner.visitor)),
                tab: "access",
                id: webhook.id.to_string(),
                url: webhook.url.as_str().to_owned(),
                secret: secret.expose(),
                is_replaced,
                hours_kept: self.webhooks.old_secret_kept().as_secs().div_ceil(3600),
            },
        )
    }
}

/// `GET /account/webhooks`
pub async fn show(State(pages): State<WebhookPages>, owner: AccountOwner) -> PageResult {
    let form = EndpointForm::new("", "", is_on_at_first);
    pages.draw_list(&owner, StatusCode::OK, form).await
}

/// `POST /account/webhooks`: shows the secret once. It requires a recent sign-in.
pub async fn create(
    State(pages): State<WebhookPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<WebhookForm>,
) -> PageResult {
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else { return Ok(sign_in_again(&pages.site, PATH)) };
    let again = async |fault| pages.draw_list(&owner, StatusCode::BAD_REQUEST, EndpointForm::sent(&form, fault)).await;
    let endpoint = match typed(&form) {
        Ok(endpoint) => endpoint,
        Err(fault) => return again(fault).await,
    };
    // The form of a new endpoint has no field `enabled`: a new endpoint is enabled.
    let endpoint = NewEndpoint { enabled: true, ..endpoint };
    match pages.webhooks.create(owner.account.clone(), endpoint, recently).await {
        Ok((webhook, secret)) => Ok(pages.secret_page(&owner, &webhook, &secret, false)),
        Err(refusal) => match mendable(&refusal) {
            Some(fault) => again(fault).await,
            None => Err(pages.refused(&owner, refusal)),
        },
    }
}

/// `GET /account/webhooks/{id}`
pub async fn show_one(State(pages): State<WebhookPages>, owner: AccountOwner, Named(id): Named) -> PageResult {
    pages.draw_one(&owner, pages.id(&owner, &id)?, StatusCode::OK, None).await
}

/// `POST /account/webhooks/{id}`: changes the endpoint. It requires a recent sign-in.
pub async fn save(
    State(pages): State<WebhookPages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(form): PageForm<WebhookForm>,
) -> PageResult {
    let id = pages.id(&owner, &id)?;
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else {
        return Ok(sign_in_again(&pages.site, &format!("{PATH}/{id}")));
    };
    let again =
        async |fault| pages.draw_one(&owner, id, StatusCode::BAD_REQUEST, Some(EndpointForm::sent(&form, fault))).await;
    let endpoint = match typed(&form) {
        Ok(endpoint) => endpoint,
        Err(fault) => return again(fault).await,
    };
    let change = EndpointChange {
        url: Some(endpoint.url),
        description: Some(endpoint.description),
        kinds: Some(endpoint.kinds),
        // The form of an endpoint that the operator has disabled cannot change this.
        enabled: (form.get("enabled").map(String::as_str) != Some("keep")).then_some(endpoint.enabled),
    };
    match pages.webhooks.change(id, &owner.account, change, recently).await {
        Ok(_) => Ok(pages.to(id, "The webhook is saved.")),
        Err(refusal) => match mendable(&refusal) {
            Some(fault) => again(fault).await,
            None => Err(pages.refused(&owner, refusal)),
        },
    }
}

/// `POST /account/webhooks/{id}/test`
pub async fn test(
    State(pages): State<WebhookPages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id = pages.id(&owner, &id)?;
    match pages.webhooks.test(id, &owner.account).await {
        Ok(()) => Ok(pages.to(id, "A test is on its way. Reload this page to see its delivery.")),
        Err(WebhookRefusal::NotTestable) => {
            Ok(pages.to(id, "No test was sent: the webhook is disabled, or too many notifications wait for it."))
        }
        Err(refusal) => Err(pages.refused(&owner, refusal)),
    }
}

/// `POST /account/webhooks/{id}/secret`: replaces the secret and shows the new one once. It requires a recent sign-in.
pub async fn rotate(
    State(pages): State<WebhookPages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id = pages.id(&owner, &id)?;
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else {
        return Ok(sign_in_again(&pages.site, &format!("{PATH}/{id}")));
    };
    let rotated = pages.webhooks.rotate(id, &owner.account, recently).await;
    let (webhook, secret) = rotated.map_err(|refusal| pages.refused(&owner, refusal))?;
    Ok(pages.secret_page(&owner, &webhook, &secret, true))
}

/// `GET /account/webhooks/{id}/delete`
pub async fn question(State(pages): State<WebhookPages>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let id = pages.id(&owner, &id)?;
    let webhook = pages.webhooks.find(id, &owner.account).await;
    let webhook = webhook.map_err(|refusal| pages.refused(&owner, refusal))?;
    let frame = PageLayout::new(&pages.site, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "access",
            title: "Delete this webhook?".into(),
            subject: webhook.url.as_str().to_owned(),
            lost: lines([
                "Notifications to this URL, also those that wait.",
                "The list of its deliveries, and its secret.",
            ]),
            kept: lines(["Your other webhooks."]),
            button: "Delete permanently",
            action: format!("{}{PATH}/{id}/delete", frame.root),
            keep: format!("{}{PATH}/{id}", frame.root),
            frame,
        },
    ))
}

/// `POST /account/webhooks/{id}/delete`
pub async fn delete(
    State(pages): State<WebhookPages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id = pages.id(&owner, &id)?;
    let deleted = pages.webhooks.delete(id, owner.account.clone()).await;
    deleted.map_err(|refusal| pages.refused(&owner, refusal))?;
    Ok(pages.site.to(PATH, "The webhook is deleted."))
}
