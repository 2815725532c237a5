//! Consent: how much may be recorded (`docs/protocol/consent.md` and `docs/decisions/0014-consent.md` and
//! `docs/decisions/0015-reports-of-consent.md`).

use std::time::Duration;

use actors::intake::QUOTA_EXCEEDED;
use app::services::consent::{Changed, Consent, ConsentRefusal, EffectiveLevel, LevelChange};
use axum::extract::State;
use domain::consent::Author;
use domain::envelope::Lane;
use domain::ids::{MachineUuid, RegistrationId};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::consent::{
    ConsentAnswer, ConsentRecord, ConsentRequest, ConsentWritten, PauseRequest, PauseResult, REASON_CHARS_MAX,
};

use super::auth::Caller;
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use super::query::ApiQuery;

/// `GET /api/v1/consent`
pub async fn read(
    State(consent): State<Consent>,
    caller: Caller,
    ApiQuery(query): ApiQuery<ConsentParameters>,
) -> ApiResult {
    let (machine, lane) = query.parsed()?;
    let lane = lane.unwrap_or(Lane::Memory);
    if let Caller::Machine { facts, .. } = &caller {
        return effective(consent.seen_by_computer(facts, machine, lane)?);
    }
    if let Some(machine) = machine {
        return effective(consent.of_computer(caller.account(), machine, lane).await?);
    }
    let records = consent.records(caller.account()).await?;
    let record = |record: &store::consent::ConsentRecord| ConsentRecord {
        user_cuid: record.user_cuid.clone(),
        machine_uuid: record.rule.machine,
        lane: record.rule.lane,
        level: record.rule.level,
        set_by: record.rule.set_by,
    };
    let paused_until = consent.pauses(caller.account()).await?.account;
    body::answer(&ConsentAnswer::Levels { levels: records.iter().map(record).collect(), paused_until })
}

fn effective(EffectiveLevel { level, paused_until }: EffectiveLevel) -> ApiResult {
    body::answer(&ConsentAnswer::Effective { level, paused_until })
}

/// `POST /api/v1/consent/pause`: until its end the effective level is `off`.
pub async fn pause(
    State(consent): State<Consent>,
    caller: Caller,
    JsonBody(PauseRequest { seconds, machine_uuid }): JsonBody<PauseRequest>,
) -> ApiResult {
    if seconds == 0 {
        return Err(ApiError::invalid("seconds", "must be at least 1"));
    }
    let length = Duration::from_secs(seconds);
    let until = if let Caller::Machine { facts, .. } = &caller {
        consent.pause_by_computer(facts, machine_uuid, length).await?
    } else {
        let author = (author(&caller), agent(&caller));
        consent.pause_by_account(caller.account(), machine_uuid, author, length).await?
    };
    body::answer(&PauseResult { paused_until: Some(until) })
}

/// `DELETE /api/v1/consent/pause`: ends a pause early.
pub async fn end_pause(
    State(consent): State<Consent>,
    caller: Caller,
    ApiQuery(query): ApiQuery<PauseParameters>,
) -> ApiResult {
    let machine = query.machine_uuid.as_deref().map(machine_uuid).transpose()?;
    match &caller {
        Caller::Machine { facts, .. } => consent.continue_by_computer(facts, machine).await?,
        _ => consent.continue_by_account(caller.account(), machine, author(&caller)).await?,
    }
    body::answer(&PauseResult { paused_until: None })
}

/// The author of a record by this caller.
fn author(caller: &Caller) -> Author {
    match caller {
        Caller::Machine { .. } => Author::Computer,
        Caller::Session { .. } => Author::Person,
        Caller::Account { .. } | Caller::PreClaim { .. } | Caller::Key(_) => Author::Agent,
    }
}

/// The agent in a record by this caller.
fn agent(caller: &Caller) -> Option<RegistrationId> {
    if let Caller::Account { agent, .. } = caller { Some(*agent) } else { None }
}

/// `?machine_uuid`
#[derive(Debug, Deserialize)]
pub struct PauseParameters {
    machine_uuid: Option<String>,
}

/// `POST /api/v1/consent`: 200 `{level, written}` with the level in force; 502 when the records are written and their events are not
/// forwarded yet.
pub async fn write(State(consent): State<Consent>, caller: Caller, JsonBody(body): JsonBody<Value>) -> ApiResult {
    let ConsentRequest { level, lane, machine_uuid, reason } = wanted(body)?;
    let change = LevelChange { level, lane, reason, agent: agent(&caller) };
    let Changed { level, written, is_forwarded } = match &caller {
        Caller::Machine { facts, .. } => consent.set_by_computer(facts, machine_uuid, change).await?,
        _ => consent.set_by_account(caller.account(), machine_uuid, author(&caller), change).await?,
    };
    if is_forwarded {
        body::answer(&ConsentWritten { level, written: written as u64 })
    } else {
        Err(ApiError::new(Code::ConsentAuditForwardFailed).with("written", json!(written)))
    }
}

impl From<ConsentRefusal> for ApiError {
    fn from(refusal: ConsentRefusal) -> Self {
        match refusal {
            ConsentRefusal::OtherComputer => Code::MachineUuidMismatch.into(),
            ConsentRefusal::NotOwned => Code::MachineNotOwned.into(),
            ConsentRefusal::NoLinkedIdentity => Code::NoLinkedCuid.into(),
            ConsentRefusal::PauseTooLong { longest } => {
                Self::invalid("seconds", format!("must not be more than {}", longest.as_secs()))
            }
            ConsentRefusal::PauseOfAnother => Code::SessionRequired.into(),
            ConsentRefusal::BudgetSpent { retry_after } => Self::unavailable(QUOTA_EXCEEDED, retry_after),
            ConsentRefusal::Infra(error) => error.into(),
        }
    }
}

/// `?machine_uuid&lane`
#[derive(Debug, Deserialize)]
pub struct ConsentParameters {
    machine_uuid: Option<String>,
    lane: Option<String>,
}

impl ConsentParameters {
    fn parsed(&self) -> Result<(Option<MachineUuid>, Option<Lane>), ApiError> {
        let machine = self.machine_uuid.as_deref().map(machine_uuid).transpose()?;
        Ok((machine, self.lane.as_deref().map(lane).transpose()?))
    }
}

/// The body of `POST /api/v1/consent`. An unknown lane has its own error code.
fn wanted(body: Value) -> Result<ConsentRequest, ApiError> {
    if let Some(Value::String(name)) = body.get("lane") {
        lane(name)?;
    }
    let wanted: ConsentRequest = body::fitting(body)?;
    if wanted.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(ApiError::invalid("reason", format!("must not be longer than {REASON_CHARS_MAX} characters")));
    }
    Ok(wanted)
}

fn machine_uuid(text: &str) -> Result<MachineUuid, ApiError> {
    text.parse().map_err(|error| ApiError::invalid("machine_uuid", format!("{error}")))
}

fn lane(text: &str) -> Result<Lane, ApiError> {
    text.parse().map_err(|_| Code::LaneNotInEnum.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_request_has_its_code() {
        let code = |body: Value| wanted(body).map_err(|error| error.code());
        assert!(code(json!({ "level": "off" })).is_ok());
        assert!(code(json!({ "level": "full", "lane": "rsi", "reason": "é".repeat(256) })).is_ok());
        for wrong in [
            json!({}),
            json!({ "level": "all" }),
            json!({ "level": 1 }),
            json!({ "level": "off", "extra": 1 }),
            json!({ "level": "off", "lane": null }),
            json!({ "level": "off", "machine_uuid": "x" }),
            json!({ "level": "off", "machine_uuid": "019B76DA-A800-7A67-8A14-94A3F41B0634" }),
            json!({ "level": "off", "reason": "é".repeat(257) }),
        ] {
            assert_eq!(code(wrong.clone()), Err(Code::InvalidRequest), "{wrong}");
        }
        assert_eq!(code(json!({ "level": "off", "lane": "dream" })), Err(Code::LaneNotInEnum));
        let query = |query: &str| {
            serde_urlencoded::from_str::<ConsentParameters>(query).unwrap().parsed().map_err(|error| error.code())
        };
        assert_eq!(query("lane=dream"), Err(Code::LaneNotInEnum));
        assert_eq!(query("machine_uuid=1"), Err(Code::InvalidRequest));
        assert_eq!(query("lane=rsi&unknown=1"), Ok((None, Some(Lane::Rsi))));
    }
}
