//! Rules about recorded events, and the weekly digest (`docs/protocol/rules.md`).

use app::services::rules::{EventRules, NewRule, RuleRefusal, StoredRule};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::Timestamp;
use domain::ids::RuleId;
use domain::rule::{RuleCondition, RuleOutlets};
use wire::Done;
use wire::rule::{DigestEntry, DigestRequest, RuleEntry, RuleList, RuleRequest};

use super::auth::Caller;
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use super::named::Named;

/// `GET /api/v1/rules`: `{rules: […], digest}`, oldest first.
pub async fn list(State(rules): State<EventRules>, caller: Caller) -> ApiResult {
    let (rows, next_at) = rules.list(caller.require_account()?).await?;
    body::answer(&RuleList { rules: rows.iter().map(described).collect(), digest: digest(next_at) })
}

/// `POST /api/v1/rules`: 201 with the rule.
pub async fn create(
    State(rules): State<EventRules>,
    caller: Caller,
    JsonBody(body): JsonBody<RuleRequest>,
) -> ApiResult {
    let account = caller.require_account()?.clone();
    let RuleRequest { name, event_type, lane, tone, first_time, at_least, mail, notify } = body;
    let event_type = event_type.map(|text| text.parse()).transpose();
    let new = NewRule {
        name: name.parse().map_err(|error| invalid("name", error))?,
        when: RuleCondition {
            event_type: event_type.map_err(|error| invalid("event_type", error))?,
            lane,
            tone,
            first_time,
            at_least,
        },
        outlets: RuleOutlets { mail: mail.unwrap_or(true), notify: notify.unwrap_or(true) },
    };
    let rule = rules.create(account, new).await?;
    Ok((StatusCode::CREATED, body::answer(&described(&rule))?).into_response())
}

/// `DELETE /api/v1/rules/{id}`: deletes a rule.
pub async fn delete(State(rules): State<EventRules>, caller: Caller, Named(id): Named) -> ApiResult {
    let account = caller.require_account()?.clone();
    // A rule of another account is refused like an unknown one.
    let id: RuleId = id.parse().map_err(|_| Code::NotFound)?;
    rules.delete(id, account).await?;
    body::answer(&Done::OK)
}

/// `PUT /api/v1/digest`: switches the weekly digest on or off.
pub async fn set_digest(
    State(rules): State<EventRules>,
    caller: Caller,
    JsonBody(DigestRequest { enabled }): JsonBody<DigestRequest>,
) -> ApiResult {
    let account = caller.require_account()?.clone();
    body::answer(&digest(rules.set_digest(account, enabled).await?))
}

fn invalid(member: &str, error: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(member, format!("{error}"))
}

fn digest(next_at: Option<Timestamp>) -> DigestEntry {
    DigestEntry { enabled: next_at.is_some(), next_at }
}

fn described(StoredRule { rule, state }: &StoredRule) -> RuleEntry {
    let RuleCondition { event_type, lane, tone, first_time, at_least } = &rule.when;
    RuleEntry {
        id: rule.id,
        name: rule.name.as_str().to_owned(),
        event_type: event_type.as_ref().map(|pattern| pattern.as_str().to_owned()),
        lane: *lane,
        tone: *tone,
        first_time: *first_time,
        at_least: *at_least,
        mail: rule.outlets.mail,
        notify: rule.outlets.notify,
        created_at: rule.created_at,
        last_message_at: state.sent_at(),
        waiting_events: state.waiting(),
    }
}

impl From<RuleRefusal> for ApiError {
    fn from(refusal: RuleRefusal) -> Self {
        match refusal {
            RuleRefusal::External => Self::new(Code::EmbeddedLogRequired).because("external_statistics_service"),
            RuleRefusal::Invalid(error) => invalid("rule", error),
            RuleRefusal::TooMany => Code::TooManyRules.into(),
            RuleRefusal::NotFound => Code::NotFound.into(),
            RuleRefusal::Infra(error) => error.into(),
        }
    }
}
