//! Webhooks (`docs/protocol/webhooks.md`).

use serde_json::{Value, json};
use wire::Done;
use wire::webhook::{Deliveries, WebhookChange, WebhookEntry, WebhookList, WebhookRequest, WebhookWithSecret};

use super::operation::Operation;
use crate::error::Code;

const MOMENT: &str = "2026-01-01T00:00:00.000Z";
const ID: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

pub(super) fn operations() -> Vec<Operation> {
    Operation::tagged("Webhooks", webhooks())
}

fn webhooks() -> Vec<Operation> {
    let webhook = json!({
        "id": ID,
        "url": "https://pager.example.com/attache",
        "description": "to the pager",
        "kinds": ["event.held", "agent.revoked"],
        "enabled": true,
        "created_at": MOMENT,
        "disabled_at": Value::Null,
        "disabled_reason": Value::Null,
        "failing_since": Value::Null,
        "dropped": 0,
        "old_secret_until": Value::Null,
    });
    let mut with_secret = webhook.clone();
    with_secret["secret"] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=".into();
    let delivery = json!({
        "id": "msg_019b76daa8007a678a1494a3f41b0634",
        "kind": "event.held",
        "state": "waiting",
        "created_at": MOMENT,
        "tries": 1,
        "last_try_at": MOMENT,
        "next_try_at": "2026-01-01T00:05:00.000Z",
        "status": 500,
        "error": "it answered with status 500",
    });
    let request = json!({ "url": "https://pager.example.com/attache", "kinds": ["event.held", "agent.revoked"] });
    vec![
        Operation::get("/api/v1/webhooks", "listWebhooks", "Endpoints of the account")
            .says("All routes of webhooks are 404 unless the operator has enabled them.")
            .answers::<WebhookList>(200, "Newest first, without the secrets.", json!({ "webhooks": [webhook] }))
            .refuses(&[Code::AccountRequired, Code::NotFound]),
        Operation::post("/api/v1/webhooks", "createWebhook", "Add an endpoint")
            .says("Requires a recent sign-in of the browser: otherwise 401 with `reason: sign_in_again`.")
            .takes::<WebhookRequest>(request)
            .answers::<WebhookWithSecret>(
                201,
                "The endpoint with its secret, which is returned only once.",
                with_secret.clone(),
            )
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::NotFound, Code::TooManyWebhooks]),
        Operation::patch("/api/v1/webhooks/{id}", "changeWebhook", "Change an endpoint")
            .says(
                "Requires a recent sign-in. Disabling ends what waits for the endpoint; enabling forgets its failures. \
                An endpoint that an operator has disabled cannot be enabled.",
            )
            .takes::<WebhookChange>(json!({ "enabled": false }))
            .answers::<WebhookEntry>(200, "The changed endpoint.", webhook)
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::WebhookDisabled]),
        Operation::post("/api/v1/webhooks/{id}/secret", "rotateWebhookSecret", "Replace the secret of an endpoint")
            .says("Requires a recent sign-in. The replaced secret signs too for a time.")
            .answers::<WebhookWithSecret>(
                200,
                "The endpoint with its new secret, which is returned only once.",
                with_secret,
            )
            .refuses(&[Code::AccountRequired]),
        Operation::delete("/api/v1/webhooks/{id}", "deleteWebhook", "Delete an endpoint")
            .answers::<Done>(200, "The endpoint and its deliveries are deleted.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired]),
        Operation::post("/api/v1/webhooks/{id}/test", "testWebhook", "Send a test to an endpoint")
            .answers::<Done>(200, "The test is on its way.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired, Code::WebhookDisabled]),
        Operation::get("/feeds/{token}", "feed", "Read a feed")
            .says("The notifications of an account as an Atom document (RFC 4287). The token is the secret in the link of the feed.")
            .answers_text("application/atom+xml; charset=utf-8", 200, "The newest entries, newest first.")
            .with_header("ETag", "Changes with the document.")
            .answers_if_changed()
            .refuses(&[Code::NotFound]),
        Operation::get("/api/v1/webhooks/{id}/deliveries", "listDeliveries", "Deliveries to an endpoint")
            .answers::<Deliveries>(200, "The newest 50, newest first.", json!({ "deliveries": [delivery] }))
            .refuses(&[Code::AccountRequired]),
    ]
}
