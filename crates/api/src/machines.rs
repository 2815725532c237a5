//! Registration and detachment of computers (`docs/decisions/0002-accounts-and-computers.md`).

use std::sync::Arc;

use app::config::Urls;
use app::services::machines::{EnrolRefusal, Machines, NewComputer, RegisterRefusal};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use domain::ids::MachineUuid;
use wire::Done;
use wire::device::{MACHINE_NAME_CHARS_MAX, MachineAbout, MachineAccount, MachineRequest, MachineResult};

use super::auth::{Authorization, Caller, unauthorized};
use super::body::{self, JsonBody};
use super::client::ClientAddress;
use super::error::{ApiError, ApiResult, Code};
use super::limits::RateLimiters;
use super::named::Named;

/// `POST /api/v1/machines`: 201 `{machine_uuid, user_cuid, machine_secret, first_seen_at}`. Only this response contains the secret.
pub async fn register(
    State(machines): State<Machines>,
    State(limits): State<Arc<RateLimiters>>,
    State(urls): State<Arc<Urls>>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MachineRequest>,
) -> ApiResult {
    may_register(&headers, &machines, &urls)?;
    let MachineRequest { user_cuid, machine_uuid, name } = body;
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    if name.as_ref().is_some_and(|name| name.chars().count() > MACHINE_NAME_CHARS_MAX) {
        return Err(ApiError::invalid("name", format!("must not be longer than {MACHINE_NAME_CHARS_MAX} characters")));
    }
    limits.registration(address)?;
    let new = NewComputer { machine_uuid, user_cuid: user_cuid.clone(), name };
    let (machine_secret, first_seen_at) = machines.register(new).await?;
    let result = MachineResult { machine_uuid, user_cuid, machine_secret, first_seen_at };
    Ok((StatusCode::CREATED, body::answer(&result)?).into_response())
}

/// Checks the enrolment key, a bearer token.
fn may_register(headers: &HeaderMap, machines: &Machines, urls: &Urls) -> Result<(), ApiError> {
    let presented = match Authorization::of(headers) {
        Authorization::Bearer(token) => Some(token),
        _ => None,
    };
    machines.may_enrol(presented.as_ref()).map_err(|refusal| match refusal {
        EnrolRefusal::Closed => Code::RegistrationClosed.into(),
        EnrolRefusal::WrongKey => unauthorized(Code::Unauthorized, presented.is_some(), urls),
    })
}

impl From<RegisterRefusal> for ApiError {
    fn from(refusal: RegisterRefusal) -> Self {
        match refusal {
            RegisterRefusal::AlreadyRegistered => Code::MachineAlreadyRegistered.into(),
            RegisterRefusal::Infra(error) => error.into(),
        }
    }
}

/// `GET /api/v1/machines/{machine_uuid}`: the calling computer, with the owner of its account. Any other id is 404.
pub async fn show(
    State(machines): State<Machines>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    Named(machine_uuid): Named,
) -> ApiResult {
    let Caller::Machine { facts, .. } = &caller else { return Err(unauthorized(Code::Unauthorized, true, &urls)) };
    if machine_uuid.parse() != Ok(facts.machine_uuid) {
        return Err(Code::NotFound.into());
    }
    let account = match &facts.account {
        Some(account) => {
            let email = machines.owner(account).await?.map(|email| email.as_str().to_owned());
            Some(MachineAccount { user_account_id: account.clone(), email })
        }
        None => None,
    };
    body::answer(&MachineAbout { machine_uuid: facts.machine_uuid, user_cuid: facts.user_cuid.clone(), account })
}

/// `DELETE /api/v1/machines/{machine_uuid}`: detaches a computer of the caller's account and ends its secret.
pub async fn detach(State(machines): State<Machines>, caller: Caller, Named(machine_uuid): Named) -> ApiResult {
    let account = caller.require_account()?.clone();
    let machine_uuid: MachineUuid = machine_uuid.parse().map_err(|_| Code::NotFound)?;
    if machines.detach(machine_uuid, account).await? { body::answer(&Done::OK) } else { Err(Code::NotFound.into()) }
}
