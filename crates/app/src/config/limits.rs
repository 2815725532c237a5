//! `[limits]`: attempts for each client address.

use serde::{Deserialize, Serialize};

/// `[limits]`: attempts per address and minute; 0 is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct LimitSettings {
    pub registrations_per_minute: u32,
    pub claim_starts_per_minute: u32,
    pub code_guesses_per_minute: u32,
    pub sign_ins_per_minute: u32,
    pub link_reads_per_minute: u32,
    pub operator_failures_per_minute: u32,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            registrations_per_minute: 60,
            claim_starts_per_minute: 60,
            code_guesses_per_minute: 30,
            sign_ins_per_minute: 20,
            link_reads_per_minute: 60,
            operator_failures_per_minute: 5,
        }
    }
}
