//! Roles of operators (`docs/decisions/0040-door-of-operators.md`).

use serde::{Deserialize, Serialize};

use crate::UnknownName;

/// What an operator may do. Each role includes the roles before it.
#[derive(strum::EnumString, strum::VariantNames, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorRole {
    /// Reads the state and the record of acts.
    Look,
    /// Changes live settings.
    Operate,
    /// Everything.
    Admin,
}

impl OperatorRole {
    /// The name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
