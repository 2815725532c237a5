//! Rules about recorded events (`docs/protocol/rules.md`).

use serde_json::{Value, json};
use wire::Done;
use wire::rule::{DigestEntry, DigestRequest, RuleEntry, RuleList, RuleRequest};

use super::operation::Operation;
use crate::error::Code;

const MOMENT: &str = "2026-01-01T00:00:00.000Z";

pub(super) fn operations() -> Vec<Operation> {
    Operation::tagged("Rules", rules())
}

fn rules() -> Vec<Operation> {
    let rule = json!({
        "id": "019b76da-a800-7a67-8a14-94a3f41b0634",
        "name": "New tools",
        "event_type": Value::Null,
        "lane": "skill",
        "tone": Value::Null,
        "first_time": "tool",
        "at_least": Value::Null,
        "mail": true,
        "notify": true,
        "created_at": MOMENT,
        "last_message_at": Value::Null,
        "waiting_events": 0,
    });
    let digest = json!({ "enabled": true, "next_at": "2026-01-05T05:00:00.000Z" });
    let request = json!({ "name": "New tools", "lane": "skill", "first_time": "tool" });
    vec![
        Operation::get("/api/v1/rules", "listRules", "Rules of the account")
            .answers::<RuleList>(
                200,
                "Oldest first, with the weekly digest.",
                json!({ "rules": [rule], "digest": digest }),
            )
            .refuses(&[Code::AccountRequired]),
        Operation::post("/api/v1/rules", "createRule", "Add a rule")
            .says("A rule tells the owner of recorded events that match. With an external statistics service it is refused.")
            .takes::<RuleRequest>(request)
            .answers::<RuleEntry>(201, "The rule. It matches events that are received from now on.", rule)
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::TooManyRules, Code::EmbeddedLogRequired]),
        Operation::delete("/api/v1/rules/{id}", "deleteRule", "Delete a rule")
            .answers::<Done>(200, "The rule is deleted.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired]),
        Operation::put("/api/v1/digest", "setDigest", "Switch the weekly digest on or off")
            .takes::<DigestRequest>(json!({ "enabled": true }))
            .answers::<DigestEntry>(200, "The digest.", digest)
            .refuses(&[Code::InvalidRequest, Code::AccountRequired, Code::EmbeddedLogRequired]),
    ]
}
