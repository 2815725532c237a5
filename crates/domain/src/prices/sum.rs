//! Sums of tokens and costs, and their file.

use std::borrow::Cow;
use std::ops::AddAssign;

use super::MicroDollars;
use crate::foreign::csv_cell;

/// Answers of models with their tokens and costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostSum {
    /// Answers.
    pub calls: i64,
    /// Tokens that models read.
    pub input_tokens: i64,
    /// Tokens that models wrote.
    pub output_tokens: i64,
    /// Sum of the parts with a price; `None` without any.
    pub cost: Option<MicroDollars>,
}

impl AddAssign for CostSum {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        if let Some(cost) = other.cost {
            *self.cost.get_or_insert_default() += cost;
        }
    }
}

/// Day, agent kind, project and model of a row.
pub type CostKey<'r> = [Cow<'r, str>; 4];

/// The rows as CSV (RFC 4180), with costs in US dollars.
pub fn costs_csv<'r>(rows: impl Iterator<Item = (CostKey<'r>, CostSum)>) -> String {
    let mut file = "day,agent,project,model,answers,input_tokens,output_tokens,cost_usd\r\n".to_owned();
    for (key, CostSum { calls, input_tokens, output_tokens, cost }) in rows {
        let numbers = [calls, input_tokens, output_tokens].map(|number| number.to_string());
        let cost = cost.map(|MicroDollars(micro)| format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000));
        let texts = key.iter().map(|text| csv_cell(text));
        let cells: Vec<String> = texts.chain(numbers).chain([cost.unwrap_or_default()]).collect();
        file.push_str(&cells.join(","));
        file.push_str("\r\n");
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_a_price_adds_tokens_only_and_leaves_its_cell_empty() {
        let priced = CostSum { calls: 1, input_tokens: 5, output_tokens: 2, cost: Some(MicroDollars(1_500_000)) };
        let unpriced = CostSum { cost: None, ..priced };
        let mut sum = unpriced;
        assert_eq!(sum.cost, None);
        sum += priced;
        sum += unpriced;
        assert_eq!(sum, CostSum { calls: 3, input_tokens: 15, output_tokens: 6, cost: priced.cost });
        let key = || ["2026-01-31", "codex", "", "=m"].map(Cow::from);
        assert_eq!(
            costs_csv([(key(), priced), (key(), unpriced)].into_iter()),
            "day,agent,project,model,answers,input_tokens,output_tokens,cost_usd\r\n\
             2026-01-31,codex,,\"'=m\",1,5,2,1.500000\r\n2026-01-31,codex,,\"'=m\",1,5,2,\r\n"
        );
    }
}
