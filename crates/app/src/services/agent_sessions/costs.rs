//! Tokens and costs of models, by the price table.

pub use domain::prices::MicroDollars;
pub use statistics::log::ModelDay;

use std::collections::BTreeSet;

use domain::prices::CostSum;
use domain::usage::Day;
use statistics::contract::RecordScope;
use statistics::log::{MODEL_DAYS_MAX, RecordedModelUse};

use super::{AgentSessionError, AgentSessions};

/// Maximum number of days of one request.
pub const COST_DAYS_MAX: u16 = 400;

/// Tokens and costs of some days.
#[derive(Debug, Clone)]
pub struct ModelCosts {
    /// The day on which the prices were read.
    pub prices_as_of: String,
    /// The first day.
    pub first: Day,
    /// The last day.
    pub last: Day,
    /// The rows, the newest day first.
    pub rows: Vec<ModelCostRow>,
    /// Sum of the rows with a price.
    pub total: MicroDollars,
    /// Models without a price, in alphabetical order; an empty name is for answers that name no model.
    pub unpriced: Vec<String>,
    /// Whether earlier rows are missing.
    pub is_cut: bool,
}

/// Tokens of one day, agent kind, project and model, with their costs.
#[derive(Debug, Clone)]
pub struct ModelCostRow {
    /// The use of the model.
    pub used: ModelDay,
    /// `None` without a price.
    pub cost: Option<MicroDollars>,
}

impl ModelCostRow {
    /// The row as a sum.
    pub fn sum(&self) -> CostSum {
        let RecordedModelUse { calls, input_tokens, output_tokens, .. } = self.used.used;
        CostSum { calls, input_tokens, output_tokens, cost: self.cost }
    }
}

/// The costs of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCost {
    /// Sum of the models with a price.
    pub priced: MicroDollars,
    /// Whether a model with tokens has no price.
    pub is_partial: bool,
}

impl AgentSessions {
    /// The costs of some models' tokens.
    pub fn cost_of(&self, models: &[RecordedModelUse]) -> SessionCost {
        let mut cost = SessionCost { priced: MicroDollars::default(), is_partial: false };
        for used in models {
            match self.cost(used) {
                Some(part) => cost.priced += part,
                None => cost.is_partial |= used.input_tokens + used.output_tokens > 0,
            }
        }
        cost
    }

    /// The costs of one model's tokens; `None` without a price.
    pub fn cost(&self, used: &RecordedModelUse) -> Option<MicroDollars> {
        self.prices.cost(&used.model, used.input_tokens, used.output_tokens)
    }

    /// Tokens and costs of the `days` days up to `last`, at most [`COST_DAYS_MAX`], by computers of the scope.
    #[boxed]
    pub async fn costs(&self, scope: &RecordScope, last: Day, days: u16) -> Result<ModelCosts, AgentSessionError> {
        let first = Day::from(last.number() - i64::from(days.clamp(1, COST_DAYS_MAX)) + 1);
        let used = self.log()?.model_days(scope, first, last.next()).await?;
        let is_cut = u32::try_from(used.len()).is_ok_and(|rows| rows >= MODEL_DAYS_MAX);
        let (mut total, mut unpriced) = (MicroDollars::default(), BTreeSet::new());
        let row = |used: ModelDay| {
            let cost = self.cost(&used.used);
            match cost {
                Some(cost) => total += cost,
                None => drop(unpriced.insert(used.used.model.clone())),
            }
            ModelCostRow { used, cost }
        };
        let rows = used.into_iter().map(row).collect();
        let prices_as_of = self.prices.as_of().to_owned();
        Ok(ModelCosts { prices_as_of, first, last, rows, total, unpriced: unpriced.into_iter().collect(), is_cut })
    }
}
