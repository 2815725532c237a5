//! The number of graphs. The planner locks and examines every graph for each statement about near vectors.

use domain::memory::ModelId;

use super::graph::suffix;
use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::scalar;

impl Store {
    /// The number of graphs of `model`; 0 without a table of near vectors.
    #[boxed]
    pub async fn graph_count(&self, model: &ModelId) -> Result<u64, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE i.indrelid = to_regclass('vectors_near') AND right(CAST(c.relname AS TEXT), length($1)) = $1";
        if !self.memory()?.is_postgres() {
            return Ok(0);
        }
        let count: i64 = scalar(SQL)
            .bind(suffix(model))
            .fetch_one(self.memory()?)
            .during(Operation::FindAccountIndexesWithoutGraph)
            .await?;
        Ok(count.unsigned_abs())
    }
}
