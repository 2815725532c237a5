//! The use of models by day.

use domain::usage::Day;
use store::pool::query;

use super::model::RecordedModelUse;
use crate::contract::RecordScope;
use crate::log::error::{During, LogError};
use crate::log::handle::Log;

/// Use of a model on a UTC day of receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDay {
    /// The day.
    pub day: Day,
    /// Agent kind.
    pub agent: String,
    /// The project; empty if the events name none.
    pub project: String,
    /// The model and its tokens.
    pub used: RecordedModelUse,
}

/// Maximum number of rows of one call, the newest days first.
pub const MODEL_DAYS_MAX: u32 = 10_000;

/// Sums by day, agent kind, project and model. Parameters: recorders (JSON array of `{machine, identity}`), first day, day after the last,
/// maximum number of rows.
const STATEMENT: [&str; 2] = [
    "SELECT d.day, d.agent_id, d.project_id, d.model, SUM(d.calls), SUM(d.input_tokens), SUM(d.output_tokens) FROM json_each($1) r
        CROSS JOIN model_days d ON d.machine_id = unhex(r.value ->> 'machine', '-') AND d.user_cuid = r.value ->> 'identity'
            AND d.day >= $2 AND d.day < $3
    GROUP BY d.day, d.agent_id, d.project_id, d.model ORDER BY d.day DESC, d.agent_id, d.project_id, d.model LIMIT $4",
    "SELECT d.day, d.agent_id, d.project_id, d.model, CAST(SUM(d.calls) AS BIGINT), CAST(SUM(d.input_tokens) AS BIGINT),
        CAST(SUM(d.output_tokens) AS BIGINT)
    FROM jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT)
        CROSS JOIN LATERAL (SELECT * FROM model_days WHERE machine_id = r.machine AND user_cuid = r.identity
            AND day >= $2 AND day < $3 OFFSET 0) d
    GROUP BY d.day, d.agent_id, d.project_id, d.model ORDER BY d.day DESC, d.agent_id, d.project_id, d.model LIMIT $4",
];

impl Log {
    /// The use of models from day `first` up to the day before `end`, by computers of the scope; at most [`MODEL_DAYS_MAX`] rows.
    #[boxed]
    pub async fn model_days(&self, scope: &RecordScope, first: Day, end: Day) -> Result<Vec<ModelDay>, LogError> {
        if scope.shown.computers.is_empty() {
            return Ok(Vec::new());
        }
        let computers = &scope.shown.computers;
        let recorders = serde_json::to_string(computers).unwrap_or_default();
        let rows = query(STATEMENT[usize::from(self.pool.is_postgres())]).bind(&recorders).bind(first.number());
        let rows = rows.bind(end.number()).bind(i64::from(MODEL_DAYS_MAX)).fetch_all(&self.pool);
        let rows: Vec<(i64, String, String, String, i64, i64, i64)> = rows.await.during("sum the use of models")?;
        let day = |(day, agent, project, model, calls, input_tokens, output_tokens)| ModelDay {
            day: Day::from(day),
            agent,
            project,
            used: RecordedModelUse { model, calls, input_tokens, output_tokens },
        };
        Ok(rows.into_iter().map(day).collect())
    }
}
