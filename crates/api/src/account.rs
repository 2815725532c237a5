//! An account as its owner and the owner's agents see it (`docs/protocol/account.md#summary` and `docs/protocol/account.md#computers`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::InfraError;
use app::config::Urls;
use app::services::labels::Labels;
use app::services::usage::{UsageBars, UsageOwner};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use domain::Clock;
use domain::Timestamp;
use domain::claim::Registration;
use domain::ids::{MachineUuid, UserAccountId};
use domain::label::Label;
use domain::space::NAME_CHARS_MAX;
use serde::Serialize;
use store::Store;
use store::machine::Computer;
use wire::Done;
use wire::account::{Account, AccountComputers, AccountSummary, Agent, Agents, LabelRequest, Sections};
use wire::usage::UsageBar;

use super::auth::{Caller, unauthorized};
use super::body::{self, JsonBody};
use super::error::{ApiError, ApiResult, Code};
use super::named::Named;

/// Maximum number of computers in one response or page.
pub use app::services::machines::COMPUTERS_MAX;
/// Maximum number of agents in one response or page.
pub const AGENTS_MAX: usize = 500;
/// `via` of every computer.
const ATTACHED: &str = "attached";

/// `GET /api/v1/account/computers`: 200 `{computers: [{machine_uuid, first_seen_at, last_seen_at, via}]}`, newest first.
pub async fn computers(State(store): State<Store>, State(urls): State<Arc<Urls>>, caller: Caller) -> ApiResult {
    let account = caller.account().ok_or_else(|| unauthorized(Code::Unauthorized, true, &urls))?;
    let computers = store.computers_of_account(account, COMPUTERS_MAX).await?;
    let body = serde_json::to_vec(&Listed::of(&computers)).map_err(|error| InfraError::Internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// `PATCH /api/v1/account/computers/{machine_uuid}`: the account's name for a computer that is or was attached to it. Sessions only: an
/// agent must not choose the name under which its person sees a computer.
pub async fn name_computer(
    State(labels): State<Labels>,
    caller: Caller,
    Named(machine_uuid): Named,
    JsonBody(body): JsonBody<LabelRequest>,
) -> ApiResult {
    let account = caller.require_account()?.clone();
    let machine_uuid: MachineUuid = machine_uuid.parse().map_err(|_| Code::NotFound)?;
    let label = label_of(&body)?;
    if labels.name_computer(machine_uuid, account, label).await? {
        body::answer(&Done::OK)
    } else {
        Err(Code::NotFound.into())
    }
}

/// The label of a request.
pub(super) fn label_of(request: &LabelRequest) -> Result<Option<Label>, ApiError> {
    let text = request.label.as_deref().unwrap_or_default();
    Label::or_none(text)
        .map_err(|_| ApiError::invalid("label", format!("must be one line of at most {NAME_CHARS_MAX} characters")))
}

/// [`AccountComputers`] with its members in alphabetical order, serialised without an intermediate value.
#[derive(Serialize)]
struct Listed {
    computers: Vec<ListedComputer>,
}

#[derive(Serialize)]
struct ListedComputer {
    #[serde(with = "wire::form::moment")]
    first_seen_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(with = "wire::form::moment")]
    last_seen_at: Timestamp,
    machine_uuid: MachineUuid,
    via: &'static str,
}

impl Listed {
    fn of(computers: &[Computer]) -> Self {
        let computer = |computer: &Computer| ListedComputer {
            first_seen_at: computer.first_seen_at,
            label: computer.label.as_ref().map(|label| label.as_str().to_owned()),
            last_seen_at: computer.last_seen_at,
            machine_uuid: computer.machine_uuid,
            via: ATTACHED,
        };
        Self { computers: computers.iter().map(computer).collect() }
    }
}

/// `GET /api/v1/account/summary`: 200 `{version, generated_at, sections, errors}`.
///
/// Sections are read concurrently, each with its own deadline. A failed section is left out and named in `errors`.
pub async fn summary(
    State(store): State<Store>,
    State(clock): State<Clock>,
    State(usage): State<UsageBars>,
    caller: Caller,
) -> ApiResult {
    let account = caller.account().ok_or(Code::UserNotFound)?;
    let deadline = usage.account_settings().section_deadline;
    let (own, plan_and_usage, computers, agents) = tokio::join!(
        within(deadline, async { Ok(store.account_by_id(account).await?) }),
        within(deadline, plan_and_usage(&usage, account)),
        within(deadline, async { Ok(store.computers_of_account(account, COMPUTERS_MAX).await?) }),
        within(deadline, async { Ok(store.agents_of_account(account, AGENTS_MAX).await?) }),
    );
    if matches!(own, Ok(None)) {
        return Err(Code::UserNotFound.into());
    }
    let mut errors = BTreeMap::new();
    let sections = Sections {
        account: kept("account", own, &mut errors).flatten().map(account_section),
        plan_and_usage: kept("plan_and_usage", plan_and_usage, &mut errors).flatten(),
        computers: kept("computers", computers, &mut errors).map(|computers| computers_section(&computers)),
        agents: kept("agents", agents, &mut errors).map(agents_section),
        others: serde_json::Map::new(),
    };
    body::answer(&AccountSummary { version: 1, generated_at: clock.now(), sections, errors })
}

/// The section; if it could not be read, `None`, and the reason is added to `errors`.
fn kept<T>(name: &str, section: Result<T, Missing>, errors: &mut BTreeMap<String, String>) -> Option<T> {
    let reason = match section {
        Ok(section) => return Some(section),
        Err(reason) => reason,
    };
    tracing::warn!(section = name, error = domain::reasons(&reason), "a section of an account summary is left out");
    errors.insert(name.to_owned(), reason.code().to_owned());
    None
}

/// Why a section is missing.
#[derive(Debug, thiserror::Error)]
enum Missing {
    /// The read exceeded its deadline.
    #[error("it was not there in time")]
    Late,
    #[error(transparent)]
    Failed(#[from] InfraError),
}

impl Missing {
    /// The error code for `errors`.
    fn code(&self) -> &'static str {
        match self {
            Self::Late => "timed_out",
            Self::Failed(_) => "temporarily_unavailable",
        }
    }
}

async fn within<T>(deadline: Duration, section: impl Future<Output = Result<T, InfraError>>) -> Result<T, Missing> {
    match tokio::time::timeout(deadline, section).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Missing::Late),
    }
}

async fn plan_and_usage(usage: &UsageBars, account: &UserAccountId) -> Result<Option<UsageBar>, InfraError> {
    usage.bar(&UsageOwner::Account(account.clone())).await
}

fn account_section(account: store::account::Account) -> Account {
    Account { id: account.id, email: account.owner.map(|(_, email)| email.as_str().to_owned()), name: account.name }
}

fn computers_section(computers: &[Computer]) -> AccountComputers {
    let computer = |computer: &Computer| wire::account::Computer {
        machine_uuid: computer.machine_uuid,
        first_seen_at: computer.first_seen_at,
        label: computer.label.as_ref().map(|label| label.as_str().to_owned()),
        last_seen_at: computer.last_seen_at,
        via: ATTACHED.to_owned(),
    };
    AccountComputers { computers: computers.iter().map(computer).collect() }
}

fn agents_section(agents: Vec<Registration>) -> Agents {
    let agent = |agent: Registration| Agent {
        id: agent.id,
        kind: agent.registration_type,
        status: "claimed".to_owned(),
        created_at: agent.created_at,
        last_token_at: agent.last_token_at,
        label: agent.label.map(|label| label.as_str().to_owned()),
        ip_address: agent.ip_address,
        revoked_at: agent.revoked_at,
    };
    Agents { agents: agents.into_iter().map(agent).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computers_are_serialised_like_every_other_response() {
        let at = |millis| Timestamp::from_timestamp_millis(millis).unwrap();
        let computer = |number: u128| Computer {
            machine_uuid: uuid::Uuid::from_u128(number).into(),
            user_cuid: "tz4a98xxat96iws9zmbrgj3a".parse().unwrap(),
            name: Some("laptop".into()),
            account: None,
            first_seen_at: at(1_767_225_600_000),
            last_seen_at: at(1_767_225_600_001),
            attached_at: None,
            attached_by: None,
            has_secret: true,
            label: number.is_multiple_of(2).then(|| "Ada's laptop".parse().unwrap()),
        };
        for computers in [vec![], vec![computer(1)], vec![computer(1), computer(2)]] {
            let sorted = serde_json::to_value(computers_section(&computers)).unwrap();
            assert_eq!(serde_json::to_string(&Listed::of(&computers)).unwrap(), sorted.to_string());
        }
    }
}
