//! Operations of computers (`docs/protocol/computers.md`).

use serde_json::json;
use wire::Done;
use wire::device::{
    ApproveRequest, CodeRequest, DEVICE_GRANT, DenyRequest, DeviceCodeResult, DeviceTokenRequest, DeviceTokenResult,
    MachineAbout, MachineRequest, MachineResult,
};

use super::operation::Operation;
use crate::error::Code;

/// Reasons for which a computer cannot be attached.
const CONFLICTS: [Code; 4] = [
    Code::MachineNotRegistered,
    Code::CuidAlreadyClaimed,
    Code::PersonBoundToOtherAccount,
    Code::MachineAlreadyClaimed,
];

pub(super) fn operations() -> Vec<Operation> {
    let (machine, cuid) = ("019b76da-a800-7a67-8a14-94a3f41b0634", "tz4a98xxat96iws9zmbrgj3a");
    let identities = json!({ "user_cuid": cuid, "machine_uuid": machine });
    let registered = json!({
        "machine_uuid": machine,
        "user_cuid": cuid,
        "machine_secret": "msk_0b3YdTq9",
        "first_seen_at": "2026-01-01T00:00:00.000Z",
    });
    let code = json!({
        "device_code": "dvc_9aQmR2",
        "user_code": "BCDF-GHJK",
        "verification_uri": "https://attache.example.com/device",
        "verification_uri_complete": "https://attache.example.com/device?user_code=BCDF-GHJK",
        "interval": 5,
        "expires_in": 1800,
    });
    Operation::tagged("Computers", vec![
        Operation::post("/api/v1/machines", "registerMachine", "Register a computer")
            .says("Some servers require an enrolment key as the bearer token, and some accept no registrations.")
            .may_bear("enrolmentKey")
            .takes::<MachineRequest>(json!({ "user_cuid": cuid, "machine_uuid": machine, "name": "Ada's laptop" }))
            .answers::<MachineResult>(201, "The machine secret, which is returned only once.", registered)
            .refuses(&[Code::InvalidRequest, Code::MachineAlreadyRegistered, Code::RegistrationClosed])
            .refuses(&[Code::Unauthorized]),
        Operation::get("/api/v1/machines/{machine_uuid}", "showMachine", "A computer about itself")
            .says("With the owner of the account that it is attached to.")
            .answers::<MachineAbout>(200, "The computer whose secret was presented.", json!({
                "machine_uuid": machine,
                "user_cuid": cuid,
                "account": { "user_account_id": "k8f3v0q2mw7xn5c1t9rj4hbd", "email": "grace@example.org" },
            })),
        Operation::delete("/api/v1/machines/{machine_uuid}", "detachMachine", "Detach a computer")
            .answers::<Done>(200, "The computer is detached and its secret is revoked.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired]),
        Operation::post("/api/v1/device/code", "requestDeviceCode", "Request a device code")
            .says("The computer shows the link and the user code to its person (RFC 8628). An earlier pending code \
             becomes invalid. With `api_key` the page also asks for a key of the knowledge API: once the person agrees, \
             the key whose SHA-256 was sent is valid until the computer is detached. With `agent` the page also asks whether the agent \
             of a tool on the computer may act for the account; its claim token is then exchanged as after a claim.")
            .takes::<CodeRequest>(identities)
            .answers::<DeviceCodeResult>(200, "The device code for polling, and the user code and link to show.", code)
            .refuses(&[Code::InvalidJson, Code::InvalidRequest, Code::MachineMismatch]),
        Operation::post("/api/v1/device/approve", "approveDevice", "Approve a computer")
            .says("The page behind the link sends this request. Requires a recent sign-in of the browser: otherwise 401 with \
             `reason: sign_in_again` and the challenge of RFC 9470. An identity without an account is linked through \
             the computer that registered first under it; any other one is 409 `cuid_already_claimed`, and `details` \
             contains the next step. With `consent`, the level becomes that of all computers of the account if none was chosen yet, \
             else an exception of this computer; without it no level changes.")
            .takes::<ApproveRequest>(json!({ "user_code": "BCDF-GHJK", "consent": "metadata-only" }))
            .answers::<Done>(200, "The computer is attached to the account.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::CodeConsumed])
            .refuses(&CONFLICTS),
        Operation::post("/api/v1/device/deny", "denyDevice", "Deny a computer")
            .takes::<DenyRequest>(json!({ "user_code": "BCDF-GHJK" }))
            .answers::<Done>(200, "The computer's polls are answered `access_denied` from now on.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::CodeConsumed]),
        Operation::post("/api/v1/device/token", "pollDevice", "Poll until attached")
            .says("Poll every `interval` seconds. Faster polls raise the interval; `slow_down` contains the new one. The response \
             contains no token: the computer continues to use its secret.")
            .takes::<DeviceTokenRequest>(json!({ "device_code": "dvc_9aQmR2", "grant_type": DEVICE_GRANT }))
            .answers::<DeviceTokenResult>(
                200,
                "The computer is attached.",
                json!({ "user_account_id": "k8f3v0q2mw7xn5c1t9rj4hbd", "status": "claimed" }),
            )
            .refuses(&[Code::InvalidRequest, Code::ExpiredToken, Code::AccessDenied, Code::AuthorizationPending])
            .refuses(&[Code::SlowDown]),
    ])
}
