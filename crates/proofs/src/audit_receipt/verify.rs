//! Verification of a receipt against a trusted key, without any other input. Each step depends on the previous ones:
//!
//! 1. the receipt names the trusted key, which signed its checkpoint;
//! 2. each event: its leaf leads to the root; its canonical bytes, if present, hash to the seal in the leaf and agree with its members;
//! 3. the events are in the order of the tree, and all of the session and project that the head names;
//! 4. the head equals the totals of the events;
//! 5. the Markdown of this receipt has the digest that the receipt names.

use domain::Digest;
use serde_json::Value;

use super::{
    AuditReceipt, EVENT_TYPE_MAX, ReceiptEvent, ReceiptFault, ReceiptSummary, TEXT_MAX, VerifiedReceipt, is_failure,
    is_word,
};
use crate::leaf;
use crate::merkle::{self, PathFault};
use crate::proof::{self, ProofFault, differs, equal, same, unreadable};
use domain::checkpoint::{Checkpoint, VerifierKey};

/// The last millisecond of the year 9999: later times have no four-digit year in the Markdown.
const TIME_MAX_MS: i64 = 253_402_300_799_999;

/// Verifies a receipt against a trusted key.
pub fn verify(receipt: &AuditReceipt, trusted: &VerifierKey) -> Result<VerifiedReceipt, ReceiptFault> {
    if receipt.vkey != trusted.to_string() {
        return Err(ReceiptFault::Key { expected: trusted.to_string(), found: receipt.vkey.clone() });
    }
    let checkpoint = trusted.open(&receipt.checkpoint).map_err(ReceiptFault::Checkpoint)?;
    verify_server(&receipt.server)?;
    if receipt.events.is_empty() {
        return Err(ReceiptFault::Unreadable {
            member: "events".to_owned(),
            detail: "expected 1 event or more".into(),
        });
    }
    let mut previous = None;
    for (place, event) in receipt.events.iter().enumerate() {
        let verified = verify_event(event, receipt, &checkpoint).and_then(|()| match previous {
            Some(previous) if event.leaf_index <= previous => Err(differs(
                "leaf_index",
                &format!("more than {previous}, the index of the event before"),
                &event.leaf_index,
            )),
            _ => Ok(()),
        });
        verified.map_err(|fault| ReceiptFault::of(place + 1, event, fault))?;
        previous = Some(event.leaf_index);
    }
    let head = ReceiptSummary::of(receipt.head.session_uuid, receipt.head.project_id.clone(), &receipt.events);
    if let Some((member, expected, found)) = head.difference(&receipt.head) {
        return Err(ReceiptFault::Head { member, expected, found });
    }
    let expected = Digest::of(receipt.markdown().as_bytes());
    if expected != receipt.markdown_digest {
        return Err(ReceiptFault::Markdown { expected, found: receipt.markdown_digest });
    }
    Ok(VerifiedReceipt { checkpoint, events: receipt.events.iter().map(|event| event.leaf.event_id).collect() })
}

/// The URL is a part of the Markdown, so it contains nothing that Markdown interprets.
fn verify_server(server: &str) -> Result<(), ReceiptFault> {
    let rest = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://"));
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]%".contains(&byte);
    if rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_part)) {
        Ok(())
    } else {
        Err(ReceiptFault::Unreadable { member: "server".into(), detail: "expected the URL of a server".into() })
    }
}

fn verify_event(event: &ReceiptEvent, receipt: &AuditReceipt, tree: &Checkpoint) -> Result<(), ProofFault> {
    let leaf = &event.leaf;
    equal("leaf.v", &leaf::VERSION, &leaf.v)?;
    if !(0..=TIME_MAX_MS).contains(&leaf.received_at_ms) {
        return Err(differs("leaf.received_at_ms", &"milliseconds of a year up to 9999", &leaf.received_at_ms));
    }
    let hash = merkle::leaf_hash(&leaf.bytes());
    merkle::verify_inclusion(&hash, event.leaf_index, tree.size, &event.inclusion_path, &tree.root).map_err(
        |fault| match fault {
            PathFault::OutOfRange { size, .. } => {
                differs("leaf_index", &format!("less than {size}"), &event.leaf_index)
            }
            _ => ProofFault::Path(fault),
        },
    )?;
    word("leaf.agent_id", &leaf.agent_id, TEXT_MAX)?;
    word("event_type", &event.event_type, EVENT_TYPE_MAX)?;
    if let Some(project) = &event.project_id {
        word("project_id", project, TEXT_MAX)?;
    }
    if let Some(canonical) = &event.canonical_b64 {
        verify_content(event, &proof::content(canonical, &leaf.self_hash)?)?;
    }
    if receipt.head.session_uuid.is_some() && event.session_uuid != receipt.head.session_uuid {
        return Err(differs("session_uuid", &shown(receipt.head.session_uuid), &shown(event.session_uuid)));
    }
    if receipt.head.project_id.is_some() && event.project_id != receipt.head.project_id {
        return Err(differs("project_id", &shown(receipt.head.project_id.as_ref()), &shown(event.project_id.as_ref())));
    }
    Ok(())
}

/// The canonical bytes agree with the leaf and with the members of the event.
fn verify_content(event: &ReceiptEvent, content: &Value) -> Result<(), ProofFault> {
    let leaf = &event.leaf;
    same(content, "leaf.event_id", "/event_id", "event_id", &leaf.event_id)?;
    same(content, "leaf.machine_id", "/scope/machine_id", "scope.machine_id", &leaf.machine_id)?;
    same(content, "leaf.agent_id", "/scope/agent_id", "scope.agent_id", &leaf.agent_id)?;
    same(content, "leaf.chain_epoch", "/chain_epoch", "chain_epoch", &leaf.chain_epoch)?;
    same(content, "leaf.seq", "/seq", "seq", &leaf.seq)?;
    same(content, "leaf.prev", "/hash_chain/prev", "hash_chain.prev", &leaf.prev)?;
    same(content, "event_type", "/event_type", "event_type", &event.event_type)?;
    equal("failed", &is_failure(&event.event_type, content), &event.failed)?;
    let text_at = |pointer: &str| content.pointer(pointer).and_then(Value::as_str);
    let session = event.session_uuid.map(|session| session.to_string());
    if text_at("/scope/session_uuid") != session.as_deref() {
        return Err(differs("session_uuid", &shown(text_at("/scope/session_uuid")), &shown(session.as_ref())));
    }
    // A project that is no word is left out.
    let project = text_at("/scope/project_id").filter(|project| is_word(project, TEXT_MAX));
    if project != event.project_id.as_deref() {
        return Err(differs("project_id", &shown(project), &shown(event.project_id.as_ref())));
    }
    Ok(())
}

fn word(member: &'static str, text: &str, length_max: usize) -> Result<(), ProofFault> {
    if is_word(text, length_max) {
        Ok(())
    } else {
        Err(unreadable(member, &format!("expected 1 to {length_max} letters, digits and _ - . :")))
    }
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}
