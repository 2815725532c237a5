//! Reads of activity and proofs on a replica of the database.
//!
//! A proof that is not on the replica yet is read on the primary, so that an acknowledged event is always found. Checkpoints, consistency
//! proofs and tiles are read on the primary, so that monitors never see the log shrink.

use std::sync::Arc;

use domain::ids::EventId;
use http::StatusCode;
use store::Replica;
use tokio::time::timeout;

use super::error::LogError;
use super::handle::Log;
use super::tree_cache::cache::TreeCache;
use crate::archive::Archive;
use crate::contract::{ActivityQuery, Passed, RecordScope};

/// A replica with separate caches: its signed tree may be older than the primary's.
#[derive(Debug, Clone)]
pub struct LogReplica {
    pub replica: Replica,
    pub tree_cache: Arc<TreeCache>,
}

impl Log {
    /// `GET /v1/activity`: `{events, next_cursor}`, newest first. From a replica, the page may lack events of the last
    /// `database.replica_lag_max`.
    #[boxed]
    pub async fn activity(&self, scope: &RecordScope, query: &ActivityQuery) -> Result<Passed, LogError> {
        if let Some(there) = self.on_replica()
            && let Some(page) = self.answered(there.activity_here(scope, query)).await
        {
            return Ok(page);
        }
        self.activity_here(scope, query).await
    }

    /// `GET /v1/audit/verify`: an [`AuditProof`](proofs::proof::AuditProof), or 404 `event_not_found` for events outside of the scope.
    #[boxed]
    pub async fn proof(&self, scope: &RecordScope, event_id: EventId) -> Result<Passed, LogError> {
        if let Some(there) = self.on_replica()
            && let Some(proof) = self.answered(there.proof_here(scope, event_id)).await
            && proof.status != StatusCode::NOT_FOUND
        {
            return Ok(proof);
        }
        self.proof_here(scope, event_id).await
    }

    /// The log on the replica, while the replica is current.
    fn on_replica(&self) -> Option<Self> {
        let LogReplica { replica, tree_cache } = self.replica.as_ref()?;
        let pool = replica.current(&self.pool)?;
        Some(Self { pool, tree_cache: Arc::clone(tree_cache), replica: None, ..self.clone() })
    }

    /// The replica's response; `None` if the replica failed or took too long.
    async fn answered(&self, read: impl Future<Output = Result<Passed, LogError>>) -> Option<Passed> {
        let LogReplica { replica, .. } = self.replica.as_ref()?;
        let begun = self.archive.as_ref().map(Archive::begun);
        match timeout(replica.read_deadline(), read).await {
            Ok(Ok(answer)) => return Some(answer),
            // The primary has the same archive.
            Ok(Err(LogError::Archive(_))) => {}
            Ok(Err(error)) => replica.failed(&error),
            // The time may have passed at the archive.
            Err(_) if begun != self.archive.as_ref().map(Archive::begun) => {}
            Err(elapsed) => replica.failed(&elapsed),
        }
        None
    }
}
