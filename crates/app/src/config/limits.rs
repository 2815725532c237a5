//! `[limits]`: attempts for each client address.

use serde::{Deserialize, Serialize};

/// `[limits]`: attempts per address and minute; 0 is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Registrations of agents and computers.
    pub registrations_per_minute: u32,
    /// Starts of claims.
    pub claim_starts_per_minute: u32,
    /// Codes that a person types.
    pub code_guesses_per_minute: u32,
    /// Requests for a sign-in code, and redirects to and from OpenID providers.
    pub sign_ins_per_minute: u32,
    /// Readings of feeds.
    pub feed_reads_per_minute: u32,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            registrations_per_minute: 60,
            claim_starts_per_minute: 60,
            code_guesses_per_minute: 30,
            sign_ins_per_minute: 20,
            feed_reads_per_minute: 60,
        }
    }
}
