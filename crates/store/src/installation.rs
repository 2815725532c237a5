//! The installation that the main database belongs to, and its remembered log checkpoint.

use domain::Timestamp;
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::ids::InstallationId;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::{Store, in_transaction};

/// The id of the installation, and its remembered log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The id, which the log contains too.
    pub id: InstallationId,
    /// The log; `None` while there was no embedded log.
    pub log: Option<RememberedLog>,
}

/// The newest checkpoint of the embedded log that the main database has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedLog {
    /// The key that signed it.
    pub vkey: String,
    /// Text of the signed note.
    pub checkpoint: String,
    /// Number of leaves of the tree.
    pub size: u64,
}

impl RememberedLog {
    /// The checkpoint, verified with the key; `None` if either cannot be read.
    pub fn opened(&self) -> Option<Checkpoint> {
        self.vkey.parse::<VerifierKey>().ok()?.open(&self.checkpoint).ok()
    }
}

crate::row! {
    struct InstallationRow {
        installation_id: Uuid,
        log_vkey: Option<String>,
        log_checkpoint: Option<String>,
        log_size: Option<i64>,
    }
}

impl TryFrom<InstallationRow> for Installation {
    type Error = Corrupt;

    fn try_from(row: InstallationRow) -> Result<Self, Corrupt> {
        let log = match (row.log_vkey, row.log_checkpoint, row.log_size) {
            (Some(vkey), Some(checkpoint), Some(size)) => {
                let size = u64::try_from(size).map_err(|error| Corrupt::new("installation.log_size", error))?;
                Some(RememberedLog { vkey, checkpoint, size })
            }
            (None, None, None) => None,
            _ => return Err(Corrupt::new("installation.log_vkey", "the log is remembered in part")),
        };
        Ok(Self { id: row.installation_id.into(), log })
    }
}

const GET: &str = "SELECT installation_id, log_vkey, log_checkpoint, log_size FROM installation WHERE id = 1";

impl Store {
    /// The installation; `None` until the first start has assigned an id.
    #[boxed]
    pub async fn installation(&self) -> Result<Option<Installation>, StoreError> {
        let row: Option<InstallationRow> =
            query(GET).fetch_optional(&self.pool).during(Operation::ReadInstallationId).await?;
        Ok(row.map(Installation::try_from).transpose()?)
    }

    /// Assigns an id to the main database, unless it has one: the first process decides.
    #[boxed]
    pub async fn installation_begin(&self, id: InstallationId) -> Result<Installation, StoreError> {
        const ADD: &str = "INSERT INTO installation (id, installation_id) VALUES (1, $1) ON CONFLICT DO NOTHING";
        let row: InstallationRow = in_transaction!(&self.pool, |tx| {
            query(ADD).bind(id.as_uuid()).execute(&mut *tx).await?;
            query(GET).fetch_one(&mut *tx).await
        })
        .during(Operation::GiveInstallationId)
        .await?;
        Ok(row.try_into()?)
    }

    /// Stores a checkpoint if it is the first, or larger than the stored one and signed with the same key. Returns whether it was stored.
    #[boxed]
    pub async fn installation_remember(&self, log: &RememberedLog, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str =
            "UPDATE installation SET log_vkey = $1, log_checkpoint = $2, log_size = $3, remembered_at = $4
            WHERE id = 1 AND (log_vkey IS NULL OR (log_vkey = $1 AND log_size < $3))";
        let size = crate::outbox::number(log.size);
        let rows_affected = query(SQL)
            .bind(&log.vkey)
            .bind(&log.checkpoint)
            .bind(size)
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::RememberCheckpointOfLog)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Stores the first checkpoint of another epoch. Usage is counted from its end on if it has fewer leaves than were counted.
    #[boxed]
    pub async fn installation_new_log(&self, log: &RememberedLog, now: Timestamp) -> Result<(), StoreError> {
        const SET: &str =
            "UPDATE installation SET log_vkey = $1, log_checkpoint = $2, log_size = $3, remembered_at = $4
            WHERE id = 1";
        const COUNT: &str = "UPDATE usage_cursor SET counted = $1 WHERE id = 1 AND counted > $1";
        let size = crate::outbox::number(log.size);
        in_transaction!(&self.pool, |tx| {
            let set = query(SET).bind(&log.vkey).bind(&log.checkpoint).bind(size).bind(now);
            set.execute(&mut *tx).await?;
            query(COUNT).bind(size).execute(&mut *tx).await?;
            self.record_act(tx, now).await
        })
        .during(Operation::RememberNewLog)
        .await
    }
}
