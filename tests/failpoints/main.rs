//! The process dies, or an actor panics, at a chosen place (feature `failpoints`).
//!
//! | place | where |
//! |---|---|
//! | `intake.worker` | intake, before it handles an event |
//! | `forward.before`, `forward.after` | intake, around the statistics service |
//! | `append.before`, `append.after` | the thread of the log's writer, around its transaction |
//! | `hold.before`, `hold.after` | the committer of held events, around its transaction |
//! | `claims.exchange`, `claims.complete`, `claims.completed` | a claim ceremony: polled, and around the commit of a claim |
//! | `devices.poll`, `devices.approve`, `devices.approved` | a device poller: polled, and around the commit of an approval |
//! | `batches.taken`, `batches.ready`, `batches.put`, `batches.finished` | a batch is committed; an item is ready, kept, and its outcome written |
//! | `outbox.before`, `outbox.after` | a change of consent is committed, its event not forwarded |
//! | `sequence.pass`, `watch.pass`, `janitor.pass`, `agent_sessions.pass` | each pass of these actors |
//! | `meter.pass`, `presence.pass`, `budget.pass`, `outbox.pass`, `anchor.pass`, `node.pass` | each pass of these actors |
//! | `webhook.pass`, `webhook.sent` | the sender of notifications looks for due ones; one was sent and is not marked |
//! | `meter.count`, `meter.counted` | around the transaction that counts usage |
//! | `rule.pass`, `rule.write`, `rule.written` | each pass of the reader of recorded events, and around its transaction |
//! | `mail.look`, `mail.sent` | the mailer looks for due mail; a mail was sent and is not marked |
//! | `top.drawn` | `attache top`, after each frame |
//! | `lookup.read` | PostgreSQL: before computers are looked up by their secrets |
//! | `archive.pass`, `archive.put`, `archive.remove` | each pass of the archive; bundles are written, a bundle was compared, and the database does not know it yet |
//! | `epoch.begun`, `epoch.recorded` | a new epoch of the log has its key; its record is appended, not yet in the main database |

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod batches;
mod death;
mod notified;
mod panics;
mod races;
mod top;
