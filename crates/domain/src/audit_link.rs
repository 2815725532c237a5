//! Audit links: read-only views of a part of an account for a person without an account (`docs/protocol/receipts.md#audit-links`).

use uuid::Uuid;

use crate::Timestamp;
use crate::ids::{AuditLinkId, UserAccountId};
use crate::label::Label;
use crate::lane::Lane;
use crate::usage::Day;

/// Maximum number of links of an account that have not ended.
pub const LINKS_MAX: u32 = 50;

/// The events that an audit link shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditSubject {
    /// A session of an agent, by its id.
    Session(Uuid),
    /// The events of a lane.
    Lane {
        /// The lane of all events.
        lane: Lane,
        /// Day of receipt of the first event.
        first: Day,
    },
}

/// The stored form of an audit link, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLink {
    /// Identifies the link in lists and routes.
    pub id: AuditLinkId,
    /// The account of the events.
    pub account: UserAccountId,
    /// Chosen by the owner; readers of the link see it.
    pub name: Label,
    /// The events that it shows.
    pub subject: AuditSubject,
    /// Whether it shows recorded content too.
    pub with_content: bool,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time from which it shows nothing.
    pub expires_at: Timestamp,
    /// Last recorded use. Uses are recorded with a delay, so a later one may be missing.
    pub last_used_at: Option<Timestamp>,
}
