//! Consent: how much may be recorded (`docs/protocol/consent.md` and `docs/decisions/0025-effective-consent-level.md` and `docs/decisions/0026-consent-outbox.md`).

use std::time::Duration;

use actors::Unavailable;
use actors::budget::BudgetDecision;
use actors::intake::QUOTA_EXCEEDED;
use axum::extract::State;
use domain::consent::{Author, ConsentLevel, ConsentRule, effective_level, explicit_level};
use domain::envelope::Lane;
use domain::held::MachineFacts;
use domain::ids::{MachineUuid, UserCuid};
use serde::Deserialize;
use serde_json::{Value, json};
use store::held::Sender;
use wire::consent::{ConsentAnswer, ConsentRecord, ConsentRequest, ConsentWritten, REASON_CHARS_MAX};

use super::auth::Caller;
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use super::query::ApiQuery;
use crate::app::App;

/// How long the answer waits for the statistics service. A person is waiting too.
const PATIENCE: Duration = Duration::from_secs(10);

/// `GET /api/v1/consent`
pub async fn read(State(app): State<App>, caller: Caller, ApiQuery(query): ApiQuery<Query>) -> ApiResult {
    let (machine, lane) = query.parsed()?;
    let lane = lane.unwrap_or(Lane::Memory);
    if let Caller::Machine { facts, .. } = &caller {
        own_machine(facts, machine)?;
        let level = match own_rules(facts) {
            Some(rules) => effective(&app, &MachineFacts { consent: rules, ..facts.clone() }, lane),
            None => effective(&app, facts, lane),
        };
        return body::answer(&ConsentAnswer::Effective { level });
    }
    if let Some(machine) = machine {
        let facts = owned_machine(&app, &caller, machine).await?;
        return body::answer(&ConsentAnswer::Effective { level: effective(&app, &facts, lane) });
    }
    linked_identities(&app, &caller).await?;
    let records = match caller.account() {
        Some(account) => app.store.consent_of_account(account).await?,
        None => Vec::new(),
    };
    let record = |record: &store::consent::ConsentRecord| ConsentRecord {
        user_cuid: record.user_cuid.clone(),
        machine_uuid: record.rule.machine,
        lane: record.rule.lane,
        level: record.rule.level,
        set_by: record.rule.set_by,
    };
    body::answer(&ConsentAnswer::Levels { levels: records.iter().map(record).collect() })
}

/// `POST /api/v1/consent`: 200 `{level, written}` with the level that is in force; 502 when the rows are written and their events are not forwarded yet.
pub async fn write(State(app): State<App>, caller: Caller, JsonBody(body): JsonBody<Value>) -> ApiResult {
    let ConsentRequest { level, lane, machine_uuid, reason } = wanted(body)?;
    let (identities, machine) = match (&caller, machine_uuid) {
        (Caller::Machine { facts, .. }, machine) => {
            own_machine(facts, machine)?;
            if facts.is_outsider() {
                return Err(Code::MachineNotOwned.into());
            }
            charge(&app, facts).await?;
            (vec![facts.user_cuid.clone()], Some(facts.machine_uuid))
        }
        (_, Some(machine)) => {
            let facts = owned_machine(&app, &caller, machine).await?;
            (vec![facts.user_cuid], Some(machine))
        }
        (_, None) => (linked_identities(&app, &caller).await?, None),
    };
    let rule = ConsentRule { machine, lane, level, set_by: author(&caller) };
    let set = set(&app, identities, rule, reason).await?;
    if set.forwarded {
        let level = in_force(&app, machine, lane).await?.unwrap_or(level);
        body::answer(&ConsentWritten { level, written: set.written as u64 })
    } else {
        Err(ApiError::new(Code::ConsentAuditForwardFailed).with("written", json!(set.written)))
    }
}

/// Who sets a level with this credential.
fn author(caller: &Caller) -> Author {
    match caller {
        Caller::Machine { .. } => Author::Computer,
        Caller::Session { .. } => Author::Person,
        Caller::Account { .. } | Caller::PreClaim { .. } | Caller::Key(_) => Author::Agent,
    }
}

/// The level in force for a computer, which may be lower than the one that was just set. `None` for a baseline: no computer
/// lowers that.
async fn in_force(
    app: &App,
    machine: Option<MachineUuid>,
    lane: Option<Lane>,
) -> Result<Option<ConsentLevel>, ApiError> {
    let Some(machine) = machine else { return Ok(None) };
    let known = app.store.machine_facts(machine).await?;
    Ok(known.and_then(|known| {
        let own = own_rules(&known.facts);
        effective_level(own.as_ref().unwrap_or(&known.facts.consent), Some(machine), lane)
    }))
}

/// The report of a change is stored permanently. For a computer without an account it counts against the budget like an own event.
async fn charge(app: &App, facts: &MachineFacts) -> Result<(), ApiError> {
    /// Approximate size of a report.
    const REPORT_BYTES: usize = 1024;
    if facts.account.is_some() {
        return Ok(());
    }
    let sender = Sender::Machine(facts.machine_uuid);
    match app.budgets.take(&sender, REPORT_BYTES, app.clock.now()).await? {
        BudgetDecision::Taken => Ok(()),
        BudgetDecision::Spent { retry_after } => Err(ApiError::unavailable(QUOTA_EXCEEDED, retry_after)),
        BudgetDecision::Crowded => Err(Unavailable::Overloaded.into()),
    }
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    /// Rows whose level changed.
    pub written: usize,
    /// Whether the statistics service knows; otherwise it will be told later.
    pub forwarded: bool,
}

/// Sets a level for each of these identities and reports what changed. The rows stay, whatever becomes of the report.
pub async fn set(
    app: &App,
    identities: Vec<UserCuid>,
    rule: ConsentRule,
    reason: Option<String>,
) -> Result<Set, ApiError> {
    let (store, now, rng) = (app.store.clone(), app.clock.now(), app.rng.clone());
    let work = async move { store.consent_set(&identities, &rule, reason.as_deref(), now, &rng).await };
    let changed = actors::detached(work).await??;
    let written = changed.len();
    if written == 0 {
        return Ok(Set { written, forwarded: true });
    }
    let flushed = app.outbox.flush(changed, PATIENCE).await;
    if let Err(error) = &flushed {
        tracing::warn!(
            error = domain::reasons(error),
            "a change of consent is written, and its report waits in the outbox"
        );
    }
    Ok(Set { written, forwarded: flushed.is_ok() })
}

/// What holds for a computer; the configured default where a person set nothing.
fn effective(app: &App, facts: &MachineFacts, lane: Lane) -> ConsentLevel {
    explicit_level(&facts.consent, facts.machine_uuid, lane).unwrap_or(app.settings.consent.default_level)
}

/// For a computer that only names somebody's identity: the levels of its own. What that person set for all computers is not its to
/// know. `None`: all that are known count.
fn own_rules(facts: &MachineFacts) -> Option<Vec<ConsentRule>> {
    let own = || facts.consent.iter().filter(|rule| rule.machine == Some(facts.machine_uuid)).cloned().collect();
    facts.is_outsider().then(own)
}

/// A computer speaks for itself alone.
fn own_machine(facts: &MachineFacts, named: Option<MachineUuid>) -> Result<(), ApiError> {
    if named.is_none_or(|named| named == facts.machine_uuid) { Ok(()) } else { Err(Code::MachineUuidMismatch.into()) }
}

/// A person speaks for the computers of their account.
async fn owned_machine(app: &App, caller: &Caller, machine: MachineUuid) -> Result<MachineFacts, ApiError> {
    let known = app.store.machine_facts(machine).await?.map(|known| known.facts);
    let owned = known.filter(|facts| facts.account.is_some() && facts.account.as_ref() == caller.account());
    owned.ok_or_else(|| Code::MachineNotOwned.into())
}

async fn linked_identities(app: &App, caller: &Caller) -> Result<Vec<UserCuid>, ApiError> {
    let identities = match caller.account() {
        Some(account) => app.store.identities_of_account(account).await?,
        None => Vec::new(),
    };
    if identities.is_empty() { Err(Code::NoLinkedCuid.into()) } else { Ok(identities) }
}

/// `?machine_uuid&lane`
#[derive(Debug, Deserialize)]
pub struct Query {
    machine_uuid: Option<String>,
    lane: Option<String>,
}

impl Query {
    fn parsed(&self) -> Result<(Option<MachineUuid>, Option<Lane>), ApiError> {
        let machine = self.machine_uuid.as_deref().map(machine_uuid).transpose()?;
        Ok((machine, self.lane.as_deref().map(lane).transpose()?))
    }
}

/// The body of `POST /api/v1/consent`. A lane that there is not has a code of its own.
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
        let query =
            |query: &str| serde_urlencoded::from_str::<Query>(query).unwrap().parsed().map_err(|error| error.code());
        assert_eq!(query("lane=dream"), Err(Code::LaneNotInEnum));
        assert_eq!(query("machine_uuid=1"), Err(Code::InvalidRequest));
        assert_eq!(query("lane=rsi&unknown=1"), Ok((None, Some(Lane::Rsi))));
    }
}
