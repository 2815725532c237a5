//! Lifetimes and limits of claims.

use domain::clock::delta;
use std::time::Duration;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

/// `[claims]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ClaimSettings {
    #[serde(with = "humantime_serde")]
    pub claim_token_valid_for: Duration,
    pub starts_per_hour: u32,
    #[serde(with = "humantime_serde")]
    pub access_token_valid_for: Duration,
    #[serde(with = "humantime_serde")]
    pub assertion_unclaimed_valid_for: Duration,
    #[serde(with = "humantime_serde")]
    pub assertion_claimed_valid_for: Duration,
    pub require_session: bool,
}

impl Default for ClaimSettings {
    fn default() -> Self {
        Self {
            claim_token_valid_for: Duration::from_hours(24),
            starts_per_hour: 10,
            access_token_valid_for: Duration::from_hours(1),
            assertion_unclaimed_valid_for: Duration::from_hours(24),
            assertion_claimed_valid_for: Duration::from_hours(30 * 24),
            require_session: false,
        }
    }
}

impl ClaimSettings {
    /// Time for which a retired signing key still verifies: the lifetime of the assertions that it signed.
    pub fn keep_keys_for(&self) -> TimeDelta {
        let longest = self.assertion_claimed_valid_for.max(self.assertion_unclaimed_valid_for);
        delta(longest)
    }

    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let lifetimes = [
            ("claim_token_valid_for", self.claim_token_valid_for),
            ("access_token_valid_for", self.access_token_valid_for),
            ("assertion_unclaimed_valid_for", self.assertion_unclaimed_valid_for),
            ("assertion_claimed_valid_for", self.assertion_claimed_valid_for),
        ];
        let century = Duration::from_hours(100 * 365 * 24);
        let odd = lifetimes.into_iter().filter(|(_, lifetime)| lifetime.as_secs() == 0 || *lifetime > century);
        let odd = odd.map(|(field, _)| (field.to_owned(), "must be from 1s to 100 years".to_owned()));
        let starts = (self.starts_per_hour == 0).then(|| ("starts_per_hour".into(), "must be at least 1".into()));
        odd.chain(starts).collect()
    }
}
