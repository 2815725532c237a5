//! Computers (`docs/protocol/computers.md`).

use serde_json::json;
use wire::Done;
use wire::device::{
    ApproveRequest, CodeRequest, DEVICE_GRANT, DeviceCodeResult, DeviceTokenRequest, DeviceTokenResult, MachineRequest,
    MachineResult,
};

use super::operation::Operation;
use crate::http::error::Code;

/// Why a computer may not be attached.
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
            .says("Some servers want an enrolment key, as the bearer, and some take no registrations at all.")
            .may_bear("enrolmentKey")
            .takes::<MachineRequest>(json!({ "user_cuid": cuid, "machine_uuid": machine, "name": "Ada's laptop" }))
            .answers::<MachineResult>(201, "The computer's secret, which is shown this once.", registered)
            .refuses(&[Code::InvalidRequest, Code::MachineAlreadyRegistered, Code::RegistrationClosed])
            .refuses(&[Code::Unauthorized]),
        Operation::delete("/api/v1/machines/{machine_uuid}", "detachMachine", "Detach a computer")
            .answers::<Done>(200, "It belongs to no account any more, and its secret does not work.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired]),
        Operation::post("/api/v1/device/code", "requestDeviceCode", "Ask to be attached")
            .says("The computer shows the link and the code to whoever sits at it (RFC 8628). A code that waited before \
                is void.")
            .takes::<CodeRequest>(identities)
            .answers::<DeviceCodeResult>(200, "What to poll with, and what to show.", code)
            .refuses(&[Code::InvalidJson, Code::InvalidRequest, Code::MachineMismatch]),
        Operation::post("/api/v1/device/approve", "approveDevice", "Approve a computer")
            .says("What the page behind the link does. A browser has to have signed in of late: otherwise 401 with \
                `reason: sign_in_again` and the challenge of RFC 9470. An identity that belongs to nobody is linked through \
                the computer that registered under it first; another one before is 409 `cuid_already_claimed`, and `details` \
                says what to do.")
            .takes::<ApproveRequest>(json!({ "user_code": "BCDF-GHJK" }))
            .answers::<Done>(200, "The computer is attached to the account.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::CodeConsumed])
            .refuses(&CONFLICTS),
        Operation::post("/api/v1/device/deny", "denyDevice", "Deny a computer")
            .takes::<ApproveRequest>(json!({ "user_code": "BCDF-GHJK" }))
            .answers::<Done>(200, "The computer's polls say `access_denied` from now on.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::CodeConsumed]),
        Operation::post("/api/v1/device/token", "pollDevice", "Poll until attached")
            .says("Every `interval` seconds. Faster polls raise the interval, and `slow_down` says to what. There is no \
                token in the answer: the computer goes on using its secret.")
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
