//! The recorders that an account reads: computers that are or were attached to it, and the service's reports about them.

use domain::ids::UserAccountId;
use domain::recorder::{Recorder, Recorders};

use crate::error::{Corrupt, StoreError};
use crate::log_part::part;
use crate::operation::{During, Operation};
use crate::pool::probe;
use crate::probes::rows::RecorderRow;
use crate::row::parsed;
use crate::{Store, probes};

impl TryFrom<RecorderRow> for Recorder {
    type Error = Corrupt;

    fn try_from(row: RecorderRow) -> Result<Self, Corrupt> {
        Ok(Self { machine: row.machine_uuid.into(), identity: parsed("attachments.user_cuid", &row.user_cuid)? })
    }
}

impl Store {
    /// The computers that are or were attached to an account, and the chains on which the service reports about its identities.
    #[boxed]
    pub async fn recorders_of_account(&self, account: &UserAccountId) -> Result<Recorders, StoreError> {
        let rows = probe(probes::RECORDERS).bind(account.as_str()).fetch_all(&self.pool);
        let rows = rows.during(Operation::ListRecordersOfAccount).await?;
        let mut recorders = Recorders::default();
        for row in rows {
            recorders.parts.insert(part("machine_parts.log_part", row.log_part)?);
            let kind = if row.is_service { &mut recorders.service } else { &mut recorders.computers };
            kind.push(row.try_into()?);
        }
        Ok(recorders)
    }
}
