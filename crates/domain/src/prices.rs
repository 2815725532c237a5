//! Prices of models, for the costs of tokens (`docs/protocol/sessions.md#costs`).

mod sum;

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

pub use self::sum::{CostKey, CostSum, costs_csv};
use crate::thousands;

/// Text of the built-in table, in TOML.
pub const DEFAULT: &str = include_str!("prices/default.toml");

/// Maximum price of a million tokens in US dollars, so that costs fit.
const DOLLARS_MAX: f64 = 100_000.0;

/// An amount in millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroDollars(pub i64);

impl AddAssign for MicroDollars {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// "$0.61", "$1,204.50", "under $0.01".
impl fmt::Display for MicroDollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CENT: i64 = 10_000;
        let cents = self.0.saturating_add(CENT / 2) / CENT;
        if cents == 0 && self.0 > 0 {
            return f.write_str("under $0.01");
        }
        write!(f, "${}.{:02}", thousands(cents / 100), cents % 100)
    }
}

/// The prices of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTable {
    as_of: String,
    prices: Vec<Price>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Price {
    model: String,
    is_beginning: bool,
    /// For a million tokens.
    input: MicroDollars,
    output: MicroDollars,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    as_of: String,
    #[serde(default)]
    price: Vec<PriceEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    model: String,
    input: f64,
    output: f64,
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// Not TOML, or an unknown member.
    #[error("the price table cannot be read")]
    Syntax(#[from] toml::de::Error),
    /// `as_of` is no day.
    #[error("as_of {0:?} is not a day such as 2026-01-31")]
    Day(String),
    /// A price is negative or too large.
    #[error("the prices of {model:?} must be from 0 to {DOLLARS_MAX}")]
    Price {
        /// The model with this price.
        model: String,
    },
}

impl PriceTable {
    /// The built-in prices.
    pub fn built_in() -> Result<Self, PriceError> {
        Self::parse(DEFAULT)
    }

    /// Reads a table in TOML.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        let PriceFile { as_of, price } = toml::from_str(text)?;
        if chrono::NaiveDate::parse_from_str(&as_of, "%Y-%m-%d").is_err() {
            return Err(PriceError::Day(as_of));
        }
        let prices = price.into_iter().map(|PriceEntry { model, input, output }| {
            let (Some(input), Some(output)) = (micro(input), micro(output)) else {
                return Err(PriceError::Price { model });
            };
            let (name, is_beginning) = match model.strip_suffix('*') {
                Some(name) => (name.to_owned(), true),
                None => (model, false),
            };
            Ok(Price { model: name, is_beginning, input, output })
        });
        Ok(Self { as_of, prices: prices.collect::<Result<_, _>>()? })
    }

    /// The day on which the prices were read, `2026-01-31`.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// The costs of tokens; `None` if the table has no price of the model.
    pub fn cost(&self, model: &str, input_tokens: i64, output_tokens: i64) -> Option<MicroDollars> {
        let is_of = |price: &&Price| {
            if price.is_beginning { model.starts_with(&price.model) } else { model == price.model }
        };
        let price = self.prices.iter().filter(is_of).max_by_key(|price| (price.model.len(), !price.is_beginning))?;
        let part = |price: MicroDollars, tokens: i64| i128::from(price.0) * i128::from(tokens.max(0));
        let cost = (part(price.input, input_tokens) + part(price.output, output_tokens)) / 1_000_000;
        Some(MicroDollars(i64::try_from(cost).unwrap_or(i64::MAX)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the price is within the limit")]
fn micro(dollars: f64) -> Option<MicroDollars> {
    (0.0..=DOLLARS_MAX).contains(&dollars).then(|| MicroDollars((dollars * 1_000_000.0).round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_is_the_price_and_an_unknown_model_has_none() {
        let text = "as_of = \"2026-01-31\"\n[[price]]\nmodel = \"m*\"\ninput = 1\noutput = 2\n
            [[price]]\nmodel = \"m-large*\"\ninput = 10.5\noutput = 20\n[[price]]\nmodel = \"m-large\"\ninput = 0\noutput = 0";
        let table = PriceTable::parse(text).unwrap();
        let cost = |model: &str| table.cost(model, 2_000_000, 1_000).map(|cost| cost.0);
        assert_eq!(cost("m-1"), Some(2_002_000));
        assert_eq!(cost("m-large-2026"), Some(21_020_000));
        assert_eq!((cost("m-large"), cost("other"), cost("")), (Some(0), None, None));
        assert_eq!(table.cost("m", -5, 3), Some(MicroDollars(6)));
        assert_eq!(table.cost("m-large-x", i64::MAX, i64::MAX), Some(MicroDollars(i64::MAX)));
    }

    #[test]
    fn the_built_in_table_can_be_read_and_wrong_tables_are_refused() {
        let table = PriceTable::built_in().unwrap();
        assert_eq!(table.cost("claude-opus-4-5-20251101", 1_000_000, 0), Some(MicroDollars(5_000_000)));
        assert_eq!(table.cost("gpt-5.9", 1, 1), None);
        for wrong in [
            "",
            "as_of = \"today\"",
            "as_of = \"2026-01-31\"\n[[price]]\nmodel = \"m\"\ninput = -1\noutput = 2",
            "as_of = \"2026-01-31\"\n[[price]]\nmodel = \"m\"\ninput = nan\noutput = 2",
            "as_of = \"2026-01-31\"\nother = 1",
        ] {
            assert!(PriceTable::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_are_rounded_to_cents() {
        let words = [0, 4_000, 614_999, 1_204_500_000].map(|micro| MicroDollars(micro).to_string());
        assert_eq!(words, ["$0.00", "under $0.01", "$0.61", "$1,204.50"]);
    }
}
