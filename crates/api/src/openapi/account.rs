//! Accounts and consent (`docs/protocol/account.md` and `docs/protocol/consent.md`).

use serde_json::{Value, json};
use wire::Done;
use wire::account::{AccountComputers, AccountSummary, KeyRequest, Keys, LabelRequest, NewKey, Sessions};
use wire::consent::{ConsentAnswer, ConsentRequest, ConsentWritten, PauseRequest, PauseResult};
use wire::usage::UsageBar;

use super::operation::Operation;
use crate::error::Code;

const MOMENT: &str = "2026-01-01T00:00:00.000Z";
const ID: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = Operation::tagged("Account", account());
    operations.extend(Operation::tagged("Consent", consent()));
    operations
}

fn account() -> Vec<Operation> {
    let measure = json!({ "percent_left": 66.6, "reset_at": MOMENT });
    let bar = json!({
        "plan": "FREE",
        "memory": measure,
        "retrospective": measure,
        "balance_cents": 1250,
        "top_up_url": "https://attache.example.com/account",
        "limits": {
            "event_bytes": { "used": 1_048_576, "limit": 268_435_456, "reset_at": MOMENT },
            "memory_bytes": { "used": 52_428, "limit": 268_435_456 },
        },
    });
    let computer = json!({ "machine_uuid": ID, "first_seen_at": MOMENT, "last_seen_at": MOMENT, "via": "attached" });
    let computers = json!({ "computers": [computer] });
    let agent = json!({
        "id": ID,
        "type": "anonymous",
        "status": "claimed",
        "createdAt": MOMENT,
        "lastTokenAt": MOMENT,
        "ipAddress": "192.0.2.7",
        "revokedAt": Value::Null,
    });
    let summary = json!({
        "version": 1,
        "generated_at": MOMENT,
        "sections": {
            "account": { "id": "k8f3v0q2mw7xn5c1t9rj4hbd", "email": "person@example.com", "name": "Emmy Noether" },
            "plan_and_usage": bar,
            "computers": computers,
            "agents": { "agents": [agent] },
        },
        "errors": {},
    });
    let session = json!({
        "id": ID,
        "created_at": MOMENT,
        "expires_at": "2026-01-08T00:00:00.000Z",
        "via": "code",
        "address": "192.0.2.7",
        "user_agent": "Firefox",
        "current": true,
    });
    let key = json!({
        "id": ID,
        "name": "Ada's notes",
        "scopes": ["search", "write"],
        "spaces": Value::Null,
        "created_at": MOMENT,
        "expires_at": Value::Null,
        "last_used_at": Value::Null,
        "revoked_at": Value::Null,
    });
    let mut new_key = key.clone();
    new_key["key"] = "ak_Tq7YbD0c".into();
    vec![
        Operation::get("/api/v1/account/summary", "accountSummary", "Summary of the account")
            .says("A section that cannot be read is omitted and listed in `errors`. Further sections may be added.")
            .answers::<AccountSummary>(200, "The available sections.", summary)
            .refuses(&[Code::UserNotFound]),
        Operation::get("/api/v1/account/computers", "accountComputers", "The account's computers")
            .answers::<AccountComputers>(200, "The attached computers, newest first.", computers),
        Operation::patch("/api/v1/account/computers/{machine_uuid}", "nameComputer", "Name a computer")
            .says("The name is shown to the account only. A computer that was detached can be named too.")
            .takes::<LabelRequest>(json!({ "label": "Ada's laptop" }))
            .answers::<Done>(200, "The name is set or removed.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::AccountRequired]),
        Operation::get("/api/v1/usage/bar", "usageBar", "Remaining allowance of the plan")
            .says("For an account: the usage of all computers that are or were attached to it. For a computer without an account: its own.")
            .answers::<UsageBar>(200, "Remaining allowance and balance.", bar),
        Operation::get("/api/v1/sessions", "listSessions", "Browser sessions")
            .answers::<Sessions>(200, "The person's sessions, newest first.", json!({ "sessions": [session] })),
        Operation::delete("/api/v1/sessions/{id}", "endSession", "End a browser session")
            .answers::<Done>(200, "The session is ended.", json!({ "ok": true })),
        Operation::post("/api/v1/keys", "createKey", "Create an API key")
            .says("Requires a recent sign-in of the browser: otherwise 401 with `reason: sign_in_again`.")
            .takes::<KeyRequest>(json!({ "name": "Ada's notes", "scopes": ["search", "write"] }))
            .answers::<NewKey>(201, "The API key, which is returned only once.", new_key)
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::TooManyKeys, Code::KeyAlreadyMade]),
        Operation::get("/api/v1/keys", "listKeys", "API keys")
            .answers::<Keys>(200, "Newest first, revoked ones last; without the secrets.", json!({ "keys": [key] }))
            .refuses(&[Code::AccountRequired]),
        Operation::delete("/api/v1/keys/{id}", "revokeKey", "Revoke an API key")
            .answers::<Done>(200, "The API key is revoked.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired]),
    ]
}

fn consent() -> Vec<Operation> {
    let codes = [Code::InvalidRequest, Code::LaneNotInEnum, Code::MachineUuidMismatch, Code::MachineNotOwned];
    let lane = json!({ "$ref": "#/components/schemas/Lane" });
    let record = json!({ "user_cuid": "tz4a98xxat96iws9zmbrgj3a", "machine_uuid": ID, "lane": "memory", "level": "full", "set_by": "person" });
    vec![
        Operation::get("/api/v1/consent", "readConsent", "Consent levels")
            .says("A computer reads its own effective level. An account reads that of one of its computers, or, \
             without `machine_uuid`, all levels that were set.")
            .query("machine_uuid", "The computer.", &json!({ "$ref": "#/components/schemas/UuidV7" }))
            .query("lane", "The lane; `memory` if absent.", &lane)
            .answers::<ConsentAnswer>(200, "The effective level, or all levels that were set.", json!({ "levels": [record] }))
            .refuses(&codes)
            .refuses(&[Code::NoLinkedCuid]),
        Operation::post("/api/v1/consent", "setConsent", "Set a consent level")
            .says("Without `machine_uuid` for all identities of the account, without `lane` for all lanes. A computer sets its own \
             level beside its person's: the lower one is effective, and is the `level` of the response. Each changed level \
             is recorded as an event before the response. If that fails, the levels are effective, the response is 502, and \
             the server retries the event.")
            .takes::<ConsentRequest>(json!({ "level": "metadata-only", "lane": "llm", "reason": "on the train" }))
            .answers::<ConsentWritten>(200, "The level is set.", json!({ "level": "metadata-only", "written": 1 }))
            .refuses(&codes)
            .refuses(&[Code::NoLinkedCuid, Code::ConsentAuditForwardFailed]),
        Operation::post("/api/v1/consent/pause", "pauseRecording", "Pause recording")
            .says("Until its end the effective level is `off`: of one computer, or without `machine_uuid` of all computers of the \
             account. It ends by itself, and no recorded level changes. A computer or an agent may lengthen a pause of another \
             party, and does not shorten it.")
            .takes::<PauseRequest>(json!({ "seconds": 3600 }))
            .answers::<PauseResult>(200, "Recording is paused.", json!({ "paused_until": MOMENT }))
            .refuses(&[Code::InvalidRequest, Code::MachineUuidMismatch, Code::MachineNotOwned, Code::NoLinkedCuid]),
        Operation::delete("/api/v1/consent/pause", "endPause", "End a pause of recording early")
            .says("A session ends any pause of the account and of its computers. A computer ends the pause of itself that it began. \
             Anything else is 403 `session_required`. Without a pause nothing changes.")
            .query("machine_uuid", "The computer.", &json!({ "$ref": "#/components/schemas/UuidV7" }))
            .answers::<PauseResult>(200, "The pause has ended.", json!({ "paused_until": Value::Null }))
            .refuses(&[Code::InvalidRequest, Code::MachineUuidMismatch, Code::MachineNotOwned, Code::NoLinkedCuid])
            .refuses(&[Code::SessionRequired]),
    ]
}
