//! Lanes: the categories of event types.

use serde::{Deserialize, Serialize};

use crate::UnknownName;

/// The category of an event type. Consent is set and activity is read per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[expect(missing_docs, reason = "the specification names the lanes and says no more about them")]
pub enum Lane {
    Memory,
    Llm,
    Skill,
    Security,
    Squad,
    Rsi,
}

impl Lane {
    /// All six lanes, in the order of the specification.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in events, queries and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
