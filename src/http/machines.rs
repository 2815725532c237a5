//! Computers register and are detached (`docs/decisions/0008-registration-of-computers.md`).

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use domain::ids::MachineUuid;
use domain::secret::{Secret, SecretKind};
use store::machine::{NewMachine, Register};
use wire::Done;
use wire::device::{MACHINE_NAME_CHARS_MAX, MachineRequest, MachineResult};

use super::auth::{Authorization, Caller, unauthorized};
use super::body::{self, JsonBody};
use super::client::ClientAddress;
use super::error::{ApiError, ApiResult, Code};
use crate::app::App;
use crate::config::MachineRegistration;
use crate::http::named::Named;

/// `POST /api/v1/machines`: 201 `{machine_uuid, user_cuid, machine_secret, first_seen_at}`; the secret is shown this once.
pub async fn register(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MachineRequest>,
) -> ApiResult {
    may_register(&headers, &app)?;
    let MachineRequest { user_cuid, machine_uuid, name } = body;
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    if name.as_ref().is_some_and(|name| name.chars().count() > MACHINE_NAME_CHARS_MAX) {
        return Err(ApiError::invalid("name", format!("must not be longer than {MACHINE_NAME_CHARS_MAX} characters")));
    }
    app.limits.registration(address)?;
    let secret = Secret::mint(SecretKind::Machine, &app.rng);
    let (store, now, hash, cuid) = (app.store.clone(), app.clock.now(), secret.hash(), user_cuid.clone());
    let registered = actors::detached(async move {
        let new = NewMachine { machine_uuid, user_cuid: &cuid, name: name.as_deref(), secret: hash };
        store.machine_register(&new, now).await
    });
    match registered.await?? {
        Register::Registered => {
            let result = MachineResult { machine_uuid, user_cuid, machine_secret: secret, first_seen_at: now };
            Ok((StatusCode::CREATED, body::answer(&result)?).into_response())
        }
        Register::AlreadyRegistered => Err(Code::MachineAlreadyRegistered.into()),
    }
}

fn may_register(headers: &HeaderMap, app: &App) -> Result<(), ApiError> {
    match app.settings.machines.registration {
        MachineRegistration::Open => Ok(()),
        MachineRegistration::Off => Err(Code::RegistrationClosed.into()),
        MachineRegistration::Key => {
            let presented = match Authorization::of(headers) {
                Authorization::Bearer(token) => Some(token),
                _ => None,
            };
            let wanted = app.settings.machines.enrolment_key.as_deref().map(|key| Secret::presented(key).hash());
            // Hashes of what is compared tell nothing by their timing.
            let right = presented.as_ref().map(Secret::hash) == wanted && wanted.is_some();
            if right { Ok(()) } else { Err(unauthorized(Code::Unauthorized, presented.is_some(), app)) }
        }
    }
}

/// `DELETE /api/v1/machines/{machine_uuid}`: detaches a computer of the caller's account and kills its secret.
pub async fn detach(State(app): State<App>, caller: Caller, Named(machine_uuid): Named) -> ApiResult {
    let owner = caller.require_account()?.clone();
    let machine_uuid: MachineUuid = machine_uuid.parse().map_err(|_| Code::NotFound)?;
    let store = app.store.clone();
    if actors::detached(async move { store.machine_detach(machine_uuid, &owner).await }).await?? {
        body::answer(&Done::OK)
    } else {
        Err(Code::NotFound.into())
    }
}
