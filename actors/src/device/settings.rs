//! Limits of device codes.

use serde::{Deserialize, Serialize};

/// `[devices]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct DeviceSettings {
    pub codes_per_hour: u32,
    pub require_session: bool,
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self { codes_per_hour: 60, require_session: false }
    }
}

impl DeviceSettings {
    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let none = (self.codes_per_hour == 0).then(|| ("codes_per_hour".into(), "must be at least 1".into()));
        none.into_iter().collect()
    }
}
