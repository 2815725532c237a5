//! Endpoints that an account is notified at (`docs/protocol/webhooks.md`).

use std::sync::Arc;

use app::config::Urls;
use app::services::confirmation::{RecentSignIn, RecentlySignedIn};
use app::services::webhooks::{EndpointChange, NewEndpoint, WebhookRefusal, Webhooks};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::ids::WebhookId;
use domain::webhook::{SigningSecret, Webhook, message_id};
use wire::Done;
use wire::webhook::{Deliveries, WebhookChange, WebhookDelivery, WebhookRequest, WebhookWithSecret};

use super::auth::{Caller, sign_in_again, unauthorized};
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use super::named::Named;

/// `GET /api/v1/webhooks`: `{webhooks: […]}`, newest first.
pub async fn list(State(webhooks): State<Webhooks>, caller: Caller) -> ApiResult {
    let rows = webhooks.list(caller.require_account()?).await?;
    body::answer(&wire::webhook::WebhookList { webhooks: rows.iter().map(described).collect() })
}

/// `POST /api/v1/webhooks`: 201 with the endpoint and its secret. Only this response contains the secret.
pub async fn create(
    State(webhooks): State<Webhooks>,
    State(recent): State<RecentSignIn>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    JsonBody(body): JsonBody<WebhookRequest>,
) -> ApiResult {
    let recently = recently(&caller, &recent, &urls)?;
    let account = caller.require_account()?.clone();
    let WebhookRequest { url, kinds, description, enabled } = body;
    let endpoint = NewEndpoint {
        url: url.parse().map_err(|error| invalid("url", error))?,
        description: description.parse().map_err(|error| invalid("description", error))?,
        kinds,
        enabled: enabled.unwrap_or(true),
    };
    let (webhook, secret) = webhooks.create(account, endpoint, recently).await?;
    Ok((StatusCode::CREATED, body::answer(&with_secret(&webhook, &secret))?).into_response())
}

/// `PATCH /api/v1/webhooks/{id}`: 200 with the changed endpoint.
pub async fn change(
    State(webhooks): State<Webhooks>,
    State(recent): State<RecentSignIn>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    Named(id): Named,
    JsonBody(body): JsonBody<WebhookChange>,
) -> ApiResult {
    let recently = recently(&caller, &recent, &urls)?;
    let account = caller.require_account()?;
    let WebhookChange { url, kinds, description, enabled } = body;
    let url = url.map(|url| url.parse()).transpose().map_err(|error| invalid("url", error))?;
    let description = description.map(|text| text.parse()).transpose();
    let description = description.map_err(|error| invalid("description", error))?;
    let change = EndpointChange { url, description, kinds, enabled };
    body::answer(&described(&webhooks.change(known(&id)?, account, change, recently).await?))
}

/// `POST /api/v1/webhooks/{id}/secret`: 200 with the endpoint and its new secret.
pub async fn rotate(
    State(webhooks): State<Webhooks>,
    State(recent): State<RecentSignIn>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    Named(id): Named,
) -> ApiResult {
    let recently = recently(&caller, &recent, &urls)?;
    let (webhook, secret) = webhooks.rotate(known(&id)?, caller.require_account()?, recently).await?;
    body::answer(&with_secret(&webhook, &secret))
}

/// `DELETE /api/v1/webhooks/{id}`: deletes an endpoint with its deliveries.
pub async fn delete(State(webhooks): State<Webhooks>, caller: Caller, Named(id): Named) -> ApiResult {
    webhooks.delete(known(&id)?, caller.require_account()?.clone()).await?;
    body::answer(&Done::OK)
}

/// `POST /api/v1/webhooks/{id}/test`: sends a test to the endpoint.
pub async fn test(State(webhooks): State<Webhooks>, caller: Caller, Named(id): Named) -> ApiResult {
    webhooks.test(known(&id)?, caller.require_account()?).await?;
    body::answer(&Done::OK)
}

/// `GET /api/v1/webhooks/{id}/deliveries`: `{deliveries: […]}`, newest first.
pub async fn deliveries(State(webhooks): State<Webhooks>, caller: Caller, Named(id): Named) -> ApiResult {
    let rows = webhooks.deliveries(known(&id)?, caller.require_account()?).await?;
    let deliveries = rows.into_iter().map(|delivery| WebhookDelivery {
        id: message_id(delivery.notification),
        kind: delivery.kind,
        state: match (delivery.next_try_at, delivery.is_delivered) {
            (Some(_), _) => "waiting",
            (None, true) => "delivered",
            (None, false) => "failed",
        }
        .to_owned(),
        created_at: delivery.created_at,
        tries: delivery.tries,
        last_try_at: delivery.last_try_at,
        next_try_at: delivery.next_try_at,
        status: delivery.status,
        error: delivery.error,
    });
    body::answer(&Deliveries { deliveries: deliveries.collect() })
}

fn recently(caller: &Caller, recent: &RecentSignIn, urls: &Urls) -> ApiResult<RecentlySignedIn> {
    let (_, with) = caller.decides().ok_or_else(|| unauthorized(Code::Unauthorized, true, urls))?;
    recent.check(with).map_err(|again| sign_in_again(again, urls))
}

/// An endpoint of another account is refused like an unknown one.
fn known(id: &str) -> ApiResult<WebhookId> {
    id.parse().map_err(|_| Code::NotFound.into())
}

fn invalid(member: &str, error: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(member, format!("{error}"))
}

fn described(webhook: &Webhook) -> wire::webhook::WebhookEntry {
    wire::webhook::WebhookEntry {
        id: webhook.id,
        url: webhook.url.as_str().to_owned(),
        description: webhook.description.as_str().to_owned(),
        kinds: webhook.kinds.clone(),
        enabled: webhook.disabled.is_none(),
        created_at: webhook.created_at,
        disabled_at: webhook.disabled.map(|(at, _)| at),
        disabled_reason: webhook.disabled.map(|(_, why)| why),
        failing_since: webhook.failing_since,
        dropped: webhook.dropped.map_or(0, |(dropped, _)| dropped),
        old_secret_until: webhook.old_secret_until,
    }
}

fn with_secret(webhook: &Webhook, secret: &SigningSecret) -> WebhookWithSecret {
    WebhookWithSecret { about: described(webhook), secret: secret.expose() }
}

impl From<WebhookRefusal> for ApiError {
    fn from(refusal: WebhookRefusal) -> Self {
        match refusal {
            WebhookRefusal::Off | WebhookRefusal::NotFound => Code::NotFound.into(),
            WebhookRefusal::Url(refusal) => invalid("url", refusal),
            WebhookRefusal::NoKinds => invalid("kinds", "must name at least one kind"),
            WebhookRefusal::TooMany => Code::TooManyWebhooks.into(),
            WebhookRefusal::NotTestable | WebhookRefusal::DisabledByOperator => Code::WebhookDisabled.into(),
            WebhookRefusal::Infra(error) => error.into(),
        }
    }
}
