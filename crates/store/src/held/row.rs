//! Rows of held events.

use domain::Timestamp;
use domain::envelope::PartialEnvelope;
use domain::ids::{EventId, MachineUuid, ReceiptId};
use uuid::Uuid;

use super::{HeldEntry, Unclassified};
use crate::error::Corrupt;
use crate::row::{digest, parsed, parsed_opt};

/// Entries without their bodies: [`EntryRow`].
pub const SELECT_ENTRY: &str =
    "SELECT id, sender, account_id, user_cuid, event_id, event_type, agent_id, event_machine_uuid,
        reason, detail, body_sha256, body_bytes, seal, received_at, state, state_at, receipt_id FROM held_events";

crate::row! {
    pub struct EntryRow {
        id: Uuid,
        sender: String,
        account_id: Option<String>,
        user_cuid: Option<String>,
        event_id: Option<Uuid>,
        event_type: Option<String>,
        agent_id: Option<String>,
        event_machine_uuid: Option<Uuid>,
        reason: String,
        detail: String,
        body_sha256: Vec<u8>,
        body_bytes: i64,
        seal: Option<Vec<u8>>,
        received_at: Timestamp,
        state: String,
        state_at: Option<Timestamp>,
        receipt_id: Option<Uuid>,
    }
}

impl TryFrom<EntryRow> for HeldEntry {
    type Error = Corrupt;

    fn try_from(row: EntryRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            sender: parsed("held_events.sender", &row.sender)?,
            account: parsed_opt("held_events.account_id", row.account_id.as_deref())?,
            user_cuid: parsed_opt("held_events.user_cuid", row.user_cuid.as_deref())?,
            outline: PartialEnvelope {
                event_id: row.event_id.map(EventId::from),
                event_type: row.event_type,
                agent_id: row.agent_id,
                machine_uuid: row.event_machine_uuid.map(MachineUuid::from),
            },
            reason: parsed("held_events.reason", &row.reason)?,
            detail: row.detail,
            body_sha256: digest("held_events.body_sha256", &row.body_sha256)?,
            body_bytes: row.body_bytes.try_into().map_err(|error| Corrupt::new("held_events.body_bytes", error))?,
            seal: row.seal.map(|seal| digest("held_events.seal", &seal)).transpose()?,
            received_at: row.received_at,
            state: parsed("held_events.state", &row.state)?,
            state_at: row.state_at,
            receipt: row.receipt_id.map(ReceiptId::from),
        })
    }
}

crate::row! {
    pub struct UnclassifiedRow {
        id: Uuid,
        event_id: Option<Uuid>,
        event_type: Option<String>,
        agent_id: Option<String>,
        machine_uuid: Option<Uuid>,
        reason: String,
        detail: String,
        received_at: Timestamp,
    }
}

impl TryFrom<UnclassifiedRow> for Unclassified {
    type Error = Corrupt;

    fn try_from(row: UnclassifiedRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            event_id: row.event_id.map(EventId::from),
            event_type: row.event_type,
            agent_id: row.agent_id,
            machine_uuid: row.machine_uuid.map(MachineUuid::from),
            reason: parsed("held_events.reason", &row.reason)?,
            detail: row.detail,
            received_at: row.received_at,
        })
    }
}
