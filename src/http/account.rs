//! An account as its owner and the owner's agents see it (specification, *Account summary* and *`AccountComputers`*).

use std::time::Duration;

use actors::Trouble;
use axum::extract::State;
use axum::response::IntoResponse;
use domain::claim::{Registration, RegistrationType};
use domain::clock::date_time;
use domain::ids::UserAccountId;
use serde_json::{Map, Value, json};
use store::account::Account;
use store::machine::Computer;

use super::auth::{Caller, unauthorized};
use super::error::{Answer, Code};
use crate::house::House;
use crate::usage::{UsageOwner, usage_bar};

/// Computers that one answer or page shows.
pub const COMPUTERS_MAX: usize = 500;
/// Agents that one answer or page shows.
pub const AGENTS_MAX: usize = 500;

/// `GET /api/v1/account/computers`: 200 `{computers: [{machine_uuid, first_seen_at, last_seen_at, via}]}`, newest first.
pub async fn computers(State(house): State<House>, caller: Caller) -> Answer {
    let account = caller.account().ok_or_else(|| unauthorized(Code::Unauthorized, true, &house))?;
    let computers = house.store.computers_of_account(account, COMPUTERS_MAX).await?;
    Ok(axum::Json(computers_section(&computers)).into_response())
}

/// `GET /api/v1/account/summary`: 200 `{version, generated_at, sections, errors}`.
///
/// Sections are read side by side, each against its own deadline. One that fails is left out and named in `errors`.
pub async fn summary(State(house): State<House>, caller: Caller) -> Answer {
    let account = caller.account().ok_or(Code::UserNotFound)?;
    let deadline = house.settings.account.section_deadline;
    let (own, plan_and_usage, computers, agents) = tokio::join!(
        within(deadline, async { Ok(house.store.account_by_id(account).await?) }),
        within(deadline, plan_and_usage(&house, account)),
        within(deadline, async { Ok(house.store.computers_of_account(account, COMPUTERS_MAX).await?) }),
        within(deadline, async { Ok(house.store.agents_of_account(account, AGENTS_MAX).await?) }),
    );
    if matches!(own, Ok(None)) {
        return Err(Code::UserNotFound.into());
    }
    let parts = [
        ("account", own.map(|own| own.as_ref().map_or(Value::Null, account_section))),
        ("plan_and_usage", plan_and_usage),
        ("computers", computers.map(|computers| computers_section(&computers))),
        ("agents", agents.map(|agents| agents_section(&agents))),
    ];
    let (mut sections, mut errors) = (Map::new(), Map::new());
    for (name, part) in parts {
        match part {
            Ok(section) => sections.insert(name.to_owned(), section),
            Err(reason) => {
                tracing::warn!(section = name, error = %reason, "a section of an account summary is left out");
                errors.insert(name.to_owned(), reason.code().into())
            }
        };
    }
    let answer = json!({
        "version": 1,
        "generated_at": date_time(house.clock.now()),
        "sections": sections,
        "errors": errors,
    });
    Ok(axum::Json(answer).into_response())
}

/// Why a section is missing.
#[derive(Debug, thiserror::Error)]
enum Missing {
    /// It took too long.
    #[error("it was not there in time")]
    Late,
    /// It could not be read.
    #[error(transparent)]
    Failed(#[from] Trouble),
}

impl Missing {
    /// For `errors`.
    fn code(&self) -> &'static str {
        match self {
            Self::Late => "timed_out",
            Self::Failed(_) => "temporarily_unavailable",
        }
    }
}

async fn within<T>(deadline: Duration, section: impl Future<Output = Result<T, Trouble>>) -> Result<T, Missing> {
    match tokio::time::timeout(deadline, section).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Missing::Late),
    }
}

async fn plan_and_usage(house: &House, account: &UserAccountId) -> Result<Value, Trouble> {
    let bar = usage_bar(house, &UsageOwner::Account(account.clone())).await?;
    serde_json::to_value(bar).map_err(|error| Trouble::Internal(error.to_string()))
}

fn account_section(account: &Account) -> Value {
    json!({
        "id": account.id,
        "email": account.owner.as_ref().map(|(_, email)| email),
        "name": account.name,
    })
}

fn computers_section(computers: &[Computer]) -> Value {
    let computer = |computer: &Computer| {
        json!({
            "machine_uuid": computer.machine_uuid,
            "first_seen_at": date_time(computer.first_seen_at),
            "last_seen_at": date_time(computer.last_seen_at),
            "via": "attached",
        })
    };
    json!({ "computers": computers.iter().map(computer).collect::<Vec<_>>() })
}

fn agents_section(agents: &[Registration]) -> Value {
    let agent = |agent: &Registration| {
        json!({
            "id": agent.id,
            "type": match agent.registration_type {
                RegistrationType::Anonymous => "anonymous",
                RegistrationType::ServiceAuth => "service_auth",
            },
            "status": "claimed",
            "createdAt": date_time(agent.created_at),
            "lastTokenAt": agent.last_token_at.map(date_time),
            "ipAddress": agent.ip_address,
            "revokedAt": agent.revoked_at.map(date_time),
        })
    };
    json!({ "agents": agents.iter().map(agent).collect::<Vec<_>>() })
}
