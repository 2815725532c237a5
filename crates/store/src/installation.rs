//! The installation that the main database belongs to, and its remembered log checkpoint.

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

    /// The log that three columns describe, all or none of them.
    pub(crate) fn of_columns(
        vkey: Option<String>,
        checkpoint: Option<String>,
        size: Option<i64>,
    ) -> Result<Option<Self>, Corrupt> {
        match (vkey, checkpoint, size) {
            (Some(vkey), Some(checkpoint), Some(size)) => {
                let size = u64::try_from(size).map_err(|error| Corrupt::new("log_size", error))?;
                Ok(Some(Self { vkey, checkpoint, size }))
            }
            (None, None, None) => Ok(None),
            _ => Err(Corrupt::new("log_vkey", "the log is remembered in part")),
        }
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
        let log = RememberedLog::of_columns(row.log_vkey, row.log_checkpoint, row.log_size)?;
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
}
