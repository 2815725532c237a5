//! The Markdown of a receipt, for the description of a pull request. It follows from the receipt, so a verifier compares it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::DateTime;

use super::AuditReceipt;
use domain::checkpoint::Checkpoint;

impl AuditReceipt {
    /// The block of Markdown, which ends with a line feed. Contains ids, digests and counts only.
    pub fn markdown(&self) -> String {
        let head = &self.head;
        let mut rows = vec![("Agents", counted(&head.agents))];
        if let Some(session) = &head.session_uuid {
            rows.push(("Session", format!("`{session}`")));
        }
        if let Some(project) = &head.project_id {
            rows.push(("Project", format!("`{project}`")));
        }
        rows.push(("Received", format!("{} to {} UTC", time(head.received_from_ms), time(head.received_to_ms))));
        rows.push(("Kinds", counted(&head.types)));
        rows.push(("Kinds proven", format!("{} of {}", head.proven, head.events)));
        rows.push(("Gaps in chains", head.gaps.to_string()));
        rows.push(("Digest of events", format!("`{}`", head.events_digest)));
        rows.push(("Checkpoint", self.tree()));
        rows.push(("Key of the log", format!("`{}`", self.vkey)));

        let events = if head.events == 1 { "event" } else { "events" };
        let mut text = format!(
            "<!-- audit-receipt/v1 -->\n**attache recorded {} {events}, {} failed**\n\n| Receipt | |\n|---|---|\n",
            head.events, head.failures
        );
        for (name, value) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {name} | {value} |");
        }
        let content = match head.content {
            0 => "The receipt has ids, digests and metadata, no content.".to_owned(),
            count => format!("The receipt has the content of {count} {}.", if count == 1 { "event" } else { "events" }),
        };
        let server = &self.server;
        let _ = writeln!(
            text,
            "\n{content} Check its file at <{server}/verify>, or offline: `attache verify receipt FILE --key KEY`."
        );
        text
    }

    /// Origin, size and root of the checkpoint, unverified.
    fn tree(&self) -> String {
        let body = self.checkpoint.split_once("\n\n").map(|(body, _)| format!("{body}\n"));
        body.and_then(|body| body.parse::<Checkpoint>().ok()).map_or_else(String::new, |tree| {
            let root = BASE64_STANDARD.encode(tree.root.as_bytes());
            format!("`{}`, {} leaves, root `{root}`", tree.origin, tree.size)
        })
    }
}

fn counted(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(name, count)| format!("`{name}` {count}")).collect::<Vec<_>>().join(", ")
}

fn time(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).map_or_else(|| ms.to_string(), |at| at.format("%Y-%m-%d %H:%M:%S").to_string())
}
