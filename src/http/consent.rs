//! Consent: how much may be recorded (specification, *Consent*; decisions, section 10).

use std::collections::BTreeMap;
use std::time::Duration;

use actors::budget::Asked;
use actors::handle::Unavailable;
use actors::intake::QUOTA_EXCEEDED;
use axum::extract::{RawQuery, State};
use domain::consent::{ConsentLevel, ConsentRule, explicit_level};
use domain::envelope::Lane;
use domain::held::MachineFacts;
use domain::ids::{MachineUuid, UserCuid};
use serde_json::{Value, json};
use store::held::Sender;
use wire::consent::{ConsentAnswer, ConsentRecord, ConsentWritten};

use super::auth::Caller;
use super::body::{self, JsonBody};
use super::error::{Answer, ApiError, Code};
use crate::house::House;

/// Characters of a `reason`.
const REASON_MAX: usize = 256;

/// How long the answer waits for the statistics service. A person is waiting too.
const PATIENCE: Duration = Duration::from_secs(10);

/// `GET /api/v1/consent`
pub async fn read(State(house): State<House>, caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let query = Query::parse(query.as_deref().unwrap_or_default())?;
    let lane = query.lane.unwrap_or(Lane::Memory);
    if let Caller::Machine { facts, .. } = &caller {
        own_machine(facts, query.machine)?;
        let level = match own_rules(facts) {
            Some(rules) => effective(&house, &MachineFacts { consent: rules, ..facts.clone() }, lane),
            None => effective(&house, facts, lane),
        };
        return body::answer(&ConsentAnswer::Effective { level });
    }
    if let Some(machine) = query.machine {
        let facts = owned_machine(&house, &caller, machine).await?;
        return body::answer(&ConsentAnswer::Effective { level: effective(&house, &facts, lane) });
    }
    linked_identities(&house, &caller).await?;
    let records = match caller.account() {
        Some(account) => house.store.consent_of_account(account).await?,
        None => Vec::new(),
    };
    let record = |record: &store::consent::ConsentRecord| ConsentRecord {
        user_cuid: record.user_cuid.clone(),
        machine_uuid: record.rule.machine,
        lane: record.rule.lane,
        level: record.rule.level,
    };
    body::answer(&ConsentAnswer::Levels { levels: records.iter().map(record).collect() })
}

/// `POST /api/v1/consent`: 200 `{level, written}`; 502 when the rows are written and their events are not forwarded yet.
pub async fn write(
    State(house): State<House>,
    caller: Caller,
    JsonBody(body): JsonBody<BTreeMap<String, Value>>,
) -> Answer {
    let Wanted { level, lane, machine, reason } = Wanted::parse(&body)?;
    let (identities, machine) = match (&caller, machine) {
        (Caller::Machine { facts, .. }, machine) => {
            own_machine(facts, machine)?;
            if facts.is_outsider() {
                return Err(Code::MachineNotOwned.into());
            }
            charge(&house, facts).await?;
            (vec![facts.user_cuid.clone()], Some(facts.machine_uuid))
        }
        (_, Some(machine)) => {
            let facts = owned_machine(&house, &caller, machine).await?;
            (vec![facts.user_cuid], Some(machine))
        }
        (_, None) => (linked_identities(&house, &caller).await?, None),
    };
    let set = set(&house, identities, ConsentRule { machine, lane, level }, reason).await?;
    if set.forwarded {
        body::answer(&ConsentWritten { level, written: set.written as u64 })
    } else {
        Err(ApiError::new(Code::ConsentAuditForwardFailed).with("written", json!(set.written)))
    }
}

/// The report of a change is recorded for ever. That of a computer that is attached to no account counts like an event of its own.
async fn charge(house: &House, facts: &MachineFacts) -> Result<(), ApiError> {
    /// Roughly what a report takes.
    const REPORT_BYTES: usize = 1024;
    if facts.account.is_some() {
        return Ok(());
    }
    let sender = Sender::Machine(facts.machine_uuid);
    match house.budgets.take(&sender, REPORT_BYTES, house.clock.now()).await? {
        Asked::Taken => Ok(()),
        Asked::Spent { retry_after } => Err(ApiError::unavailable(QUOTA_EXCEEDED, retry_after)),
        Asked::Crowded => Err(Unavailable::Overloaded.into()),
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
    house: &House,
    identities: Vec<UserCuid>,
    rule: ConsentRule,
    reason: Option<String>,
) -> Result<Set, ApiError> {
    let (store, now, chance) = (house.store.clone(), house.clock.now(), house.chance.clone());
    let work = async move { store.consent_set(&identities, &rule, reason.as_deref(), now, &chance).await };
    let changed = actors::detached(work).await??;
    let written = changed.len();
    if written == 0 {
        return Ok(Set { written, forwarded: true });
    }
    let flushed = house.outbox.flush(changed, PATIENCE).await;
    if let Err(error) = &flushed {
        tracing::warn!(%error, "a change of consent is written, and its report waits in the outbox");
    }
    Ok(Set { written, forwarded: flushed.is_ok() })
}

/// What holds for a computer; the configured default where a person set nothing.
fn effective(house: &House, facts: &MachineFacts, lane: Lane) -> ConsentLevel {
    explicit_level(&facts.consent, facts.machine_uuid, lane).unwrap_or(house.settings.consent.default_level)
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
async fn owned_machine(house: &House, caller: &Caller, machine: MachineUuid) -> Result<MachineFacts, ApiError> {
    let known = house.store.machine_facts(machine).await?.map(|known| known.facts);
    let owned = known.filter(|facts| facts.account.is_some() && facts.account.as_ref() == caller.account());
    owned.ok_or_else(|| Code::MachineNotOwned.into())
}

async fn linked_identities(house: &House, caller: &Caller) -> Result<Vec<UserCuid>, ApiError> {
    let identities = match caller.account() {
        Some(account) => house.store.identities_of_account(account).await?,
        None => Vec::new(),
    };
    if identities.is_empty() { Err(Code::NoLinkedCuid.into()) } else { Ok(identities) }
}

/// `?machine_uuid&lane`
#[derive(Debug, PartialEq, Eq)]
struct Query {
    machine: Option<MachineUuid>,
    lane: Option<Lane>,
}

impl Query {
    fn parse(query: &str) -> Result<Self, ApiError> {
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
        let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        Ok(Self {
            machine: get("machine_uuid").map(machine_uuid).transpose()?,
            lane: get("lane").map(lane).transpose()?,
        })
    }
}

/// The body of `POST /api/v1/consent`.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    level: ConsentLevel,
    lane: Option<Lane>,
    machine: Option<MachineUuid>,
    reason: Option<String>,
}

impl Wanted {
    fn parse(body: &BTreeMap<String, Value>) -> Result<Self, ApiError> {
        const MEMBERS: [&str; 4] = ["level", "reason", "machine_uuid", "lane"];
        if let Some(unknown) = body.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
            return Err(ApiError::invalid(
                unknown,
                format!("is not a member of this request; it has {}", MEMBERS.join(", ")),
            ));
        }
        let text = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(ApiError::invalid(name, "must be a string; leave it out if it is not meant")),
        };
        let level = text("level")?.ok_or_else(|| ApiError::invalid("level", "is required"))?;
        let level = level
            .parse()
            .map_err(|error: domain::consent::UnknownLevel| ApiError::invalid("level", error.to_string()))?;
        let reason = text("reason")?;
        if reason.is_some_and(|reason| reason.chars().count() > REASON_MAX) {
            return Err(ApiError::invalid("reason", format!("must not be longer than {REASON_MAX} characters")));
        }
        Ok(Self {
            level,
            reason: reason.map(str::to_owned),
            machine: text("machine_uuid")?.map(machine_uuid).transpose()?,
            lane: text("lane")?.map(lane).transpose()?,
        })
    }
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
        let code = |body: Value| Wanted::parse(&serde_json::from_value(body).unwrap()).map_err(|error| error.code());
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
        assert_eq!(Query::parse("lane=dream").map_err(|error| error.code()), Err(Code::LaneNotInEnum));
        assert_eq!(Query::parse("machine_uuid=1").map_err(|error| error.code()), Err(Code::InvalidRequest));
    }
}
